// The table of an attention layer's learned tensors. Construction and initial values, checks, cost, the matrices that
// factored optimizers see, JSON, the names in tensor files and on a command line, and the cases of the tests are made
// from it. A new projection is a row here with its fields (HeadMixing, AttentionParameters), an equation in
// nn/attention/composed.cc and, to be fast, a place in the kernel's table: docs/adding_an_attention.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/autograd/ops_attention.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/attention/types.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/shape.h"

namespace crosstalk {

// What a tensor multiplies, hence its cost. A dynamic projection's result then multiplies J or W.
enum class ProjectionSource {
  kX,       // the queries X: n products
  kM,       // the memory M: m products
  kStatic,  // J, L, W or U itself: n·m products
  kO,       // O: n products
  kXAndM,   // half of it X, half of it M
  kScores,  // J or W, for each pair of a query and a memory position
  kScaled,  // nothing that is counted: element by element
  kAdded,   // nothing: a bias
};

enum class ProjectionCondition {
  kAlways,  // in every layer of its form
  kUntied,  // unless V = K
  kMixing,  // where HeadMixing says so
  kBiases,  // where AttentionConfig::projection_biases says so
  kBiasesUntied,
  kOutputBias,  // and output_bias too
  kOption,      // where `option` says so
};

// Which two numbers of heads a head projection stands between.
enum class HeadsBetween { kNone, kLogits, kWeights };

struct AttentionProjection {
  std::string_view bracket;  // name and dimensions, in storage order
  std::string_view paper;    // in the paper's order, as tensor files have it
  Variable AttentionParameters::*parameter;
  AttentionForm form;
  ProjectionCondition condition;
  bool HeadMixing::*mixing;  // kMixing: its field; else null
  HeadsBetween between;
  ProjectionSource source;
  int matrix_rows;  // factored optimizers see a matrix whose rows are this many leading dimensions; 0: no matrix
  // Initial values: truncated normal of std factor / sqrt(product of the fan's dimensions); without a fan zeros.
  std::string_view fan;
  double factor;
  // For a dynamic head projection of X or M, the matrices that it generates, [h_k, h] or [h, h_v] for each
  // query or memory position. Else null.
  Variable kernels::AttentionOperands<Variable>::*generated = nullptr;
  // kOption: whether a layer has it.
  bool (*option)(const AttentionConfig& config) = nullptr;
  // Where the initial values are others than those of the fan.
  InitialValues (*initial)(const AttentionConfig& config) = nullptr;

