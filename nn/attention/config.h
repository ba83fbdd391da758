// AttentionConfig: which member of the attention family a layer is: its eight dimensions, which head mixings stand
// between them, and what that costs. No tensors here; nn/attention/attention.h holds the layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/heads.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/record.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The map from X and M to logits, and from weights to Y.
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

  static std::vector<std::pair<std::string, bool HeadMixing::*>> Names();
  bool MixesLogits() const;   // one of them stands between h_k and h
  bool MixesWeights() const;  // and between h and h_v
  bool operator==(const HeadMixing&) const = default;
};

// kCausal: query i sees the memory positions 0 … i.
using Causality = kernels::AttentionCausality;
enum class KeyValueProjection { kSeparate, kTied };  // kTied: V = K, there is no P_v; h_v = h_k and d_v = d_k
// kIdentity starts as multi-head attention: P_l = P_w = I, filters that give their own query and key, and dynamic
// projections beside these that generate zeros.
enum class MixingInit { kRandom, kIdentity };
// How R_Xl, R_Ml, R_Xw and R_Mw are generated.
enum class DynamicForm {
  kLinear,  // each that HeadMixing names from X or M by its P (paper 7.1)
  // All four by dw1, qkw and dd: for each position two rows and two columns of rank 1, and a diagonal (dynamically
  // composed multi-head attention, arXiv 2405.08553). L = J + J·R_Xl + J·R_Ml, where no P_l mixes the first J;
  // weights likewise. h_k = h = h_v, d_X = d_M.
  kLowRank,
};
// Differential attention: h = 2·h_v softmax heads, of which the weights of each second one are subtracted.
enum class Differential {
  kNone,
  kV1,  // arXiv 2410.05258: U_g = W_2g - λ·W_2g+1, λ = exp(lambda_q1·lambda_k1) - exp(lambda_q2·lambda_k2) + λ_init
  kV2,  // its second version: U_g = W_2g - σ(X·P_lambda)_g·W_2g+1
};
// Which key head a query head reads, if there are fewer.
using KeySharing = kernels::KeySharing;
enum class Rotary { kNone, kHalves, kInterleaved };  // of queries and keys: kernels::RotaryPairs
// Which keys a convolution reads beside its own.
enum class ConvolutionKeys { kBoth, kLeft, kRight };
inline constexpr double kQueryKeyNormEpsilon = 1e-6;  // of AttentionConfig::query_key_norm
enum class HeadNorm { kNone, kRms, kRmsGain };        // RMS norm of each value head's output; with norm_gain[d_v]
enum class HeadGate { kNone, kScalar, kElement };  // O·σ(O·gate + gate_bias), with a gate of [d_v, 1] or [d_v, d_v]

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
struct EnumNames<DynamicForm> {
  static constexpr EnumName<DynamicForm> kTable[] = {{DynamicForm::kLinear, "linear"},
                                                     {DynamicForm::kLowRank, "low-rank"}};
};
template <>
struct EnumNames<Differential> {
  static constexpr EnumName<Differential> kTable[] = {
      {Differential::kNone, "none"}, {Differential::kV1, "v1"}, {Differential::kV2, "v2"}};
};
template <>
struct EnumNames<KeySharing> {
  static constexpr EnumName<KeySharing> kTable[] = {{KeySharing::kConsecutive, "consecutive"},
                                                    {KeySharing::kPairs, "pairs"}};
};
template <>
struct EnumNames<Rotary> {
  static constexpr EnumName<Rotary> kTable[] = {
      {Rotary::kNone, "none"}, {Rotary::kHalves, "halves"}, {Rotary::kInterleaved, "interleaved"}};
};
template <>
struct EnumNames<ConvolutionKeys> {
  static constexpr EnumName<ConvolutionKeys> kTable[] = {
      {ConvolutionKeys::kBoth, "both"}, {ConvolutionKeys::kLeft, "left"}, {ConvolutionKeys::kRight, "right"}};
};
template <>
struct EnumNames<HeadNorm> {
  static constexpr EnumName<HeadNorm> kTable[] = {
      {HeadNorm::kNone, "none"}, {HeadNorm::kRms, "rms"}, {HeadNorm::kRmsGain, "rms-gain"}};
};
template <>
struct EnumNames<HeadGate> {
  static constexpr EnumName<HeadGate> kTable[] = {
      {HeadGate::kNone, "none"}, {HeadGate::kScalar, "scalar"}, {HeadGate::kElement, "element"}};
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
  int64_t g_k = 0, g_v = 0;           // heads of P_k and of P_v, which divide h_k and h_v; 0: as many
  KeySharing key_sharing = KeySharing::kConsecutive;
  HeadMixing mixing;
  int64_t mixing_group = 0;  // P_l and P_w mix within groups of so many heads; 0: all of them
  DynamicForm dynamic_form = DynamicForm::kLinear;
  int64_t d_g = 0;  // width of a low-rank generator; 0: 4·h
  Differential differential = Differential::kNone;
  std::optional<double> lambda_init = {};  // of kV1; else 0.8 - 0.6·exp(-0.3·depth)
  int64_t depth = 0;                       // layers before this one
  // Convolutions of Multi-Token Attention (arXiv 2504.00927), of J before P_l and of W before P_w, over the last c_q
  // queries and c_k keys; 0: none. Both read 0 where a query may not attend.
  int64_t c_ql = 0, c_kl = 0, c_qw = 0, c_kw = 0;
  ConvolutionKeys convolution_keys = ConvolutionKeys::kBoth;
  bool query_key_norm = false;  // RMS norm of each query and key, with gains q_norm[d_k] and k_norm[d_k]
  Rotary rotary = Rotary::kNone;
  kernels::RotaryFrequencies rotary_frequencies;
  HeadNorm head_norm = HeadNorm::kNone;
  std::optional<double> head_norm_factor = {};  // on what the norm gives; else 1, and 1 - λ_init of kV1
  HeadGate head_gate = HeadGate::kNone;
  KeyValueProjection key_value = KeyValueProjection::kSeparate;
  bool projection_biases = false;  // b_q, b_k, b_v, b_o beside P_q, P_k, P_v, P_o; kProjected only
  bool output_bias = true;         // b_o is among them
  double projection_stddev = 0;    // of P_q, P_k, P_v, P_o (P, Q) at the start; 0: the authors', by fan-in

