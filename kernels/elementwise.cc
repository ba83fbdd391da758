#include "crosstalk/kernels/elementwise.h"

#include <algorithm>
#include <cmath>

#define HWY_TARGET_INCLUDE "crosstalk/kernels/elementwise.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/copy.h"
#include "crosstalk/kernels/functions-inl.h"
#include "crosstalk/kernels/philox-inl.h"
#include "crosstalk/kernels/reference/elementwise.h"
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

#ifndef CROSSTALK_KERNELS_ELEMENTWISE_SHARED_
#define CROSSTALK_KERNELS_ELEMENTWISE_SHARED_
namespace crosstalk::kernels {

// How the two operands of a row y[n] = a ∘ b advance: a vector, or one element for the whole row.
enum class RowForm { kVectorVector, kVectorScalar, kScalarVector };

}  // namespace crosstalk::kernels
#endif

CROSSTALK_BEGIN_TARGET

template <typename T>
void UnaryTile(UnaryOp f, int64_t n, const T* x, T* y) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  switch (f) {
    case UnaryOp::kExp:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return ExpFull(d, v); });
    case UnaryOp::kLog:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return LogFull(d, v); });
    case UnaryOp::kSqrt:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return hn::Sqrt(v); });
    case UnaryOp::kSquare:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return hn::Mul(v, v); });
    case UnaryOp::kTanh:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return TanhFull(d, v); });
    case UnaryOp::kSigmoid:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return Sigmoid(d, v); });
    case UnaryOp::kGelu:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return Gelu(d, v).value; });
    case UnaryOp::kGeluTanh:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return GeluTanh(d, v).value; });
  }
}

template <typename T>
void UnaryGradientTile(UnaryOp f, int64_t n, const T* x, const T* y, const T* dy, T* dx) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  const V one = hn::Set(d, T(1));
  const V two = hn::Set(d, T(2));
  const V half = hn::Set(d, T(0.5));
  switch (f) {
    case UnaryOp::kExp:
      return Map2(n, y, dy, dx, [&](V v, V g) HWY_ATTR { return hn::Mul(g, v); });
    case UnaryOp::kLog:
      return Map2(n, x, dy, dx, [&](V v, V g) HWY_ATTR { return hn::Div(g, v); });
    case UnaryOp::kSqrt:  // 1 / (2y)
      return Map2(n, y, dy, dx, [&](V v, V g) HWY_ATTR { return hn::Div(hn::Mul(g, half), v); });
    case UnaryOp::kSquare:
      return Map2(n, x, dy, dx, [&](V v, V g) HWY_ATTR { return hn::Mul(g, hn::Mul(two, v)); });
    case UnaryOp::kTanh:  // 1 - y²
      return Map2(n, y, dy, dx,
                  [&](V v, V g) HWY_ATTR { return hn::Mul(g, hn::Mul(hn::Sub(one, v), hn::Add(one, v))); });
    case UnaryOp::kSigmoid:  // y (1 - y)
      return Map2(n, y, dy, dx, [&](V v, V g) HWY_ATTR { return hn::Mul(g, hn::Mul(v, hn::Sub(one, v))); });
    case UnaryOp::kGelu:
    case UnaryOp::kGeluTanh:
      return;  // Activation
  }
}

template <typename T>
void ActivationTile(UnaryOp f, int64_t n, const T* x, T* y, T* slope) {
  const Tag<T> d;
  const auto store = [&](const auto& of) HWY_ATTR {
    ForPlaces<T>(n, [&](auto at) HWY_ATTR {
      const auto both = of(at.Load(x));
      at.Store(both.value, y);
      at.Store(both.slope, slope);
    });
  };
  using V = hn::Vec<Tag<T>>;
  if (f == UnaryOp::kGelu) {
    store([&](V v) HWY_ATTR { return Gelu(d, v); });
  } else {
    store([&](V v) HWY_ATTR { return GeluTanh(d, v); });
  }
}

template <typename T>
void AffineTile(int64_t n, T scale, T shift, const T* x, T* y) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  const V a = hn::Set(d, scale);
  const V b = hn::Set(d, shift);
  Map1(n, x, y, [&](V v) HWY_ATTR { return hn::MulAdd(a, v, b); });
}

template <typename T>
void AxpyTile(int64_t n, T scale, const T* x, T* y) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  const V a = hn::Set(d, scale);
  Map2(n, x, y, y, [&](V v, V sum) HWY_ATTR { return hn::MulAdd(a, v, sum); });
}

