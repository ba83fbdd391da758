// AttentionConfig: which member of the attention family a layer is: its eight dimensions, which head mixings stand
// between them, and what that costs. No tensors here; nn/attention/attention.h holds the layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// What turns X and M into logits, and weights into Y.
enum class AttentionForm {
  kDotProduct,  // no projections, one head: L = X·M, Y = W·M (paper 3.1)
  kProjected,   // P_q, P_k, P_v, P_o, with any head mixing (3.3, 4, Appendix A)
  kBilinear,    // P[d_X, d_M, h], Q[d_M, d_Y, h] (6)
};

// Which head projections are there; none of them is multi-head attention. Each is free of the others (7.1.3, A.1.1).
struct HeadMixing {
  bool P_l = false;   // static, logits:   P_l[h_k, h]
  bool P_w = false;   // static, weights:  P_w[h, h_v]
  bool P_Xl = false;  // dynamic, logits, from the query:   P_Xl[d_X, h_k, h]
  bool P_Ml = false;  // dynamic, logits, from the memory:  P_Ml[d_M, h_k, h]
  bool P_Xw = false;  // dynamic, weights, from the query:  P_Xw[d_X, h, h_v]
  bool P_Mw = false;  // dynamic, weights, from the memory: P_Mw[d_M, h, h_v]

  bool MixesLogits() const;   // a projection stands between h_k and h
  bool MixesWeights() const;  // and between h and h_v
  bool operator==(const HeadMixing&) const = default;
};

// kCausal: query i sees the memory positions 0 … i.
using Causality = kernels::AttentionCausality;
enum class KeyValueProjection { kSeparate, kTied };  // kTied: V = K, there is no P_v; h_v = h_k and d_v = d_k
enum class MixingInit { kRandom, kIdentity };        // kIdentity: P_l = P_w = I, which starts as multi-head
// kFused: the kernel that keeps nothing of size n·m, float only; a call that asks for the weights W, or in double, is
// computed by the composed one (AttentionResult says which it was). kComposed: the paper's pseudocode in einsum, float
// and double.
enum class AttentionImplementation { kComposed, kFused };

template <>
struct EnumNames<AttentionForm> {
  static constexpr EnumName<AttentionForm> kTable[] = {{AttentionForm::kDotProduct, "dot-product"},
                                                       {AttentionForm::kProjected, "projected"},
                                                       {AttentionForm::kBilinear, "bilinear"}};
};
template <>
struct EnumNames<Causality> {
  static constexpr EnumName<Causality> kTable[] = {{Causality::kNone, "none"}, {Causality::kCausal, "causal"}};
};
template <>
struct EnumNames<KeyValueProjection> {
  static constexpr EnumName<KeyValueProjection> kTable[] = {{KeyValueProjection::kSeparate, "separate"},
                                                            {KeyValueProjection::kTied, "tied"}};
};
template <>
struct EnumNames<MixingInit> {
  static constexpr EnumName<MixingInit> kTable[] = {{MixingInit::kRandom, "random"},
                                                    {MixingInit::kIdentity, "identity"}};
};
template <>
struct EnumNames<AttentionImplementation> {
  static constexpr EnumName<AttentionImplementation> kTable[] = {{AttentionImplementation::kComposed, "composed"},
                                                                 {AttentionImplementation::kFused, "fused"}};
};

struct AttentionConfig {
  AttentionForm form = AttentionForm::kProjected;
  int64_t d_X = 0, d_M = 0, d_Y = 0;  // widths of the queries X, the memory M, the output Y
  int64_t h_k = 0, h = 0, h_v = 0;    // heads of keys, of the softmax, of values; bilinear: h alone; dot product: h = 1
  int64_t d_k = 0, d_v = 0;           // size of a key and of a value per head; kProjected only
  HeadMixing mixing;
  KeyValueProjection key_value = KeyValueProjection::kSeparate;
  bool projection_biases = false;  // b_q, b_k, b_v, b_o beside P_q, P_k, P_v, P_o; kProjected only
  double projection_stddev = 0;    // of P_q, P_k, P_v, P_o (P, Q) at the start; 0: the authors', by fan-in

  // The run-time factor on J (without projections: on L). 1: folded into P_q's initialiser, as in the paper;
  // 1/sqrt(d_k): explicit, as in BERT and ALBERT. P_q starts with std 1/(scale·sqrt(d_X·d_k)), so that the logits
  // start the same either way.
  double scale = 1.0;
  Causality causality = Causality::kNone;
  double dropout_rate = 0.0;  // of U, after P_w; in training only
  MixingInit mixing_init = MixingInit::kRandom;
  AttentionImplementation implementation = AttentionImplementation::kFused;

  bool tied() const { return key_value == KeyValueProjection::kTied; }

  // Throws a usage error that names the dimension or option at fault. Every function that takes a config calls it.
  void Validate() const;

  // The usual members of the family, d_X = d_M = d_Y = d_model. Change fields before you pass them on.
  static AttentionConfig DotProduct(int64_t d_model);
  static AttentionConfig MultiHead(int64_t d_model, int64_t heads, int64_t head_size);
  static AttentionConfig TalkingHeads(int64_t d_model, int64_t h_k, int64_t h, int64_t h_v, int64_t d_k, int64_t d_v);
  static AttentionConfig Bilinear(int64_t d_model, int64_t heads);
};

// "talking-heads with dynamic Xl,Mw: d_X=768 d_M=768 d_Y=768 h_k=12 h=12 h_v=12 d_k=64 d_v=64"
std::string ToString(const AttentionConfig& config);

// The cost of one layer on one example: parameters, and scalar multiplications of the forward pass as the paper's
// pseudocode counts them in its comments (no softmax, no scale; a static projection beside a dynamic one is counted
// on its own although we fold it in).
struct AttentionCost {
  int64_t parameters = 0;
  int64_t multiplications = 0;
};
AttentionCost CostOf(const AttentionConfig& config, int64_t n, int64_t m);

// The members of the family as a user chooses them, and which head projections each has.
enum class AttentionKind { kMultihead, kTalking, kLogits, kWeights, kDynamic, kBilinear };
template <>
struct EnumNames<AttentionKind> {
  static constexpr EnumName<AttentionKind> kTable[] = {
      {AttentionKind::kMultihead, "multihead"}, {AttentionKind::kTalking, "talking"},
      {AttentionKind::kLogits, "logits"},       {AttentionKind::kWeights, "weights"},
      {AttentionKind::kDynamic, "dynamic"},     {AttentionKind::kBilinear, "bilinear"}};
};

// What a user says of a layer, and what it leaves to be derived from the model's width. The one place where the choices
// are interpreted, so that all who offer them mean the same; AttentionConfig is the layer that follows.
struct AttentionOptions {
  AttentionKind kind = AttentionKind::kTalking;
  int64_t heads = 0;                        // h
  std::optional<int64_t> key_heads = {};    // h_k; else h
  std::optional<int64_t> value_heads = {};  // h_v; else h
  std::optional<int64_t> key_size = {};     // d_k; else d_model / h_k, which must divide
  std::optional<int64_t> value_size = {};   // d_v; else d_model / h_v, which must divide
  // "Xl,Ml,Xw,Mw" or fewer: the dynamic projections, in addition to what the kind says. Else: all four for kDynamic,
  // none for the others. "none" is none.
  std::optional<std::string> dynamic = {};
};

// Throws a usage error of the field (as "key_heads") for a size that does not divide and for one that the kind has no
// use for. The result is valid.
AttentionConfig MakeAttentionConfig(const AttentionOptions& options, int64_t d_model);

}  // namespace crosstalk
