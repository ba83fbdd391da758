// Elementwise functions, dropout, look-ups and matrix products as plain loops: the specification of the kernels of
// these names.
#pragma once

#include <cmath>
#include <cstdint>

#include "crosstalk/kernels/elementwise.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk::kernels::reference {

// The elementwise functions on one value: what kernels/elementwise.h computes for whole arrays.

template <typename T>
T Unary(UnaryOp f, T x) {
  switch (f) {
    case UnaryOp::kExp:
      return std::exp(x);
    case UnaryOp::kLog:
      return std::log(x);
    case UnaryOp::kSqrt:
      return std::sqrt(x);
    case UnaryOp::kSquare:
      return x * x;
    case UnaryOp::kTanh:
      return std::tanh(x);
    case UnaryOp::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case UnaryOp::kGelu:
      return x * std::erfc(-x / std::sqrt(T(2))) / 2;
    case UnaryOp::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / T(M_PI)) * (x + T(0.044715) * x * x * x)));
  }
  return x;
}

template <typename T>
T Derivative(UnaryOp f, T x) {
  const T y = Unary(f, x);
  switch (f) {
    case UnaryOp::kExp:
      return y;
    case UnaryOp::kLog:
      return 1 / x;
    case UnaryOp::kSqrt:
      return 1 / (2 * y);
    case UnaryOp::kSquare:
      return 2 * x;
    case UnaryOp::kTanh:
      return 1 - y * y;
    case UnaryOp::kSigmoid:
      return y * (1 - y);
    case UnaryOp::kGelu:
      return std::erfc(-x / std::sqrt(T(2))) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * T(M_PI));
    case UnaryOp::kGeluTanh: {
      const T root = std::sqrt(2 / T(M_PI));
      const T t = std::tanh(root * (x + T(0.044715) * x * x * x));
      return (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * T(0.044715) * x * x);
    }
  }
  return 0;
}

template <typename T>
T Binary(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      return a / b;
  }
  return a;
}

// Dropout by runtime/random.h's Uniform, one element at a time.

template <typename T>
void Dropout(int64_t count, double rate, const RandomKey& key, const T* x, T* y) {
  for (int64_t i = 0; i < count; ++i) {
    const bool dropped = static_cast<double>(Uniform(key, static_cast<uint64_t>(i))) < rate;
    y[i] = dropped ? T(0) : x[i] * static_cast<T>(1 / (1 - rate));
  }
}

// Rows gathered from a table, and row gradients added back, in the order of i.

template <typename T>
void GatherRows(int64_t count, int64_t cols, const T* table, const int32_t* ids, T* y) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < cols; ++j) y[i * cols + j] = table[ids[i] * cols + j];
  }
}

template <typename T>
void ScatterAddRows(int64_t count, int64_t cols, const int32_t* ids, const T* dy, T* dtable) {
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] < 0) continue;
    for (int64_t j = 0; j < cols; ++j) dtable[ids[i] * cols + j] += dy[i * cols + j];
  }
}

// Matrix products as three plain loops.

template <typename T>
void Gemm(const GemmArguments<T>& g) {
  const T *a = g.a.data(), *b = g.b.data();
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      T sum = 0;
      for (int64_t p = 0; p < g.k; ++p) {
        const T x = g.transpose_a == Transpose::kYes ? a[p * g.a.stride + i] : a[i * g.a.stride + p];
        const T y = g.transpose_b == Transpose::kYes ? b[j * g.b.stride + p] : b[p * g.b.stride + j];
        sum += x * y;
      }
      T& c = g.c[i * g.ldc + j];
      c = g.alpha * sum + (g.beta == T(0) ? T(0) : g.beta * c) + (g.bias == nullptr ? T(0) : g.bias[j]);
    }
  }
}

}  // namespace crosstalk::kernels::reference
