// The workspace of the forward pass: what a thread needs for a block of queries.
#pragma once

#include <algorithm>
#include <cstdint>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/plan.h"

namespace crosstalk::kernels {

// One thread's workspace for a block of queries; [tile] is that of the block.
struct ForwardScratch {
  ForwardScratch(const AttentionPlan& plan, Arena& arena) {
    const AttentionShape& s = plan.shape;
    const bool pairs = plan.terms > 1;
    const int64_t kept = plan.keep_rows ? plan.chunks * plan.tiles : 1;
    Q = arena.Lanes(plan.h_k * plan.block * plan.Lanes(s.d_k));
    J = arena.Floats(s.MixesLogits() ? plan.TileFloats(plan.h_k) : 0);
    W = arena.Lanes((pairs ? plan.HeadPairs(plan.h) : plan.TileFloats(plan.h)) * kept);
    if (pairs) L = arena.Floats(plan.TileFloats(plan.h));
    if (pairs) U_pairs = arena.Lanes(plan.HalfTile(plan.h_v)).Of<Pair>();
    U = arena.Floats(s.MixesWeights() ? plan.TileFloats(plan.h_v) : 0);
    dropout = arena.Floats(plan.TileFloats(plan.h_v));
    O = arena.Floats(plan.h_v * plan.block * plan.d_v_padded);
    row_max = arena.Floats(plan.h * plan.block);
    inv_row_sum = arena.Floats(plan.h * plan.block);
    sums = arena.Floats(plan.h * plan.block * kPartialSums);
    for (const MixingSide side : kMixingSides) {
      // Of the weights each query's matrix is normalised.
      const bool packs = side == kLogits ? plan.mixings[side].PacksEachTile() : s.MixesWeights();
      mixing[side] = arena.Lanes(packs ? plan.block * plan.MixingLanes(side) * plan.mixings[side].out : 0);
    }
    matrix = arena.Floats(std::max(plan.mixings[kLogits].size(), plan.mixings[kWeights].size()));
  }
  Lanes Q;                       // [tile][h_k], see PackQueries
  Lanes W;                       // tiles, [chunk][tile] if rows are kept; in bfloat16 in pairs of heads
  float *J, *U, *dropout;        // tiles
  float* L = nullptr;            // in bfloat16: a tile that becomes W
  Pair* U_pairs = nullptr;       // in bfloat16: a tile in pairs of positions
  float* O;                      // [tile][h_v][rows][d_v_padded]
  float *row_max, *inv_row_sum;  // [tile][h][rows]
  float* sums;                   // [tile][h][rows][kPartialSums]
  Lanes mixing[2];               // [tile][rows], packed; by MixingSide
  float* matrix;
};

}  // namespace crosstalk::kernels
