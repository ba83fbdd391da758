#include "kernels/gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "kernels/openblas.h"
#include "runtime/check.h"
#include "runtime/parallel.h"

namespace crosstalk::kernels {
namespace {

// One single-threaded BLAS call makes one tile of C, of at most this many rows and columns. OpenBLAS packs a tile's
// rows of A once per column tile and its columns of B once per row tile, so smaller tiles cost (64 rows a fifth of the
// speed, 256 up to a tenth, 512 by 2048 some hundredths); larger ones leave processors idle.
struct TileShape {
  int64_t rows, cols;
};
constexpr TileShape kSmallTile = {256, 1024};
constexpr TileShape kLargeTile = {512, 2048};
constexpr int64_t kManyElements = 1 << 21;  // of C: enough for several large tiles

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// `count` in equal tiles of at most `most`, whole multiples of 32 but for the last.
int64_t TileSize(int64_t count, int64_t most) {
  const int64_t tiles = CeilDivide(count, most);
  return std::max<int64_t>(1, CeilDivide(CeilDivide(count, tiles), 32) * 32);
}

int Cblas(Transpose transpose) { return transpose == Transpose::kYes ? kCblasTranspose : kCblasNoTranspose; }

void CallBlas(const GemmArguments<float>& g) {
  GetOpenBlas().sgemm(kCblasRowMajor, Cblas(g.transpose_a), Cblas(g.transpose_b), static_cast<int>(g.m),
                      static_cast<int>(g.n), static_cast<int>(g.k), g.alpha, g.a, static_cast<int>(g.lda), g.b,
                      static_cast<int>(g.ldb), g.beta, g.c, static_cast<int>(g.ldc));
}
void CallBlas(const GemmArguments<double>& g) {
  GetOpenBlas().dgemm(kCblasRowMajor, Cblas(g.transpose_a), Cblas(g.transpose_b), static_cast<int>(g.m),
                      static_cast<int>(g.n), static_cast<int>(g.k), g.alpha, g.a, static_cast<int>(g.lda), g.b,
                      static_cast<int>(g.ldb), g.beta, g.c, static_cast<int>(g.ldc));
}

// C ← beta · C, where 0 overwrites.
template <typename T>
void ScaleOnly(const GemmArguments<T>& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    T* row = g.c + i * g.ldc;
    for (int64_t j = 0; j < g.n; ++j) row[j] = g.beta == T(0) ? T(0) : g.beta * row[j];
  }
}

template <typename T>
void ComputeTile(GemmArguments<T> g, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  g.a += g.transpose_a == Transpose::kYes ? row : row * g.lda;
  g.b += g.transpose_b == Transpose::kYes ? col * g.ldb : col;
  g.c += row * g.ldc + col;
  g.m = rows;
  g.n = cols;
  if (g.k == 0 || g.alpha == T(0)) {
    ScaleOnly(g);
  } else {
    CallBlas(g);
  }
}

template <typename T>
void CheckArguments(const GemmArguments<T>& g) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  CROSSTALK_CHECK(g.m >= 0 && g.n >= 0 && g.k >= 0 && g.m <= kMost && g.n <= kMost && g.k <= kMost && g.lda <= kMost &&
                      g.ldb <= kMost && g.ldc <= kMost,
                  "gemm: sizes m=", g.m, " n=", g.n, " k=", g.k, " with row distances ", g.lda, ", ", g.ldb, ", ",
                  g.ldc, " must lie in 0 … ", kMost);
  const int64_t columns_a = g.transpose_a == Transpose::kYes ? g.m : g.k;
  const int64_t columns_b = g.transpose_b == Transpose::kYes ? g.k : g.n;
  CROSSTALK_CHECK(g.lda >= std::max<int64_t>(1, columns_a) && g.ldb >= std::max<int64_t>(1, columns_b) &&
                      g.ldc >= std::max<int64_t>(1, g.n),
                  "gemm: row distances lda=", g.lda, " ldb=", g.ldb, " ldc=", g.ldc, " are less than the row lengths ",
                  columns_a, ", ", columns_b, ", ", g.n);
}

