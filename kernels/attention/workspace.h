// The workspaces of the fused attention: what a thread needs for one task, forward, backward and with convolutions, and
// what the tasks of the backward pass sum up.
#pragma once

#include <algorithm>
#include <cstdint>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/heads.h"

namespace crosstalk::kernels {

// The workspace of the forward pass: what a thread needs for a block of queries.

// One thread's workspace for a block of queries; [tile] is that of the block.
struct ForwardScratch {
  ForwardScratch(const AttentionPlan& plan, Arena& arena) {
    const AttentionShape& s = plan.shape;
    const bool pairs = plan.terms > 1;
    const int64_t kept = plan.keep_rows ? plan.kept_chunks * plan.tiles : 1;
    Q = arena.Floats(plan.h_k * plan.block * plan.Lanes(s.d_k));
    J = arena.Floats(s.MixesLogits() ? plan.TileFloats(plan.h_k) : 0);
    W = arena.Floats(plan.HeadLanes(plan.h) * kept);
    if (pairs) L = arena.Floats(plan.TileFloats(plan.h));
    if (pairs) U_pairs = arena.Pairs<PositionPair>(plan.PositionLanes(plan.h_v));
    U = arena.Floats(s.MixesWeights() ? plan.TileFloats(plan.h_v) : 0);
    dropout = arena.Floats(plan.TileFloats(plan.h_v));
    O = arena.Floats(plan.h_v * plan.block * plan.d_v_padded);
    row_max = arena.Floats(plan.h * plan.block);
    inv_row_sum = arena.Floats(plan.h * plan.block);
    sums = arena.Floats(plan.h * plan.block * kPartialSums);
    for (const MixingSide side : kMixingSides) {
      // Each query's matrix of the mixing of weights is normalised.
      const bool packs = side == kLogits ? plan.mixings[side].PacksEachTile() : s.MixesWeights();
      mixing[side] = arena.Floats(packs ? plan.block * plan.MixingLanes(side) * plan.mixings[side].out : 0);
    }
    matrix = arena.Floats(std::max(plan.mixings[kLogits].size(), plan.mixings[kWeights].size()));
  }
  Lanes<SizePair> Q;       // [tile][h_k], see PackQueries
  Lanes<HeadPair> W;       // tiles, [chunk][tile] if rows are kept
  float *J, *U, *dropout;  // tiles
  float* L = nullptr;      // in bfloat16: a tile that becomes W
  PositionPair* U_pairs = nullptr;
  float* O;                      // [tile][h_v][rows][d_v_padded]
  float *row_max, *inv_row_sum;  // [tile][h][rows]
  float* sums;                   // [tile][h][rows][kPartialSums]
  Lanes<HeadPair> mixing[2];     // [tile][rows], packed; by MixingSide
  float* matrix;
};

// The workspace of the backward pass: what its tasks sum up, and what a thread needs for one. A task is one block of
// queries of one batch row and group.

// Which gradients a call wants beside those of Q, K and V: those that `out` has, or all of the shape if it is null.
struct WantedGradients {
  explicit WantedGradients(const AttentionShape& s, const AttentionGradients* out = nullptr) {
    const auto wants = [&](AttentionOperand operand) { return out == nullptr || (*out)[operand].data != nullptr; };
    for (const MixingSide side : kMixingSides) {
      for (int kind = 0; kind < kMixingKinds; ++kind) {
        const MixingRow& mixing = kMixings[side][kind];
        mixings[side][kind] = s.*mixing.present && wants(mixing.operand);
      }
      filters[side] = FilterShape(s, side).present() && wants(kFilters[side]);
    }
    bias = s.bias == AttentionBias::kDense && wants(AttentionOperand::kBias);
    distances = s.bias == AttentionBias::kRelativePosition && wants(AttentionOperand::kBiasTable);
  }
  bool mixings[2][kMixingKinds];
  bool filters[2];  // by MixingSide
  bool bias, distances;
};

// Sums over queries.
struct BackwardSums {
  BackwardSums(const AttentionPlan& plan, const WantedGradients& wanted, int64_t places, Arena& arena) {
    const AttentionShape& s = plan.shape;
    const int64_t tasks = s.b * plan.groups * plan.blocks;
    K = arena.Floats(places * Stride(plan, plan.keys.heads * s.d_k));
    V = arena.Floats(places * Stride(plan, plan.values.heads * s.d_v));
    for (const MixingSide side : kMixingSides) {
      for (const MixingForm form : kMixingForms) {
        if (!wanted.mixings[side][kByPosition[form]]) continue;
        R_M[side][form] = arena.Floats(places * Stride(plan, plan.mixings[side].size(form)));
      }
      if (wanted.mixings[side][kStatic]) P[side] = arena.Floats(tasks * plan.mixings[side].size());
      if (wanted.filters[side]) {
        taps[side] = arena.Floats(tasks * plan.FilterHeads(side) * plan.filters[side].taps());
      }
    }
    if (wanted.distances) buckets = arena.Floats(tasks * plan.h * s.buckets);
  }

