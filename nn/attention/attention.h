// The attention layer: one module for the whole family (multi-head, talking-heads, dynamic projections, general
// bilinear, plain dot-product). AttentionConfig says which; nn/attention/fused.h or nn/attention/composed.h computes
// it, as ImplementationFor decides.
//
//   AttentionModule attention(AttentionConfig::TalkingHeads(512, 8, 8, 8, 64, 64), Initializer(seed).At("attention"));
//   Variable Y = attention.Forward(X, X, {.mask = {.memory = padding}, .bias = bias}, context).Y;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/attention/bias.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

// The learned tensors of a layer; undefined where the configuration has none. The bracket order is storage order,
// and ours: heads before their size, so that a projection is one matrix product of [d_X]·[d_X, h_k·d_k] and every
// head's rows are contiguous. The paper writes P_q[d_X, d_k, h_k], P_k[d_M, d_k, h_k], P_v[d_M, d_v, h_v],
// P_o[d_Y, d_v, h_v], P[d_X, d_M, h], Q[d_M, d_Y, h]; the rest is as there.
struct AttentionParameters {
  Variable P_q;   // [d_X, h_k, d_k]
  Variable P_k;   // [d_M, h_k, d_k]
  Variable P_v;   // [d_M, h_v, d_v]
  Variable P_o;   // [h_v, d_v, d_Y]
  Variable P_l;   // [h_k, h]
  Variable P_w;   // [h, h_v]
  Variable P_Xl;  // [d_X, h_k, h]
  Variable P_Ml;  // [d_M, h_k, h]
  Variable P_Xw;  // [d_X, h, h_v]
  Variable P_Mw;  // [d_M, h, h_v]
  Variable P;     // [d_X, h, d_M]
  Variable Q;     // [h, d_M, d_Y]
};

// Which memory positions a query may attend to, beside the configuration's causality. true = attend; undefined = all.
// Where both are given, both must allow. A query that may attend to nothing gets W = 0, Y = 0 and no gradient.
struct AttentionMask {
  Tensor memory = {};  // bool[b, m]: padding
  Tensor pairs = {};   // bool[b, n, m]
};

enum class AttentionOutputs { kOutputOnly, kWithWeights };

struct AttentionExtras {
  AttentionMask mask = {};
  LogitsBias bias = {};  // added to L: relative position; a Variable [h, n, m] will do
  AttentionOutputs outputs = AttentionOutputs::kOutputOnly;
};

struct AttentionResult {
  Variable Y;  // [b, n, d_Y]
  // With kWithWeights, as views in the paper's order:
  Variable W;  // [b, n, m, h]: after the softmax
  Variable U;  // [b, n, m, h_v]: after P_w and dropout (W itself where nothing stands between h and h_v)
  AttentionImplementation implementation = AttentionImplementation::kComposed;  // that computed it
};

// The implementation that computes such a call: the configuration's, but where that is the fused one and does not give
// what is asked for (double, the weights), the composed one.
AttentionImplementation ImplementationFor(const AttentionConfig& config, DType dtype, AttentionOutputs outputs);

// What attention keeps of M: all that belongs to a memory position. One growing copy of it is what decoding caches.
struct AttentionMemory {
  Variable K;     // [b, m, h_k, d_k]; without projections, and bilinear: M[b, m, d_M] itself
  Variable V;     // [b, m, h_v, d_v]; undefined where V = K
  Variable R_Ml;  // [b, m, h_k, h]; undefined without P_Ml
  Variable R_Mw;  // [b, m, h, h_v]; undefined without P_Mw
};

// X[b, n, d_X], M[b, m, d_M] → Y[b, n, d_Y] with parameters that the caller holds, checked against `config`. With a
// dropout key, U's element i in the storage order [b, h_v, n, m] is dropped by the key's number i; without one nothing
// is dropped, whatever the configuration's rate.
AttentionResult ComputeAttention(const AttentionConfig& config, const AttentionParameters& parameters,
                                 const Variable& X, const Variable& M, const AttentionExtras& extras,
                                 const std::optional<RandomKey>& dropout_key = std::nullopt);

// Decoding state of one layer: the AttentionMemory of the positions so far, in buffers that double when they are
// full, so that t steps copy O(t) positions. Made by an AttentionModule; copies share nothing.
class AttentionCache {
 public:
  AttentionCache() = default;  // empty: self-attention before the first position
  AttentionCache(const AttentionCache& other);
  AttentionCache& operator=(const AttentionCache& other);
  AttentionCache(AttentionCache&&) = default;
  AttentionCache& operator=(AttentionCache&&) = default;

  int64_t length() const { return length_; }  // memory positions held
  // Keeps the batch rows `rows` in that order (any may repeat): what a beam search does after each step.
  void SelectRows(const std::vector<int64_t>& rows);

 private:
  friend class AttentionModule;
  void Append(const AttentionMemory& step);
  AttentionMemory View() const;

  int64_t length_ = 0;
  Tensor K_, V_, R_Ml_, R_Mw_;  // as in AttentionMemory, with m the capacity
};

class AttentionModule : public Module {
 public:
  // init.path() is the layer's place in its model; it also names its dropout. The parameters are named as in
  // AttentionParameters.
  //
  // Factored optimizers see each projection as a matrix whose columns are all heads together ([d_X, h_k·d_k],
  // [h_v·d_v, d_Y], [d_X, h_k·h]; bilinear [d_X, h·d_M] and [h·d_M, d_Y]), so that whether and how they factor does
  // not depend on how the same width is cut into heads.
  //
  // Initial values are truncated normals (cut at 2 std) with the authors' std: P_q 1/sqrt(d_X·d_k)/scale;
  // P_k, P_v 1/sqrt(d_M); P_o 1/sqrt(h_v·d_v); P_l 1/sqrt(h_k); P_w 1/sqrt(h) (or both the identity);
  // P_Xl, P_Ml 0.1/sqrt(d_X·h_k), 0.1/sqrt(d_M·h_k); P_Xw, P_Mw 0.1/sqrt(d_X·h), 0.1/sqrt(d_M·h); bilinear P, Q
  // 1/sqrt(d_X·d_M), 1/sqrt(h·d_M).
  AttentionModule(const AttentionConfig& config, const Initializer& init);

  const AttentionConfig& config() const { return config_; }
  const AttentionParameters& parameters() const { return parameters_; }

  // X[b, n, d_X], M[b, m, d_M] → Y[b, n, d_Y]. Self-attention passes X twice. Causal needs n = m.
  AttentionResult Forward(const Variable& X, const Variable& M, const AttentionExtras& extras,
                          const ForwardContext& context) const;

  // Decoding, off the tape. The memory of a cross-attention, projected once:
  AttentionCache Precompute(const Variable& M) const;
  // One query position of self-attention: appends x[b, 1, d_X] to the cache, and attends to all that it holds
  // (which is what causal means). Masks and bias cover the whole cache: memory[b, m], pairs[b, 1, m], and one
  // query and m keys for the bias, with m = cache.length() after the call.
  AttentionResult Step(const Variable& x, AttentionCache& cache, const AttentionExtras& extras) const;
  // Queries X[b, n, d_X] over a precomputed cache (cross-attention), which stays as it is.
  AttentionResult Attend(const Variable& X, const AttentionCache& cache, const AttentionExtras& extras) const;

 private:
  AttentionConfig config_;
  AttentionParameters parameters_;
};

}  // namespace crosstalk
