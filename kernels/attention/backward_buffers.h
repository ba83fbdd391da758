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
      : P_l(s.P_l && out.P_l.data != nullptr),
        P_w(s.P_w && out.P_w.data != nullptr),
        R_Ml(s.R_Ml && out.R_Ml.data != nullptr),
        R_Mw(s.R_Mw && out.R_Mw.data != nullptr),
        bias(s.bias == AttentionBias::kDense && out.bias.data != nullptr),
        distances(s.bias == AttentionBias::kRelativePosition && out.bias_table.data != nullptr) {}
  // All that there can be.
  explicit WantedGradients(const AttentionShape& s)
      : P_l(s.P_l),
        P_w(s.P_w),
        R_Ml(s.R_Ml),
        R_Mw(s.R_Mw),
        bias(s.bias == AttentionBias::kDense),
        distances(s.bias == AttentionBias::kRelativePosition) {}
  bool P_l, P_w, R_Ml, R_Mw, bias, distances;
};

// Sums over queries.
struct BackwardSums {
  BackwardSums(const AttentionPlan& plan, const WantedGradients& wanted, Arena& arena) {
    const AttentionShape& s = plan.shape;
    const int64_t tasks = s.b * plan.groups * plan.blocks, chunks = s.b * plan.memory_groups * plan.chunks;
    K = arena.Floats(chunks * plan.h_k * s.d_k * kChunk);
    V = arena.Floats(chunks * plan.h_v * s.d_v * kChunk);
    if (wanted.R_Ml) R_Ml = arena.Floats(chunks * s.h_k * s.h * kChunk);
    if (wanted.R_Mw) R_Mw = arena.Floats(chunks * s.h * s.h_v * kChunk);
    if (wanted.P_l) P_l = arena.Floats(tasks * s.h_k * s.h);
    if (wanted.P_w) P_w = arena.Floats(tasks * s.h * s.h_v);
  }

  // Of a chunk of memory; all tasks that share it add to them, in order. Groups are memory_groups.
  float* K = nullptr;     // [b][group][chunk][h_k][d_k][kChunk]
  float* V = nullptr;     // [b][group][chunk][h_v][d_v][kChunk]
  float* R_Ml = nullptr;  // [b][chunk][h_k][h][kChunk]
  float* R_Mw = nullptr;  // [b][chunk][h][h_v][kChunk]
  // Each task's own, summed in order at the end.
  float* P_l = nullptr;  // [task][h_k][h]
  float* P_w = nullptr;  // [task][h][h_v]
};

// The order in which the tasks (b, group, block) begin: that of their numbers, but where all heads share K and V. There
// a batch row's tasks all add to the same sums, one after the other; as many rows as there are threads take turns, so
// that hardly one waits for another. As a row's own order stays, no bit depends on it.
class TaskOrder {
 public:
  TaskOrder(const AttentionPlan& plan, const WantedGradients& wanted, int threads)
      : rows_(plan.shape.b), length_(plan.groups * plan.blocks) {
    // The gradient of a bias is added up row after row.
    const bool in_turns = plan.memory_groups < plan.groups && !wanted.distances && !wanted.bias;
    abreast_ = in_turns ? std::min<int64_t>(threads, rows_) : 1;
  }
  // The number of the task that begins i-th.
  int64_t Task(int64_t i) const {
    const int64_t first_row = i / (abreast_ * length_) * abreast_, among = i % (abreast_ * length_);
    const int64_t abreast = std::min(abreast_, rows_ - first_row);
    return (first_row + among % abreast) * length_ + among / abreast;
  }

 private:
  int64_t rows_, length_, abreast_ = 1;
};