template <typename T, class F>
HWY_INLINE void BinaryRow(RowForm form, int64_t n, const T* a, const T* b, T* y, F f) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  switch (form) {
    case RowForm::kVectorVector:
      return Map2(n, a, b, y, f);
    case RowForm::kVectorScalar: {
      const V s = hn::Set(d, *b);
      return Map1(n, a, y, [&](V v) HWY_ATTR { return f(v, s); });
    }
    case RowForm::kScalarVector: {
      const V s = hn::Set(d, *a);
      return Map1(n, b, y, [&](V v) HWY_ATTR { return f(s, v); });
    }
  }
}

template <typename T>
void BinaryTile(BinaryOp op, RowForm form, int64_t n, const T* a, const T* b, T* y) {
  using V = hn::Vec<Tag<T>>;
  switch (op) {
    case BinaryOp::kAdd:
      return BinaryRow(form, n, a, b, y, [](V u, V v) HWY_ATTR { return hn::Add(u, v); });
    case BinaryOp::kSub:
      return BinaryRow(form, n, a, b, y, [](V u, V v) HWY_ATTR { return hn::Sub(u, v); });
    case BinaryOp::kMul:
      return BinaryRow(form, n, a, b, y, [](V u, V v) HWY_ATTR { return hn::Mul(u, v); });
    case BinaryOp::kDiv:
      return BinaryRow(form, n, a, b, y, [](V u, V v) HWY_ATTR { return hn::Div(u, v); });
  }
}

// Vectors of at most the eight elements whose signs a byte holds.
template <class T>
using ByteTag = hn::CappedTag<T, 8>;

template <typename T>
void ReluTile(int64_t n, const T* x, T* y, uint8_t* positive) {
  const ByteTag<T> d;
  const auto zero = hn::Zero(d);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t byte = 0; byte < n / 8; ++byte) {
    unsigned bits = 0;
    for (int64_t i = 0; i < 8; i += lanes) {
      const auto v = hn::LoadU(d, x + 8 * byte + i);
      uint8_t part[8] = {};  // StoreMaskBits may write eight bytes
      hn::StoreMaskBits(d, hn::Gt(v, zero), part);
      bits |= static_cast<unsigned>(part[0]) << i;
      hn::StoreU(hn::IfThenElse(hn::Lt(v, zero), zero, v), d, y + 8 * byte + i);
    }
    positive[byte] = static_cast<uint8_t>(bits);
  }
  unsigned bits = 0;
  for (int64_t i = n / 8 * 8; i < n; ++i) {
    bits |= unsigned{x[i] > 0} << i % 8;
    y[i] = x[i] < 0 ? T(0) : x[i];
  }
  if (n % 8 != 0) positive[n / 8] = static_cast<uint8_t>(bits);
}

template <typename T>
void ReluGradientTile(int64_t n, const uint8_t* positive, const T* dy, T* dx) {
  const ByteTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t byte = 0; byte < n / 8; ++byte) {
    for (int64_t i = 0; i < 8; i += lanes) {
      const uint8_t part[8] = {static_cast<uint8_t>(positive[byte] >> i)};  // LoadMaskBits may read eight bytes
      hn::StoreU(hn::IfThenElseZero(hn::LoadMaskBits(d, part), hn::LoadU(d, dy + 8 * byte + i)), d, dx + 8 * byte + i);
    }
  }
  for (int64_t i = n / 8 * 8; i < n; ++i) dx[i] = (positive[i / 8] >> i % 8 & 1) != 0 ? dy[i] : T(0);
}

// y = 0 where the 24 high bits of the element's word are below the threshold, x · scale elsewhere.
template <typename T>
HWY_INLINE void ApplyDropout(int64_t n, const uint32_t* words, uint32_t threshold, const T* x, T scale, T* y) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 4) {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> di;
    const auto limit = hn::Set(di, static_cast<int32_t>(threshold));
    const auto factor = hn::Set(d, scale);
    for (; i + kLanesOf<T> <= n; i += kLanesOf<T>) {
      const auto high = hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(Tag<uint32_t>(), words + i)));
      const auto dropped = hn::RebindMask(d, hn::Gt(limit, high));
      hn::StoreU(hn::IfThenZeroElse(dropped, hn::Mul(factor, hn::LoadU(d, x + i))), d, y + i);
    }
  }
  for (; i < n; ++i) y[i] = (words[i] >> 8) < threshold ? T(0) : x[i] * scale;
}

