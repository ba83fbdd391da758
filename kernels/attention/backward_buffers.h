// The workspace of the backward pass: what its tasks sum up, and what a thread needs for one. A task is one block of
// queries of one batch row and group.
#pragma once

#include <algorithm>
#include <cstdint>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/plan.h"

namespace crosstalk::kernels {

// Which gradients a call wants beside those of Q, K and V.
struct WantedGradients {
  WantedGradients(const AttentionShape& s, const AttentionGradients& out)
      : P_l(s.P_l && out.dP_l != nullptr),
        P_w(s.P_w && out.dP_w != nullptr),
        R_Ml(s.R_Ml && out.dR_Ml != nullptr),
        R_Mw(s.R_Mw && out.dR_Mw != nullptr),
        bias(s.bias == AttentionBias::kDense && out.dbias != nullptr),
        distances(s.bias == AttentionBias::kByDistance && out.dbias_table != nullptr) {}
  // All that there can be.
  explicit WantedGradients(const AttentionShape& s)
      : P_l(s.P_l),
        P_w(s.P_w),
        R_Ml(s.R_Ml),
        R_Mw(s.R_Mw),
        bias(s.bias == AttentionBias::kDense),
        distances(s.bias == AttentionBias::kByDistance) {}
  bool P_l, P_w, R_Ml, R_Mw, bias, distances;
};

// Sums over queries.
struct BackwardSums {
  BackwardSums(const AttentionPlan& plan, const WantedGradients& wanted, Carver& carver) {
    const AttentionShape& s = plan.shape;
    const int64_t tasks = s.b * plan.groups * plan.blocks, chunks = s.b * plan.memory_groups * plan.chunks;
    K = carver.Floats(chunks * plan.h_k * s.d_k * kChunk);
    V = carver.Floats(chunks * plan.h_v * s.d_v * kChunk);
    if (wanted.R_Ml) R_Ml = carver.Floats(chunks * s.h_k * s.h * kChunk);
    if (wanted.R_Mw) R_Mw = carver.Floats(chunks * s.h * s.h_v * kChunk);
    if (wanted.P_l) P_l = carver.Floats(tasks * s.h_k * s.h);
    if (wanted.P_w) P_w = carver.Floats(tasks * s.h * s.h_v);
  }

  // Of a chunk of memory, to which all tasks that share it add in turn; groups are memory_groups.
  float* K = nullptr;     // [b][group][chunk][h_k][d_k][kChunk]
  float* V = nullptr;     // [b][group][chunk][h_v][d_v][kChunk]
  float* R_Ml = nullptr;  // [b][chunk][h_k][h][kChunk]
  float* R_Mw = nullptr;  // [b][chunk][h][h_v][kChunk]
  // Each task's own, summed in order at the end.
  float* P_l = nullptr;  // [task][h_k][h]
  float* P_w = nullptr;  // [task][h][h_v]
};

struct BackwardScratch {
  BackwardScratch(const AttentionPlan& plan, const WantedGradients& wanted, Carver& carver) {
    const AttentionShape& s = plan.shape;
    const int64_t kept = plan.tiles * (plan.keep_rows ? plan.chunks : 1);
    const bool by_query = s.R_Xl || s.R_Xw;
    Q = carver.Floats(plan.h_k * plan.block * s.d_k);
    Q_rows = carver.Floats(plan.h_k * plan.block * s.d_k);
    dO = carver.Floats(plan.h_v * plan.block * s.d_v);
    dO_rows = carver.Floats(plan.h_v * plan.block * s.d_v);
    dQ = carver.Floats(plan.h_k * plan.block * plan.d_k_padded);
    references = carver.Floats(plan.h * plan.block);
    reciprocals = carver.Floats(plan.h * plan.block);
    D = carver.Floats(plan.h * plan.block);
    D_sums = carver.Floats(plan.h * plan.block * kMaxLanes);
    J = carver.Floats(s.MixesLogits() ? plan.TileFloats(plan.h_k) * kept : 0);
    W = carver.Floats(plan.TileFloats(plan.h) * kept);
    dW = carver.Floats(plan.TileFloats(plan.h) * kept);
    U = carver.Floats(plan.TileFloats(plan.h_v) * plan.tiles);
    dU = carver.Floats(s.MixesWeights() ? plan.TileFloats(plan.h_v) : 0);
    dJ = carver.Floats(s.MixesLogits() ? plan.TileFloats(plan.h_k) * plan.tiles : 0);
    dropout = carver.Floats(plan.TileFloats(plan.h_v));
    if (wanted.distances) distances = carver.Floats(plan.h * plan.BlockDistances());
    if (wanted.distances) buckets = carver.Floats(plan.h * s.buckets);
    if (wanted.P_l) P_l = carver.Floats(s.h_k * s.h * kMaxLanes);
    if (wanted.P_w) P_w = carver.Floats(s.h * s.h_v * kMaxLanes);
    if (s.R_Xl) {
      logits = carver.Floats(plan.block * s.h_k * s.h);
      logits_back = carver.Floats(plan.block * s.h_k * s.h);
      R_Xl = carver.Floats(plan.block * s.h_k * s.h * kMaxLanes);
    }
    if (s.R_Xw) {
      weights = carver.Floats(plan.block * s.h * s.h_v);
      weights_back = carver.Floats(plan.block * s.h * s.h_v);
      R_Xw = carver.Floats(plan.block * s.h * s.h_v * kMaxLanes);
    }
    if (by_query) matrix = carver.Floats(std::max(s.h_k * s.h, s.h * s.h_v));
    if (by_query) matrix_transposed = carver.Floats(std::max(s.h_k * s.h, s.h * s.h_v));
  }

  float *Q, *dO;                        // [tile][heads], see PackQueries
  float *Q_rows, *dO_rows;              // [heads][block][size]
  float* dQ;                            // [tile][h_k][rows][d_k_padded]
  float *references, *reciprocals, *D;  // [tile][h][rows]
  float* D_sums;                        // [tile][h][rows][lanes]
  float *J, *W, *dW;                    // [tile] tiles; [chunk][tile] if rows are kept
  float *U, *dJ;                        // [tile] tiles
  float *dU, *dropout;                  // tiles
  float* distances = nullptr;           // [h][BlockDistances()]
  float* buckets = nullptr;             // [h][buckets]
  float* P_l = nullptr;                 // [h_k][h][lanes]
  float* P_w = nullptr;                 // [h][h_v][lanes]
  float *logits = nullptr, *logits_back = nullptr, *weights = nullptr, *weights_back = nullptr;  // [tile][rows]
  float* R_Xl = nullptr;  // [block][h_k][h][lanes]
  float* R_Xw = nullptr;  // [block][h][h_v][lanes]
  float *matrix = nullptr, *matrix_transposed = nullptr;
};

}  // namespace crosstalk::kernels