  std::string_view name() const { return bracket.substr(0, bracket.find('[')); }
};

// In the order of registration, which is that of files. The initial values are the authors'; P_q's is divided by the
// scale as well, and the static head projections may start as the identity (MixingInit).
// Columns of the optimizers' matrices are all heads together ([d_X, h_k·d_k], [h_v·d_v, d_Y], [d_X, h_k·h]), so that
// whether and how they factor does not depend on how the same width is cut into heads.
namespace attention_projections {
using P = AttentionParameters;
using C = kernels::AttentionOperands<Variable>;
using H = HeadMixing;
using S = ProjectionSource;
using B = HeadsBetween;
using enum AttentionForm;
using enum ProjectionCondition;

// ---- Which options ask for a tensor, and how it starts -----------------------------------------------------------
using Layer = AttentionConfig;
inline bool IsLowRank(const Layer& c) { return c.dynamic_form == DynamicForm::kLowRank; }
inline bool IsV1(const Layer& c) { return c.differential == Differential::kV1; }
inline bool IsV2(const Layer& c) { return c.differential == Differential::kV2; }
inline bool ConvolvesLogits(const Layer& c) { return c.ConvolvesLogits(); }
inline bool ConvolvesWeights(const Layer& c) { return c.ConvolvesWeights(); }
inline bool NormsQueries(const Layer& c) { return c.query_key_norm; }
inline bool HasGain(const Layer& c) { return c.head_norm == HeadNorm::kRmsGain; }
inline bool IsGated(const Layer& c) { return c.head_gate != HeadGate::kNone; }

inline InitialValues Ones(const Layer&) { return InitialValues::Ones(); }
// A filter that gives its own query and key.
InitialValues OwnLogit(const Layer& c);
InitialValues OwnWeight(const Layer& c);
inline InitialValues Lambdas(const Layer&) { return InitialValues::Normal(0.1); }
// DCFormer's: close to no mixing.
InitialValues FirstOfGenerator(const Layer& c);
InitialValues SecondOfGenerator(const Layer& c);
InitialValues DiagonalOfGenerator(const Layer& c);

// clang-format off
inline constexpr AttentionProjection kTable[] = {
    // storage order the paper's field in every layer of … that … heads of rows fan factor generated
    {"P_q[d_X, h_k, d_k]",  "P_q[d_X, d_k, h_k]",  &P::P_q,  kProjected, kAlways, nullptr,   B::kNone,    S::kX,      1, "d_X, d_k",  1},
    {"P_k[d_M, g_k, d_k]",  "P_k[d_M, d_k, g_k]",  &P::P_k,  kProjected, kAlways, nullptr,   B::kNone,    S::kM,      1, "d_M",       1},
    {"P_v[d_M, g_v, d_v]",  "P_v[d_M, d_v, g_v]",  &P::P_v,  kProjected, kUntied, nullptr,   B::kNone,    S::kM,      1, "d_M",       1},
    {"P_o[h_v, d_v, d_Y]",  "P_o[d_Y, d_v, h_v]",  &P::P_o,  kProjected, kAlways, nullptr,   B::kNone,    S::kO,      2, "h_v, d_v",  1},
    {"P_l[h_k, h]",         "P_l[h_k, h]",         &P::P_l,  kProjected, kMixing, &H::P_l,   B::kLogits,  S::kStatic, 1, "h_k",       1},
    {"P_w[h, h_v]",         "P_w[h, h_v]",         &P::P_w,  kProjected, kMixing, &H::P_w,   B::kWeights, S::kStatic, 1, "h",         1},
    {"P_Xl[d_X, h_k, h]",   "P_Xl[d_X, h_k, h]",   &P::P_Xl, kProjected, kMixing, &H::P_Xl,  B::kLogits,  S::kX,      1, "d_X, h_k",  0.1, &C::R_Xl},
    {"P_Ml[d_M, h_k, h]",   "P_Ml[d_M, h_k, h]",   &P::P_Ml, kProjected, kMixing, &H::P_Ml,  B::kLogits,  S::kM,      1, "d_M, h_k",  0.1, &C::R_Ml},
    {"P_Xw[d_X, h, h_v]",   "P_Xw[d_X, h, h_v]",   &P::P_Xw, kProjected, kMixing, &H::P_Xw,  B::kWeights, S::kX,      1, "d_X, h",    0.1, &C::R_Xw},
    {"P_Mw[d_M, h, h_v]",   "P_Mw[d_M, h, h_v]",   &P::P_Mw, kProjected, kMixing, &H::P_Mw,  B::kWeights, S::kM,      1, "d_M, h",    0.1, &C::R_Mw},
    {"P[d_X, h, d_M]",      "P[d_X, d_M, h]",      &P::P,    kBilinear,  kAlways, nullptr,   B::kNone,    S::kX,      1, "d_X, d_M",  1},
    {"Q[h, d_M, d_Y]",      "Q[d_M, d_Y, h]",      &P::Q,    kBilinear,  kAlways, nullptr,   B::kNone,    S::kO,      2, "h, d_M",    1},
    {"b_q[h_k, d_k]",       "b_q[d_k, h_k]",       &P::b_q,  kProjected, kBiases, nullptr,   B::kNone,    S::kAdded,  0, "",          0},
    {"b_k[g_k, d_k]",       "b_k[d_k, g_k]",       &P::b_k,  kProjected, kBiases, nullptr,   B::kNone,    S::kAdded,  0, "",          0},
    {"b_v[g_v, d_v]",       "b_v[d_v, g_v]",       &P::b_v,  kProjected, kBiasesUntied, nullptr, B::kNone, S::kAdded, 0, "",          0},
    {"b_o[d_Y]",            "b_o[d_Y]",            &P::b_o,  kProjected, kOutputBias, nullptr, B::kNone,    S::kAdded,  0, "",          0},
    {"dw1[d_X, 4, d_g]",    "dw1[d_X, 4, d_g]",    &P::dw1,  kProjected, kOption, nullptr,   B::kNone,    S::kXAndM,  1, "",          0, nullptr, IsLowRank, FirstOfGenerator},
    {"qkw[4, d_g, 4, h]",   "qkw[4, d_g, 4, h]",   &P::qkw,  kProjected, kOption, nullptr,   B::kNone,    S::kXAndM,  2, "",          0, nullptr, IsLowRank, SecondOfGenerator},
    {"dd[d_X, 4, h]",       "dd[d_X, 4, h]",       &P::dd,   kProjected, kOption, nullptr,   B::kNone,    S::kXAndM,  1, "",          0, nullptr, IsLowRank, DiagonalOfGenerator},
    {"lambda_q1[d_k]",      "lambda_q1[d_k]",      &P::lambda_q1, kProjected, kOption, nullptr, B::kNone, S::kScaled, 0, "",          0, nullptr, IsV1, Lambdas},
    {"lambda_k1[d_k]",      "lambda_k1[d_k]",      &P::lambda_k1, kProjected, kOption, nullptr, B::kNone, S::kScaled, 0, "",          0, nullptr, IsV1, Lambdas},
    {"lambda_q2[d_k]",      "lambda_q2[d_k]",      &P::lambda_q2, kProjected, kOption, nullptr, B::kNone, S::kScaled, 0, "",          0, nullptr, IsV1, Lambdas},
    {"lambda_k2[d_k]",      "lambda_k2[d_k]",      &P::lambda_k2, kProjected, kOption, nullptr, B::kNone, S::kScaled, 0, "",          0, nullptr, IsV1, Lambdas},
    {"P_lambda[d_X, h_v]",  "P_lambda[d_X, h_v]",  &P::P_lambda,  kProjected, kOption, nullptr, B::kNone, S::kX,      1, "d_X",       1, nullptr, IsV2},
    {"conv_l[c_ql, c_kl, h_k]", "conv_l[c_ql, c_kl, h_k]", &P::conv_l, kProjected, kOption, nullptr, B::kNone, S::kScores, 0, "",      0, nullptr, ConvolvesLogits, OwnLogit},
    {"conv_w[c_qw, c_kw, h]",   "conv_w[c_qw, c_kw, h]",   &P::conv_w, kProjected, kOption, nullptr, B::kNone, S::kScores, 0, "",      0, nullptr, ConvolvesWeights, OwnWeight},
    {"q_norm[d_k]",         "q_norm[d_k]",         &P::q_norm,    kProjected, kOption, nullptr, B::kNone, S::kScaled, 0, "",          0, nullptr, NormsQueries, Ones},
    {"k_norm[d_k]",         "k_norm[d_k]",         &P::k_norm,    kProjected, kOption, nullptr, B::kNone, S::kScaled, 0, "",          0, nullptr, NormsQueries, Ones},
    {"norm_gain[d_v]",      "norm_gain[d_v]",      &P::norm_gain, kProjected, kOption, nullptr, B::kNone, S::kScaled, 0, "",          0, nullptr, HasGain, Ones},
    {"gate[d_v, d_u]",      "gate[d_v, d_u]",      &P::gate,      kProjected, kOption, nullptr, B::kNone, S::kO,      1, "d_v",       1, nullptr, IsGated},
    {"gate_bias[d_u]",      "gate_bias[d_u]",      &P::gate_bias, kProjected, kOption, nullptr, B::kNone, S::kAdded,  0, "",          0, nullptr, IsGated},
};
// clang-format on
static_assert(std::ranges::all_of(kTable, [](const AttentionProjection& p) {
  return (p.generated != nullptr) == (p.mixing != nullptr && p.source != S::kStatic);
}));
}  // namespace attention_projections

inline constexpr std::span<const AttentionProjection> kAttentionProjections = attention_projections::kTable;

// Keys before its own that a filter of c_k keys reads.
int64_t KeysBefore(int64_t c_k, ConvolutionKeys keys);

bool IsPresent(const AttentionProjection& projection, const AttentionConfig& config);
bool IsDynamic(const AttentionProjection& projection);
// "Xl" of P_Xl: what a list of dynamic projections calls it.
std::string_view DynamicName(const AttentionProjection& projection);
std::vector<std::string> DynamicNames();

// Sizes in storage order; std and matrix as the table has them.
Shape ShapeOf(const AttentionProjection& projection, const AttentionConfig& config);
Shape MatrixShapeOf(const AttentionProjection& projection, const AttentionConfig& config);
InitialValues InitialValuesOf(const AttentionProjection& projection, const AttentionConfig& config);

// Permute(x, PaperToStorage(p)) takes a tensor in the paper's order to storage order.
std::vector<int> PaperToStorage(const AttentionProjection& projection);

// Scalar multiplications of a forward pass on one example with n queries and m memory positions, as the paper counts
// them: those of the projection, and of the mixing that it does. A list of the factors of each product.
std::vector<std::vector<int64_t>> MultiplicationsOf(const AttentionProjection& projection,
                                                    const AttentionConfig& config, int64_t n, int64_t m);

// "P_l, P_Xl or P_Ml": the projections that may stand there.
std::string NamesBetween(HeadsBetween between);

// The dimensions of a layer, by the names that the table uses.
struct AttentionDim {
  const char* name;
  int64_t AttentionConfig::*size;
};
inline constexpr AttentionDim kAttentionDims[] = {{"d_X", &AttentionConfig::d_X}, {"d_M", &AttentionConfig::d_M},
                                                  {"d_Y", &AttentionConfig::d_Y}, {"h_k", &AttentionConfig::h_k},
                                                  {"h", &AttentionConfig::h},     {"h_v", &AttentionConfig::h_v},
                                                  {"d_k", &AttentionConfig::d_k}, {"d_v", &AttentionConfig::d_v}};
// Those that some layers have, or that are derived where the configuration says 0.
struct OptionalAttentionDim {
  const char* name;
  int64_t (*size)(const AttentionConfig& config);  // 0: there is none
  int64_t AttentionConfig::*set;                   // null: derived alone
};
extern const std::span<const OptionalAttentionDim> kOptionalAttentionDims;

}  // namespace crosstalk