  // The same, with K, V and R_M from a place on: a batch row's alone.
  BackwardSums From(const AttentionPlan& plan, int64_t place) const {
    BackwardSums from = *this;
    from.K += place * Stride(plan, plan.keys.heads * plan.shape.d_k);
    from.V += place * Stride(plan, plan.values.heads * plan.shape.d_v);
    for (const MixingSide side : kMixingSides) {
      for (const MixingForm form : kMixingForms) {
        if (from.R_M[side][form] != nullptr) {
          from.R_M[side][form] += place * Stride(plan, plan.mixings[side].size(form));
        }
      }
    }
    return from;
  }

  // All tasks that share a chunk of memory add to its sums, in order. Groups and g_k, g_v are those of MemoryHeads.
  float* K = nullptr;  // [place][group][chunk][g_k][d_k][kChunk]
  float* V = nullptr;  // [place][group][chunk][g_v][d_v][kChunk]
  // By MixingSide and MixingForm: [place][chunk][in][out][kChunk], and of factors [place][chunk][5][h][kChunk].
  float* R_M[2][2] = {};
  // Each task's own, summed in order at the end.
  float* P[2] = {};          // [task][in][out]
  float* taps[2] = {};       // [task][head][c_q][c_k]
  float* buckets = nullptr;  // [task][h][buckets]

 private:
  // From the sums of a place to those of the next, `size` floats for each position.
  static int64_t Stride(const AttentionPlan& plan, int64_t size) { return PlaceStride(plan.m_padded() * size); }
};

// The order in which the tasks (b, group, block) begin. A batch row's tasks add to the same sums, one after the other;
// as that order stays, no bit depends on which rows are computed beside each other.
class TaskOrder {
 public:
  TaskOrder(const AttentionPlan& plan, const WantedGradients& wanted, int threads)
      : rows_(plan.shape.b), length_(plan.groups * plan.blocks) {
    if (wanted.bias) return;  // its gradient is added up row after row
    own_rows_ = OwnRows(rows_, threads);
    if (std::min(plan.keys.groups(), plan.values.groups()) < plan.groups)
      abreast_ = std::clamp<int64_t>(rows_ - own_rows_, 1, threads);
  }
  // The first batch rows, so many, are a thread's each from their first task to the last.
  int64_t own_rows() const { return own_rows_; }
  int64_t tasks_of_row() const { return length_; }
  // Those of the others, by their numbers, except where heads share K or V, so that each would wait for the one
  // before: there as many rows as there are threads take turns.
  int64_t other_tasks() const { return (rows_ - own_rows_) * length_; }
  // The number of the one that begins i-th.
  int64_t OtherTask(int64_t i) const {
    const int64_t first_row = own_rows_ + i / (abreast_ * length_) * abreast_, among = i % (abreast_ * length_);
    const int64_t abreast = std::min(abreast_, rows_ - first_row);
    return (first_row + among % abreast) * length_ + among / abreast;
  }

