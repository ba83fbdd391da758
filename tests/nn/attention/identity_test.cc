// Each kind of attention as a continuation of multi-head attention: the same function, which learns.
#include "crosstalk/nn/attention/identity.h"

#include <memory>
#include <set>
#include <string>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/attention/attention.h"
#include "tests/support/attention_cases.h"
#include "tests/support/messages.h"

namespace crosstalk::identity_test {

constexpr AttentionKind kKinds[] = {AttentionKind::kTalking, AttentionKind::kLogits, AttentionKind::kWeights,
                                    AttentionKind::kDynamic, AttentionKind::kDcmha,  AttentionKind::kMta,
                                    AttentionKind::kDiffV2};

// The values of a multi-head layer, for one that continues it; initial values where that has more.
class Continued : public StoredParameters {
 public:
  Continued(AttentionKind kind, const Module& before) : StoredParameters({}, "test"), kind_(kind) {
    for (const NamedParameter& one : before.Parameters()) values_[one.name] = one.value.value();
  }
  Tensor Take(const std::string& path, const Shape& shape, DType) override {
    const auto found = values_.find(path.substr(path.rfind('.') + 1));
    if (found == values_.end()) return {};
    EXPECT_EQ(ShapeBefore(kind_, path, shape), found->second.shape()) << path;
    return ValuesAfter(kind_, path, found->second);
  }

 private:
  AttentionKind kind_;
  std::map<std::string, Tensor> values_;
};

AttentionConfig MultiHead(int64_t kv_heads) {
  AttentionConfig config = AttentionConfig::MultiHead(24, 6, 4);
  config.causality = Causality::kCausal;
  config.rotary = Rotary::kHalves;
  config.scale = 0.5;
  config.projection_biases = true;
  config.g_k = config.g_v = kv_heads;
  config.implementation = AttentionImplementation::kComposed;
  return config;
}

struct Layers {
  std::unique_ptr<AttentionModule> before, after;
};
Layers MakeLayers(AttentionKind kind, const AttentionConfig& config) {
  Layers layers;
  layers.before = std::make_unique<AttentionModule>(config, Initializer(3));
  for (const NamedParameter& one : layers.before->Parameters()) {
    FillNormal(one.value.value(), {.seed = 5, .stream = StreamId(one.name)}, 0, 0.5);
  }
  const auto stored = std::make_shared<Continued>(kind, *layers.before);
  layers.after = std::make_unique<AttentionModule>(ContinuedAs(kind, config), Initializer(stored).At("layer"));
  return layers;
}

Variable RandomX() {
  Tensor X = Tensor::Empty({2, 9, 24}, DType::kFloat32);
  FillNormal(X, {.seed = 7, .stream = 1}, 0, 1);
  return Variable(X);
}

// Products with ones and sums with zeros are exact, and so is a half of twice as much.
TEST(IdentityTest, EachKindComputesTheSameBits) {
  for (const AttentionKind kind : kKinds) {
    for (const int64_t kv_heads : {0, 2, 1}) {
      const Layers layers = MakeLayers(kind, MultiHead(kv_heads));
      const Variable X = RandomX();
      EXPECT_EQ(layers.after->Forward(X, X, {}, {}).Y.value().ToVector<float>(),
                layers.before->Forward(X, X, {}, {}).Y.value().ToVector<float>())
          << Name(kind) << " " << kv_heads;
    }
  }
}

// After one step of gradient descent every parameter that a kind adds has a gradient: none rests at a saddle.
TEST(IdentityTest, WhatAKindAddsLearns) {
  for (const AttentionKind kind : kKinds) {
    const Layers layers = MakeLayers(kind, MultiHead(2));
    const Variable X = RandomX();
    std::set<std::string> before;
    for (const NamedParameter& one : layers.before->Parameters()) before.insert(one.name);
    for (const int step : {1, 2}) {
      layers.after->ZeroGrad();
      Backward(Mean(Square(layers.after->Forward(X, X, {}, {}).Y)));
      for (const NamedParameter& one : layers.after->Parameters()) {
        double largest = 0;
        for (const float value : one.value.grad().ToVector<float>()) {
          largest = std::max(largest, std::abs(double{value}));
        }
        const bool added = before.count(one.name) == 0;
        EXPECT_TRUE(!added || step == 1 || largest > 1e-9) << Name(kind) << " " << one.name;
        const Tensor& value = one.value.value();
        for (int64_t i = 0; i < value.num_elements(); ++i) {
          value.data<float>()[i] -= 0.1F * one.value.grad().data<float>()[i];
        }
      }
    }
  }
}

TEST(IdentityTest, KindsAndLayersWithoutOneAreRefused) {
  AttentionConfig talking = MultiHead(0), windowed = MultiHead(0);
  talking.mixing = {.P_l = true, .P_w = true};
  windowed.window = 4;
  struct Case {
    AttentionKind kind;
    AttentionConfig layer;
  };
  testing::ExpectRefused<Case>(
      {{"bilinear", {AttentionKind::kBilinear, MultiHead(0)}, {"bilinear", "P_q and P_k"}},
       {"a norm of heads", {AttentionKind::kDiffV1, MultiHead(0)}, {"diff-v1", "root mean square"}},
       {"heads that talk", {AttentionKind::kDcmha, talking}, {"continues multi-head", "talking-heads"}},
       {"a window", {AttentionKind::kMta, windowed}, {"window=4", "convolutions"}}},
      [](const Case& one) { ContinuedAs(one.kind, one.layer); });
}

}  // namespace crosstalk::identity_test