// Small C, long k: the gradients of head projections, [h, h] out of k = n · m. k is cut into slices, by shape alone,
// whose products meet in order: otherwise one thread would do all the work.
constexpr int64_t kMostSlices = 16;
constexpr int64_t kSliceElements = 4096;  // of C, at most
constexpr int64_t kSliceLength = 4096;    // of k, at least

template <typename T>
bool IsSliced(const GemmArguments<T>& g) {
  return g.m * g.n <= kSliceElements && g.k >= 2 * kSliceLength;
}

template <typename T>
void RunSliced(const GemmArguments<T>& g) {
  const int64_t most = CeilDivide(g.k, std::min(kMostSlices, g.k / kSliceLength));
  const int64_t length = CeilDivide(most, 16) * 16;
  const int64_t slices = CeilDivide(g.k, length);
  const int64_t elements = g.m * g.n;
  T partial[kMostSlices * kSliceElements];
  ParallelFor(slices, [&](int64_t s) {
    GemmArguments<T> slice = g;
    slice.a += s * length * (g.transpose_a == Transpose::kYes ? g.lda : 1);
    slice.b += s * length * (g.transpose_b == Transpose::kYes ? 1 : g.ldb);
    slice.k = std::min(length, g.k - s * length);
    slice.beta = 0;
    slice.c = partial + s * elements;
    slice.ldc = g.n;
    ComputeTile(slice, 0, g.m, 0, g.n);
  });
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      T sum = 0;
      for (int64_t s = 0; s < slices; ++s) sum += partial[s * elements + i * g.n + j];
      T& c = g.c[i * g.ldc + j];
      c = g.beta == T(0) ? sum : g.beta * c + sum;
    }
  }
}

// The product for each i < count, A at a + offset_a(i) and so on.
template <typename T, typename OffsetA, typename OffsetB, typename OffsetC>
void RunTiles(const GemmArguments<T>& g, int64_t count, OffsetA offset_a, OffsetB offset_b, OffsetC offset_c) {
  if (count == 0 || g.m == 0 || g.n == 0) return;
  if (IsSliced(g)) {
    for (int64_t i = 0; i < count; ++i) {
      GemmArguments<T> product = g;
      product.a += offset_a(i);
      product.b += offset_b(i);
      product.c += offset_c(i);
      RunSliced(product);
    }
    return;
  }
  const TileShape most = g.m * g.n >= kManyElements ? kLargeTile : kSmallTile;
  const int64_t tile_rows = TileSize(g.m, most.rows);
  const int64_t tile_cols = TileSize(g.n, most.cols);
  const int64_t row_tiles = CeilDivide(g.m, tile_rows);
  const int64_t col_tiles = CeilDivide(g.n, tile_cols);
  // Small products are handed out several at a time.
  const double work = 2.0 * static_cast<double>(std::min(g.m, tile_rows)) *
                      static_cast<double>(std::min(g.n, tile_cols)) * static_cast<double>(g.k + 1);
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(1e6 / work));
  ParallelForRange(count * row_tiles * col_tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t i = tile / (row_tiles * col_tiles);
      const int64_t row = tile / col_tiles % row_tiles * tile_rows;
      const int64_t col = tile % col_tiles * tile_cols;
      GemmArguments<T> product = g;
      product.a += offset_a(i);
      product.b += offset_b(i);
      product.c += offset_c(i);
      ComputeTile(product, row, std::min(tile_rows, g.m - row), col, std::min(tile_cols, g.n - col));
    }
  });
}

// Each process must pass the self-test once, before its first product.
void PrepareBlas() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::string wrong = BlasSelfTest();
    if (!wrong.empty()) Fail(ErrorKind::kFailure, wrong);
  });
}

}  // namespace

template <typename T>
void Gemm(const GemmArguments<T>& arguments) {
  CheckArguments(arguments);
  PrepareBlas();
  const auto zero = [](int64_t) { return int64_t{0}; };
  RunTiles(arguments, 1, zero, zero, zero);
}

