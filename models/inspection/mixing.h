// How the heads of a model are mixed, layer by layer: the static head projections P_l[h_k, h] and P_w[h, h_v] as
// matrices with what linear algebra says of them (paper 7.4), the dynamic ones by what they generate, the λ of
// differential attention and the filters of Multi-Token Attention.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/record.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// A static head projection of a model.
struct HeadProjectionTensor {
  std::string layer;  // the dotted path of the attention layer: "encoder.block_0.self_attention"
  std::string name;   // "P_l" or "P_w"
  Tensor values;      // as it mixes: with zeros between groups of heads (AttentionConfig::mixing_group)
};
std::vector<HeadProjectionTensor> StaticHeadProjections(const Module& model);

// What a matrix a[rows, columns] does to the heads that it mixes. The numbers that LAPACK computes are absent if
// there is none, and of a matrix that is not finite; a determinant and eigenvalues have only square ones.
struct MatrixAnalysis {
  int64_t rows = 0, columns = 0;
  double root_mean_square = 0;  // of the elements
  std::optional<double>
      off_diagonal_share;             // 1 - Σ_i a[i, i]² / Σ_ij a[i, j]²: 0 heads do not talk; none where all is 0
  std::optional<double> determinant;  // |det a|; 0 or infinity where a double cannot hold it
  std::optional<double> log_determinant;      // log |det a|
  std::optional<double> smallest_eigenvalue;  // the smallest |λ|
  std::vector<double> singular_values;        // descending
  bool left_out = false;                      // LAPACK was not asked, for it would take long

  static FieldTable<MatrixAnalysis> Fields();
};
MatrixAnalysis Analyse(const Tensor& matrix);
// Why Analyse gives no determinant, eigenvalue and singular values on this machine, or "".
std::string AnalysisUnavailable();

// One matrix of a layer: "P_l", "P_w" or "P_l·P_w".
struct MixingMatrix {
  std::string name;
  Tensor values;  // float64[rows, columns]
  MatrixAnalysis analysis;

  static FieldTable<MixingMatrix> Fields();
};

// A dynamic projection of a layer: a matrix for each query or memory position, which P_Xl or a low-rank generator
// (DynamicForm) makes of what stands there.
struct DynamicMixing {
  std::string name;       // "Xl" of R_Xl
  std::string beside;     // the static matrix that it is added to: "P_l"; "I" where the generator adds to J or W itself
  double parameters = 0;  // root mean square of the elements of P_Xl, or of what the generator has for it
  // Over all positions that were measured (MeasureDynamicMixing); else none.
  std::optional<double> generated = {};  // root mean square of R
  Tensor mean = {};                      // R's mean, float64[rows, columns]
  std::optional<double> spread = {};     // √(mean of (R - R's mean)²): 0 where no token has a matrix of its own

  static FieldTable<DynamicMixing> Fields();
};

// Differential attention: U_g = W_2g - λ_g·W_2g+1.
struct DifferentialMixing {
  bool of_tokens = false;  // of the second version: λ is a function of the query
  // One for all heads; of tokens one for each value head, its mean over what was measured, and else none.
  std::vector<double> lambda = {};
  std::vector<double> spread = {};  // of tokens: λ's standard deviation over positions, for each value head

  static FieldTable<DifferentialMixing> Fields();
};

// A convolution over queries and keys, which has a filter for each head.
struct HeadFilter {
  std::string name;     // "conv_l" or "conv_w"
  Tensor values;        // float64[c_q, c_k, heads]; the last row is the query's own
  int64_t own_key = 0;  // the column of the key's own
  // For each head 1 - θ²/Σθ², with θ at the own query and key: 0 at the start, when nothing else is read.
  std::vector<double> elsewhere;

  static FieldTable<HeadFilter> Fields();
};

struct LayerMixing {
  std::string layer;                   // its dotted path
  std::vector<MixingMatrix> matrices;  // those of P_l and P_w that are there, and where both are, P_l·P_w
  std::vector<DynamicMixing> dynamic;
  std::optional<DifferentialMixing> differential;
  std::vector<HeadFilter> filters;

  const MixingMatrix* Find(const std::string& name) const;  // null: none
  // Whether a part of it is a function of tokens, which only a forward pass shows.
  bool DependsOnTokens() const { return !dynamic.empty() || (differential && differential->of_tokens); }

  static FieldTable<LayerMixing> Fields();
};

// Every attention layer whose heads are mixed, in the order of the parameters; a layer that several places share
// stands there once. LAPACK's time grows with the cube of the heads: it is asked of the first layers, as many as have
// cubes of no more than `most_cubes` together.
inline constexpr int64_t kAllCubes = std::numeric_limits<int64_t>::max();
std::vector<LayerMixing> MixingOf(const Module& model, int64_t most_cubes = kAllCubes);

// Runs `forward` on the model that `layers` are of, and fills in what depends on tokens, over all that it applies.
// `done` tells it when each layer that has such a part has been applied.
void MeasureDynamicMixing(const std::function<void(const StopRequest& done)>& forward,
                          std::vector<LayerMixing>* layers);

// How much of what the heads of a model say crosses to other heads, and which head listens most: the opening of a
// report. By the static head projections alone.

// The off-diagonal share of a matrix whose entries all have one size, and of random matrices on average:
// 1 - 1/max(rows, columns).
double ShareByChance(int64_t rows, int64_t columns);

struct Crossing {
  double share;      // MatrixAnalysis::off_diagonal_share of P_l·P_w, or of the one matrix that a layer has
  double by_chance;  // ShareByChance of that matrix
};
// None of a layer without a static matrix, or with one that is 0 or not finite.
std::optional<Crossing> CrossingOf(const LayerMixing& layer);
// The mean over the layers that have one; none where no layer does.
std::optional<Crossing> MeanCrossing(const std::vector<LayerMixing>& layers);

// Column `head` of a layer's P_l[h_k, h], or if there is none of its P_w[h, h_v].
struct MixedHead {
  size_t layer;        // its place among the layers
  std::string matrix;  // "P_l" or "P_w"
  int64_t head;
  double own;     // the entry of the head's own row; 0 if it has none
  int64_t heard;  // the row with the largest |entry| but its own
  double other;   // that entry
};
// In the layer of the largest share, the column whose squares are most off its own row. None where no two heads mix.
std::optional<MixedHead> MostMixedHead(const std::vector<LayerMixing>& layers);

}  // namespace crosstalk
#pragma GCC visibility pop
