#include "crosstalk/nn/attention/projections.h"

#include <algorithm>
#include <cmath>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {
namespace {

int64_t SizeOf(std::string_view dim, const AttentionConfig& config) {
  for (const AttentionDim& candidate : kAttentionDims) {
    if (dim == candidate.name) return config.*candidate.size;
  }
  Fail(ErrorKind::kFailure, "attention: \"", dim, "\" is no dimension of a layer");
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

}  // namespace

bool IsPresent(const AttentionProjection& projection, const AttentionConfig& config) {
  if (projection.condition == ProjectionCondition::kMixing) return config.mixing.*projection.mixing;
  if (projection.form != config.form) return false;
  switch (projection.condition) {
    case ProjectionCondition::kUntied:
      return !config.tied();
    case ProjectionCondition::kBiases:
      return config.projection_biases;
    case ProjectionCondition::kBiasesUntied:
      return config.projection_biases && !config.tied();
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
  const bool is_static = projection.source == ProjectionSource::kStatic;
  if (is_static && config.mixing_init == MixingInit::kIdentity) return InitialValues::Identity();
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
    case ProjectionSource::kX:
    case ProjectionSource::kO:
      projected.push_back(n);
      break;
    case ProjectionSource::kM:
      projected.push_back(m);
      break;
    case ProjectionSource::kStatic:
      projected.insert(projected.end(), {n, m});
      break;
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

bool HaveKernels(AttentionProjections projections, const AttentionConfig& config) {
  return std::all_of(projections.begin(), projections.end(), [&](const AttentionProjection& projection) {
    return projection.kernel == HasKernel::kYes || !IsPresent(projection, config);
  });
}

}  // namespace crosstalk
