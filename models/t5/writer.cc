// A T5 as a writer: it fills the blanks of a text, or answers a text without blanks.
#include <algorithm>
#include <utility>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/text/encoding.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// Pieces of the model's, without the spaces around them: the prompt has its own.
class Trimmed {
 public:
  explicit Trimmed(TextBeingWritten::Emit emit) : emit_(std::move(emit)) {}
  void Add(const std::string& piece) {
    for (const char c : piece) {
      if (!IsAsciiSpace(c)) {
        shown_ += std::exchange(spaces_, "") + c;
        begun_ = true;
      } else if (begun_) {
        spaces_ += c;
      }
    }
    if (!shown_.empty()) emit_(std::exchange(shown_, ""), Author::kModel);
  }

 private:
  TextBeingWritten::Emit emit_;
  bool begun_ = false;
  std::string spaces_, shown_;
};

// The targets of span corruption, which are sentinel 0, its text, sentinel 1, …, put into a text.
class FilledBlanks : public TextBeingWritten {
 public:
  FilledBlanks(std::vector<std::string> texts, std::shared_ptr<const Tokenizer> tokenizer, Emit emit)
      : texts_(std::move(texts)), tokenizer_(std::move(tokenizer)), emit_(std::move(emit)) {
    emit_(texts_[0], Author::kPrompt);
  }

  void Add(int32_t id) override {
    const bool ends = tokenizer_->IsSentinel(id) || id == tokenizer_->special_tokens().end;
    if (!ends) {
      if (pieces_) fill_->Add(pieces_->Add(id));
      return;
    }
    EndBlank();
    if (blank_ + 1 == texts_.size() || !tokenizer_->IsSentinel(id)) return;
    pieces_ = std::make_unique<TextPieces>(tokenizer_);
    fill_ = std::make_unique<Trimmed>(emit_);
  }

  // Blanks that were not come to are empty.
  void End() override {
    EndBlank();
    while (blank_ + 1 < texts_.size()) Pass();
  }

 private:
  void EndBlank() {
    if (!pieces_) return;
    fill_->Add(pieces_->Rest());
    pieces_.reset();
    Pass();
  }
  void Pass() {
    emit_("", Author::kModel);  // also where it has written nothing
    emit_(texts_[++blank_], Author::kPrompt);
  }

  std::vector<std::string> texts_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Emit emit_;
  size_t blank_ = 0;                    // that is filled, or will be next
  std::unique_ptr<TextPieces> pieces_;  // of the blank that is being filled
  std::unique_ptr<Trimmed> fill_;
};

class Reply : public TextBeingWritten {
 public:
  Reply(const ModelConfig& config, std::shared_ptr<const Tokenizer> tokenizer, const Emit& emit)
      : config_(config), pieces_(std::move(tokenizer)), shown_(emit) {}

  void Add(int32_t id) override {
    if (!config_.EndsText(id)) shown_.Add(pieces_.Add(id));
  }
  void End() override { shown_.Add(pieces_.Rest()); }

 private:
  const ModelConfig& config_;
  TextPieces pieces_;
  Trimmed shown_;
};

class T5Writer : public TextWriter {
 public:
  T5Writer(const T5& model, std::shared_ptr<const Tokenizer> tokenizer)
      : config_(model.config()),
        tokenizer_(std::move(tokenizer)),
        writable_(WritableTokens(*tokenizer_, config_.vocabulary)) {}

  SearchInput Read(const std::string& text, int64_t max_length) const override {
    const std::vector<std::string> texts = SplitAtBlanks(text);
    SearchInput input;
    if (texts.size() > 1) {
      const auto blanks = static_cast<int>(texts.size()) - 1;
      input.ids = EncodeBlanks(texts, *tokenizer_);
      input.restrict_tokens = [this, blanks, max_length](const std::vector<int32_t>& written,
                                                         std::vector<bool>* allowed) {
        AllowForBlanks(blanks, max_length, written, allowed);
      };
      input.max_length = blanks * (max_length + 1) + 2;  // the next sentinel and the end after them
      return input;
    }
    input.ids = tokenizer_->Encode(text);
    CROSSTALK_CHECK_FIELD(!input.ids.empty(), "text", "is empty: give one with blanks, ", kBlank,
                          " each, or one to answer");
    input.ids.push_back(tokenizer_->special_tokens().end);
    input.restrict_tokens = [this](const std::vector<int32_t>&, std::vector<bool>* allowed) {
      *allowed = writable_;
      (*allowed)[static_cast<size_t>(tokenizer_->special_tokens().end)] = true;
      for (const int32_t end : config_.more_ends) (*allowed)[static_cast<size_t>(end)] = true;
    };
    input.max_length = max_length;
    return input;
  }

