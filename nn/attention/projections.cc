#include "crosstalk/nn/attention/projections.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

int64_t SizeOf(std::string_view dim, const AttentionConfig& config) {
  for (const AttentionDim& candidate : kAttentionDims) {
    if (dim == candidate.name) return config.*candidate.size;
  }
  for (const OptionalAttentionDim& candidate : kOptionalAttentionDims) {
    if (dim == candidate.name) return candidate.size(config);
  }
  if (IsAsciiDigit(dim.front())) return std::stoll(std::string(dim));
  Fail(ErrorKind::kFailure, "attention: \"", dim, "\" is not a dimension of a layer");
}

std::vector<int64_t> SizesOf(std::string_view bracket, const AttentionConfig& config) {
  std::vector<int64_t> sizes;
  for (const std::string& dim : ParseBracket(bracket).indices) sizes.push_back(SizeOf(dim, config));
  return sizes;
}

int64_t Product(const std::vector<int64_t>& sizes, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product = SaturatingProduct(product, sizes[i]);
  return product;
}

double Sum(int64_t a, int64_t b) { return static_cast<double>(a) + static_cast<double>(b); }

double StddevOfGenerator(const AttentionConfig& c) {
  return 0.02 / (std::sqrt(static_cast<double>(SizeOf("d_g", c))) * Sum(c.h, 2));
}

// MixingInit::kIdentity's; none where they are the usual ones.
std::optional<InitialValues> ValuesOfIdentity(const AttentionProjection& projection, const AttentionConfig& c) {
  using P = AttentionParameters;
  if (projection.source == ProjectionSource::kStatic) return InitialValues::Identity();
  // Without P_l or P_w beside it, a dynamic projection is all that its heads get.
  const bool beside = projection.between == HeadsBetween::kLogits ? c.mixing.P_l : c.mixing.P_w;
  if (IsDynamic(projection) && beside) return InitialValues::Zeros();
  // R = rms(A[0])·A[2] + rms(A[1])·A[3] + diagonal is 0 where A[2] = A[3] = 0. The rows A[0] and A[1] are drawn: if all
  // were 0, none would have a gradient.
  if (projection.parameter == &P::qkw) return InitialValues::NormalThenZeros(StddevOfGenerator(c), 2);
  if (projection.parameter == &P::dd || projection.parameter == &P::P_lambda) return InitialValues::Zeros();
  return std::nullopt;
}

constexpr OptionalAttentionDim kOptionalDims[] = {
    {"g_k", [](const AttentionConfig& c) { return c.g_k > 0 ? c.g_k : c.h_k; }, &AttentionConfig::g_k},
    {"g_v", [](const AttentionConfig& c) { return c.g_v > 0 ? c.g_v : c.h_v; }, &AttentionConfig::g_v},
    {"d_g", [](const AttentionConfig& c) { return c.d_g > 0 ? c.d_g : 4 * c.h; }, &AttentionConfig::d_g},
    {"c_ql", [](const AttentionConfig& c) { return c.c_ql; }, &AttentionConfig::c_ql},
    {"c_kl", [](const AttentionConfig& c) { return c.c_kl; }, &AttentionConfig::c_kl},
    {"c_qw", [](const AttentionConfig& c) { return c.c_qw; }, &AttentionConfig::c_qw},
    {"c_kw", [](const AttentionConfig& c) { return c.c_kw; }, &AttentionConfig::c_kw},
    {"d_u",
     [](const AttentionConfig& c) {
       return c.head_gate == HeadGate::kNone ? 0 : c.head_gate == HeadGate::kElement ? c.d_v : int64_t{1};
     },
     nullptr}};

}  // namespace

const std::span<const OptionalAttentionDim> kOptionalAttentionDims = kOptionalDims;

namespace attention_projections {

InitialValues OwnLogit(const Layer& c) { return InitialValues::Filter(KeysBefore(c.c_kl, c.convolution_keys)); }
InitialValues OwnWeight(const Layer& c) { return InitialValues::Filter(KeysBefore(c.c_kw, c.convolution_keys)); }

InitialValues FirstOfGenerator(const Layer& c) {
  return InitialValues::Normal(std::sqrt(2.0 / Sum(c.d_X, SizeOf("d_g", c))));
}
InitialValues SecondOfGenerator(const Layer& c) { return InitialValues::Normal(StddevOfGenerator(c)); }
InitialValues DiagonalOfGenerator(const Layer& c) {
  return InitialValues::Normal(0.05 * std::sqrt(2.0 / Sum(c.h, c.d_X)));
}

}  // namespace attention_projections

int64_t KeysBefore(int64_t c_k, ConvolutionKeys keys) {
  return keys == ConvolutionKeys::kBoth ? (c_k - 1) / 2 : keys == ConvolutionKeys::kLeft ? c_k - 1 : 0;
}

