// Elementwise kernels on float and double: unary functions and their gradients, broadcasting binary operations, axpy
// and masked fill. Threaded; every element is computed alone, so the bits do not depend on the cut. Results may be
// written over an input that starts at the same address and is walked in the same order.
#pragma once

#include <cstdint>

#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/shape.h"

namespace crosstalk::kernels {

enum class UnaryOp {
  kExp,
  kLog,
  kSqrt,
  kSquare,
  kTanh,
  kSigmoid,
  kGelu,      // x · Φ(x), with erf
  kGeluTanh,  // x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))
};

// y[i] = f(x[i]).
template <typename T>
void Unary(UnaryOp f, int64_t count, const T* x, T* y);

bool IsActivation(UnaryOp f);  // kGelu, kGeluTanh

// dx[i] = dy[i] · f′(x[i]), f no activation. kExp, kSqrt, kTanh and kSigmoid read y = f(x), the others x: the one that
// is not read may be null.
template <typename T>
void UnaryGradient(UnaryOp f, int64_t count, const T* x, const T* y, const T* dy, T* dx);
bool GradientReadsOutput(UnaryOp f);  // true: UnaryGradient reads y; false: it reads x

// y[i] = f(x[i]), slope[i] = f′(x[i]) of an activation, whose derivative takes little beside its value.
template <typename T>
void Activation(UnaryOp f, int64_t count, const T* x, T* y, T* slope);

// y[i] = scale · x[i] + shift.
template <typename T>
void Affine(int64_t count, T scale, T shift, const T* x, T* y);

// y[i] += scale · x[i].
template <typename T>
void Axpy(int64_t count, T scale, const T* x, T* y);

enum class BinaryOp { kAdd, kSub, kMul, kDiv };

// y[i] = a[i] ∘ b[i].
template <typename T>
void Binary(BinaryOp op, int64_t count, const T* a, const T* b, T* y);

// y = a ∘ b with strides in elements, 0 where an input is stretched; y[shape] is contiguous. Dimensions are merged
// where the strides allow it; rows of equal, repeated (row vector) and constant (column, scalar) operands are vectors,
// anything else is walked element by element.
template <typename T>
void Binary(BinaryOp op, const Shape& shape, const T* a, const Strides& strides_a, const T* b, const Strides& strides_b,
            T* y);

// y = mask ? value : x, with strides as above; y[shape] is contiguous. A mask element is 0 or 1.
template <typename T>
void MaskedFill(const Shape& shape, const T* x, const Strides& strides_x, const uint8_t* mask,
                const Strides& strides_mask, T value, T* y);

// The rectifier and its gradient, which needs to know of each element no more than its sign: one bit.

// Bytes of the signs of `count` elements.
inline int64_t SignBytes(int64_t count) { return CeilDivide<int64_t>(count, 8); }

// y[i] = max(x[i], 0), NaN where x[i] is; bit i % 8 of positive[i / 8] says whether x[i] > 0. Threaded. T is float or
// double.
template <typename T>
void Relu(int64_t count, const T* x, T* y, uint8_t* positive);

// dx[i] = dy[i] where bit i is set, else 0.
template <typename T>
void ReluGradient(int64_t count, const uint8_t* positive, const T* dy, T* dx);

// Dropout whose mask is a pure function of (key, element index), so that nothing is stored for the backward pass.

// y[i] = Uniform(key, i) < rate ? 0 : x[i] / (1 - rate), with runtime/random.h's Uniform, bit for bit.
// The gradient is the same function of dy. 0 ≤ rate < 1. y may be x.
template <typename T>
void Dropout(int64_t count, double rate, const RandomKey& key, const T* x, T* y);

}  // namespace crosstalk::kernels