// Elements first … first + count - 1 of the whole array, of which x and y point to the first; it is a multiple of 4.
template <typename T>
void DropoutTile(int64_t first, int64_t count, const RandomKey& key, uint32_t threshold, const T* x, T scale, T* y) {
  // Two calls' words at a time, whose rounds overlap.
  constexpr int64_t kWords = 2 * 4 * kPhiloxBlocks;
  HWY_ALIGN uint32_t words[kWords];
  for (int64_t done = 0; done < count; done += kWords) {
    const uint64_t block = static_cast<uint64_t>(first + done) / 4;
    PhiloxWords(key, block, words);
    PhiloxWords(key, block + kPhiloxBlocks, words + 4 * kPhiloxBlocks);
    ApplyDropout(std::min(kWords, count - done), words, threshold, x + done, scale, y + done);
  }
}

CROSSTALK_END_TARGET

CROSSTALK_DISPATCH(UnaryTile)
CROSSTALK_DISPATCH(UnaryGradientTile)
CROSSTALK_DISPATCH(ActivationTile)
CROSSTALK_DISPATCH(AffineTile)
CROSSTALK_DISPATCH(AxpyTile)
CROSSTALK_DISPATCH(BinaryTile)
CROSSTALK_DISPATCH(ReluTile)
CROSSTALK_DISPATCH(ReluGradientTile)
CROSSTALK_DISPATCH(DropoutTile)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

// Elements a tile: large enough that handing it out costs nothing beside its work, small enough for the L2 cache; whole
// bytes of signs.
constexpr int64_t kTile = 8192;

// Runs body(begin_offsets, begin in y, count) over all elements of the loop nest, whose operand 0 is y, contiguous,
// in pieces of rows of about kTile elements.
template <int kOperands, typename Body>
void ForRowPieces(const StridedLoop<kOperands>& loop, const Body& body) {
  const int64_t inner = loop.inner();
  const int64_t rows = loop.rows();
  if (inner == 0 || rows == 0) return;
  const int64_t pieces = CeilDivide(inner, kTile);                  // a row's
  const int64_t rows_a_tile = std::max<int64_t>(1, kTile / inner);  // 1 where pieces > 1
  ParallelForRange(rows * pieces, rows_a_tile, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / pieces;
      const int64_t first = i % pieces * kTile;
      body(loop.RowOffsets(row), row * inner + first, first, std::min(kTile, inner - first));
    }
  });
}

}  // namespace

bool IsActivation(UnaryOp f) { return f == UnaryOp::kGelu || f == UnaryOp::kGeluTanh; }

bool GradientReadsOutput(UnaryOp f) {
  switch (f) {
    case UnaryOp::kExp:
    case UnaryOp::kSqrt:
    case UnaryOp::kTanh:
    case UnaryOp::kSigmoid:
      return true;
    default:
      return false;
  }
}

template <typename T>
void Unary(UnaryOp f, int64_t count, const T* x, T* y) {
  const auto unary = UnaryTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) { unary(f, e - b, x + b, y + b); });
}

template <typename T>
void UnaryGradient(UnaryOp f, int64_t count, const T* x, const T* y, const T* dy, T* dx) {
  CROSSTALK_CHECK(!IsActivation(f), "unary gradient: an activation's is dy times the slope that Activation gives");
  const auto gradient = UnaryGradientTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) {
    gradient(f, e - b, x == nullptr ? x : x + b, y == nullptr ? y : y + b, dy + b, dx + b);
  });
}

template <typename T>
void Activation(UnaryOp f, int64_t count, const T* x, T* y, T* slope) {
  CROSSTALK_CHECK(IsActivation(f), "activation: of another function UnaryGradient is the gradient");
  const auto activation = ActivationTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) { activation(f, e - b, x + b, y + b, slope + b); });
}

template <typename T>
void Affine(int64_t count, T scale, T shift, const T* x, T* y) {
  const auto affine = AffineTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) { affine(e - b, scale, shift, x + b, y + b); });
}

template <typename T>
void Axpy(int64_t count, T scale, const T* x, T* y) {
  const auto axpy = AxpyTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) { axpy(e - b, scale, x + b, y + b); });
}

template <typename T>
void Binary(BinaryOp op, int64_t count, const T* a, const T* b, T* y) {
  const auto binary = BinaryTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t begin, int64_t end) {
    binary(op, RowForm::kVectorVector, end - begin, a + begin, b + begin, y + begin);
  });
}

