// Sizes and workspace of attention with convolutions, whose task is a strip: `rows` queries of one batch row and group,
// by the whole rows of their memory. A convolution of c_q queries reads the c_q - 1 before its own, and its gradient
// those after; a strip computes them again, so that strips do not depend on each other.
//
//   forward    J of the rows [-(a_w + a_l), rows)     L, W [-a_w, rows)           U [0, rows)
//   backward   J [-(a_w + a_l), rows + a_l)           L, W [-a_w, rows + a_l)     U [0, rows)
//              dU [0, rows + a_l + a_w)               dW, dL [0, rows + a_l)      dJ [0, rows)
//
// with a_l = c_ql - 1 and a_w = c_qw - 1.
#pragma once

#include <algorithm>
#include <cstdint>

#include "crosstalk/kernels/attention/backward_buffers.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/convolution.h"

namespace crosstalk::kernels {

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
    Q = arena.Lanes(std::max(Q_rows_padded * plan.Lanes(s.d_k), backward ? dO_rows_padded * plan.Lanes(s.d_v) : 0));
    row = arena.Floats(most * row_pitch(plan));
    mask = arena.Floats((plan.rows + 2 * (sizes.before_l + sizes.before_w)) * plan.m_padded());
    dropout = arena.Floats(kChunk);
    product = arena.Floats(plan.rows * std::max(plan.d_k_padded, plan.d_v_padded));
    if (plan.terms > 1) pairs = arena.Lanes(plan.rows * plan.m_padded() / 2).Of<Pair>();
    if (!backward) return;
    if (s.P_l) C = buffer(plan.h_k);
    dY = buffer(most);
    dW = buffer(most);
    Q_rows = arena.Lanes(plan.h_k * plan.Lanes(plan.rows) * s.d_k);
    dO_rows = arena.Lanes(plan.h_v * plan.Lanes(plan.rows) * s.d_v);
    distances = arena.Floats(plan.h * plan.BlockDistances());
    for (const MixingSide side : kMixingSides) {
      P[side] = arena.Floats(plan.mixings[side].size() * kPartialSums);
      taps[side] = arena.Floats(plan.FilterHeads(side) * plan.filters[side].taps() * kFilterLanes);
    }
  }
  static int64_t row_pitch(const AttentionPlan& plan) { return plan.m_padded() + kMaxLanes; }

  float *J, *W, *U;            // backward J of all heads, else of one. W first holds conv(J), U first conv(W)
  float* C = nullptr;          // conv(J), where P_l's gradient reads it
  float* dY = nullptr;         // the gradient of conv(W)
  float* dW = nullptr;         // first holds dU
  Lanes Q;                     // PackQueries of one head; also of dO
  Lanes Q_rows, dO_rows;       // [heads][rows][size]; in bfloat16 pairs of queries
  float* row;                  // [head][row_pitch]: one query's row of all heads
  float* mask;                 // [row of J][m_padded]: 0 or kMaskedLogit, of an attention_mask and the padding
  float* dropout;              // factors of a chunk
  float* product;              // [rows][size], of one head: O or dQ
  Pair* pairs = nullptr;       // [rows][m / 2] of one head, in pairs of positions; or a chunk in pairs of queries
  float* distances = nullptr;  // [h][BlockDistances()]
  float* P[2] = {};            // by MixingSide, [in][out][kPartialSums]
  float* taps[2] = {};         // [head][c_q][c_k][kFilterLanes]
};

}  // namespace crosstalk::kernels