  std::unique_ptr<TextBeingWritten> Begin(const std::string& text, const TextBeingWritten::Emit& emit) const override {
    std::vector<std::string> texts = SplitAtBlanks(text);
    if (texts.size() == 1) return std::make_unique<Reply>(config_, tokenizer_, emit);
    return std::make_unique<FilledBlanks>(std::move(texts), tokenizer_, emit);
  }

  std::string PromptFrom(const std::string& text) const override { return MakeBlanks(text); }
  SearchOptions Defaults(const std::string& text) const override {
    return {.max_length = SplitAtBlanks(text).size() > 1 ? 20 : 200};
  }
  bool WritesLines() const override { return false; }

 private:
  // Each sentinel stands in its place, so that no blank is passed over: the first one at the beginning, each next one
  // after at most max_length tokens of text. After the last blank the next sentinel or the end token ends all.
  void AllowForBlanks(int blanks, int64_t max_length, const std::vector<int32_t>& written,
                      std::vector<bool>* allowed) const {
    const auto is_sentinel = [this](int32_t id) { return tokenizer_->IsSentinel(id); };
    const auto begun = static_cast<int>(std::count_if(written.begin(), written.end(), is_sentinel));
    const auto last = std::find_if(written.rbegin(), written.rend(), is_sentinel);
    const bool full = begun == 0 || last - written.rbegin() >= max_length;
    *allowed = full ? std::vector<bool>(writable_.size(), false) : writable_;
    const auto end = static_cast<size_t>(tokenizer_->special_tokens().end);
    if (begun < blanks) {
      (*allowed)[static_cast<size_t>(tokenizer_->Sentinel(begun))] = true;
    } else if (begun == blanks) {
      (*allowed)[end] = true;
      if (begun < tokenizer_->num_sentinels()) (*allowed)[static_cast<size_t>(tokenizer_->Sentinel(begun))] = true;
    } else {
      std::fill(allowed->begin(), allowed->end(), false);
      (*allowed)[end] = true;
    }
  }

  const ModelConfig& config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<bool> writable_;
};

// ids as a batch of one.
Tensor Row(const std::vector<int32_t>& ids) {
  return Tensor::FromValues<int32_t>({1, static_cast<int64_t>(ids.size())}, ids);
}

}  // namespace

std::unique_ptr<TextWriter> T5::MakeWriter(std::shared_ptr<const Tokenizer> tokenizer) const {
  if (!has_decoder()) return nullptr;
  return std::make_unique<T5Writer>(*this, std::move(tokenizer));
}

Batch T5::TextInputs(const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) const {
  CROSSTALK_CHECK_FIELD(!text.second, "second", "is for a model of two segments; a T5 reads one text");
  if (!has_decoder()) {
    CROSSTALK_CHECK_FIELD(!text.target, "target", "is for a model with a decoder beside its encoder");
    std::vector<int32_t> ids = EncodeBlanks(SplitAtBlanks(text.text), *tokenizer);
    Batch batch;
    batch.Add("input_ids", Row(ids));
    return batch;
  }
  const std::unique_ptr<TextWriter> writer = MakeWriter(tokenizer);
  SearchInput input = writer->Read(text.text, writer->Defaults(text.text).max_length);
  const int32_t end = tokenizer->special_tokens().end;
  std::vector<int32_t> target;
  if (text.target) {
    target = EncodeBlanks(SplitAtBlanks(*text.target), *tokenizer);
  } else {
    input.max_length = std::min(*input.max_length, text.max_tokens);
    const std::vector<SearchAnswer> answers = Search(*this, {input}, {.max_length = *input.max_length})[0];
    if (!answers.empty()) target = answers[0].ids;
  }
  if (target.empty()) target = {end};
  Batch batch;
  batch.Add("input_ids", Row(input.ids));
  batch.Add("decoder_input_ids", ShiftRight(Row(target), config_.tokens.decoder_start));
  return batch;
}

}  // namespace crosstalk
