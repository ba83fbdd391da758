#include "crosstalk/models/text/sentencepiece_training.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/sentencepiece_tokenizer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr std::chrono::milliseconds kStopInterval(20);
constexpr SpecialTokens kT5SpecialTokens;
constexpr size_t kMaxSentenceBytes = 2000;          // the library drops sentences above 4192
constexpr int64_t kTrainingSegmentBytes = 8 << 10;  // of a sample

// The sentences of the sample: lines, cut at spaces if they are too long for the library.
std::vector<std::string> ReadSentences(const std::function<bool(std::string*)>& next_segment, int64_t max_bytes,
                                       const StopRequest& stop) {
  std::vector<std::string> sentences;
  for (std::string segment; max_bytes > 0; max_bytes -= static_cast<int64_t>(segment.size())) {
    ThrowIfStopped(stop);
    segment.clear();
    if (!next_segment(&segment)) break;
    for (size_t at = 0; at < segment.size();) {
      size_t end = std::min(segment.find('\n', at), segment.size());
      if (end - at > kMaxSentenceBytes) {
        end = at + kMaxSentenceBytes;
        const size_t space = segment.rfind(' ', end);
        if (space != std::string::npos && space > at) end = space;
        while (end > at && IsUtf8Continuation(segment[end])) --end;
      }
      std::string sentence = segment.substr(at, end - at);
      at = end < segment.size() && IsAsciiSpace(segment[end]) ? end + 1 : end;
      if (sentence.find_first_not_of(" \t\r\n") != std::string::npos) sentences.push_back(std::move(sentence));
    }
  }
  return sentences;
}

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& sentences) : sentences_(sentences) {}
  bool done() const override { return next_ == sentences_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return sentences_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& sentences_;
  size_t next_ = 0;
};

// A training of the library's, with all that it needs.
struct Training {
  std::unordered_map<std::string, std::string> arguments;
  std::vector<std::string> sentences;

  std::string model;
  sentencepiece::util::Status status;
  std::exception_ptr exception;

  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;

  void Run() noexcept {
    try {
      Sentences iterator(sentences);
      status = sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &model);
    } catch (const std::system_error& error) {  // of the threads that the library starts
      exception = std::make_exception_ptr(
          Error(ErrorKind::kResource, StrCat("SentencePiece: cannot start a thread: ", error.code().message())));
    } catch (...) {
      exception = std::current_exception();
    }
    const std::lock_guard<std::mutex> lock(mutex);
    has_ended = true;
    ended.notify_all();
  }
};

void RunUntilStopped(const std::shared_ptr<Training>& training, const StopRequest& stop) {
  std::thread thread;
  try {
    thread = std::thread([training] { training->Run(); });
  } catch (const std::system_error&) {
    return training->Run();  // the system has no thread to give: it cannot be stopped
  }
  std::unique_lock<std::mutex> lock(training->mutex);
  while (!training->ended.wait_for(lock, kStopInterval, [&] { return training->has_ended; })) {
    if (!stop()) continue;
    thread.detach();
    throw Interrupted();
  }
  lock.unlock();
  thread.join();
}

}  // namespace

std::string TrainSentencePieceModel(const SentencePieceTraining& options,
                                    const std::function<bool(std::string* text)>& next_segment,
                                    const StopRequest& stop) {
  CROSSTALK_CHECK_FIELD(options.vocab_size >= kSmallestSentencePieceVocabulary && options.vocab_size <= 1'000'000,
                        "vocabulary", options.vocab_size, " is not between ", kSmallestSentencePieceVocabulary,
                        " and 1000000, as a SentencePiece tokenizer's must be");
  SilenceSentencePiece();
  const auto training = std::make_shared<Training>();
  training->sentences = ReadSentences(next_segment, options.max_sample_bytes, stop);
  if (training->sentences.empty()) Fail(ErrorKind::kData, "tokenizer: there is no text to train it on");
  training->arguments = {
      {"model_type", "UNIGRAM"},  // the library's own spelling: it takes capitals of others by the host's locale
      {"vocab_size", std::to_string(options.vocab_size)},
      {"hard_vocab_limit", "false"},  // a poor text gives fewer
      // character_coverage is 0.9995, the library's default: it reads numbers by the host program's std::locale.
      {"byte_fallback", "true"},  // what is left over is spelled in bytes
      {"num_threads", "1"},
      {"pad_id", std::to_string(kT5SpecialTokens.pad)},
      {"eos_id", std::to_string(kT5SpecialTokens.end)},
      {"unk_id", std::to_string(kT5SpecialTokens.unknown)},
      {"bos_id", "-1"},
      {"minloglevel", "4"},
  };
  std::vector<std::string> controls;
  if (options.mask_tokens == MaskTokens::kYes) controls = {"[CLS]", "[SEP]", "[MASK]"};
  if (options.line_ends == LineEnds::kKept) {
    training->arguments["user_defined_symbols"] = kLineEnd;
    controls.emplace_back(kLinesPiece);
  }
  if (!controls.empty()) training->arguments["control_symbols"] = Join(controls, ",");
  if (stop) {
    RunUntilStopped(training, stop);
  } else {
    training->Run();
  }
  if (training->exception) std::rethrow_exception(training->exception);
  if (!training->status.ok()) {
    // "Vocabulary size is smaller than required_chars. 1000 vs 3233. …"; or 3,233 and so on, by the host's std::locale.
    const std::string reason = training->status.ToString();
    const size_t needed = reason.find(" vs ");
    if (reason.find("required_chars") != std::string::npos && needed != std::string::npos) {
      std::string number = reason.substr(needed + 4, reason.find(". ", needed) - needed - 4);
      std::erase_if(number, [](char c) { return !IsAsciiDigit(c); });
      FailField(ErrorKind::kUsage, "vocabulary", options.vocab_size,
                " is too small for this text, whose letters alone, with bytes and special tokens, are ", number,
                "; take a few thousand more, or the tokenizer bytes");
    }
    FailField(ErrorKind::kUsage, "vocabulary", "a SentencePiece tokenizer of ", options.vocab_size,
              " pieces cannot be trained on this text: ", reason);
  }
  return std::move(training->model);
}

std::shared_ptr<const Tokenizer> TrainTokenizer(const TextSource& source, const SentencePieceTraining& options,
                                                int num_sentinels, const StopRequest& stop) {
  CROSSTALK_CHECK(options.max_sample_bytes >= 1, "tokenizer: a sample of ", options.max_sample_bytes,
                  " bytes to train on; must be at least 1");
  SegmentSampler samples = SegmentSampler::Covering(source, kTrainingSegmentBytes, options.max_sample_bytes);
  std::string model = TrainSentencePieceModel(
      options, [&](std::string* text) { return samples.Next(text); }, stop);
  return MakeSentencePieceTokenizer({.bytes = std::move(model)}, "the tokenizer just trained", num_sentinels);
}

}  // namespace crosstalk
