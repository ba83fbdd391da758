#include "crosstalk/nn/module.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "crosstalk/autograd/ops_reduce.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/linear.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// Two dense layers and a tensor of rank 3, seen as a matrix.
class Pair : public Module {
 public:
  explicit Pair(const Initializer& init)
      : first(3, 5, LinearBias::kYes, init.At("first")), second(5, 2, LinearBias::kNo, init.At("second")) {
    AddModule("first", first);
    cube = AddParameter("cube", init.At("cube").Normal({2, 3, 4}, 1.0), {2, 12});
    AddModule("second", second);
  }
  // Opens the protected functions to the tests.
  void Add(std::string_view name, Tensor value, const Shape& matrix = {}) { AddParameter(name, value, matrix); }

  Linear first;
  Variable cube;
  Linear second;
};

TEST(ModuleTest, ParametersHaveDottedPathsInOrderOfRegistration) {
  const Pair pair(Initializer(1));
  std::vector<std::string> names;
  for (const NamedParameter& parameter : pair.Parameters()) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"first.weight", "first.bias", "cube", "second.weight"}));
  EXPECT_EQ(pair.NumParameters(), 3 * 5 + 5 + 24 + 10);
}

TEST(ModuleTest, MatrixShapeIsGivenOrTheShapeOfRankTwo) {
  const Pair pair(Initializer(1));
  const std::vector<NamedParameter> parameters = pair.Parameters();
  EXPECT_EQ(parameters[0].matrix_shape, (Shape{3, 5}));
  EXPECT_EQ(parameters[1].matrix_shape.rank(), 0);
  EXPECT_EQ(parameters[2].matrix_shape, (Shape{2, 12}));
}

TEST(ModuleTest, RefusesBadNamesAndShapes) {
  Pair pair(Initializer(1));
  const Tensor value = Tensor::Zeros({4}, DType::kFloat32);
  EXPECT_THROW(pair.Add("first", value), Error);
  EXPECT_THROW(pair.Add("a.b", value), Error);
  EXPECT_THROW(pair.Add("", value), Error);
  EXPECT_THROW(pair.Add("c", value, {2, 3}), Error);
  EXPECT_THROW(pair.Add("d", Tensor()), Error);
}

TEST(ModuleTest, FreezingTakesAPathAndAllBelowIt) {
  Pair pair(Initializer(1));
  pair.SetTrainable("first", Module::Trainable::kNo);
  std::vector<bool> trainable;
  for (const NamedParameter& parameter : pair.Parameters()) trainable.push_back(parameter.trainable);
  EXPECT_EQ(trainable, (std::vector<bool>{false, false, true, true}));
  pair.SetTrainable("first.bias", Module::Trainable::kYes);
  EXPECT_TRUE(pair.Parameters()[1].trainable);
  pair.SetTrainable("", Module::Trainable::kYes);
  EXPECT_TRUE(pair.Parameters()[0].trainable);
  EXPECT_THROW(pair.SetTrainable("firs", Module::Trainable::kNo), Error);
}

TEST(ModuleTest, ZeroGradMakesGradientsUndefined) {
  const Pair pair(Initializer(1));
  Backward(Sum(pair.cube));
  EXPECT_TRUE(pair.cube.grad().defined());
  pair.ZeroGrad();
  EXPECT_FALSE(pair.cube.grad().defined());
}

TEST(InitializerTest, ValuesDependOnSeedAndPathAlone) {
  const auto values = [](const Pair& pair, size_t i) { return pair.Parameters()[i].value.value().ToVector<float>(); };
  const Pair pair(Initializer(7)), again(Initializer(7)), other_seed(Initializer(8));
  const Pair other_path(Initializer(7, DType::kFloat32, "encoder"));
  for (const size_t i : {0, 2, 3}) {
    EXPECT_EQ(values(pair, i), values(again, i));
    EXPECT_NE(values(pair, i), values(other_seed, i));
    EXPECT_NE(values(pair, i), values(other_path, i));
  }
  // A module built alone under the same path has the same values as inside its parent.
  const Linear alone(5, 2, LinearBias::kNo, Initializer(7).At("second"));
  EXPECT_EQ(alone.Parameters()[0].value.value().ToVector<float>(), values(pair, 3));
}

TEST(ForwardContextTest, DropoutKeysDifferInEveryField) {
  const ForwardContext context = {.phase = ForwardContext::Phase::kTraining, .seed = 3, .step = 5, .micro_batch = 0};
  const RandomKey key = context.DropoutKey("a");
  const auto differs = [&](const RandomKey& other) { return key.Block(0) != other.Block(0); };
  EXPECT_EQ(key.Block(0), context.DropoutKey("a").Block(0));
  EXPECT_TRUE(differs(context.DropoutKey("b")));
  for (int field = 0; field < 3; ++field) {
    ForwardContext other = context;
    if (field == 0) other.seed = 4;
    if (field == 1) other.step = 6;
    if (field == 2) other.micro_batch = 1;
    EXPECT_TRUE(differs(other.DropoutKey("a"))) << "field " << field;
  }
}

}  // namespace
}  // namespace crosstalk
