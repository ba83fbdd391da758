// The differentiable operations, except the fused attention (ops_attention.h) and einsum (einsum/einsum.h). Each takes
// Variables and Tensors and gives Variables; a shape or index that does not fit is a usage error that names it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "crosstalk/autograd/tensor_math.h"  // KeepDims
#include "crosstalk/autograd/variable.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/kernels/heads.h"
#include "crosstalk/runtime/random.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Differentiable elementwise operations, with NumPy's broadcasting (aligned at the last dimension, 1 stretches).
// float and double; both operands have the same dtype.

Variable Add(const Variable& a, const Variable& b);
Variable Sub(const Variable& a, const Variable& b);
Variable Mul(const Variable& a, const Variable& b);
Variable Div(const Variable& a, const Variable& b);
inline Variable operator+(const Variable& a, const Variable& b) { return Add(a, b); }
inline Variable operator-(const Variable& a, const Variable& b) { return Sub(a, b); }
inline Variable operator*(const Variable& a, const Variable& b) { return Mul(a, b); }
inline Variable operator/(const Variable& a, const Variable& b) { return Div(a, b); }

Variable Neg(const Variable& x);
Variable Scale(const Variable& x, double factor);    // factor · x
Variable AddScalar(const Variable& x, double term);  // x + term
Variable Exp(const Variable& x);
Variable Log(const Variable& x);
Variable Sqrt(const Variable& x);
Variable Square(const Variable& x);
Variable Tanh(const Variable& x);
Variable Sigmoid(const Variable& x);
Variable Relu(const Variable& x);      // gradient 0 at 0
Variable Gelu(const Variable& x);      // x · Φ(x), by erf
Variable GeluTanh(const Variable& x);  // the tanh approximation: x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))

// GeluTanh(gate) · x, of equal shapes. Keeps the gradients' factors, GeluTanh(gate) and x · GeluTanh′(gate),
// in bfloat16 rounded.
Variable GatedGelu(const Variable& gate, const Variable& x);

// `value` where mask (bool, broadcast to x's shape) is TRUE, x elsewhere. An attention mask in this project is true
// where a query may attend: use MaskedFillUnless for it.
Variable MaskedFill(const Variable& x, const Tensor& mask, double value);
// `value` where mask is FALSE, x elsewhere.
Variable MaskedFillUnless(const Variable& x, const Tensor& mask, double value);

// Differentiable changes of shape. Reshape, Transpose, Permute, Slice and BroadcastTo are views where strides allow.
// Negative dimensions count from the end.

Variable Reshape(const Variable& x, const Shape& shape);  // one size may be -1
Variable Transpose(const Variable& x, int dim_a, int dim_b);
Variable Permute(const Variable& x, const std::vector<int>& order);  // result dimension i is dimension order[i]
Variable Slice(const Variable& x, int dim, int64_t begin, int64_t end);
Variable Concat(const std::vector<Variable>& parts, int dim);
Variable BroadcastTo(const Variable& x, const Shape& shape);
Variable Contiguous(const Variable& x);  // the same values in row-major order

// Differentiable look-ups. Indices are int32 or int64 Tensors; one out of range is a usage error that names it.

// table[rows, d…], ids[…]: result[…, d…] = table[ids[…]]. The gradient is dense; repeated ids add up in a fixed order.
// A look-up of padding_idx gives its row no gradient, as PyTorch's does. Ids are below `vocabulary`, or the rows.
Variable Embedding(const Variable& table, const Tensor& ids, std::optional<int32_t> padding_idx = std::nullopt,
                   std::optional<int64_t> vocabulary = std::nullopt);
// Embedding along any dimension: ids' dimensions stand where `dim` was. T[h, buckets], dim 1, ids[n, m]: [h, n, m].
Variable Take(const Variable& x, int dim, const Tensor& ids);
// PyTorch's gather: index has x's rank; result[…, j, …] = x[…, index[…, j, …], …] along dim; the other sizes of index
// are at most x's.
Variable Gather(const Variable& x, int dim, const Tensor& index);

// Differentiable reductions. Negative dimensions count from the end; no dimensions means all of them.

Variable Sum(const Variable& x, const std::vector<int>& dims = {}, KeepDims keep = KeepDims::kNo);
Variable Mean(const Variable& x, const std::vector<int>& dims = {}, KeepDims keep = KeepDims::kNo);
// The gradient goes to the maximum, the first of equal ones in each run of adjacent dimensions.
Variable Max(const Variable& x, const std::vector<int>& dims = {}, KeepDims keep = KeepDims::kNo);
// log Σ exp x over one dimension; a slice of only -inf gives -inf and no gradient.
Variable LogSumExp(const Variable& x, int dim, KeepDims keep = KeepDims::kNo);
// exp x / Σ exp x over one dimension. A slice with nothing above -1e38 (kernels::kHiddenLogit: every position masked)
// gives zeros and zero gradients, never NaN.
Variable Softmax(const Variable& x, int dim = -1);
Variable LogSoftmax(const Variable& x, int dim = -1);

