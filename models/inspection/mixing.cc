#include "crosstalk/models/inspection/mixing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/kernels/lapack.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/attention/composed.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/nn/attention/types.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk {

// What the mixing of heads is made of where it is a function of tokens: measured over a forward pass.
namespace {

// Sums over the matrices R[s, t] of all positions that a layer was applied to.
struct MatrixSums {
  Shape shape;
  int64_t positions = 0;
  std::vector<double> values, squares;  // of each element

  // R[b, n, s, t]
  void Add(const Tensor& R) {
    const std::vector<double> all = R.To(DType::kFloat64).Contiguous().ToVector<double>();
    shape = {R.size(2), R.size(3)};
    const auto size = static_cast<size_t>(shape.NumElements());
    values.resize(size);
    squares.resize(size);
    for (size_t i = 0; i < all.size(); ++i) {
      values[i % size] += all[i];
      squares[i % size] += all[i] * all[i];
    }
    positions += R.size(0) * R.size(1);
  }

  double Mean(size_t element) const { return values[element] / static_cast<double>(positions); }
  // Σ over positions of (R - c)², without R itself.
  double SquaresFrom(size_t element, double c) const {
    return std::max(0.0, squares[element] - 2 * c * values[element] + c * c * static_cast<double>(positions));
  }
};

// `holds_identity`: a layer with no static matrix adds J or W itself, and what it captures as R has that, too.
void Fill(const MatrixSums& sums, bool holds_identity, DynamicMixing* dynamic) {
  const int64_t columns = sums.shape[1];
  dynamic->mean = Tensor::Zeros(sums.shape, DType::kFloat64);
  double size = 0, spread = 0;
  for (int64_t i = 0; i < sums.shape.NumElements(); ++i) {
    const auto element = static_cast<size_t>(i);
    const double own = holds_identity && i / columns == i % columns ? 1 : 0;
    dynamic->mean.data<double>()[i] = sums.Mean(element) - own;
    size += sums.SquaresFrom(element, own);
    spread += sums.SquaresFrom(element, sums.Mean(element));
  }
  const double count = static_cast<double>(sums.positions) * static_cast<double>(sums.shape.NumElements());
  dynamic->generated = std::sqrt(size / count);
  dynamic->spread = std::sqrt(spread / count);
}

// R_Xw[2g + 1, g] = -λ_g.
void Fill(const MatrixSums& R_Xw, DifferentialMixing* differential) {
  differential->lambda.clear();
  differential->spread.clear();
  for (int64_t g = 0; g < R_Xw.shape[1]; ++g) {
    const auto element = static_cast<size_t>((2 * g + 1) * R_Xw.shape[1] + g);
    const double mean = R_Xw.Mean(element);
    differential->lambda.push_back(-mean);
    differential->spread.push_back(std::sqrt(R_Xw.SquaresFrom(element, mean) / static_cast<double>(R_Xw.positions)));
  }
}

}  // namespace

void MeasureDynamicMixing(const std::function<void(const StopRequest& done)>& forward,
                          std::vector<LayerMixing>* layers) {
  std::map<std::pair<std::string, std::string>, MatrixSums> sums;  // by layer and name, "R_Xl"
  std::set<std::string> waiting;                                   // layers that have not been applied
  for (const LayerMixing& layer : *layers) {
    if (layer.DependsOnTokens()) waiting.insert(layer.layer);
  }
  {
    const ContextScope no_grad = NoGrad();
    const std::function<void(const AttentionCapture&)> take = [&](const AttentionCapture& capture) {
      waiting.erase(capture.module);
      for (const auto& [name, tensor] : capture.dynamic) sums[{capture.module, name}].Add(tensor);
    };
    const ContextScope captured(&OpContext::capture, &take);
    forward([&] { return waiting.empty(); });
  }
  for (LayerMixing& layer : *layers) {
    for (DynamicMixing& dynamic : layer.dynamic) {
      const auto found = sums.find({layer.layer, "R_" + dynamic.name});
      if (found != sums.end()) Fill(found->second, dynamic.beside == "I" && dynamic.name.starts_with('X'), &dynamic);
    }
    if (!layer.differential || !layer.differential->of_tokens) continue;
    const auto found = sums.find({layer.layer, "R_Xw"});
    if (found != sums.end()) Fill(found->second, &*layer.differential);
  }
}

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

