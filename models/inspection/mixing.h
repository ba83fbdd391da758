// The head projections of a model, layer by layer: the static ones P_l[h_k, h] and P_w[h, h_v] as matrices with what
// linear algebra says of them (paper 7.4), and the size of the dynamic ones beside them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/observer.h"
#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// A static head projection of a model.
struct HeadProjectionTensor {
  std::string layer;  // the dotted path of the attention layer: "encoder.block_0.self_attention"
  std::string name;   // "P_l" or "P_w"
  Tensor values;      // the parameter's own
};
std::vector<HeadProjectionTensor> StaticHeadProjections(const Module& model);

// What a matrix a[rows, columns] does to the heads that it mixes. The numbers that LAPACK computes are absent where
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
};
MatrixAnalysis Analyse(const Tensor& matrix);
// Why Analyse gives no determinant, eigenvalue and singular values on this machine, or "".
std::string AnalysisUnavailable();

// One matrix of a layer: "P_l", "P_w" or "P_l·P_w".
struct MixingMatrix {
  std::string name;
  Tensor values;  // float64[rows, columns]
  MatrixAnalysis analysis;
};

// A dynamic projection of a layer.
struct DynamicMixing {
  std::string name;                      // "Xl" of P_Xl
  std::string beside;                    // the static projection between the same heads: "P_l"
  double parameters = 0;                 // root mean square of the elements of P_Xl
  std::optional<double> generated = {};  // of R_Xl = X·P_Xl, over what was measured: MeasureDynamicMixing
};

struct LayerMixing {
  std::string layer;                   // its dotted path
  std::vector<MixingMatrix> matrices;  // those of P_l and P_w that are there, and where both are, P_l·P_w
  std::vector<DynamicMixing> dynamic;

  const MixingMatrix* Find(const std::string& name) const;  // null: none
};

// Every attention layer that has a head projection, in the order of the parameters; a layer that several places share
// stands there once. LAPACK's time grows with the cube of the heads: it is asked of the first layers, as many as have
// cubes of no more than `most_cubes` together.
inline constexpr int64_t kAllCubes = std::numeric_limits<int64_t>::max();
std::vector<LayerMixing> MixingOf(const Module& model, int64_t most_cubes = kAllCubes);

// Runs `forward` on the model that `layers` are of, and fills in the sizes of the dynamic projections that it
// generates, over all that it applies. `done` tells it when each layer that has one has been applied.
void MeasureDynamicMixing(const std::function<void(const StopRequest& done)>& forward,
                          std::vector<LayerMixing>* layers);

// {"layer", "matrices": [{"name", "rows", …}], "dynamic": [{"name", "parameters", "generated"}]} of each.
Json ToJson(const std::vector<LayerMixing>& layers);

}  // namespace crosstalk
