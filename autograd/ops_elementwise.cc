#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/elementwise.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

using kernels::UnaryOp;

// y = f(x), dx = dy · f′; the gradient keeps y or x, whichever f′ is written in.
Variable MapOp(const char* name, UnaryOp f, const Variable& input) {
  const int64_t count = input.value().num_elements();
  const bool reads_y = GradientReadsOutput(f);
  return KernelOp(
      name, input, input.shape(), {.x = !reads_y, .y = reads_y},
      [f, count](const auto* x, auto* y) { kernels::Unary(f, count, x, y); },
      [f, count](const auto* x, const auto* y, const auto* dy, auto* dx) {
        kernels::UnaryGradient(f, count, x, y, dy, dx);
      });
}

// f(x) and, where the op is recorded, f′(x).
struct Activated {
  Tensor value, slope;
};
Activated Activate(const char* name, UnaryOp f, const Tensor& given, bool recorded) {
  const Tensor x = math::Contiguous(given);
  const Activated result = {Tensor::Empty(x.shape(), x.dtype()),
                            recorded ? Tensor::Empty(x.shape(), x.dtype()) : Tensor()};
  Launch(name, x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (recorded) {
      kernels::Activation<T>(f, x.num_elements(), x.data<T>(), result.value.data<T>(), result.slope.data<T>());
    } else {
      kernels::Unary<T>(f, x.num_elements(), x.data<T>(), result.value.data<T>());
    }
  });
  return result;
}

// y = f(x), dx = dy · f′. Tensors kept by an activation may be rounded: its slope is at most 1.13.
Variable ActivationOp(const char* name, UnaryOp f, const Variable& input) {
  const bool recorded = IsRecorded({input});
  const Activated result = Activate(name, f, input.value(), recorded);
  const Tensor slope = recorded ? KeptForBackward(result.slope) : Tensor();
  return MakeOp(name, result.value, {input},
                [slope](const Tensor& dy, Gradients& gradients) { gradients.Add(0, math::Mul(dy, Widened(slope))); });
}

// True where the mask is false.
Tensor Inverted(const Tensor& mask) {
  CROSSTALK_CHECK(mask.dtype() == DType::kBool, "masked_fill: the mask is ", mask.dtype(), mask.shape(), ", not bool");
  const Tensor values = math::Contiguous(mask);
  Tensor result = Tensor::Empty(mask.shape(), DType::kBool);
  const uint8_t* const from = values.data<uint8_t>();
  uint8_t* const to = result.data<uint8_t>();
  Launch([&] {
    for (int64_t i = 0; i < values.num_elements(); ++i) to[i] = from[i] == 0;
  });
  return result;
}

}  // namespace

Variable Add(const Variable& a, const Variable& b) {
  return MakeOp("add", math::Add(a.value(), b.value()), {a, b},
                [shape_a = a.shape(), shape_b = b.shape()](const Tensor& dy, Gradients& gradients) {
                  if (gradients.Needs(0)) gradients.Add(0, math::Unbroadcast(dy, shape_a));
                  if (gradients.Needs(1)) gradients.Add(1, math::Unbroadcast(dy, shape_b));
                });
}

Variable Sub(const Variable& a, const Variable& b) {
  return MakeOp("sub", math::Sub(a.value(), b.value()), {a, b},
                [shape_a = a.shape(), shape_b = b.shape()](const Tensor& dy, Gradients& gradients) {
                  if (gradients.Needs(0)) gradients.Add(0, math::Unbroadcast(dy, shape_a));
                  if (gradients.Needs(1)) gradients.Add(1, math::Scale(math::Unbroadcast(dy, shape_b), -1));
                });
}

Variable Mul(const Variable& a, const Variable& b) {
  const Tensor kept_a = b.requires_grad() ? a.value() : Tensor();
  const Tensor kept_b = a.requires_grad() ? b.value() : Tensor();
  return MakeOp("mul", math::Mul(a.value(), b.value()), {a, b},
                [kept_a, kept_b, shape_a = a.shape(), shape_b = b.shape()](const Tensor& dy, Gradients& gradients) {
                  if (gradients.Needs(0)) gradients.Add(0, math::Unbroadcast(math::Mul(dy, kept_b), shape_a));
                  if (gradients.Needs(1)) gradients.Add(1, math::Unbroadcast(math::Mul(dy, kept_a), shape_b));
                });
}