// The attention layers of a model, in the order of their parameters.
std::vector<const AttentionModule*> AttentionLayers(const Module& model) {
  std::vector<const AttentionModule*> layers;
  for (const Module* const module : model.Modules()) {
    if (const auto* const layer = dynamic_cast<const AttentionModule*>(module)) layers.push_back(layer);
  }
  return layers;
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

// What of a low-rank generator's parameter makes the dynamic projection number c.
double SquaresOfGenerator(const AttentionParameters& p, int64_t c) {
  return SumOfSquares(p.dw1.value().Slice(1, c, c + 1)) + SumOfSquares(p.qkw.value().Slice(0, c, c + 1)) +
         SumOfSquares(p.dd.value().Slice(1, c, c + 1));
}
int64_t SizeOfGenerator(const AttentionParameters& p) {
  return (p.dw1.value().num_elements() + p.qkw.value().num_elements() + p.dd.value().num_elements()) / 4;
}

std::vector<DynamicMixing> DynamicOf(const AttentionModule& layer) {
  const AttentionParameters& p = layer.parameters();
  std::vector<DynamicMixing> dynamic;
  int64_t number = 0;  // among the dynamic projections, which is their order in dw1, qkw and dd
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (!IsDynamic(projection)) continue;
    const std::string name(DynamicName(projection)), beside = StaticBeside(projection);
    if (const Variable& P = p.*projection.parameter; P.defined()) {
      dynamic.push_back({name, beside, RootMeanSquare(SumOfSquares(P.value()), P.value().num_elements())});
    } else if (layer.config().dynamic_form == DynamicForm::kLowRank) {
      const bool has_static = beside == "P_l" ? p.P_l.defined() : p.P_w.defined();
      dynamic.push_back(
          {name, has_static ? beside : "I", RootMeanSquare(SquaresOfGenerator(p, number), SizeOfGenerator(p))});
    }
    ++number;
  }
  return dynamic;
}

HeadFilter FilterOf(const char* name, const Tensor& values, int64_t own_key) {
  HeadFilter filter = {name, values.To(DType::kFloat64).Contiguous(), own_key, {}};
  const int64_t own_query = values.size(0) - 1;
  for (int64_t head = 0; head < values.size(2); ++head) {
    const Tensor of_head = filter.values.Select(2, head);
    const double own = of_head.At({own_query, own_key}), all = SumOfSquares(of_head);
    filter.elsewhere.push_back(all > 0 && std::isfinite(all) ? std::max(0.0, 1 - own * own / all) : 0);
  }
  return filter;
}

// The static head projections of a layer, as they mix. That of differential attention is all in its λ.
std::vector<HeadProjectionTensor> StaticOf(const AttentionModule& layer) {
  const AttentionConfig& config = layer.config();
  std::vector<HeadProjectionTensor> found;
  const auto add = [&](const char* name, const Variable& P) {
    if (P.defined()) found.push_back({layer.path(), name, P.value()});
  };
  add("P_l", LogitsMixing(config, layer.parameters()));
  if (config.differential != Differential::kV1) add("P_w", WeightsMixing(config, layer.parameters()));
  return found;
}

// Not analysed yet.
MixingMatrix MatrixOf(std::string name, const Tensor& values) {
  return {std::move(name), values.To(DType::kFloat64).Contiguous(), {}};
}

// The mixing of a layer, whose matrices are not analysed yet.
LayerMixing NotAnalysed(const AttentionModule& layer) {
  const AttentionConfig& config = layer.config();
  const AttentionParameters& p = layer.parameters();
  LayerMixing mixing = {layer.path(), {}, DynamicOf(layer), {}, {}};
  for (const HeadProjectionTensor& one : StaticOf(layer)) mixing.matrices.push_back(MatrixOf(one.name, one.values));
  if (config.differential == Differential::kV1) {
    const Tensor lambda = DifferentialLambda(config, p).value().To(DType::kFloat64);
    mixing.differential = DifferentialMixing{.of_tokens = false, .lambda = lambda.ToVector<double>()};
  } else if (config.differential == Differential::kV2) {
    mixing.differential = DifferentialMixing{.of_tokens = true};
  }
  const auto add_filter = [&](const char* name, const Variable& filter, int64_t keys) {
    if (!filter.defined()) return;
    mixing.filters.push_back(FilterOf(name, filter.value(), KeysBefore(keys, config.convolution_keys)));
  };
  add_filter("conv_l", p.conv_l, config.c_kl);
  add_filter("conv_w", p.conv_w, config.c_kw);
  return mixing;
}

}  // namespace

