// The attention layer: one module for the whole family (multi-head, talking-heads, dynamic projections, general
// bilinear, plain dot-product). AttentionConfig says which; the fused kernel (autograd/ops_attention.h) or
// nn/attention/composed.h computes it, as ImplementationFor decides.
//
//   AttentionModule attention(AttentionConfig::TalkingHeads(512, 8, 8, 8, 64, 64), Initializer(seed).At("attention"));
//   Variable Y = attention.Forward(X, X, {.key_padding_mask = padding, .bias = bias}, context).Y;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/attention/types.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The implementation that computes such a call: the fused one where the configuration asks for it, only Y is wanted, in
// float, and the kernel computes the shape (kernels::IsSupported); else the composed one.
AttentionImplementation ImplementationFor(const AttentionConfig& config, DType dtype, AttentionOutputs outputs);

// X[b, n, d_X], M[b, m, d_M] → Y[b, n, d_Y] with parameters that the caller holds, checked against `config`. With a
// dropout key, U's element i in the storage order [b, h_v, n, m] is dropped by the key's number i; without one nothing
// is dropped, whatever the configuration's rate.
AttentionResult ComputeAttention(const AttentionConfig& config, const AttentionParameters& parameters,
                                 const Variable& X, const Variable& M, const AttentionCallOptions& options,
                                 const std::optional<RandomKey>& dropout_key = std::nullopt);

// Whose R_Ml and R_Mw a step of self-attention takes for the memory positions that its cache holds.
enum class CachedMixings {
  kOfEachPosition,  // each position's own, as in the full pass
  // The current token's for all: a defect of the authors' published code. A hook to measure what it does to a model;
  // nothing else asks for it.
  kOfCurrentToken,
};

// Decoding state of one layer: the AttentionMemory of the positions so far, in buffers that double when they are
// full, so that t steps copy O(t) positions. Made by an AttentionModule; copies share nothing.
class AttentionCache {
 public:
  AttentionCache() = default;  // empty: self-attention before the first position
  AttentionCache(const AttentionCache& other);
  AttentionCache& operator=(const AttentionCache& other);
  AttentionCache(AttentionCache&&) = default;
  AttentionCache& operator=(AttentionCache&&) = default;

  int64_t length() const { return length_; }                                      // memory positions held
  int64_t rows() const { return buffers_.K.defined() ? buffers_.K.size(0) : 0; }  // batch rows held
  // Keeps the batch rows `rows` in that order (any may repeat): what a beam search does after each step. A row that
  // keeps its place is not copied where each other one comes from such a row, or from after the last place.
  void SelectRows(const std::vector<int64_t>& rows);

 private:
  friend class AttentionModule;
  void Append(const AttentionMemory& step);
  // x after the last positions of those before it, of which as many are kept.
  Variable WithEarlier(const Variable& x, int64_t most);
  AttentionMemory View() const;

  int64_t length_ = 0;
  AttentionMemory buffers_;  // with m the capacity
  // x[b, n, d_X] of the last positions, which the convolutions of the next one read; at most earlier_queries().
  Tensor earlier_;
};

class AttentionModule : public Module {
 public:
  // init.path() is the layer's place in its model; it also names its dropout. The parameters, their names, initial
  // values and matrices for factored optimizers are those of nn/attention/projections.h.
  AttentionModule(const AttentionConfig& config, const Initializer& init);

  const AttentionConfig& config() const { return config_; }
  const AttentionParameters& parameters() const { return parameters_; }

  // The implementation that computes Forward and the decoding of this layer, in its own type.
  AttentionImplementation implementation() const;
  // The bias of n queries and m memory positions in the form that this layer computes with, so that layers that share
  // one convert it once. Forward takes it in any form.
  LogitsBias Prepared(const LogitsBias& bias, int64_t n, int64_t m) const;

  // X[b, n, d_X], M[b, m, d_M] → Y[b, n, d_Y]. Self-attention passes X twice. Causal needs n = m.
  AttentionResult Forward(const Variable& X, const Variable& M, const AttentionCallOptions& options,
                          const ForwardContext& context) const;

  // Decoding, off the tape. The memory of a cross-attention, projected once:
  AttentionCache Precompute(const Variable& M) const;
  // The next position of self-attention, or the first n: appends x[b, n, d_X] to the cache, and each attends to the
  // positions up to itself (causal). n = 1 except where the cache is empty. Masks and bias cover the
  // whole cache: key_padding_mask[b, m], attention_mask[b, n, m], and n queries and m keys for the bias, with m =
  // cache.length() after the call; with convolutions the bias also covers the earlier_queries() before them, as far as
  // there are so many (and may cover more), and there is no attention_mask.
  AttentionResult Step(const Variable& x, AttentionCache& cache, const AttentionCallOptions& options,
                       CachedMixings mixings = CachedMixings::kOfEachPosition) const;
  // Queries X[b, n, d_X] over a precomputed cache (cross-attention), which stays as it is.
  AttentionResult Attend(const Variable& X, const AttentionCache& cache, const AttentionCallOptions& options) const;

 private:
  // One query of each row, at `position`, over memory that holds nothing later than it.
  AttentionResult AttendToAll(const Variable& X, const AttentionMemory& memory, const AttentionCallOptions& options,
                              int64_t position) const;

  AttentionConfig config_;
  AttentionParameters parameters_;
};

}  // namespace crosstalk
#pragma GCC visibility pop
