#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk::kernels {
namespace head_mixing_test {

// Aligned floats, uniform in [-1, 1).
class Floats {
 public:
  Floats(int64_t count, const char* purpose) : storage_(Storage::Allocate(static_cast<size_t>(count) * sizeof(float))) {
    const RandomKey key{.seed = 3, .stream = StreamId(purpose)};
    for (int64_t i = 0; i < count; ++i) data()[i] = 2 * Uniform(key, static_cast<uint64_t>(i)) - 1;
  }
  float* data() const { return static_cast<float*>(storage_->data()); }
  float& operator[](int64_t i) const { return data()[i]; }

 private:
  std::shared_ptr<Storage> storage_;
};

void ExpectEqualToPlainLoops(int64_t h_k, int64_t h) {
  const AttentionPlan plan(
      {.b = 1, .n = 16, .m = kChunk, .h_k = h_k, .h = h, .h_v = h, .d_k = 4, .d_v = 4, .P_l = true},
      AttentionPass::kBackward);
  const std::string where = "h_k=" + std::to_string(h_k) + " h=" + std::to_string(h) + " on " + SimdTargetName();
  const Floats P(h_k * h, "P_l"), J(h_k * plan.pitch, "J"), dL(h * plan.pitch, "dL");
  const Floats packed(h_k * h, "packed"), transposed(h_k * h, "transposed");
  const Floats L(h * plan.pitch, "L"), dJ(h_k * plan.pitch, "dJ"), dP(h_k * h * kPartialSums, "dP_l");
  const int64_t lanes = kPartialSums;
  for (int64_t i = 0; i < h_k * h * lanes; ++i) dP[i] = 0;
  PackHeadMixing(plan, P.data(), packed.data());
  PackHeadMixingTransposed(plan, P.data(), transposed.data());
  MixTileHeads(plan, packed.data(), J.data(), L.data());
  MixTileHeadsBackward(plan, transposed.data(), J.data(), dL.data(), dJ.data(), dP.data());

  // A sum of k terms of at most 1 in single precision is within k² roundings of 2^-24.
  const auto tolerance = [](int64_t k) { return static_cast<double>(k * k) * 0x1p-24; };
  const int64_t positions = plan.rows * kChunk;
  for (int64_t out = 0; out < h; ++out) {
    for (int64_t i = 0; i < positions; ++i) {
      double sum = 0;
      for (int64_t in = 0; in < h_k; ++in) sum += double{J[in * plan.pitch + i]} * P[in * h + out];
      ASSERT_NEAR(L[out * plan.pitch + i], sum, tolerance(h_k))
          << "L, head " << out << ", element " << i << ", " << where;
    }
  }
  for (int64_t in = 0; in < h_k; ++in) {
    for (int64_t i = 0; i < positions; ++i) {
      double sum = 0;
      for (int64_t out = 0; out < h; ++out) sum += double{dL[out * plan.pitch + i]} * P[in * h + out];
      ASSERT_NEAR(dJ[in * plan.pitch + i], sum, tolerance(h))
          << "dJ, head " << in << ", element " << i << ", " << where;
    }
    for (int64_t out = 0; out < h; ++out) {
      double sum = 0, actual = 0;
      for (int64_t i = 0; i < positions; ++i) sum += double{J[in * plan.pitch + i]} * dL[out * plan.pitch + i];
      for (int64_t lane = 0; lane < lanes; ++lane) actual += dP[(in * h + out) * lanes + lane];
      // positions / lanes terms in each of `lanes` sums, whose errors add up
      ASSERT_NEAR(actual, sum, tolerance(positions / lanes) * static_cast<double>(lanes))
          << "dP_l[" << in << ", " << out << "], " << where;
    }
  }
}

TEST(HeadMixingTest, EqualsPlainLoopsOnEveryTarget) {
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    for (const auto& [h_k, h] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 7}, {12, 12}, {13, 6}, {48, 48}}) {
      ExpectEqualToPlainLoops(h_k, h);
    }
  }
  RestrictSimdTarget("");
}

}  // namespace head_mixing_test
}  // namespace crosstalk::kernels