std::vector<HeadProjectionTensor> StaticHeadProjections(const Module& model) {
  const ContextScope no_grad = NoGrad();
  std::vector<HeadProjectionTensor> found;
  for (const AttentionModule* const layer : AttentionLayers(model)) {
    for (HeadProjectionTensor& one : StaticOf(*layer)) found.push_back(std::move(one));
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

// How many cubes a layer has in all.
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
  const ContextScope no_grad = NoGrad();
  std::vector<LayerMixing> layers;
  for (const AttentionModule* const attention : AttentionLayers(model)) {
    LayerMixing layer = NotAnalysed(*attention);
    if (!layer.matrices.empty() || layer.DependsOnTokens() || layer.differential || !layer.filters.empty()) {
      layers.push_back(std::move(layer));
    }
  }
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

FieldTable<MatrixAnalysis> MatrixAnalysis::Fields() {
  using A = MatrixAnalysis;
  return {{"rows", &A::rows},
          {"columns", &A::columns},
          {"root_mean_square", &A::root_mean_square},
          {"off_diagonal_share", &A::off_diagonal_share},
          {"determinant", &A::determinant},
          {"log_determinant", &A::log_determinant},
          {"smallest_eigenvalue", &A::smallest_eigenvalue},
          {"singular_values", &A::singular_values}};
}

FieldTable<MixingMatrix> MixingMatrix::Fields() {
  return {{"name", &MixingMatrix::name}, {"analysis", &MixingMatrix::analysis, {.spread = true}}};
}

FieldTable<DynamicMixing> DynamicMixing::Fields() {
  using D = DynamicMixing;
  return {{"name", &D::name}, {"parameters", &D::parameters}, {"generated", &D::generated}, {"spread", &D::spread}};
}

FieldTable<DifferentialMixing> DifferentialMixing::Fields() {
  using D = DifferentialMixing;
  return {{"lambda", &D::lambda}, {"lambda_spread", &D::spread}};
}

FieldTable<HeadFilter> HeadFilter::Fields() {
  using F = HeadFilter;
  return {{"name", &F::name},
          MakeComputedField<F>("queries", [](const F& one) { return one.values.size(0); }),
          MakeComputedField<F>("keys", [](const F& one) { return one.values.size(1); }),
          {"elsewhere", &F::elsewhere}};
}

FieldTable<LayerMixing> LayerMixing::Fields() {
  using L = LayerMixing;
  return {{"layer", &L::layer},
          {"matrices", &L::matrices},
          {"dynamic", &L::dynamic},
          {"differential", &L::differential, {.only_if_set = true, .spread = true}},
          {"filters", &L::filters, {.only_if_set = true}}};
}

namespace {

const MixingMatrix* FirstOf(const LayerMixing& layer) {
  const MixingMatrix* const P_l = layer.Find("P_l");
  return P_l != nullptr ? P_l : layer.Find("P_w");
}

}  // namespace

double ShareByChance(int64_t rows, int64_t columns) { return 1 - 1 / static_cast<double>(std::max(rows, columns)); }

std::optional<Crossing> CrossingOf(const LayerMixing& layer) {
  const MixingMatrix* matrix = layer.Find("P_l·P_w");
  if (matrix == nullptr) matrix = FirstOf(layer);
  if (matrix == nullptr || !matrix->analysis.off_diagonal_share) return std::nullopt;
  return Crossing{*matrix->analysis.off_diagonal_share, ShareByChance(matrix->analysis.rows, matrix->analysis.columns)};
}

std::optional<Crossing> MeanCrossing(const std::vector<LayerMixing>& layers) {
  Crossing sum = {0, 0};
  int64_t count = 0;
  for (const LayerMixing& layer : layers) {
    if (const std::optional<Crossing> one = CrossingOf(layer)) {
      sum.share += one->share;
      sum.by_chance += one->by_chance;
      ++count;
    }
  }
  if (count == 0) return std::nullopt;
  return Crossing{sum.share / static_cast<double>(count), sum.by_chance / static_cast<double>(count)};
}

std::optional<MixedHead> MostMixedHead(const std::vector<LayerMixing>& layers) {
  std::optional<size_t> most_mixed;
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::optional<Crossing> one = CrossingOf(layers[i]);
    if (one && (!most_mixed || one->share > CrossingOf(layers[*most_mixed])->share)) most_mixed = i;
  }
  if (!most_mixed) return std::nullopt;
  const MixingMatrix& matrix = *FirstOf(layers[*most_mixed]);
  const int64_t rows = matrix.values.size(0), columns = matrix.values.size(1);
  if (rows < 2) return std::nullopt;
  const double* const a = matrix.values.data<double>();
  std::optional<MixedHead> found;
  double largest_share = -1;
  for (int64_t j = 0; j < columns; ++j) {
    double squares = 0;
    int64_t heard = j == 0 ? 1 : 0;
    for (int64_t i = 0; i < rows; ++i) {
      const double x = a[i * columns + j];
      squares += x * x;
      if (i != j && std::abs(x) > std::abs(a[heard * columns + j])) heard = i;
    }
    const double own = j < rows ? a[j * columns + j] : 0;
    const double share = squares > 0 ? 1 - own * own / squares : 0;
    if (!(share > largest_share)) continue;
    largest_share = share;
    found = {*most_mixed, matrix.name, j, own, heard, a[heard * columns + j]};
  }
  return found;
}

}  // namespace crosstalk