 private:
  int64_t rows_, length_, own_rows_ = 0, abreast_ = 1;
};

// Lanes of one tile of a block.
struct BackwardSizes {
  explicit BackwardSizes(const AttentionPlan& plan)
      : J(plan.PositionLanes(plan.h_k)),
        W(plan.shape.MixesWeights() ? plan.HeadLanes(plan.h) : plan.TileFloats(plan.h)),
        U(plan.PositionLanes(plan.h_v)) {}
  int64_t J, W, U;  // of J and dJ; W and dW; U and dU
};

struct BackwardScratch {
  BackwardScratch(const AttentionPlan& plan, const WantedGradients& wanted, Arena& arena) {
    const AttentionShape& s = plan.shape;
    const int64_t kept = plan.tiles * (plan.keep_rows ? plan.kept_chunks : 1);
    const bool by_tile = plan.mixings[kLogits].PacksEachTile() || plan.mixings[kWeights].PacksEachTile();
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
    const BackwardSizes sizes(plan);
    J = arena.Floats(s.MixesLogits() ? sizes.J * kept : 0);
    W = arena.Floats(sizes.W * kept);
    dW = arena.Floats(sizes.W * kept);
    U = arena.Floats(sizes.U * plan.tiles);
    if (pairs) {
      J_tile = arena.Floats(s.MixesLogits() ? plan.TileFloats(plan.h_k) : 0);
      L_tile = arena.Floats(row_pairs ? plan.TileFloats(plan.h) : 0);
      dW_tile = arena.Floats(row_pairs ? plan.TileFloats(plan.h) : 0);
      U_tile = arena.Floats(plan.TileFloats(plan.h_v));
      head_pairs = arena.Pairs<HeadPair>(plan.HeadLanes(std::max(plan.h, plan.h_v)));
      first_pairs = arena.Pairs<PositionPair>(plan.PositionLanes(std::max(plan.h_k, plan.h)));
      second_pairs = arena.Pairs<PositionPair>(plan.PositionLanes(plan.h));
    }
    dU = arena.Floats(s.MixesWeights() ? sizes.U : 0);
    dJ = arena.Floats(pairs || s.MixesLogits() ? sizes.J * plan.tiles : 0);
    dropout = arena.Floats(plan.TileFloats(plan.h_v));
    if (wanted.distances) distances = arena.Floats(plan.h * plan.BlockDistances());
    int64_t largest = 0;
    for (const MixingSide side : kMixingSides) {
      const SideShape& mixes = plan.mixings[side];
      largest = std::max(largest, mixes.size());
      if (wanted.mixings[side][kStatic]) P[side] = arena.Floats(mixes.size() * kPartialSums);
      // W is not normalised in pairs, the matrix is.
      const bool packs = mixes.PacksEachTile() || (pairs && side == kWeights && mixes.has[kStatic]);
      if (packs) mixing[side] = arena.Floats(plan.block * plan.MixingLanes(side) * mixes.out);
      if (mixes.PacksEachTile()) {
        mixing_back[side] = arena.Floats(plan.block * plan.Lanes(mixes.out) * mixes.in);
      }
      for (const MixingForm form : kMixingForms) {
        if (mixes.has[kByQuery[form]]) R_X[side][form] = arena.Floats(plan.block * mixes.size(form) * kPartialSums);
      }
    }
    if (by_tile || pairs) matrix = arena.Floats(largest);
    if (by_tile) matrix_transposed = arena.Floats(largest);
  }

  Lanes<SizePair> Q, dO;             // [tile][heads], see PackQueries
  Lanes<QueryPair> Q_rows, dO_rows;  // [heads][block][size]
  float* dQ;                         // [tile][h_k][rows][d_k_padded]
  float *row_max, *inv_row_sum, *D;  // [tile][h][rows]
  float* D_sums;                     // [tile][h][rows][kPartialSums]
  // [tile] tiles; [chunk][tile] if rows are kept. In bfloat16 W is pairs before it was normalised, and W, dW and dU are
  // floats unless weights are mixed.
  Lanes<PositionPair> J;
  Lanes<HeadPair> W, dW;
  Lanes<QueryPair> U, dJ;  // [tile] tiles
  // In bfloat16: one tile of each in float, and what products of it read.
  float *J_tile = nullptr, *L_tile = nullptr, *dW_tile = nullptr, *U_tile = nullptr;
  HeadPair* head_pairs = nullptr;
  PositionPair *first_pairs = nullptr, *second_pairs = nullptr;
  Lanes<PositionPair> dU;      // a tile
  float* dropout;              // a tile
  float* distances = nullptr;  // [h][BlockDistances()]
  // By MixingSide: the gradient of P, each query's packed mixing and its transpose, the gradient of R_X.
  float* P[2] = {};                           // [in][out][kPartialSums]; on tiles [in][out]
  Lanes<HeadPair> mixing[2], mixing_back[2];  // [tile][rows]
  float* R_X[2][2] = {};  // by MixingForm: [block][in][out][kPartialSums], and of factors [block][5][h][kPartialSums]
  float *matrix = nullptr, *matrix_transposed = nullptr;
};

// Sizes and workspace of attention with convolutions, whose task is a strip: `rows` queries of one batch row and group,
// by the whole rows of their memory. A convolution of c_q queries reads the c_q - 1 before its own, and its gradient
// those after; a strip computes them again, so that strips do not depend on each other.
//
//   forward    J of the rows [-(a_w + a_l), rows)     L, W [-a_w, rows)           U [0, rows)
//   backward   J [-(a_w + a_l), rows + a_l)           L, W [-a_w, rows + a_l)     U [0, rows)
//              dU [0, rows + a_l + a_w)               dW, dL [0, rows + a_l)      dJ [0, rows)
//
// with a_l = c_ql - 1 and a_w = c_qw - 1.

// A strip's buffers are S[head][row][pitch], with `margin` zeros before and after each row, which convolutions read.
struct StripSizes {
  StripSizes(const AttentionPlan& plan, AttentionPass pass)
      : before_l(plan.filters[kLogits].queries_before()),
        before_w(plan.filters[kWeights].queries_before()),
        W_rows(plan.rows + before_w + (pass == AttentionPass::kBackward ? before_l : 0)),
        dU_rows(plan.rows + before_l + before_w),
        dL_rows(plan.rows + before_l),
        margin(RoundUp<int64_t>(std::max(plan.filters[kLogits].c_k, plan.filters[kWeights].c_k), kMaxLanes)),
        pitch(plan.m_padded() + 2 * margin) {
    if (pitch * 4 % 1024 == 0) pitch += kMaxLanes;  // rows of a head in other sets of a cache
    // Convolutions write whole blocks of rows, and read as many, with what lies before them.
    const int64_t most = RoundUp(std::max({W_rows, dU_rows, dL_rows}), kConvolvedRows) + before_l + before_w;
    head_pitch = (most + kQueryGroup) * pitch + kMaxLanes;
  }
  int64_t Offset(int64_t head, int64_t row) const { return head * head_pitch + row * pitch + margin; }

