#include "crosstalk/kernels/copy.h"
#include "crosstalk/kernels/reference/elementwise.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace embedding_test {

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
TEST_P(EmbeddingTest, MatchesTheReference) {
  CheckEmbedding<float>();
  CheckEmbedding<double>();
}

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

}  // namespace embedding_test
}  // namespace crosstalk::kernels