Variable Div(const Variable& a, const Variable& b) {
  const Tensor y = math::Div(a.value(), b.value());
  const Tensor kept_y = b.requires_grad() ? y : Tensor();
  return MakeOp("div", y, {a, b},
                [kept_y, kept_b = b.value(), shape_a = a.shape()](const Tensor& dy, Gradients& gradients) {
                  const Tensor quotient = math::Div(dy, kept_b);  // da = dy / b, db = -y · dy / b
                  if (gradients.Needs(0)) gradients.Add(0, math::Unbroadcast(quotient, shape_a));
                  if (gradients.Needs(1)) {
                    const Tensor db = math::Unbroadcast(math::Mul(quotient, kept_y), kept_b.shape());
                    gradients.Add(1, math::Scale(db, -1));
                  }
                });
}

Variable Neg(const Variable& x) { return Scale(x, -1); }

Variable Scale(const Variable& x, double factor) {
  return MakeOp("scale", math::Scale(x.value(), factor), {x},
                [factor](const Tensor& dy, Gradients& gradients) { gradients.Add(0, math::Scale(dy, factor)); });
}

Variable AddScalar(const Variable& x, double term) {
  return MakeOp("add_scalar", math::AddScalar(x.value(), term), {x},
                [](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy); });
}

Variable Exp(const Variable& x) { return MapOp("exp", UnaryOp::kExp, x); }
Variable Log(const Variable& x) { return MapOp("log", UnaryOp::kLog, x); }
Variable Sqrt(const Variable& x) { return MapOp("sqrt", UnaryOp::kSqrt, x); }
Variable Square(const Variable& x) { return MapOp("square", UnaryOp::kSquare, x); }
Variable Tanh(const Variable& x) { return MapOp("tanh", UnaryOp::kTanh, x); }
Variable Sigmoid(const Variable& x) { return MapOp("sigmoid", UnaryOp::kSigmoid, x); }
Variable Gelu(const Variable& x) { return ActivationOp("gelu", UnaryOp::kGelu, x); }
Variable GeluTanh(const Variable& x) { return ActivationOp("gelu_tanh", UnaryOp::kGeluTanh, x); }

Variable Relu(const Variable& input) {
  const Tensor x = math::Contiguous(input.value());
  const int64_t count = x.num_elements();
  const Tensor y = Tensor::Empty(x.shape(), x.dtype());
  const Tensor positive = Tensor::Empty({kernels::SignBytes(count)}, DType::kBool);  // of bits
  Launch("relu", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::Relu<T>(count, x.data<T>(), y.data<T>(), positive.data<uint8_t>());
  });
  return MakeOp("relu", y, {input}, [positive](const Tensor& dy_strided, Gradients& gradients) {
    const Tensor dy = math::Contiguous(dy_strided);
    const Tensor dx = Tensor::Empty(dy.shape(), dy.dtype());
    Launch("relu", dy.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::ReluGradient<T>(dy.num_elements(), positive.data<uint8_t>(), dy.data<T>(), dx.data<T>());
    });
    gradients.Add(0, dx);
  });
}

Variable GatedGelu(const Variable& gate, const Variable& x) {
  CROSSTALK_CHECK(gate.shape() == x.shape(), "gated_gelu: gate", gate.shape(), " and x", x.shape(),
                  " must have the same shape");
  const bool recorded = IsRecorded({gate, x});
  const Activated activated = Activate("gated_gelu", UnaryOp::kGeluTanh, gate.value(), recorded);
  // dx = dy · gelu(gate), dgate = dy · (x · gelu′(gate)).
  const Tensor of_x = recorded && x.requires_grad() ? KeptForBackward(activated.value) : Tensor();
  const Tensor of_gate =
      recorded && gate.requires_grad() ? KeptForBackward(math::Mul(activated.slope, x.value())) : Tensor();
  return MakeOp("gated_gelu", math::Mul(activated.value, x.value()), {gate, x},
                [of_x, of_gate](const Tensor& dy, Gradients& gradients) {
                  if (gradients.Needs(1)) gradients.Add(1, math::Mul(dy, Widened(of_x)));
                  if (gradients.Needs(0)) gradients.Add(0, math::Mul(dy, Widened(of_gate)));
                });
}

Variable MaskedFill(const Variable& x, const Tensor& mask, double value) {
  return MakeOp("masked_fill", math::MaskedFill(x.value(), mask, value), {x},
                [mask](const Tensor& dy, Gradients& gradients) { gradients.Add(0, math::MaskedFill(dy, mask, 0)); },
                {.introduces_minus_infinity = true});
}

Variable MaskedFillUnless(const Variable& x, const Tensor& mask, double value) {
  return MaskedFill(x, Inverted(mask), value);
}

}  // namespace crosstalk