// The differentiable matrix product. For named dimensions see autograd/einsum/einsum.h.

// C[…, m, n] = op(A)[…, m, k] · op(B)[…, k, n], where op transposes the last two dimensions if asked. Leading
// dimensions broadcast. Both operands have rank 2 or more, and the same dtype.
Variable MatMul(const Variable& a, const Variable& b, kernels::Transpose transpose_a = kernels::Transpose::kNo,
                kernels::Transpose transpose_b = kernels::Transpose::kNo);

// C[…, n] = A[…, k] · B[k, n] + bias[n]: Add(MatMul(a, b), bias) in one product, which adds the bias as it writes
// and so saves a pass over C.
Variable MatMulAdd(const Variable& a, const Variable& b, const Variable& bias);

// x as products under the current precision read it. In bfloat16, where a gradient will be computed: x rounded, of
// dtype kBFloat16, which the products that it is multiplied in then keep instead of x, one copy for all of them, in
// half the bytes. Else x itself. The bits of matrix products and their gradients are the same either way, as they round
// what they read. MatMul, MatMulAdd, Einsum and the fused attention take the result in place of x, and Reshape and its
// like do too; a product by elements, which does not round, reads the rounded values.
Variable AsOperand(const Variable& x);

// Differentiable normalisations over the last dimension.

// y[…, d] = x · rsqrt(mean(x²) + eps) · scale[d]. No mean is subtracted and there is no bias (T5).
Variable RmsNorm(const Variable& x, const Variable& scale, double eps);
// y[…, d] = (x - mean) · rsqrt(variance + eps) · scale[d] + bias[d] (BERT).
Variable LayerNorm(const Variable& x, const Variable& scale, const Variable& bias, double eps);

// Dropout with numbers that are a pure function of a key, so that recomputation and resumption draw the same mask.

// Element i (row-major) is 0 with probability `rate`, else x/(1-rate), by Uniform(key, i) < rate. 0 ≤ rate < 1; rate 0
// gives x itself. No mask is stored: the gradient draws it again.
Variable Dropout(const Variable& x, double rate, const RandomKey& key);

// Differentiable operations on heads: what positions and neighbouring tokens do to them.

// x[b, n, heads, d] at the positions first … first + n - 1, each pair of its elements turned by its position's angle.
// d must be even.
Variable RotateByPosition(const Variable& x, kernels::RotaryPairs pairs, const kernels::RotaryFrequencies& frequencies,
                          int64_t first);

// C[b, h, n, m] = Σ_{a<c_q, k<c_k} filter[a, k, h] · S[b, h, n - (c_q - 1) + a, m - left + k], 0 outside. Causal: S is
// read as 0, and C is 0, where a query i does not see the key j ≤ i + m - n.
enum class CausalConvolution { kNo, kYes };
Variable ConvolveHeads(const Variable& S, const Variable& filter, int64_t left,
                       CausalConvolution causal = CausalConvolution::kNo);

// Cross-entropy over classes, with T5's z-loss, from logits or fused with the classifier's matrix product.

struct CrossEntropyOptions {
  // Rows whose target is one of these contribute nothing: no loss, no gradient, not counted. kIgnoreNone: none.
  static constexpr int64_t kIgnoreNone = std::numeric_limits<int64_t>::min();
  int64_t ignore_index = kIgnoreNone;
  int64_t also_ignored = kIgnoreNone;
  // Adds z_loss · (log Z)² per counted row, Z = Σ_classes exp(logit) (T5: 1e-4, in training only).
  double z_loss = 0;
  // LinearCrossEntropy: the classes are the table's first num_classes rows; the others get gradient 0. 0: all rows.
  int64_t num_classes = 0;
};

struct CrossEntropyResult {
  Variable loss;        // scalar: Σ over counted rows of (log Z - logit[target] + z_loss · (log Z)²); differentiable
  double nll_sum = 0;   // Σ over counted rows of (log Z - logit[target]): without z-loss
  int64_t count = 0;    // counted rows
  int64_t correct = 0;  // of them, those whose target has the largest logit; of equal logits the first class has it
};

// logits[rows, classes], targets int32 or int64 [rows]. The loss is a sum: the caller chooses the denominator
// (Scale(result.loss, 1.0 / …)). The gradient keeps the logits and log Z[rows], nothing else of their size.
CrossEntropyResult CrossEntropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

// CrossEntropy(scale · hidden[rows, d] · table[classes, d]ᵀ + bias[classes], targets) without ever holding more than
// 32 MB of logits: rows are taken in chunks; forward keeps log Z[rows], and the logits of a single chunk, and the
// gradient computes those of several again. The table may be bfloat16 (autograd/tensor_math.h). The bias has an element
// for each class that counts (num_classes); undefined: none.
CrossEntropyResult LinearCrossEntropy(const Variable& hidden, const Variable& table, const Tensor& targets,
                                      double scale, const CrossEntropyOptions& options = {}, const Variable& bias = {});

}  // namespace crosstalk
#pragma GCC visibility pop