struct BackwardScratch {
  BackwardScratch(const AttentionPlan& plan, const WantedGradients& wanted, Arena& arena) {
    const AttentionShape& s = plan.shape;
    const int64_t kept = plan.tiles * (plan.keep_rows ? plan.chunks : 1);
    const bool by_query = s.R_Xl || s.R_Xw;
    const bool pairs = plan.terms > 1;
    Q = arena.Floats(plan.h_k * plan.block * plan.Lanes(s.d_k));
    Q_rows = arena.Floats(plan.h_k * plan.Lanes(plan.block) * s.d_k);
    dO = arena.Floats(plan.h_v * plan.block * plan.Lanes(s.d_v));
    dO_rows = arena.Floats(plan.h_v * plan.Lanes(plan.block) * s.d_v);
    dQ = arena.Floats(plan.h_k * plan.block * plan.d_k_padded);
    row_max = arena.Floats(plan.h * plan.block);
    inv_row_sum = arena.Floats(plan.h * plan.block);
    D = arena.Floats(plan.h * plan.block);
    D_sums = arena.Floats(plan.h * plan.block * kPartialSums);
    const bool row_pairs = pairs && s.MixesWeights();
    J = arena.Floats(!s.MixesLogits() ? 0 : (pairs ? plan.HalfTile(plan.h_k) : plan.TileFloats(plan.h_k)) * kept);
    W = arena.Floats((row_pairs ? plan.HeadPairs(plan.h) : plan.TileFloats(plan.h)) * kept);
    dW = arena.Floats((row_pairs ? plan.HeadPairs(plan.h) : plan.TileFloats(plan.h)) * kept);
    U = arena.Floats((pairs ? plan.HalfTile(plan.h_v) : plan.TileFloats(plan.h_v)) * plan.tiles);
    if (pairs) {
      J_tile = arena.Floats(s.MixesLogits() ? plan.TileFloats(plan.h_k) : 0);
      L_tile = arena.Floats(row_pairs ? plan.TileFloats(plan.h) : 0);
      dW_tile = arena.Floats(row_pairs ? plan.TileFloats(plan.h) : 0);
      U_tile = arena.Floats(plan.TileFloats(plan.h_v));
      head_pairs = arena.Floats(plan.HeadPairs(std::max(plan.h, plan.h_v)));
      first_pairs = arena.Floats(plan.HalfTile(std::max(plan.h_k, plan.h)));
      second_pairs = arena.Floats(plan.HalfTile(plan.h));
    }
    dU = arena.Floats(row_pairs ? plan.HalfTile(plan.h_v) : s.MixesWeights() ? plan.TileFloats(plan.h_v) : 0);
    dJ = arena.Floats(pairs             ? plan.HalfTile(plan.h_k) * plan.tiles
                      : s.MixesLogits() ? plan.TileFloats(plan.h_k) * plan.tiles
                                        : 0);
    dropout = arena.Floats(plan.TileFloats(plan.h_v));
    if (wanted.distances) distances = arena.Floats(plan.h * plan.BlockDistances());
    if (wanted.distances) buckets = arena.Floats(plan.h * s.buckets);
    if (wanted.P_l) P_l = arena.Floats(s.h_k * s.h * kPartialSums);
    if (wanted.P_w) P_w = arena.Floats(s.h * s.h_v * kPartialSums);
    if (s.R_Xl) {
      logits = arena.Floats(plan.block * s.h_k * s.h);
      logits_back = arena.Floats(plan.block * plan.Lanes(s.h) * s.h_k);
      R_Xl = arena.Floats(plan.block * s.h_k * s.h * kPartialSums);
    }
    if (s.R_Xw || (pairs && s.P_w)) weights = arena.Floats(plan.block * plan.Lanes(s.h) * s.h_v);
    if (s.R_Xw) {
      weights_back = arena.Floats(plan.block * plan.Lanes(s.h_v) * s.h);
      R_Xw = arena.Floats(plan.block * s.h * s.h_v * kPartialSums);
    }
    if (by_query || pairs) matrix = arena.Floats(std::max(s.h_k * s.h, s.h * s.h_v));
    if (by_query) matrix_transposed = arena.Floats(std::max(s.h_k * s.h, s.h * s.h_v));
  }

  float *Q, *dO;                     // [tile][heads], see PackQueries
  float *Q_rows, *dO_rows;           // [heads][block][size]; in bfloat16 pairs of queries, [block / 2]
  float* dQ;                         // [tile][h_k][rows][d_k_padded]
  float *row_max, *inv_row_sum, *D;  // [tile][h][rows]
  float* D_sums;                     // [tile][h][rows][kPartialSums]
  // [tile] tiles; [chunk][tile] if rows are kept. In bfloat16 J is in pairs of positions, and where weights are mixed
  // W, not normalised, and dW are in pairs of heads.
  float *J, *W, *dW;
  float *U, *dJ;  // [tile] tiles; in bfloat16 in pairs of queries
  // One tile of each in float, and what pairs of heads, and of positions or queries, products of it read; in bfloat16.
  float *J_tile = nullptr, *L_tile = nullptr, *dW_tile = nullptr, *U_tile = nullptr;
  float *head_pairs = nullptr, *first_pairs = nullptr, *second_pairs = nullptr;
  float *dU, *dropout;         // tiles; in bfloat16, where weights are mixed, dU in pairs of positions
  float* distances = nullptr;  // [h][BlockDistances()]
  float* buckets = nullptr;    // [h][buckets]
  float* P_l = nullptr;        // [h_k][h][kPartialSums]
  float* P_w = nullptr;        // [h][h_v][kPartialSums]
  float *logits = nullptr, *logits_back = nullptr, *weights = nullptr, *weights_back = nullptr;  // [tile][rows]
  float* R_Xl = nullptr;  // [block][h_k][h][kPartialSums]
  float* R_Xw = nullptr;  // [block][h][h_v][kPartialSums]
  float *matrix = nullptr, *matrix_transposed = nullptr;
};

}  // namespace crosstalk::kernels
