#include "crosstalk/models/decoding/greedy.h"

#include <algorithm>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/dtype.h"

namespace crosstalk {
namespace {

// The first id of the largest of logits[vocabulary] that is not `never`; NaN never wins. -1 if all are NaN.
template <typename T>
int32_t Best(const T* logits, int64_t vocabulary, int64_t never) {
  int64_t best = -1;
  for (int64_t id = 0; id < vocabulary; ++id) {
    if (id != never && logits[id] == logits[id] && (best < 0 || logits[id] > logits[best])) best = id;
  }
  return static_cast<int32_t>(best);
}

}  // namespace

Tensor GenerateGreedy(const T5& model, const Tensor& inputs, const GreedyOptions& options) {
  CROSSTALK_CHECK(options.max_length >= 1, "generate: max_length = ", options.max_length, " must be at least 1");
  T5DecodingState state = model.StartDecoding(inputs);
  const int64_t b = inputs.size(0);
  const int64_t vocabulary = model.config().vocabulary;
  const SpecialTokens& special = model.config().tokens;
  Tensor tokens = Tensor::Full({b}, special.decoder_start, DType::kInt32);
  std::vector<bool> ended(static_cast<size_t>(b), false);
  std::vector<std::vector<int32_t>> written(static_cast<size_t>(b));
  int64_t length = 0;
  while (length < options.max_length && std::find(ended.begin(), ended.end(), false) != ended.end()) {
    const Tensor logits = model.DecodeStep(tokens, state);
    Tensor next = Tensor::Full({b}, special.pad, DType::kInt32);
    for (int64_t row = 0; row < b; ++row) {
      const size_t r = static_cast<size_t>(row);
      if (ended[r]) {
        written[r].push_back(special.pad);
        continue;
      }
      const int32_t id = DispatchFloat("generate", logits.dtype(), [&](auto zero) {
        using T = decltype(zero);
        return Best<T>(logits.data<T>() + row * logits.size(1), vocabulary, special.pad);
      });
      if (id < 0) Fail(ErrorKind::kNumerical, "generate: all logits of row ", row, " at position ", length, " are NaN");
      next.data<int32_t>()[row] = id;
      written[r].push_back(id);
      ended[r] = id == special.end;
    }
    tokens = next;
    ++length;
  }
  Tensor result = Tensor::Empty({b, length}, DType::kInt32);
  for (int64_t row = 0; row < b; ++row) {
    std::copy(written[static_cast<size_t>(row)].begin(), written[static_cast<size_t>(row)].end(),
              result.data<int32_t>() + row * length);
  }
  return result;
}

}  // namespace crosstalk
