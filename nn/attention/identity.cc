#include "crosstalk/nn/attention/identity.h"

#include <algorithm>
#include <vector>

#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// What kDiffV2 has twice for each head: the end of its path, and the dimension of the heads.
struct TwiceForEachHead {
  std::string_view end;
  int heads;
};
constexpr TwiceForEachHead kTwice[] = {{".P_q", 1}, {".b_q", 0}, {"relative_bias.table", 0}};

const TwiceForEachHead* FindTwice(AttentionKind kind, std::string_view path) {
  if (kind != AttentionKind::kDiffV2) return nullptr;
  const auto* const found = std::find_if(std::begin(kTwice), std::end(kTwice),
                                         [&](const TwiceForEachHead& row) { return path.ends_with(row.end); });
  return found == std::end(kTwice) ? nullptr : found;
}

// Why a kind cannot; null if it can.
const char* ReasonAgainst(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kBilinear:
      return "its P and Q would be products of P_q and P_k, and of P_v and P_o: other bits, and no place for biases or "
             "rotary positions";
    case AttentionKind::kDiffV1:
      return "it divides each head's output by its root mean square, which no parameter undoes; diff-v2 does not";
    default:
      return nullptr;
  }
}

}  // namespace

AttentionConfig ContinuedAs(AttentionKind kind, const AttentionConfig& multi_head) {
  const char* const reason = ReasonAgainst(kind);
  CROSSTALK_CHECK_FIELD(reason == nullptr, "attention", "no ", Name(kind),
                        " layer computes what a multi-head one does: ", reason);
  const bool plain = multi_head.form == AttentionForm::kProjected && !multi_head.MixesLogits() &&
                     !multi_head.MixesWeights() && !multi_head.ConvolvesLogits() && !multi_head.ConvolvesWeights();
  CROSSTALK_CHECK_FIELD(plain, "attention", "continues multi-head attention, and the layer is ", ToString(multi_head));
  const bool v2 = kind == AttentionKind::kDiffV2;
  const AttentionConfig of_kind = MakeAttentionConfig({.kind = kind,
                                                       .heads = v2 ? 2 * multi_head.h : multi_head.h,
                                                       .key_size = multi_head.d_k,
                                                       .value_size = multi_head.d_v},
                                                      multi_head.d_X);
  AttentionConfig layer = multi_head;
  layer.h_k = of_kind.h_k;
  layer.h = of_kind.h;
  if (v2 && layer.g_k == 0) layer.g_k = multi_head.h_k;
  if (v2 && layer.g_v == 0) layer.g_v = multi_head.h_v;
  layer.mixing = of_kind.mixing;
  layer.mixing_init = MixingInit::kIdentity;
  layer.dynamic_form = of_kind.dynamic_form;
  layer.differential = of_kind.differential;
  layer.c_ql = of_kind.c_ql;
  layer.c_kl = of_kind.c_kl;
  layer.c_qw = of_kind.c_qw;
  layer.c_kw = of_kind.c_kw;
  try {
    layer.Validate();
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, error.what(), "attention");
  }
  return layer;
}

Shape ShapeBefore(AttentionKind kind, std::string_view path, const Shape& shape) {
  Shape before = shape;
  if (const TwiceForEachHead* const twice = FindTwice(kind, path)) before[twice->heads] /= 2;
  return before;
}

Tensor ValuesAfter(AttentionKind kind, std::string_view path, const Tensor& values) {
  if (const TwiceForEachHead* const twice = FindTwice(kind, path)) {
    Shape shape = values.shape();
    shape[twice->heads] *= 2;
    Tensor after = Tensor::Empty(shape, values.dtype());
    for (int64_t i = 0; i < shape[twice->heads]; ++i) {
      after.Slice(twice->heads, i, i + 1).CopyFrom(values.Slice(twice->heads, i / 2, i / 2 + 1));
    }
    return after;
  }
  if (kind != AttentionKind::kDiffV2 || !path.ends_with(".P_o")) return values;
  Tensor after = values.Clone();
  DispatchFloat("P_o", after.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::for_each_n(after.data<T>(), after.num_elements(), [](T& value) { value *= 2; });
  });
  return after;
}

}  // namespace crosstalk
