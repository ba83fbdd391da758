#include "crosstalk/models/text/sentencepiece_training.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>

#include "crosstalk/models/text/sentencepiece_tokenizer.h"
#include "crosstalk/models/text/text_sampling.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/utf8.h"

namespace crosstalk {
namespace {

constexpr SpecialTokens kT5SpecialTokens;
constexpr size_t kMaxSentenceBytes = 2000;          // the library drops sentences above 4192
constexpr int kSmallestVocabulary = 320;            // 3 special tokens, 256 bytes and some letters
constexpr int64_t kTrainingSegmentBytes = 8 << 10;  // of a sample
constexpr int64_t kEndlessSample = 1'000'000;       // bytes that a tokenizer sees of a source without an end

// Gives the library sentence after sentence: lines, cut at spaces where they are too long for it.
class SampleIterator : public sentencepiece::SentenceIterator {
 public:
  SampleIterator(const std::function<bool(std::string*)>& next_segment, int64_t max_bytes)
      : next_segment_(next_segment), bytes_left_(max_bytes) {
    Next();
  }

  bool done() const override { return done_; }
  const std::string& value() const override { return sentence_; }
  sentencepiece::util::Status status() const override { return {}; }

  void Next() override {
    do {
      while (at_ >= segment_.size()) {
        segment_.clear();
        at_ = 0;
        if (bytes_left_ <= 0 || !next_segment_(&segment_)) {
          done_ = true;
          return;
        }
        bytes_left_ -= static_cast<int64_t>(segment_.size());
      }
      size_t end = std::min(segment_.find('\n', at_), segment_.size());
      if (end - at_ > kMaxSentenceBytes) {
        end = at_ + kMaxSentenceBytes;
        const size_t space = segment_.rfind(' ', end);
        if (space != std::string::npos && space > at_) end = space;
        while (end > at_ && IsUtf8Continuation(segment_[end])) --end;
      }
      sentence_ = segment_.substr(at_, end - at_);
      at_ = end < segment_.size() && IsAsciiSpace(segment_[end]) ? end + 1 : end;
    } while (sentence_.find_first_not_of(" \t\r\n") == std::string::npos);
  }

 private:
  const std::function<bool(std::string*)>& next_segment_;
  int64_t bytes_left_;
  std::string segment_;
  size_t at_ = 0;
  std::string sentence_;
  bool done_ = false;
};

}  // namespace

std::string TrainSentencePieceModel(const SentencePieceTraining& options,
                                    const std::function<bool(std::string* text)>& next_segment) {
  CROSSTALK_CHECK(options.vocab_size >= kSmallestVocabulary && options.vocab_size <= 1'000'000,
                  "tokenizer: a SentencePiece vocabulary of ", options.vocab_size, " must be between ",
                  kSmallestVocabulary, " and 1000000");
  SilenceSentencePiece();
  SampleIterator sentences(next_segment, options.max_sample_bytes);
  if (sentences.done()) Fail(ErrorKind::kData, "tokenizer: there is no text to train it on");
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", "unigram"},
      {"vocab_size", std::to_string(options.vocab_size)},
      {"hard_vocab_limit", "false"},  // a poor text gives fewer
      {"character_coverage", "0.9995"},
      {"byte_fallback", "true"},  // what is left over is spelled in bytes
      {"num_threads", "1"},
      {"pad_id", std::to_string(kT5SpecialTokens.pad)},
      {"eos_id", std::to_string(kT5SpecialTokens.end)},
      {"unk_id", std::to_string(kT5SpecialTokens.unknown)},
      {"bos_id", "-1"},
      {"minloglevel", "4"},
  };
  std::string model;
  const sentencepiece::util::Status status = sentencepiece::SentencePieceTrainer::Train(arguments, &sentences, &model);
  if (!status.ok()) {
    Fail(ErrorKind::kUsage, "tokenizer: a SentencePiece vocabulary of ", options.vocab_size,
         " cannot be trained on this text: ", status.ToString());
  }
  return model;
}

std::unique_ptr<Tokenizer> TrainTokenizer(const TextSource& source, const SentencePieceTraining& options,
                                          int num_sentinels) {
  CROSSTALK_CHECK(options.max_sample_bytes >= 1, "tokenizer: a sample of ", options.max_sample_bytes,
                  " bytes to train on; must be at least 1");
  const int64_t wanted = std::min(source.num_bytes().value_or(kEndlessSample), options.max_sample_bytes);
  SegmentSampler samples(source, (wanted + kTrainingSegmentBytes - 1) / kTrainingSegmentBytes, kTrainingSegmentBytes);
  const std::string model = TrainSentencePieceModel(options, [&](std::string* text) { return samples.Next(text); });
  return MakeSentencePieceTokenizer(model, "the tokenizer just trained", num_sentinels);
}

}  // namespace crosstalk
