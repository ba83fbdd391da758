#include "crosstalk/kernels/lapack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "crosstalk/kernels/gemm/openblas.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk::kernels {
namespace lapack_test {

class LapackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = LapackUnavailable(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(LapackTest, TheDeterminantIsTheProductOfThePivots) {
  EXPECT_NEAR(DeterminantOf(std::vector<double>{1, 2, 3, 4}, 2)->absolute, 2, 1e-15);
  // Rows in another order change its sign, which is not told.
  EXPECT_NEAR(DeterminantOf(std::vector<double>{0, 2, 0, 0, 0, 3, 5, 0, 0}, 3)->absolute, 30, 1e-13);
  const Determinant singular = *DeterminantOf(std::vector<double>{1, 2, 2, 4}, 2);
  EXPECT_EQ(singular.absolute, 0);
  EXPECT_EQ(singular.log_absolute, -std::numeric_limits<double>::infinity());
}

TEST_F(LapackTest, TheLogarithmHoldsWhatADoubleCannot) {
  constexpr int64_t kN = 400;
  std::vector<double> tenths(kN * kN, 0.0);
  for (int64_t i = 0; i < kN; ++i) tenths[static_cast<size_t>(i * kN + i)] = 0.1;
  const Determinant small = *DeterminantOf(tenths, kN);
  EXPECT_EQ(small.absolute, 0);
  EXPECT_NEAR(small.log_absolute, -400 * std::log(10.0), 1e-9);
}

TEST_F(LapackTest, EigenvaluesMayBeComplex) {
  // A rotation by 90°, stretched by 3: ±3i. Beside it 2, and what is above the diagonal changes nothing.
  const std::vector<double> sizes = *EigenvalueSizes(std::vector<double>{0, -3, 7, 3, 0, 5, 0, 0, 2}, 3);
  ASSERT_EQ(sizes.size(), 3u);
  EXPECT_NEAR(sizes[0], 2, 1e-12);
  EXPECT_NEAR(sizes[1], 3, 1e-12);
  EXPECT_NEAR(sizes[2], 3, 1e-12);
}

TEST_F(LapackTest, SingularValuesOfRectangularMatrices) {
  // Rows (3, 0, 0) and (0, 0, 4) and their transpose.
  for (const auto& [rows, columns, a] :
       {std::tuple<int64_t, int64_t, std::vector<double>>{2, 3, {3, 0, 0, 0, 0, 4}}, {3, 2, {3, 0, 0, 0, 0, 4}}}) {
    const std::vector<double> values = *SingularValues(a, rows, columns);
    ASSERT_EQ(values.size(), 2u);
    EXPECT_NEAR(values[0], 4, 1e-14);
    EXPECT_NEAR(values[1], 3, 1e-14);
  }
  // (1, 2), (3, 4), (5, 6): σ² are the eigenvalues of aᵀa = ((35, 44), (44, 56)), (91 ± √8185) / 2.
  const std::vector<double> values = *SingularValues(std::vector<double>{1, 2, 3, 4, 5, 6}, 3, 2);
  EXPECT_NEAR(values[0], std::sqrt((91 + std::sqrt(8185.0)) / 2), 1e-13);
  EXPECT_NEAR(values[1], std::sqrt((91 - std::sqrt(8185.0)) / 2), 1e-13);
}

TEST_F(LapackTest, WhatIsNoNumberHasNone) {
  const std::vector<double> a = {1, std::nan(""), 0, 1};
  EXPECT_FALSE(DeterminantOf(a, 2));
  EXPECT_FALSE(EigenvalueSizes(a, 2));
  EXPECT_FALSE(SingularValues(a, 2, 2));
}

// OpenBLAS has as many buffers as there were threads when it was loaded.
TEST_F(LapackTest, CallsOfMoreThreadsThanItHasBuffersWait) {
  const int threads = GetOpenBlas().buffers + 3;
  const ThreadsScope scope(threads);
  constexpr int64_t kN = 40;
  std::vector<double> matrix(kN * kN);
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<double>(i * i % 37);
  const std::vector<double> alone = *SingularValues(matrix, kN, kN);
  std::vector<std::vector<double>> together(static_cast<size_t>(8 * threads));
  ParallelFor(std::ssize(together),
              [&](int64_t i) { together[static_cast<size_t>(i)] = *SingularValues(matrix, kN, kN); });
  for (const std::vector<double>& one : together) EXPECT_EQ(one, alone);
}

}  // namespace lapack_test
}  // namespace crosstalk::kernels
