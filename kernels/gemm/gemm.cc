#include "crosstalk/kernels/gemm/gemm.h"

#include <algorithm>
#include <concepts>
#include <limits>
#include <memory>
#include <vector>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/gemm/blocked.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk::kernels {
namespace {

// In double there is nothing to round.
template <typename T>
bool IsRounded(const GemmArguments<T>& g) {
  return sizeof(T) == 4 && g.precision == Precision::kBFloat16;
}

template <typename T>
void CheckArguments(const GemmArguments<T>& g) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  CROSSTALK_CHECK(g.m >= 0 && g.n >= 0 && g.k >= 0 && g.m <= kMost && g.n <= kMost && g.k <= kMost &&
                      g.a.stride <= kMost && g.b.stride <= kMost && g.ldc <= kMost,
                  "gemm: sizes m=", g.m, " n=", g.n, " k=", g.k, " with row distances ", g.a.stride, ", ", g.b.stride,
                  ", ", g.ldc, " must lie in 0 … ", kMost);
  const int64_t columns_a = g.transpose_a == Transpose::kYes ? g.m : g.k;
  const int64_t columns_b = g.transpose_b == Transpose::kYes ? g.k : g.n;
  CROSSTALK_CHECK(g.a.stride >= std::max<int64_t>(1, columns_a) && g.b.stride >= std::max<int64_t>(1, columns_b) &&
                      g.ldc >= std::max<int64_t>(1, g.n),
                  "gemm: row distances lda=", g.a.stride, " ldb=", g.b.stride, " ldc=", g.ldc,
                  " are less than the row lengths ", columns_a, ", ", columns_b, ", ", g.n);
  CROSSTALK_CHECK(IsRounded(g) || (!g.a.is_bfloat16() && !g.b.is_bfloat16()),
                  "gemm: operands in bfloat16 are given to a product in ", sizeof(T) == 4 ? "fp32" : "double");
}

// C ← beta · C + bias, where beta = 0 overwrites: a product of nothing.
template <typename T>
void ScaleResult(const GemmArguments<T>& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    T* row = g.c + i * g.ldc;
    for (int64_t j = 0; j < g.n; ++j) {
      row[j] = g.beta == T(0) ? T(0) : g.beta * row[j];
      if (g.bias != nullptr) row[j] += g.bias[j];
    }
  }
}

template <typename T>
GemmProduct<T> ProductFor(const GemmArguments<T>& g) {
  if (g.k == 0 || g.alpha == T(0))
    return {ScaleResult<T>, [](const GemmArguments<T>&, int) { return GemmWorkspace(); }};
  if constexpr (std::same_as<T, double>) {
    return ProductOfDoubles();
  } else {
    if (!IsRounded(g)) return ProductOfFloats();
    const BFloat16Unit unit = BFloat16UnitInUse();
    if (unit == BFloat16Unit::kTiles) return ProductOfTiles();
    return unit == BFloat16Unit::kDotProduct ? ProductOfDotProducts() : ProductOfWidened();
  }
}

// Small C, long k: the gradients of head projections, [h, h] out of k = n · m. k is cut into slices, by shape alone,
// whose products meet in order: otherwise one thread would do all the work.
constexpr int64_t kMostSlices = 16;
constexpr int64_t kSlicedSize = 64;     // C's sides at most
constexpr int64_t kSliceLength = 4096;  // at least

// Multiplications of one product of a batch.
constexpr double kLargeProduct = 1 << 28;
constexpr double kSmallProduct = 1 << 19;

template <typename T>
bool IsSliced(const GemmArguments<T>& g) {
  return g.slicing == Slicing::kYes && g.m <= kSlicedSize && g.n <= kSlicedSize && g.k >= 2 * kSliceLength;
}

template <typename T>
int64_t SliceLength(const GemmArguments<T>& g) {
  return RoundUp<int64_t>(CeilDivide(g.k, std::min(kMostSlices, g.k / kSliceLength)), 16);
}

template <typename T>
void ComputeSliced(const GemmArguments<T>& g) {
  const int64_t length = SliceLength(g);
  const int64_t slices = CeilDivide(g.k, length);
  const int64_t elements = g.m * g.n;
  const std::shared_ptr<Storage> storage = Storage::Allocate(static_cast<size_t>(slices * elements) * sizeof(T));
  T* const partial = static_cast<T*>(storage->data());
  ParallelFor(slices, [&](int64_t s) {
    GemmArguments<T> slice = g;
    slice.a = g.a + s * length * (g.transpose_a == Transpose::kYes ? g.a.stride : 1);
    slice.b = g.b + s * length * (g.transpose_b == Transpose::kYes ? 1 : g.b.stride);
    slice.k = std::min(length, g.k - s * length);
    slice.beta = 0;
    slice.bias = nullptr;
    slice.c = partial + s * elements;
    slice.ldc = g.n;
    ProductFor(slice).multiply(slice);
  });
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      T sum = 0;
      for (int64_t s = 0; s < slices; ++s) sum += partial[s * elements + i * g.n + j];
      T& c = g.c[i * g.ldc + j];
      c = g.beta == T(0) ? sum : g.beta * c + sum;
      if (g.bias != nullptr) c += g.bias[j];
    }
  }
}

