// Differentiable elementwise operations, with NumPy's broadcasting (aligned at the last dimension, 1 stretches).
// float and double; both operands have the same dtype.
#pragma once

#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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

}  // namespace crosstalk
