#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk {
namespace parameter_loop_test {

TEST(ForEachParameterTest, CallsOnceForEachThatHasElements) {
  for (const int count : {1, 2, 3, 5}) {
    const ThreadsScope threads(count);
    const std::vector<int64_t> elements = {7, 0, 100'000, 1, 3'000, 0, 11};
    std::vector<std::atomic<int>> calls(elements.size());
    ForEachParameter(elements, [&](size_t i) { ++calls[i]; });
    for (size_t i = 0; i < elements.size(); ++i) EXPECT_EQ(calls[i], elements[i] > 0 ? 1 : 0) << i;
  }
}

TEST(ForEachParameterTest, NothingIsDoneOnAnotherThreadWhereOnlyShapesCount) {
  const ThreadsScope threads(4);
  const ContextScope shapes_only(&OpContext::shapes_only, true);
  const std::thread::id own = std::this_thread::get_id();
  int calls = 0;
  ForEachParameter(std::vector<int64_t>(20, 5), [&](size_t) {
    EXPECT_EQ(std::this_thread::get_id(), own);
    ++calls;
  });
  EXPECT_EQ(calls, 20);
}

TEST(ForEachParameterTest, AnErrorIsTheCallers) {
  const ThreadsScope threads(2);
  EXPECT_THROW(ForEachParameter(std::vector<int64_t>(20, 5),
                                [](size_t i) {
                                  if (i == 3) throw std::runtime_error("three");
                                }),
               std::runtime_error);
}

}  // namespace parameter_loop_test
}  // namespace crosstalk
