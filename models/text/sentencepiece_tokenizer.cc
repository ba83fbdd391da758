// The only file that knows the SentencePiece library.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "crosstalk/models/text/sentencepiece_model_check.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/utf8.h"
#include "crosstalk/runtime/check.h"

// Exported by the library, declared in none of the headers that it installs.
namespace sentencepiece::logging {
void SetMinLogLevel(int v);
}  // namespace sentencepiece::logging

namespace crosstalk {
namespace {

constexpr SpecialTokens kT5SpecialTokens;  // of the models that are trained here
constexpr int kLogNothing = 4;
constexpr size_t kMaxSentenceBytes = 2000;  // the library drops sentences above 4192
constexpr int kSmallestVocabulary = 320;    // 3 special ids, 256 bytes, and some letters

struct Vocabulary {
  SpecialTokens special_tokens;
  int num_text_ids;  // the model's pieces and the ids added above them
};

// See MakeSentencePieceTokenizer.
Vocabulary ReadVocabulary(const sentencepiece::SentencePieceProcessor& processor, const std::string& name) {
  // The first of the pieces that is a control piece: one that no text becomes.
  const auto control = [&](std::initializer_list<std::string_view> pieces) {
    for (const std::string_view piece : pieces) {
      const int id = processor.PieceToId(piece);
      if (processor.IsControl(id)) return id;
    }
    return static_cast<int>(kNoToken);
  };
  const auto either = [](int32_t first, int32_t second) { return first != kNoToken ? first : second; };
  int num_ids = processor.GetPieceSize();
  SpecialTokens ids;
  ids.unknown = processor.unk_id();
  ids.begin = either(processor.bos_id(), control({"[CLS]", "<cls>"}));
  ids.separator = control({"[SEP]", "<sep>"});
  ids.mask = control({"[MASK]", "<mask>"});
  ids.pad = either(processor.pad_id(), control({"[PAD]"}));
  ids.end = either(processor.eos_id(), ids.separator);
  if (ids.pad == kNoToken) ids.pad = num_ids++;
  if (ids.end == kNoToken) ids.end = num_ids++;
  ids.decoder_start = ids.pad;
  for (const int32_t other : {ids.end, ids.unknown, ids.begin, ids.separator, ids.mask}) {
    if (other == ids.pad) {
      Fail(ErrorKind::kData, name, ": this SentencePiece model uses \"", processor.IdToPiece(ids.pad),
           "\" both for padding and for another special token");
    }
  }
  return {ids, num_ids};
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(const Vocabulary& vocabulary, std::unique_ptr<sentencepiece::SentencePieceProcessor> processor,
                         std::string model, int num_sentinels)
      : Tokenizer(vocabulary.special_tokens, vocabulary.num_text_ids, num_sentinels),
        processor_(std::move(processor)),
        model_(std::move(model)) {}

  std::vector<int32_t> Encode(std::string_view text) const override {
    std::vector<int> ids;
    Check(processor_->Encode(text, &ids));
    return ids;
  }

  std::vector<TokenSpan> EncodeSpans(std::string_view text) const override {
    sentencepiece::ImmutableSentencePieceText pieces = processor_->EncodeAsImmutableProto(text);
    std::vector<TokenSpan> spans;
    spans.reserve(pieces.pieces_size());
    for (const auto& piece : pieces.pieces()) {
      spans.push_back({static_cast<int32_t>(piece.id()), piece.begin(), piece.end()});
    }
    return spans;
  }

  std::string Decode(std::span<const int32_t> ids) const override {
    std::string text;
    std::vector<int> run;  // between sentinels
    const auto flush = [&] {
      std::string part;
      if (!run.empty()) Check(processor_->Decode(run, &part));
      if (!text.empty() && !part.empty()) text += ' ';
      text += part;
      run.clear();
    };
    for (const int32_t id : ids) {
      CheckId(id);
      if (IsSentinel(id)) {
        flush();
        if (!text.empty()) text += ' ';
        text += SentinelText(id);
      } else if (id != special_tokens().pad && id != special_tokens().end) {
        run.push_back(id);
      }
    }
    flush();
    return text;
  }

  std::string kind() const override { return "sentencepiece"; }
  std::string FileName() const override { return "tokenizer.model"; }
  std::string FileContents() const override { return model_; }

 private:
  static void Check(const sentencepiece::util::Status& status) {
    if (!status.ok()) Fail(ErrorKind::kFailure, "SentencePiece: ", status.ToString());
  }

  std::unique_ptr<const sentencepiece::SentencePieceProcessor> processor_;
  std::string model_;
};

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

std::unique_ptr<Tokenizer> MakeSentencePieceTokenizer(std::string_view model, const std::string& name,
                                                      int num_sentinels) {
  CheckSentencePieceModel(model, name);
  sentencepiece::logging::SetMinLogLevel(kLogNothing);
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const sentencepiece::util::Status status = processor->LoadFromSerializedProto(model);
  if (!status.ok()) {
    Fail(ErrorKind::kData, name, ": the SentencePiece library does not accept this model: ", status.ToString());
  }
  const Vocabulary vocabulary = ReadVocabulary(*processor, name);
  return std::make_unique<SentencePieceTokenizer>(vocabulary, std::move(processor), std::string(model), num_sentinels);
}

std::string TrainSentencePieceModel(const SentencePieceTraining& options,
                                    const std::function<bool(std::string* text)>& next_segment) {
  CROSSTALK_CHECK(options.vocab_size >= kSmallestVocabulary && options.vocab_size <= 1'000'000,
                  "tokenizer: a SentencePiece vocabulary of ", options.vocab_size, " must be between ",
                  kSmallestVocabulary, " and 1000000");
  sentencepiece::logging::SetMinLogLevel(kLogNothing);
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
      {"minloglevel", std::to_string(kLogNothing)},
  };
  std::string model;
  const sentencepiece::util::Status status = sentencepiece::SentencePieceTrainer::Train(arguments, &sentences, &model);
  if (!status.ok()) {
    Fail(ErrorKind::kUsage, "tokenizer: a SentencePiece vocabulary of ", options.vocab_size,
         " cannot be trained on this text: ", status.ToString());
  }
  return model;
}

}  // namespace crosstalk
