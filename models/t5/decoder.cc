// A T5 as a decoder: it reads the inputs once, and writes what answers them.
#include "crosstalk/models/decoding/decoder.h"

#include <utility>

#include "crosstalk/models/t5/t5.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {
namespace {

// Inputs of up to so many lengths are computed together.
constexpr int64_t kLengthStep = 16;

class T5Decoder : public Decoder {
 public:
  T5Decoder(const T5& model, const DecoderOptions& options) : model_(model), options_(options) {}

  const ModelConfig& config() const override { return model_.config(); }
  int64_t PaddedLength(int64_t n) const override { return RoundUp(n, kLengthStep); }

  Tensor Start(const Tensor& inputs, const Tensor& mask) override {
    cache_ = model_.StartDecoding(inputs, mask);
    cache_.mixings = options_.mixings;
    inputs_ = rows_ = inputs.size(0);
    return Step(Tensor::Full({rows_}, config().tokens.decoder_start, DType::kInt32));
  }
  Tensor Step(const Tensor& tokens) override { return model_.DecodeStep(tokens, cache_); }
  void SelectBeams(const std::vector<int64_t>& rows) override {
    cache_.SelectBeams(rows);
    rows_ = static_cast<int64_t>(rows.size());
  }
  void SelectInputs(const std::vector<int64_t>& inputs) override {
    const int64_t beams = rows_ / inputs_;
    cache_.SelectInputs(inputs, beams);
    inputs_ = static_cast<int64_t>(inputs.size());
    rows_ = inputs_ * beams;
  }

 private:
  const T5& model_;
  DecoderOptions options_;
  TransformerCache cache_;
  int64_t inputs_ = 0, rows_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> T5::MakeDecoder(const DecoderOptions& options) const {
  if (!has_decoder()) return nullptr;
  return std::make_unique<T5Decoder>(*this, options);
}

}  // namespace crosstalk
