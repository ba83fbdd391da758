// A language model as a writer: it goes on with a prompt.
#include <algorithm>
#include <utility>

#include "crosstalk/models/decoding/text_pieces.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/decoding/writable_tokens.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/utf8.h"

namespace crosstalk {
namespace {

Tensor LastIds(const std::vector<int32_t>& ids, int64_t count) {
  count = std::min(count, static_cast<int64_t>(ids.size()));
  return Tensor::FromValues<int32_t>({1, count}, std::vector<int32_t>(ids.end() - count, ids.end()));
}

class LmWriter : public TextWriter {
 public:
  LmWriter(const Lm& model, std::shared_ptr<const Tokenizer> tokenizer)
      : model_(model), tokenizer_(std::move(tokenizer)), allowed_(WritableTokens(*tokenizer_)) {
    allowed_[static_cast<size_t>(tokenizer_->special_tokens().end)] = true;
  }

  // The model sees at most `context` tokens. When they are used up, it begins anew with the last half of them.
  void Write(const std::string& prompt, const WritingOptions& options, const Emit& emit) const override {
    CROSSTALK_CHECK_FIELD(options.max_tokens >= 1, "max_tokens", options.max_tokens, " is less than 1");
    const int64_t context = model_.config().context;
    emit(prompt, Author::kPrompt);
    std::vector<int32_t> ids = tokenizer_->Encode(prompt);
    bool at_beginning = ids.empty();
    if (ids.empty()) ids = Beginning();
    TextPieces pieces(tokenizer_, ids);
    const auto show = [&](std::string piece) {
      if (at_beginning) piece.erase(0, piece.find_first_not_of(" \t\r\n"));
      at_beginning = at_beginning && piece.empty();
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
      const int32_t id = SampleToken(logits.Select(0, 0), allowed_, options.sampling, number);
      if (id == tokenizer_->special_tokens().end) break;
      ids.push_back(id);
      show(pieces.Add(id));
    }
    show(pieces.Rest());
  }

  std::string PromptFrom(const std::string&) const override { return ""; }
  std::string DescribePrompt() const override { return "a text to go on with; without one it begins anew"; }
  WritingOptions Defaults() const override { return {.max_tokens = 200, .sampling = {.temperature = 0.8}}; }

 private:
  // What stands before the beginning of a text: a line end, where the tokenizer has one, or the end of a sentence.
  std::vector<int32_t> Beginning() const {
    const int32_t unknown = tokenizer_->special_tokens().unknown;
    for (const char* text : {"\n", "."}) {
      std::vector<int32_t> ids = tokenizer_->Encode(text);
      if (!ids.empty() && std::find(ids.begin(), ids.end(), unknown) == ids.end()) return ids;
    }
    return {tokenizer_->special_tokens().end};
  }

  const Lm& model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<bool> allowed_;
};

}  // namespace

std::unique_ptr<TextWriter> Lm::MakeWriter(std::shared_ptr<const Tokenizer> tokenizer) const {
  CROSSTALK_CHECK(tokenizer->vocab_size() == config_.vocabulary, "language model: a tokenizer of ",
                  tokenizer->vocab_size(), " ids for a vocabulary of ", config_.vocabulary);
  return std::make_unique<LmWriter>(*this, std::move(tokenizer));
}

}  // namespace crosstalk
