#include "crosstalk/models/inspection/crossing.h"

#include <algorithm>
#include <cmath>

namespace crosstalk {
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
