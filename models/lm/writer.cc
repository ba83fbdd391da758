// A language model as a writer: it goes on with a prompt, or answers it where it has learned to.
#include <algorithm>
#include <utility>

#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/text/encoding.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

constexpr char kSpaces[] = " \t\r\n";

class Continuation : public TextBeingWritten {
 public:
  // The model has read `ids`; if they are no text that it goes on with, its own begins.
  Continuation(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<int32_t>& ids, bool begins, Emit emit)
      : emit_(std::move(emit)), pieces_(std::move(tokenizer), ids), begins_(begins) {}

  void Add(int32_t id) override { Show(pieces_.Add(id)); }
  void End() override { Show(pieces_.Rest()); }

 private:
  // A text of its own begins with something that is seen.
  void Show(std::string piece) {
    if (begins_) piece.erase(0, piece.find_first_not_of(kSpaces));
    begins_ = begins_ && piece.empty();
    if (!piece.empty()) emit_(piece, Author::kModel);
  }

  Emit emit_;
  TextPieces pieces_;
  bool begins_;
};

class LmWriter : public TextWriter {
 public:
  LmWriter(const Lm& model, std::shared_ptr<const Tokenizer> tokenizer)
      : config_(model.config()),
        tokenizer_(std::move(tokenizer)),
        writable_(WritableTokens(*tokenizer_, config_.vocabulary)),
        visible_(Visible()) {
    for (int32_t id = 0; config_.ends_texts && id < config_.vocabulary; ++id) {
      if (config_.EndsText(id)) writable_[static_cast<size_t>(id)] = true;
    }
  }

  SearchInput Read(const std::string& text, int64_t max_length) const override {
    SearchInput input;
    bool begins = false;
    input.ids = Prompt(text, &begins);
    input.restrict_tokens = [this, begins](const std::vector<int32_t>& written, std::vector<bool>* allowed) {
      *allowed = begins && written.empty() ? visible_ : writable_;
    };
    input.max_length = max_length;
    return input;
  }

  std::unique_ptr<TextBeingWritten> Begin(const std::string& text, const TextBeingWritten::Emit& emit) const override {
    bool begins = false;
    const std::vector<int32_t> ids = Prompt(text, &begins);
    if (!config_.answers) emit(text, Author::kPrompt);
    return std::make_unique<Continuation>(tokenizer_, ids, begins || config_.answers, emit);
  }

  std::string PromptFrom(const std::string&) const override { return ""; }
  SearchOptions Defaults(const std::string&) const override {
    return {.max_length = 200, .sampling = {.temperature = config_.answers ? 0 : 0.8}};
  }
  bool WritesLines() const override { return !config_.answers; }

 private:
  // The ids of a text, after those that belong before one; the end of one to answer. `begins`: it has none of its own.
  std::vector<int32_t> Prompt(const std::string& text, bool* begins) const {
    std::vector<int32_t> ids = TokensBeforeText(*tokenizer_);
    const std::vector<int32_t> own = tokenizer_->Encode(text);
    *begins = own.empty();
    ids.insert(ids.end(), own.begin(), own.end());
    if (config_.answers && !own.empty()) ids.push_back(tokenizer_->special_tokens().end);
    return ids.empty() ? Beginning() : ids;
  }
  // The token before the beginning of a text: the end of another, where the model has learned to write that; else, as
  // no token means it, a line end, where the tokenizer has one, or the
  // end of a sentence or a word, or its first token. The space that SentencePiece puts in front of a text stands before
  // none of these inside of one.
  std::vector<int32_t> Beginning() const {
    if (config_.ends_texts) return {config_.tokens.begin != kNoToken ? config_.tokens.begin : config_.tokens.end};
    const int32_t unknown = tokenizer_->special_tokens().unknown;
    for (const char* text : {"\n", ".", "\u3002", " "}) {
      std::vector<int32_t> ids = tokenizer_->Encode(text);
      if (ids.empty() || std::find(ids.begin(), ids.end(), unknown) != ids.end()) continue;
      while (ids.size() > 1 && tokenizer_->Decode({{ids[0]}}).empty()) ids.erase(ids.begin());
      return ids;
    }
    return {static_cast<int32_t>(std::find(writable_.begin(), writable_.end(), true) - writable_.begin())};
  }
  // Those of the writable tokens that are more than spaces; all, if none is.
  std::vector<bool> Visible() const {
    std::vector<bool> visible = writable_;
    for (size_t id = 0; id < visible.size(); ++id) {
      const std::vector<int32_t> one = {static_cast<int32_t>(id)};
      visible[id] = visible[id] && tokenizer_->Decode(one).find_first_not_of(kSpaces) != std::string::npos;
    }
    return std::find(visible.begin(), visible.end(), true) == visible.end() ? writable_ : visible;
  }

  const ModelConfig& config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<bool> writable_;
  std::vector<bool> visible_;
};

}  // namespace

std::unique_ptr<TextWriter> Lm::MakeWriter(std::shared_ptr<const Tokenizer> tokenizer) const {
  return std::make_unique<LmWriter>(*this, std::move(tokenizer));
}

Batch Lm::TextInputs(const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) const {
  CROSSTALK_CHECK_FIELD(!text.second, "second", "is for a model of two segments; a language model reads one text");
  CROSSTALK_CHECK_FIELD(!text.target, "target", "is for a model with a decoder beside its encoder");
  const std::vector<int32_t> ids = MakeWriter(tokenizer)->Read(text.text, 1).ids;
  Batch batch;
  batch.Add("input_ids", Tensor::FromValues<int32_t>({1, static_cast<int64_t>(ids.size())}, ids));
  return batch;
}

}  // namespace crosstalk
