#include "crosstalk/models/inspection/mixing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/kernels/lapack.h"
#include "crosstalk/nn/attention/capture.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk {
namespace {

// Beyond it the cubes of LAPACK take minutes.
constexpr int64_t kMostHeads = 2048;

double SumOfSquares(const Tensor& tensor) {
  double sum = 0;
  for (const double x : tensor.To(DType::kFloat64).Contiguous().ToVector<double>()) sum += x * x;
  return sum;
}

double RootMeanSquare(double squares, int64_t count) {
  return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count));
}

// The head projection that a parameter is, by the last part of its path; null: none.
const AttentionProjection* HeadProjection(std::string_view parameter) {
  const std::string_view name = parameter.substr(parameter.rfind('.') + 1);
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (projection.mixing != nullptr && projection.name() == name) return &projection;
  }
  return nullptr;
}

// The static projection that is added to what a dynamic one generates.
std::string StaticBeside(const AttentionProjection& dynamic) {
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (projection.between == dynamic.between && projection.source == ProjectionSource::kStatic) {
      return std::string(projection.name());
    }
  }
  return "";
}

// "encoder.block_0.self_attention" of "encoder.block_0.self_attention.P_l".
std::string LayerOf(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

// Not analysed yet.
MixingMatrix MatrixOf(std::string name, const Tensor& values) {
  return {std::move(name), values.To(DType::kFloat64).Contiguous(), {}};
}

Json NumberOrNull(const std::optional<double>& value) { return value && std::isfinite(*value) ? Json(*value) : Json(); }

}  // namespace

std::vector<HeadProjectionTensor> StaticHeadProjections(const Module& model) {
  std::vector<HeadProjectionTensor> found;
  for (const NamedParameter& parameter : model.Parameters()) {
    const AttentionProjection* const projection = HeadProjection(parameter.name);
    if (projection == nullptr || IsDynamic(*projection)) continue;
    found.push_back({LayerOf(parameter.name), std::string(projection->name()), parameter.value.value()});
  }
  return found;
}

namespace {

MatrixAnalysis Analyse(const Tensor& matrix, bool by_lapack) {
  Dims dims("analysis");
  dims.Bind("matrix[rows, columns]", matrix.shape());
  const int64_t rows = dims["rows"], columns = dims["columns"];
  const std::vector<double> a = matrix.To(DType::kFloat64).Contiguous().ToVector<double>();
  MatrixAnalysis analysis = {.rows = rows, .columns = columns};
  double all = 0, diagonal = 0;
  for (const double x : a) all += x * x;
  for (int64_t i = 0; i < std::min(rows, columns); ++i) {
    const double x = a[static_cast<size_t>(i * columns + i)];
    diagonal += x * x;
  }
  analysis.root_mean_square = RootMeanSquare(all, rows * columns);
  if (all > 0 && std::isfinite(all)) analysis.off_diagonal_share = std::max(0.0, 1 - diagonal / all);
  if (!by_lapack || std::max(rows, columns) > kMostHeads) {
    analysis.left_out = true;
    return analysis;
  }
  if (rows == columns) {
    if (const auto determinant = kernels::DeterminantOf(a, rows)) {
      analysis.determinant = determinant->absolute;
      analysis.log_determinant = determinant->log_absolute;
    }
    if (const auto sizes = kernels::EigenvalueSizes(a, rows); sizes && !sizes->empty()) {
      analysis.smallest_eigenvalue = sizes->front();
    }
  }
  analysis.singular_values = kernels::SingularValues(a, rows, columns).value_or(std::vector<double>());
  return analysis;
}

// Of a layer's matrices together.
int64_t CubesOf(const LayerMixing& layer) {
  int64_t cubes = 0;
  for (const MixingMatrix& matrix : layer.matrices) {
    const int64_t heads = std::min(std::max(matrix.values.size(0), matrix.values.size(1)), kMostHeads);
    cubes += heads * heads * heads;
  }
  return cubes;
}

}  // namespace

MatrixAnalysis Analyse(const Tensor& matrix) { return Analyse(matrix, true); }

std::string AnalysisUnavailable() { return kernels::LapackUnavailable(); }

const MixingMatrix* LayerMixing::Find(const std::string& name) const {
  const auto found = std::find_if(matrices.begin(), matrices.end(), [&](const auto& one) { return one.name == name; });
  return found == matrices.end() ? nullptr : &*found;
}