template <typename T>
void Binary(BinaryOp op, const Shape& shape, const T* a, const Strides& strides_a, const T* b, const Strides& strides_b,
            T* y) {
  const auto binary = BinaryTileOnTarget<T>();
  const auto loop = MergeDimensions<2>(shape, {&strides_a, &strides_b});
  const int64_t step_a = loop.stride[0][loop.rank - 1];
  const int64_t step_b = loop.stride[1][loop.rank - 1];
  const bool single = loop.inner() == 1;
  ForRowPieces(loop, [&](const std::array<int64_t, 2>& offsets, int64_t out, int64_t first, int64_t n) {
    const T* row_a = a + offsets[0] + first * step_a;
    const T* row_b = b + offsets[1] + first * step_b;
    if (single || (step_a == 1 && step_b == 1)) {
      binary(op, RowForm::kVectorVector, n, row_a, row_b, y + out);
    } else if (step_a == 1 && step_b == 0) {
      binary(op, RowForm::kVectorScalar, n, row_a, row_b, y + out);
    } else if (step_a == 0 && step_b == 1) {
      binary(op, RowForm::kScalarVector, n, row_a, row_b, y + out);
    } else {
      for (int64_t i = 0; i < n; ++i) y[out + i] = reference::Binary(op, row_a[i * step_a], row_b[i * step_b]);
    }
  });
}

template <typename T>
void MaskedFill(const Shape& shape, const T* x, const Strides& strides_x, const uint8_t* mask,
                const Strides& strides_mask, T value, T* y) {
  const auto loop = MergeDimensions<2>(shape, {&strides_x, &strides_mask});
  const int64_t step_x = loop.stride[0][loop.rank - 1];
  const int64_t step_mask = loop.stride[1][loop.rank - 1];
  ForRowPieces(loop, [&](const std::array<int64_t, 2>& offsets, int64_t out, int64_t first, int64_t n) {
    const T* row = x + offsets[0] + first * step_x;
    const uint8_t* row_mask = mask + offsets[1] + first * step_mask;
    if (step_x == 1 && step_mask == 1) {
      for (int64_t i = 0; i < n; ++i) y[out + i] = row_mask[i] != 0 ? value : row[i];
    } else {
      for (int64_t i = 0; i < n; ++i) y[out + i] = row_mask[i * step_mask] != 0 ? value : row[i * step_x];
    }
  });
}

template <typename T>
void Relu(int64_t count, const T* x, T* y, uint8_t* positive) {
  const auto relu = ReluTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) { relu(e - b, x + b, y + b, positive + b / 8); });
}

template <typename T>
void ReluGradient(int64_t count, const uint8_t* positive, const T* dy, T* dx) {
  const auto gradient = ReluGradientTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) { gradient(e - b, positive + b / 8, dy + b, dx + b); });
}

template <typename T>
void Dropout(int64_t count, double rate, const RandomKey& key, const T* x, T* y) {
  CROSSTALK_DCHECK(rate >= 0 && rate < 1);
  // Uniform is bits · 2^-24 with 24 bits, so it is less than the rate exactly where bits < ⌈rate · 2^24⌉.
  const auto threshold = static_cast<uint32_t>(std::ceil(rate * 0x1p24));
  const T scale = static_cast<T>(1 / (1 - rate));
  const auto tile = DropoutTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t begin, int64_t end) {
    tile(begin, end - begin, key, threshold, x + begin, scale, y + begin);
  });
}

CROSSTALK_INSTANTIATE(Unary)
CROSSTALK_INSTANTIATE(UnaryGradient)
CROSSTALK_INSTANTIATE(Activation)
CROSSTALK_INSTANTIATE(Affine)
CROSSTALK_INSTANTIATE(Axpy)
CROSSTALK_INSTANTIATE(MaskedFill)
CROSSTALK_INSTANTIATE(Relu)
CROSSTALK_INSTANTIATE(ReluGradient)
CROSSTALK_INSTANTIATE(Dropout)
#define CROSSTALK_INSTANTIATE_BINARY(T) \
  template void Binary(BinaryOp, int64_t, const T*, const T*, T*); \
  template void Binary(BinaryOp, const Shape&, const T*, const Strides&, const T*, const Strides&, T*);
CROSSTALK_INSTANTIATE_BINARY(float)
CROSSTALK_INSTANTIATE_BINARY(double)

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