  // The run-time factor on J (without projections: on L). 1: folded into P_q's initialiser, as in the paper;
  // 1/sqrt(d_k): explicit, as in BERT and ALBERT. P_q starts with std 1/(scale·sqrt(d_X·d_k)), so that the logits
  // start the same either way.
  double scale = 1.0;
  Causality causality = Causality::kNone;
  int64_t window = 0;         // kCausal: query i sees the memory positions i - window + 1 … i; 0: all up to i
  double dropout_rate = 0.0;  // of U, after P_w; in training only
  MixingInit mixing_init = MixingInit::kRandom;
  AttentionImplementation implementation = AttentionImplementation::kFused;

  static const FieldTable<AttentionConfig>& Fields();

  bool MixesLogits() const;   // something stands between h_k and h
  bool MixesWeights() const;  // and between h and h_v
  double LambdaInit() const;
  double HeadNormFactor() const;
  bool ConvolvesLogits() const { return c_ql > 0; }
  bool ConvolvesWeights() const { return c_qw > 0; }
  // Queries before a position's own that its output reads.
  int64_t earlier_queries() const { return (c_ql > 0 ? c_ql - 1 : 0) + (c_qw > 0 ? c_qw - 1 : 0); }
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
enum class AttentionKind {
  kMultihead,
  kTalking,
  kLogits,
  kWeights,
  kDynamic,
  kBilinear,
  kDcmha,
  kDiffV1,
  kDiffV2,
  kMta
};
template <>
struct EnumNames<AttentionKind> {
  static constexpr EnumName<AttentionKind> kTable[] = {
      {AttentionKind::kMultihead, "multihead"}, {AttentionKind::kTalking, "talking"},
      {AttentionKind::kLogits, "logits"},       {AttentionKind::kWeights, "weights"},
      {AttentionKind::kDynamic, "dynamic"},     {AttentionKind::kBilinear, "bilinear"},
      {AttentionKind::kDcmha, "dcmha"},         {AttentionKind::kDiffV1, "diff-v1"},
      {AttentionKind::kDiffV2, "diff-v2"},      {AttentionKind::kMta, "mta"}};
};

// A user's choices for a layer; the model's width determines the rest. The one place where the choices
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
  // Heads of P_k and P_v, which the others share; else each has its own, in kDiffV2 each pair. Of kDiffV1 pairs of
  // key heads.
  std::optional<int64_t> kv_heads = {};
  std::optional<HeadNorm> head_norm = {};  // else kRmsGain for kDiffV1 and kMta, none for the others
  std::optional<HeadGate> head_gate = {};  // else kScalar for kMta, none for the others
  // "6x11": queries and keys that kMta convolves, which is the default, or another kind with that.
  std::optional<std::string> convolution = {};
  int64_t mixing_group = 0;  // AttentionConfig's
  bool query_key_norm = false;
  int64_t window = 0;  // AttentionConfig's: such a layer is causal
};

// Throws a usage error of the field (as "key_heads") for a size that does not divide and for one that the kind has no
// use for. The result is valid.
AttentionConfig MakeAttentionConfig(const AttentionOptions& options, int64_t d_model);

}  // namespace crosstalk
#pragma GCC visibility pop
