// The cases of single operations on 16 numbers: their arithmetic takes next to no time, and the rest is the price of an
// operation. Each is measured in a chain, about as long as a small model's step, beside the parts of the price.
#include <algorithm>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/ops_attention.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/kernels/elementwise.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/shape.h"
#include "tools/cli/statistics.h"
#include "tools/lab/bench/bench.h"

namespace crosstalk {
namespace {

constexpr int64_t kChain = 64;

// The leaves of one operation of a chain.
struct Leaves {
  Variable matrix, K, V;  // [4, 4]; [1, 4, 1, 4]
  Variable scale, bias;   // [4]
};

// x → y of the same shape.
using Apply = Variable (*)(const Variable& x, const Leaves& leaves);

std::vector<BenchResult> MeasureOperation(const std::string& name, const Shape& shape, Apply apply,
                                          const BenchSettings& settings) {
  const auto leaf = [](const Shape& of) {
    return Variable(RandomTensor(of, "bench.leaf"), Variable::RequiresGrad::kYes);
  };
  const Variable X = leaf(shape);
  const Tensor dY = RandomTensor(shape, "bench.dY");
  std::vector<Leaves> chain;
  for (int64_t i = 0; i < kChain; ++i) {
    chain.push_back({.matrix = leaf({4, 4}),
                     .K = leaf({1, 4, 1, 4}),
                     .V = leaf({1, 4, 1, 4}),
                     .scale = leaf({4}),
                     .bias = leaf({4})});
  }
  const auto forward = [&] {
    Variable x = X;
    for (const Leaves& leaves : chain) x = apply(x, leaves);
    return x;
  };
  std::vector<double> value_seconds;
  int64_t allocations = 0;
  const auto pass = [&] {
    for (const Leaves& leaves : chain) {
      for (const Variable& one : {leaves.matrix, leaves.K, leaves.V, leaves.scale, leaves.bias}) one.ZeroGrad();
    }
    X.ZeroGrad();
    const double begin = WallSeconds();
    {
      const ContextScope no_grad = NoGrad();
      forward();
    }
    const double unrecorded = WallSeconds();
    const int64_t before = ThreadAllocations();
    const Variable Y = forward();
    const double middle = WallSeconds();
    Backward(Y, dY);
    const double end = WallSeconds();
    allocations = ThreadAllocations() - before;
    value_seconds.push_back(unrecorded - begin);
    return PassSeconds{.forward = middle - unrecorded, .backward = end - middle};
  };
  std::vector<BenchResult> results = MeasurePasses(name, settings, 0, {.run = pass});
  for (BenchResult& result : results) {
    const double value_ns = 1e9 * Median(value_seconds) / kChain;
    result.operation = {.value_ns = value_ns,
                        .node_ns = std::max(0.0, 1e6 * result.forward_ms / kChain - value_ns),
                        .backward_ns = 1e6 * result.backward_ms / kChain,
                        .allocations = static_cast<double>(allocations) / kChain};
  }
  return results;
}

std::vector<BenchResult> MeasurePart(const std::string& name, void (*part)(), const BenchSettings& settings) {
  const auto pass = [&] {
    const double begin = WallSeconds();
    for (int64_t i = 0; i < kChain; ++i) part();
    return PassSeconds{.forward = WallSeconds() - begin};
  };
  std::vector<BenchResult> results = MeasurePasses(name, settings, 0, {.run = pass});
  for (BenchResult& result : results) {
    result.operation = {.value_ns = 1e6 * result.forward_ms / kChain,
                        .allocations = static_cast<double>(result.allocations) / kChain};
  }
  return results;
}

}  // namespace

std::vector<BenchCase> OperationBenchCases() {
  std::vector<BenchCase> cases;
  const auto add_part = [&cases](const char* name, void (*part)()) {
    const std::string full = StrCat("operation-", name);
    cases.push_back({.name = full,
                     .goal = "",
                     .run = [=](const BenchSettings& settings) { return MeasurePart(full, part, settings); },
                     .in_bfloat16 = false});
  };
  const auto add = [&cases](const char* name, const Shape& shape, Apply apply) {
    const std::string full = StrCat("operation-", name);
    cases.push_back(
        {.name = full,
         .goal = "800",
         .run = [=](const BenchSettings& settings) { return MeasureOperation(full, shape, apply, settings); },
         .in_bfloat16 = false});
  };

  add_part("allocation", [] { Tensor::Empty({4, 4}, DType::kFloat32); });
  add_part("checks", [] {
    static const Shape square{4, 4};
    Dims dims("bench");
    dims.Bind("X[n, d_X]", square).Bind("W[d_X, d_Y]", square);
  });
  add_part("dispatch", [] {
    static float numbers[16] = {};
    kernels::Affine<float>(16, 0.0f, 1.0f, numbers, numbers);
  });
  // One to each thread, as far as there are two.
  add_part("hand-over", [] {
    ParallelFor(
        2, [](int64_t) {}, TileOrder::kLocal, 2);
  });

  const Shape square{4, 4}, heads{1, 4, 1, 4};
  add("reshape", square, [](const Variable& x, const Leaves&) { return Reshape(x, {4, 4}); });
  add("add", square, [](const Variable& x, const Leaves& leaves) { return Add(x, leaves.matrix); });
  add("gelu", square, [](const Variable& x, const Leaves&) { return Gelu(x); });
  add("layer-norm", square,
      [](const Variable& x, const Leaves& leaves) { return LayerNorm(x, leaves.scale, leaves.bias, 1e-5); });
  add("matmul", square, [](const Variable& x, const Leaves& leaves) { return MatMul(x, leaves.matrix); });
  add("einsum", square, [](const Variable& x, const Leaves& leaves) {
    return Einsum("Y[n, d_Y] = einsum(X[n, d_X], W[d_X, d_Y])", {x, leaves.matrix});
  });
  add("attention", heads, [](const Variable& x, const Leaves& leaves) {
    AttentionCall call;
    call.Q = x;
    call.K = leaves.K;
    call.V = leaves.V;
    return FusedAttention(call);
  });
  return cases;
}

}  // namespace crosstalk
