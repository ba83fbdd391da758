// A T5 as a writer: it fills the blanks of a prompt.
#include <utility>

#include "crosstalk/models/decoding/text_pieces.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/decoding/writable_tokens.h"
#include "crosstalk/models/t5/blanks.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/utf8.h"

namespace crosstalk {
namespace {

// What fills one blank: without the spaces around it, which the prompt has.
class Fill {
 public:
  explicit Fill(const TextWriter::Emit& emit) : emit_(emit) {}
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
  const TextWriter::Emit& emit_;
  bool begun_ = false;
  std::string spaces_, shown_;
};

class T5Writer : public TextWriter {
 public:
  T5Writer(const T5& model, std::shared_ptr<const Tokenizer> tokenizer)
      : model_(model),
        tokenizer_(std::move(tokenizer)),
        writable_(WritableTokens(*tokenizer_, model.config().vocabulary)) {}

  // The targets of span corruption: sentinel 0, what stands for it, sentinel 1, … The model is given each sentinel, so
  // that no blank is passed over; the next one, or the end token, ends what it writes for a blank.
  void Write(const std::string& prompt, const WritingOptions& options, const Emit& emit) const override {
    options.Validate();
    const std::vector<std::string> texts = SplitAtBlanks(prompt);
    CROSSTALK_CHECK_FIELD(texts.size() > 1, "prompt", "has no blank: write ", kBlank,
                          " where the model is to put something");
    const std::vector<int32_t> ids = EncodeBlanks(texts, *tokenizer_);
    const RandomKey key = {.seed = options.seed, .stream = StreamId("models.t5.writer"), .step = options.sample};
    uint64_t drawn = 0;
    T5DecodingState state =
        model_.StartDecoding(Tensor::FromValues<int32_t>({1, static_cast<int64_t>(ids.size())}, ids));
    const auto step = [&](int32_t id) { return model_.DecodeStep(Tensor::Full({1}, id, DType::kInt32), state); };
    step(tokenizer_->special_tokens().decoder_start);
    emit(texts[0], Author::kPrompt);
    for (size_t blank = 0; blank + 1 < texts.size(); ++blank) {
      std::vector<bool> allowed = writable_;
      allowed[static_cast<size_t>(tokenizer_->special_tokens().end)] = true;
      const int next = static_cast<int>(blank) + 1;
      if (next < tokenizer_->num_sentinels()) allowed[static_cast<size_t>(tokenizer_->Sentinel(next))] = true;
      Fill fill(emit);
      TextPieces pieces(tokenizer_);
      Tensor logits = step(tokenizer_->Sentinel(static_cast<int>(blank)));
      for (int64_t i = 0; i < options.max_tokens && !(options.stop && options.stop()); ++i) {
        const int32_t id = SampleToken(logits.Select(0, 0), allowed, options.sampling, UniformDouble(key, drawn++));
        if (!writable_[static_cast<size_t>(id)]) break;
        fill.Add(pieces.Add(id));
        if (i + 1 < options.max_tokens) logits = step(id);
      }
      fill.Add(pieces.Rest());
      emit("", Author::kModel);  // also where it has written nothing
      emit(texts[blank + 1], Author::kPrompt);
    }
  }

  std::string PromptFrom(const std::string& text) const override { return MakeBlanks(text); }
  WritingOptions Defaults() const override { return {.max_tokens = 20, .sampling = {.temperature = 0}}; }

 private:
  const T5& model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<bool> writable_;
};

}  // namespace

std::unique_ptr<TextWriter> T5::MakeWriter(std::shared_ptr<const Tokenizer> tokenizer) const {
  return std::make_unique<T5Writer>(*this, std::move(tokenizer));
}

}  // namespace crosstalk
