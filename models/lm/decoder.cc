// A language model as a decoder: it goes on with what it is given.
#include "crosstalk/models/decoding/decoder.h"

#include <algorithm>
#include <utility>

#include "crosstalk/models/lm/lm.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

class LmDecoder : public Decoder {
 public:
  LmDecoder(const Lm& model, const DecoderOptions& options) : model_(model), options_(options) {}

  const ModelConfig& config() const override { return model_.config(); }
  // There is nothing between the texts of a batch and their continuations: only equal lengths go together.
  int64_t PaddedLength(int64_t n) const override { return n; }

  // Of a longer text the model sees the last `context` tokens.
  Tensor Start(const Tensor& inputs, const Tensor& mask) override {
    const bool* const read = mask.data<bool>();
    const bool* const end = read + mask.num_elements();
    CROSSTALK_CHECK_FIELD(std::find(read, end, false) == end, "attention_mask",
                          "hides a token inside a text, which a language model cannot leave out");
    inputs_ = inputs.size(0);
    texts_.clear();
    for (int64_t row = 0; row < inputs_; ++row) texts_.push_back(inputs.Select(0, row).ToVector<int32_t>());
    return Read(model_.config().context);
  }

  // The model sees at most `context` tokens. When they are used up, it begins again with the last half of them.
  Tensor Step(const Tensor& tokens) override {
    for (size_t row = 0; row < texts_.size(); ++row) texts_[row].push_back(tokens.data<int32_t>()[row]);
    if (cache_.length == model_.config().context) return Read((model_.config().context + 1) / 2);
    return model_.DecodeStep(tokens.Reshape({tokens.size(0), 1}), cache_);
  }

  void SelectBeams(const std::vector<int64_t>& rows) override {
    cache_.SelectBeams(rows);
    std::vector<std::vector<int32_t>> texts;
    for (const int64_t row : rows) texts.push_back(texts_[static_cast<size_t>(row)]);
    texts_ = std::move(texts);
  }

  void SelectInputs(const std::vector<int64_t>& inputs) override {
    const int64_t beams = static_cast<int64_t>(texts_.size()) / inputs_;
    std::vector<int64_t> rows;
    for (const int64_t input : inputs) {
      for (int64_t beam = 0; beam < beams; ++beam) rows.push_back(input * beams + beam);
    }
    SelectBeams(rows);
    inputs_ = static_cast<int64_t>(inputs.size());
  }

 private:
  // Begins with the last `most` tokens of each text → the logits of what follows.
  Tensor Read(int64_t most) {
    const int64_t count = std::min(most, static_cast<int64_t>(texts_[0].size()));
    std::vector<int32_t> last;
    for (const std::vector<int32_t>& text : texts_) last.insert(last.end(), text.end() - count, text.end());
    cache_ = model_.StartDecoding();
    cache_.mixings = options_.mixings;
    return model_.DecodeStep(Tensor::FromValues<int32_t>({static_cast<int64_t>(texts_.size()), count}, last), cache_);
  }

  const Lm& model_;
  DecoderOptions options_;
  TransformerCache cache_;
  std::vector<std::vector<int32_t>> texts_;  // of each row: read and written
  int64_t inputs_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> Lm::MakeDecoder(const DecoderOptions& options) const {
  return std::make_unique<LmDecoder>(*this, options);
}

}  // namespace crosstalk