template <typename T>
void GemmBatched(const GemmArguments<T>& arguments, std::span<const int64_t> offsets_a,
                 std::span<const int64_t> offsets_b, std::span<const int64_t> offsets_c) {
  CheckArguments(arguments);
  CROSSTALK_CHECK(offsets_a.size() == offsets_c.size() && offsets_b.size() == offsets_c.size(), "gemm: a batch of ",
                  offsets_c.size(), " products has ", offsets_a.size(), " offsets of A and ", offsets_b.size(),
                  " of B");
  PrepareBlas();
  RunTiles(
      arguments, static_cast<int64_t>(offsets_c.size()), [&](int64_t i) { return offsets_a[i]; },
      [&](int64_t i) { return offsets_b[i]; }, [&](int64_t i) { return offsets_c[i]; });
}

template void Gemm<float>(const GemmArguments<float>&);
template void Gemm<double>(const GemmArguments<double>&);
template void GemmBatched<float>(const GemmArguments<float>&, std::span<const int64_t>, std::span<const int64_t>,
                                 std::span<const int64_t>);
template void GemmBatched<double>(const GemmArguments<double>&, std::span<const int64_t>, std::span<const int64_t>,
                                  std::span<const int64_t>);

std::string BlasKernelName() { return GetOpenBlas().core; }

std::string BlasWarning() { return GetOpenBlas().warning; }

namespace {

// One product against plain loops; the operands are small integers over 8, whose sums are exact in either type.
template <typename T>
bool ProductIsRight(Transpose transpose_a, Transpose transpose_b, int64_t m, int64_t n, int64_t k, T beta) {
  const int64_t lda = (transpose_a == Transpose::kYes ? m : k) + 1;
  const int64_t ldb = (transpose_b == Transpose::kYes ? k : n) + 2;
  const int64_t ldc = n + 3;
  std::vector<T> a((transpose_a == Transpose::kYes ? k : m) * lda + 1);
  std::vector<T> b((transpose_b == Transpose::kYes ? n : k) * ldb + 1);
  std::vector<T> c(m * ldc);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(static_cast<int>(i * 7 % 17) - 8) / 8;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(static_cast<int>(i * 5 % 13) - 6) / 8;
  const T before = beta == T(0) ? std::numeric_limits<T>::quiet_NaN() : T(3);
  std::fill(c.begin(), c.end(), before);
  ComputeTile<T>({transpose_a, transpose_b, m, n, k, T(2), a.data(), lda, b.data(), ldb, beta, c.data(), ldc}, 0, m, 0,
                 n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += (transpose_a == Transpose::kYes ? a[p * lda + i] : a[i * lda + p]) *
               (transpose_b == Transpose::kYes ? b[j * ldb + p] : b[p * ldb + j]);
      }
      const T expected = 2 * sum + (beta == T(0) ? T(0) : beta * before);
      if (!(c[i * ldc + j] == expected)) return false;
    }
    for (int64_t j = n; j < ldc; ++j) {  // between the rows nothing may be written
      const T kept = c[i * ldc + j];
      if (!(kept == before || (kept != kept && before != before))) return false;
    }
  }
  return true;
}

template <typename T>
std::string SelfTest(const char* type) {
  struct Size {
    int64_t m, n, k;
  };
  for (const Size size : {Size{1, 1, 1}, Size{5, 3, 0}, Size{17, 33, 19}, Size{1, 70, 31}, Size{67, 1, 9}}) {
    for (const Transpose ta : {Transpose::kNo, Transpose::kYes}) {
      for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
        for (const T beta : {T(0), T(1)}) {
          if (ProductIsRight<T>(ta, tb, size.m, size.n, size.k, beta)) continue;
          return StrCat("OpenBLAS (", BlasKernelName(), " kernels) computes a wrong ", type, " product: m=", size.m,
                        " n=", size.n, " k=", size.k, " beta=", beta, " A ", ta == Transpose::kYes ? "" : "not ",
                        "transposed, B ", tb == Transpose::kYes ? "" : "not ",
                        "transposed. Try another kernel set (OPENBLAS_CORETYPE) or another OpenBLAS");
        }
      }
    }
  }
  return "";
}

}  // namespace

std::string BlasSelfTest() {
  std::string wrong = SelfTest<float>("float");
  return wrong.empty() ? SelfTest<double>("double") : wrong;
}

}  // namespace crosstalk::kernels
