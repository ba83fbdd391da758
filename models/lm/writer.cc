// A language model as a writer: it goes on with a prompt.
#include <algorithm>
#include <utility>

#include "crosstalk/models/decoding/text_pieces.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/decoding/writable_tokens.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {
namespace {

constexpr char kSpaces[] = " \t\r\n";

Tensor LastIds(const std::vector<int32_t>& ids, int64_t count) {
  count = std::min(count, static_cast<int64_t>(ids.size()));
  return Tensor::FromValues<int32_t>({1, count}, std::vector<int32_t>(ids.end() - count, ids.end()));
}

class LmWriter : public TextWriter {
 public:
  LmWriter(const Lm& model, std::shared_ptr<const Tokenizer> tokenizer)
      : model_(model),
        tokenizer_(std::move(tokenizer)),
        writable_(WritableTokens(*tokenizer_, model.config().vocabulary)),
        visible_(Visible()) {}

  // The model sees at most `context` tokens. When they are used up, it begins anew with the last half of them.
  void Write(const std::string& prompt, const WritingOptions& options, const Emit& emit) const override {
    options.Validate();
    const int64_t context = model_.config().context;
    emit(prompt, Author::kPrompt);
    std::vector<int32_t> ids = tokenizer_->Encode(prompt);
    // A text of its own begins with a token that can be seen.
    bool begins = ids.empty();
    if (begins) ids = Beginning();
    TextPieces pieces(tokenizer_, ids);
    const auto show = [&](std::string piece) {
      if (begins) piece.erase(0, piece.find_first_not_of(kSpaces));
      begins = begins && piece.empty();
      if (!piece.empty()) emit(piece, Author::kModel);
    };
    const RandomKey key = {.seed = options.seed, .stream = StreamId("models.lm.writer"), .step = options.sample};
    TransformerCache cache = model_.StartDecoding();
    Tensor logits = model_.DecodeStep(LastIds(ids, context), cache);
    for (int64_t i = 0; i < options.max_tokens && !(options.stop && options.stop()); ++i) {
      if (i > 0) {
        const bool full = cache.length == context;
        if (full) cache = model_.StartDecoding();
        logits = model_.DecodeStep(LastIds(ids, full ? (context + 1) / 2 : 1), cache);
      }
      const double number = UniformDouble(key, static_cast<uint64_t>(i));
      ids.push_back(SampleToken(logits.Select(0, 0), begins ? visible_ : writable_, options.sampling, number));
      show(pieces.Add(ids.back()));
    }
    show(pieces.Rest());
  }

  std::string PromptFrom(const std::string&) const override { return ""; }
  WritingOptions Defaults() const override { return {.max_tokens = 200, .sampling = {.temperature = 0.8}}; }

 private:
  // What stands before the beginning of a text: a line end, where the tokenizer has one, or the end of a sentence or a
  // word, or its first token.
  std::vector<int32_t> Beginning() const {
    const int32_t unknown = tokenizer_->special_tokens().unknown;
    for (const char* text : {"\n", ".", "\u3002", " "}) {
      std::vector<int32_t> ids = tokenizer_->Encode(text);
      if (!ids.empty() && std::find(ids.begin(), ids.end(), unknown) == ids.end()) return ids;
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

  const Lm& model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<bool> writable_;
  std::vector<bool> visible_;
};

}  // namespace

std::unique_ptr<TextWriter> Lm::MakeWriter(std::shared_ptr<const Tokenizer> tokenizer) const {
  return std::make_unique<LmWriter>(*this, std::move(tokenizer));
}

}  // namespace crosstalk
