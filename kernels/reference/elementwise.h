// The elementwise functions on one value: what kernels/elementwise.h computes for whole arrays.
#pragma once

#include <cmath>

#include "crosstalk/kernels/elementwise.h"

namespace crosstalk::kernels::reference {

template <typename T>
T Map(Unary f, T x) {
  switch (f) {
    case Unary::kNeg:
      return -x;
    case Unary::kAbs:
      return std::abs(x);
    case Unary::kExp:
      return std::exp(x);
    case Unary::kLog:
      return std::log(x);
    case Unary::kSqrt:
      return std::sqrt(x);
    case Unary::kRsqrt:
      return 1 / std::sqrt(x);
    case Unary::kReciprocal:
      return 1 / x;
    case Unary::kSquare:
      return x * x;
    case Unary::kTanh:
      return std::tanh(x);
    case Unary::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Unary::kRelu:
      return x < 0 ? T(0) : x;
    case Unary::kGelu:
      return x * std::erfc(-x / std::sqrt(T(2))) / 2;
    case Unary::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / T(M_PI)) * (x + T(0.044715) * x * x * x)));
  }
  return x;
}

template <typename T>
T Derivative(Unary f, T x) {
  const T y = Map(f, x);
  switch (f) {
    case Unary::kNeg:
      return -1;
    case Unary::kAbs:
      return x > 0 ? 1 : x < 0 ? -1 : 0;
    case Unary::kExp:
      return y;
    case Unary::kLog:
      return 1 / x;
    case Unary::kSqrt:
      return 1 / (2 * y);
    case Unary::kRsqrt:
      return -y / (2 * x);
    case Unary::kReciprocal:
      return -1 / (x * x);
    case Unary::kSquare:
      return 2 * x;
    case Unary::kTanh:
      return 1 - y * y;
    case Unary::kSigmoid:
      return y * (1 - y);
    case Unary::kRelu:
      return x > 0 ? 1 : 0;
    case Unary::kGelu:
      return std::erfc(-x / std::sqrt(T(2))) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * T(M_PI));
    case Unary::kGeluTanh: {
      const T root = std::sqrt(2 / T(M_PI));
      const T t = std::tanh(root * (x + T(0.044715) * x * x * x));
      return (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * T(0.044715) * x * x);
    }
  }
  return 0;
}

template <typename T>
T Combine(Binary op, T a, T b) {
  switch (op) {
    case Binary::kAdd:
      return a + b;
    case Binary::kSub:
      return a - b;
    case Binary::kMul:
      return a * b;
    case Binary::kDiv:
      return a / b;
    case Binary::kMax:
      return a != a || a > b ? a : b;
    case Binary::kMin:
      return a != a || a < b ? a : b;
  }
  return a;
}

}  // namespace crosstalk::kernels::reference