  int64_t before_l, before_w;         // queries that convolutions read before their own
  int64_t W_rows, dU_rows, dL_rows;   // of L and W; of dU; of dW and dL
  int64_t margin, pitch, head_pitch;  // in floats
};

// One thread's workspace for a strip, forward and backward.
struct StripScratch {
  StripScratch(const AttentionPlan& plan, AttentionPass pass, Arena& arena) {
    const AttentionShape& s = plan.shape;
    const StripSizes sizes(plan, pass);
    const bool backward = pass == AttentionPass::kBackward;
    const int64_t most = std::max({plan.h_k, plan.h, plan.h_v});
    const auto buffer = [&](int64_t heads) { return arena.Floats(heads * sizes.head_pitch); };
    J = buffer(backward ? plan.h_k : 1);
    W = buffer(std::max(plan.h_k, plan.h));
    U = buffer(most);
    const int64_t Q_rows_padded = RoundUp<int64_t>(sizes.W_rows + sizes.before_l, kQueryGroup);
    const int64_t dO_rows_padded = RoundUp<int64_t>(sizes.dU_rows, kQueryGroup);
    Q = arena.Floats(std::max(Q_rows_padded * plan.Lanes(s.d_k), backward ? dO_rows_padded * plan.Lanes(s.d_v) : 0));
    row = arena.Floats(most * row_pitch(plan));
    mask = arena.Floats((plan.rows + 2 * (sizes.before_l + sizes.before_w)) * plan.m_padded());
    dropout = arena.Floats(kChunk);
    product = arena.Floats(plan.rows * std::max(plan.d_k_padded, plan.d_v_padded));
    if (plan.terms > 1) pairs = arena.Pairs<Pair>(plan.rows * plan.m_padded() / 2);
    if (!backward) return;
    if (s.P_l) C = buffer(plan.h_k);
    dY = buffer(most);
    dW = buffer(most);
    Q_rows = arena.Floats(plan.h_k * plan.Lanes(plan.rows) * s.d_k);
    dO_rows = arena.Floats(plan.h_v * plan.Lanes(plan.rows) * s.d_v);
    distances = arena.Floats(plan.h * plan.BlockDistances());
    for (const MixingSide side : kMixingSides) {
      P[side] = arena.Floats(plan.mixings[side].size() * kPartialSums);
      taps[side] = arena.Floats(plan.FilterHeads(side) * plan.filters[side].taps() * kFilterLanes);
    }
  }
  static int64_t row_pitch(const AttentionPlan& plan) { return plan.m_padded() + kMaxLanes; }

  float *J, *W, *U;                  // backward J of all heads, else of one. W first holds conv(J), U first conv(W)
  float* C = nullptr;                // conv(J), where P_l's gradient reads it
  float* dY = nullptr;               // the gradient of conv(W)
  float* dW = nullptr;               // first holds dU
  Lanes<SizePair> Q;                 // PackQueries of one head; also of dO
  Lanes<QueryPair> Q_rows, dO_rows;  // [heads][rows][size]
  float* row;                        // [head][row_pitch]: one query's row of all heads
  float* mask;                       // [row of J][m_padded]: 0 or kMaskedLogit, of an attention_mask and the padding
  float* dropout;                    // factors of a chunk
  float* product;                    // [rows][size], of one head: O or dQ
  Pair* pairs = nullptr;             // [rows][m / 2] of one head, pairs of positions; or of queries, of a chunk
  float* distances = nullptr;        // [h][BlockDistances()]
  float* P[2] = {};                  // by MixingSide, [in][out][kPartialSums]
  float* taps[2] = {};               // [head][c_q][c_k][kFilterLanes]
};

}  // namespace crosstalk::kernels
