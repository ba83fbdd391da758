// How much of what the heads of a model say crosses to other heads, and which head listens most: the opening of a
// report. By the static head projections alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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

// Column `head` of a layer's P_l[h_k, h], or where there is none of its P_w[h, h_v].
struct MixedHead {
  size_t layer;        // its place among the layers
  std::string matrix;  // "P_l" or "P_w"
  int64_t head;
  double own;     // the entry of the head's own row; 0 where it has none
  int64_t heard;  // the row with the largest |entry| but its own
  double other;   // that entry
};
// In the layer of the largest share, the column whose squares are most off its own row. None where no two heads mix.
std::optional<MixedHead> MostMixedHead(const std::vector<LayerMixing>& layers);

}  // namespace crosstalk
