// The elementwise functions on one value: what kernels/elementwise.h computes for whole arrays.
#pragma once

#include <cmath>

#include "crosstalk/kernels/elementwise.h"

namespace crosstalk::kernels::reference {

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

}  // namespace crosstalk::kernels::reference
