#include "crosstalk/kernels/copy.h"

#include <numeric>

#include "crosstalk/kernels/reference/elementwise.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace copy_test {

struct CopyCase {
  Shape shape;
  Strides x, y;
};

// One transpose (2-D, batched, permuted), slice, broadcast, padding, and sizes around the 16-wide blocks.
std::vector<CopyCase> Cases() {
  std::vector<CopyCase> cases = {
      {{}, {}, {}},
      {{3, 0, 5}, {5, 5, 1}, {5, 5, 1}},
      {{7, 9}, {9, 1}, {9, 1}},
      {{7, 9}, {0, 1}, {9, 1}},
      {{7, 9}, {1, 0}, {9, 1}},
      {{5, 6, 7}, {1, 5, 30}, {42, 7, 1}},
      {{5, 6, 7}, {7, 35, 1}, {42, 7, 1}},
      {{5, 6, 7}, {42, 1, 6}, {42, 7, 1}},
      {{5, 6, 7}, {84, 14, 2}, {50, 8, 1}},
      {{4, 3, 40, 24}, {2880, 1, 72, 3}, {2880, 960, 24, 1}},
      {{4, 40, 3, 24}, {2880, 24, 960, 1}, {2880, 72, 24, 1}},
      {{2, 3, 4, 5, 6}, {1, 2, 6, 24, 120}, {360, 120, 30, 6, 1}},
      {{300, 500}, {1, 300}, {500, 1}},
      {{300, 500}, {500, 1}, {1, 300}},
      {{1, 100000}, {0, 1}, {100000, 1}},
  };
  for (const int64_t n : {1, 3, 4, 15, 16, 17, 31, 32, 33}) {
    for (const int64_t m : {1, 4, 16, 17, 48}) cases.push_back({{n, m}, {1, n}, {m, 1}});
  }
  return cases;
}

template <typename T>
void CheckCopies() {
  for (const CopyCase& c : Cases()) {
    int64_t size_x = 1, size_y = 1;
    for (int d = 0; d < c.shape.rank(); ++d) {
      size_x += std::max<int64_t>(0, c.shape[d] - 1) * c.x[d];
      size_y += std::max<int64_t>(0, c.shape[d] - 1) * c.y[d];
    }
    std::vector<T> x(size_x);
    for (int64_t i = 0; i < size_x; ++i) x[i] = static_cast<T>(i % 251);
    std::vector<T> expected(size_y, T(99));
    Guarded<T> in(x), out(expected);
    for (int64_t i = 0; i < c.shape.NumElements(); ++i) {
      int64_t at_x = 0, at_y = 0, rest = i;
      for (int d = c.shape.rank() - 1; d >= 0; --d) {
        at_x += rest % c.shape[d] * c.x[d];
        at_y += rest % c.shape[d] * c.y[d];
        rest /= c.shape[d];
      }
      expected[at_y] = x[at_x];
    }
    CopyStrided(c.shape, in.data(), c.x, out.data(), c.y);
    ASSERT_TRUE(SameBits(out.values(), expected)) << c.shape << " from " << c.x << " to " << c.y;
    ASSERT_TRUE(out.GuardsIntact()) << c.shape;
  }
}

TEST(CopyTest, ElementsOfEveryTypeLandWhereTheStridesSay) {
  CheckCopies<float>();
  CheckCopies<double>();
  CheckCopies<int32_t>();
  CheckCopies<int64_t>();
  CheckCopies<uint8_t>();
}

CROSSTALK_KERNEL_TEST(EmbeddingTest);

// Skewed as text is: many repeats of small ids.
std::vector<int32_t> Ids(int64_t count, int64_t vocabulary) {
  const RandomKey key{5, StreamId("ids"), 0};
  std::vector<int32_t> ids(count);
  for (int64_t i = 0; i < count; ++i) {
    ids[i] = static_cast<int32_t>(UniformInt(key, i, UniformInt(key, 100000 + i, vocabulary) + 1));
  }
  return ids;
}

// Copies and sums in the order of i: the same bits as the reference, on every target.
template <typename T>
void CheckEmbedding() {
  const int64_t count = 57, vocabulary = 23;
  const std::vector<int32_t> ids = Ids(count, vocabulary);
  for (const int64_t cols : {1, 3, 15, 16, 17, 63, 64, 65, 130}) {
    const std::vector<T> table = RandomValues<T>(vocabulary * cols, "table"), dy = RandomValues<T>(count * cols, "dy");
    Guarded<T> in(table), in_dy(dy), out(count * cols), dtable(table);
    std::vector<T> y(count * cols), expected = table;
    reference::GatherRows(count, cols, table.data(), ids.data(), y.data());
    GatherRows(count, cols, in.data(), ids.data(), out.data());
    std::vector<int32_t> some = ids;
    some[2] = some[40] = -1;  // nothing is added for these
    reference::ScatterAddRows(count, cols, some.data(), dy.data(), expected.data());
    ScatterAddRows(count, vocabulary, cols, some.data(), in_dy.data(), dtable.data());
    ASSERT_TRUE(SameBits(out.values(), y)) << cols;
    ASSERT_TRUE(SameBits(dtable.values(), expected)) << cols;
    ASSERT_TRUE(out.GuardsIntact() && dtable.GuardsIntact()) << cols;
  }
}
CROSSTALK_FLOATS_TEST(EmbeddingTest, MatchesTheReference, CheckEmbedding)

TEST_P(EmbeddingTest, SameBitsOnAnyThreads) {
  const int64_t count = 2000, vocabulary = 301, cols = 200;
  const std::vector<int32_t> ids = Ids(count, vocabulary);
  const std::vector<float> dy = RandomValues<float>(count * cols, "dy");
  ExpectSameBitsOnAnyThreads([&] {
    std::vector<float> dtable(vocabulary * cols), y(count * cols);
    ScatterAddRows(count, vocabulary, cols, ids.data(), dy.data(), dtable.data());
    GatherRows(count, cols, dtable.data(), ids.data(), y.data());
    return y;
  });
}

}  // namespace copy_test
}  // namespace crosstalk::kernels