bool IsPresent(const AttentionProjection& projection, const AttentionConfig& config) {
  if (projection.condition == ProjectionCondition::kMixing) return config.mixing.*projection.mixing;
  if (projection.form != config.form) return false;
  if (projection.condition == ProjectionCondition::kOption) return projection.option(config);
  switch (projection.condition) {
    case ProjectionCondition::kUntied:
      return !config.tied();
    case ProjectionCondition::kBiases:
      return config.projection_biases;
    case ProjectionCondition::kBiasesUntied:
      return config.projection_biases && !config.tied();
    case ProjectionCondition::kOutputBias:
      return config.projection_biases && config.output_bias;
    default:
      return true;
  }
}

bool IsDynamic(const AttentionProjection& projection) { return projection.generated != nullptr; }

std::string_view DynamicName(const AttentionProjection& projection) {
  return projection.name().substr(std::string_view("P_").size());
}

std::vector<std::string> DynamicNames() {
  std::vector<std::string> names;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (IsDynamic(projection)) names.emplace_back(DynamicName(projection));
  }
  return names;
}

Shape ShapeOf(const AttentionProjection& projection, const AttentionConfig& config) {
  return Shape(SizesOf(projection.bracket, config));
}

Shape MatrixShapeOf(const AttentionProjection& projection, const AttentionConfig& config) {
  if (projection.matrix_rows == 0) return {};
  const std::vector<int64_t> sizes = SizesOf(projection.bracket, config);
  const size_t rows = static_cast<size_t>(projection.matrix_rows);
  return {Product(sizes, 0, rows), Product(sizes, rows, sizes.size())};
}

InitialValues InitialValuesOf(const AttentionProjection& projection, const AttentionConfig& config) {
  if (config.mixing_init == MixingInit::kIdentity) {
    if (const std::optional<InitialValues> values = ValuesOfIdentity(projection, config)) return *values;
  }
  if (projection.initial != nullptr) return projection.initial(config);
  if (projection.fan.empty()) return InitialValues::Zeros();
  if (config.projection_stddev > 0 && projection.mixing == nullptr) {
    return InitialValues::TruncatedNormal(config.projection_stddev);
  }
  const std::vector<int64_t> fan = SizesOf(StrCat("fan[", projection.fan, "]"), config);
  double factor = projection.factor;
  if (projection.parameter == &AttentionParameters::P_q && config.scale != 0) factor /= std::abs(config.scale);
  return InitialValues::TruncatedNormal(factor / std::sqrt(static_cast<double>(Product(fan, 0, fan.size()))));
}

std::vector<int> PaperToStorage(const AttentionProjection& projection) {
  const std::vector<std::string> paper = ParseBracket(projection.paper).indices;
  std::vector<int> order;
  for (const std::string& dim : ParseBracket(projection.bracket).indices) {
    int at = 0;
    // The first of that name that is not taken: a square projection has a name twice.
    while (paper[static_cast<size_t>(at)] != dim || std::find(order.begin(), order.end(), at) != order.end()) ++at;
    order.push_back(at);
  }
  return order;
}

std::vector<std::vector<int64_t>> MultiplicationsOf(const AttentionProjection& projection,
                                                    const AttentionConfig& config, int64_t n, int64_t m) {
  std::vector<int64_t> projected = SizesOf(projection.bracket, config);
  std::vector<std::vector<int64_t>> products;
  if (IsDynamic(projection)) products.push_back({n, m, projected[1], projected[2]});
  switch (projection.source) {
    case ProjectionSource::kO:
      if (projection.parameter == &AttentionParameters::gate) projected.push_back(config.h_v);
      [[fallthrough]];
    case ProjectionSource::kX:
      projected.push_back(n);
      break;
    case ProjectionSource::kM:
      projected.push_back(m);
      break;
    case ProjectionSource::kStatic:
      projected.insert(projected.end(), {n, m});
      break;
    case ProjectionSource::kXAndM: {
      projected[projection.parameter == &AttentionParameters::qkw ? 0 : 1] /= 2;
      std::vector<int64_t> of_M = projected;
      of_M.push_back(m);
      products.push_back(of_M);
      projected.push_back(n);
      break;
    }
    case ProjectionSource::kScores:
      projected.insert(projected.end(), {n, m});
      break;
    case ProjectionSource::kScaled:
    case ProjectionSource::kAdded:
      return {};
  }
  products.push_back(projected);
  return products;
}

std::string NamesBetween(HeadsBetween between) {
  std::vector<std::string> names;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (projection.between == between && projection.mixing != nullptr) names.emplace_back(projection.name());
  }
  std::string text = names.front();
  for (size_t i = 1; i < names.size(); ++i) text += (i + 1 < names.size() ? ", " : " or ") + names[i];
  return text;
}

}  // namespace crosstalk