std::vector<LayerMixing> MixingOf(const Module& model, int64_t most_cubes) {
  std::vector<LayerMixing> layers;
  for (const NamedParameter& parameter : model.Parameters()) {
    const AttentionProjection* const projection = HeadProjection(parameter.name);
    if (projection == nullptr) continue;
    const std::string layer = LayerOf(parameter.name);
    if (layers.empty() || layers.back().layer != layer) layers.push_back({layer, {}, {}});
    const Tensor& value = parameter.value.value();
    if (IsDynamic(*projection)) {
      layers.back().dynamic.push_back({std::string(DynamicName(*projection)), StaticBeside(*projection),
                                       RootMeanSquare(SumOfSquares(value), value.num_elements())});
    } else {
      layers.back().matrices.push_back(MatrixOf(std::string(projection->name()), value));
    }
  }
  const ContextScope no_grad = NoGrad();
  for (LayerMixing& layer : layers) {
    const MixingMatrix *const P_l = layer.Find("P_l"), *const P_w = layer.Find("P_w");
    if (P_l == nullptr || P_w == nullptr) continue;
    const Variable product =
        Einsum("P_lw[h_k,h_v] = einsum(P_l[h_k,h], P_w[h,h_v])", {Variable(P_l->values), Variable(P_w->values)});
    layer.matrices.push_back(MatrixOf("P_l·P_w", product.value()));
  }
  struct Task {
    MixingMatrix* matrix;
    bool by_lapack;
  };
  std::vector<Task> tasks;
  int64_t cubes = 0;
  for (LayerMixing& layer : layers) {
    cubes += CubesOf(layer);
    for (MixingMatrix& matrix : layer.matrices) tasks.push_back({&matrix, cubes <= most_cubes});
  }
  ParallelFor(static_cast<int64_t>(tasks.size()), [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i)];
    task.matrix->analysis = Analyse(task.matrix->values, task.by_lapack);
  });
  return layers;
}

void MeasureDynamicMixing(const std::function<void(const StopRequest& done)>& forward,
                          std::vector<LayerMixing>* layers) {
  struct Sum {
    double squares = 0;
    int64_t count = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;  // by layer and name, "R_Xl"
  std::set<std::string> waiting;                            // layers that have not been applied
  for (const LayerMixing& layer : *layers) {
    if (!layer.dynamic.empty()) waiting.insert(layer.layer);
  }
  {
    const ContextScope no_grad = NoGrad();
    const std::function<void(const AttentionCapture&)> take = [&](const AttentionCapture& capture) {
      waiting.erase(capture.module);
      for (const auto& [name, tensor] : capture.dynamic) {
        Sum& sum = sums[{capture.module, name}];
        sum.squares += SumOfSquares(tensor);
        sum.count += tensor.num_elements();
      }
    };
    const ContextScope captured(&OpContext::capture, &take);
    forward([&] { return waiting.empty(); });
  }
  for (LayerMixing& layer : *layers) {
    for (DynamicMixing& dynamic : layer.dynamic) {
      const auto found = sums.find({layer.layer, "R_" + dynamic.name});
      if (found != sums.end()) dynamic.generated = RootMeanSquare(found->second.squares, found->second.count);
    }
  }
}

Json ToJson(const std::vector<LayerMixing>& layers) {
  Json list = Json::MakeArray();
  for (const LayerMixing& layer : layers) {
    Json matrices = Json::MakeArray(), dynamic = Json::MakeArray();
    for (const MixingMatrix& one : layer.matrices) {
      Json singular_values = Json::MakeArray();
      for (const double value : one.analysis.singular_values) singular_values.Append(value);
      matrices.Append(Json::MakeObject({{"name", one.name},
                                        {"rows", one.analysis.rows},
                                        {"columns", one.analysis.columns},
                                        {"root_mean_square", NumberOrNull(one.analysis.root_mean_square)},
                                        {"off_diagonal_share", NumberOrNull(one.analysis.off_diagonal_share)},
                                        {"determinant", NumberOrNull(one.analysis.determinant)},
                                        {"log_determinant", NumberOrNull(one.analysis.log_determinant)},
                                        {"smallest_eigenvalue", NumberOrNull(one.analysis.smallest_eigenvalue)},
                                        {"singular_values", std::move(singular_values)}}));
    }
    for (const DynamicMixing& one : layer.dynamic) {
      dynamic.Append(Json::MakeObject({{"name", one.name},
                                       {"parameters", NumberOrNull(one.parameters)},
                                       {"generated", NumberOrNull(one.generated)}}));
    }
    list.Append(
        Json::MakeObject({{"layer", layer.layer}, {"matrices", std::move(matrices)}, {"dynamic", std::move(dynamic)}}));
  }
  return list;
}

}  // namespace crosstalk