template <typename T>
void ComputeOne(const GemmArguments<T>& g) {
  if (IsSliced(g)) {
    ComputeSliced(g);
  } else {
    ProductFor(g).multiply(g);
  }
}

// What a product costs, in multiplications: with very few rows or columns they cost less than reading the larger
// operand, of which a core reads about as many bytes a nanosecond as it multiplies numbers.
template <typename T>
double Work(const GemmArguments<T>& g) {
  const double m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k);
  return k * std::max(m * n, sizeof(T) * std::max(m, n));
}

// Under OpContext::shapes_only: allocates what `products` of these, each computed by that many threads, hold at once.
template <typename T>
void Allocate(const GemmArguments<T>& g, int64_t threads, int64_t products) {
  std::vector<std::shared_ptr<Storage>> held;
  GemmArguments<T> whole = g;
  if (IsSliced(g)) {
    whole.k = SliceLength(g);
    const int64_t slices = CeilDivide(g.k, whole.k);
    const size_t bytes = static_cast<size_t>(slices * g.m * g.n) * sizeof(T);
    for (int64_t i = 0; i < products; ++i) held.push_back(Storage::Allocate(bytes));
    products *= std::min(threads, slices);
    threads = 1;
  }
  const GemmWorkspace workspace = ProductFor(whole).workspace(whole, static_cast<int>(threads));
  for (int64_t i = 0; i < products; ++i) {
    held.push_back(PackBuffer<T>::FromPool(workspace.shared));
    held.push_back(PackBuffer<T>::FromPool(workspace.OfTasks(threads)));
  }
}

}  // namespace

template <typename T>
void Gemm(const GemmArguments<T>& arguments) {
  CheckArguments(arguments);
  if (arguments.m == 0 || arguments.n == 0) return;
  const LoopWork work = LoopWork::OfProducts(Work(arguments));
  if (CurrentContext().shapes_only) return Allocate(arguments, ThreadsOfLoop(), 1);
  const TraceScope traced({.kind = TraceEvent::Kind::kProduct,
                           .name = "product",
                           .multiplications = arguments.m * arguments.n * arguments.k});
  ComputeOne(arguments);
}

template <typename T>
void GemmBatched(const GemmArguments<T>& arguments, std::span<const int64_t> offsets_a,
                 std::span<const int64_t> offsets_b, std::span<const int64_t> offsets_c) {
  const GemmArguments<T>& g = arguments;
  CheckArguments(g);
  CROSSTALK_CHECK(offsets_a.size() == offsets_c.size() && offsets_b.size() == offsets_c.size(), "gemm: a batch of ",
                  offsets_c.size(), " products has ", offsets_a.size(), " offsets of A and ", offsets_b.size(),
                  " of B");
  if (g.m == 0 || g.n == 0) return;
  const auto compute = [&](int64_t i) {
    GemmArguments<T> product = g;
    product.a = g.a + offsets_a[static_cast<size_t>(i)];
    product.b = g.b + offsets_b[static_cast<size_t>(i)];
    product.c += offsets_c[static_cast<size_t>(i)];
    ComputeOne(product);
  };
  // Products of some size, or few of them, are threaded one by one; else several at a time are one thread's. It makes
  // no difference to the bits.
  const int64_t count = static_cast<int64_t>(offsets_c.size());
  const double work = static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k + 1);
  const LoopWork all_work = LoopWork::OfProducts(static_cast<double>(count) * work);
  const bool one_by_one = work > kLargeProduct || (count < ThreadsOfLoop() && work > kSmallProduct);
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kSmallProduct / work));
  if (CurrentContext().shapes_only) {
    if (one_by_one) return Allocate(g, ThreadsOfLoop(), 1);
    return Allocate(g, 1, std::min<int64_t>(ThreadsOfLoop(), CeilDivide(count, grain)));
  }
  const TraceScope traced(
      {.kind = TraceEvent::Kind::kProduct, .name = "product", .multiplications = count * g.m * g.n * g.k});
  if (one_by_one) {
    for (int64_t i = 0; i < count; ++i) compute(i);
    return;
  }
  ParallelForRange(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) compute(i);
  });
}

template void Gemm<float>(const GemmArguments<float>&);
template void Gemm<double>(const GemmArguments<double>&);
template void GemmBatched<float>(const GemmArguments<float>&, std::span<const int64_t>, std::span<const int64_t>,
                                 std::span<const int64_t>);
template void GemmBatched<double>(const GemmArguments<double>&, std::span<const int64_t>, std::span<const int64_t>,
                                  std::span<const int64_t>);

int64_t GemmPackedFloats(int64_t k, int64_t n) { return std::min(k, kKC) * std::min(n, kNC<float>); }

}  // namespace crosstalk::kernels
