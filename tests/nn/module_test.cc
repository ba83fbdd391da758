#include "crosstalk/nn/module.h"

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/op_context.h"
#include "tests/support/messages.h"

namespace crosstalk::module_test {

// Two dense layers and a tensor of rank 3, seen as a matrix.
class Pair : public Module {
 public:
  explicit Pair(const Initializer& init)
      : Module(init),
        first(this, "first", 3, 5, LinearBias::kYes),
        cube(AddParameter("cube", {2, 3, 4}, InitialValues::Normal(1.0), {2, 12})),
        second(this, "second", 5, 2, LinearBias::kNo) {}
  // Opens the protected functions to the tests.
  void Add(std::string_view name, Tensor value, const Shape& matrix = {}) { AddParameter(name, value, matrix); }

  Child<Linear> first;
  Variable cube;
  Child<Linear> second;
};

std::vector<std::string> NamesIn(const Module& module) {
  std::vector<std::string> names;
  for (const NamedParameter& parameter : module.Parameters()) names.push_back(parameter.name);
  return names;
}

// What a user writes: layers in a vector, one of them used twice, and a head.
class Tower : public Module {
 public:
  Tower(int64_t d, int64_t layers, const Initializer& init)
      : Module(init), head_(this, "head", d, 1, LinearBias::kYes) {
    for (int64_t i = 0; i < layers; ++i) layers_.emplace_back(this, StrCat("layer_", i), d, d, LinearBias::kNo);
    layers_.push_back(layers_.back());
  }
  Variable Forward(Variable x) const {
    for (const Child<Linear>& layer : layers_) x = Relu(layer->Forward(x));
    return head_->Forward(x);
  }

 private:
  Child<Linear> head_;
  std::vector<Child<Linear>> layers_;
};

TEST(ModuleTest, LayersInAVectorTrainAndASharedOneIsOneSetOfParameters) {
  Tower tower(4, 2, Initializer(1, DType::kFloat64));
  EXPECT_EQ(NamesIn(tower), (std::vector<std::string>{"head.weight", "head.bias", "layer_0.weight", "layer_1.weight"}));
  EXPECT_EQ(tower.NumParameters(), 4 + 1 + 16 + 16);
  const std::vector<NamedParameter> parameters = tower.Parameters();
  Tensor x = Tensor::Full({3, 4}, 1.0, DType::kFloat64);
  for (const NamedParameter& parameter : parameters) parameter.value.value().Fill(0.5);
  AdamW optimizer(parameters, {.weight_decay = 0});
  Backward(Sum(tower.Forward(Variable(x))));
  // x·w with all weights 1/2 doubles a row of equal numbers: 2, 4 (layer_1), 8 (again), then the head's gradient.
  EXPECT_EQ(parameters[0].value.grad().At({0, 0}), 3 * 8);
  // Both uses of layer_1 give the same: input · head · (dy through the later use) = 3 · (2 · 1/2 · 2 + 4 · 1/2).
  EXPECT_EQ(parameters[3].value.grad().At({0, 0}), 3 * (2 * 1 + 4 * 0.5));
  optimizer.Step(0.1);
  EXPECT_NE(parameters[3].value.value().At({0, 0}), 0.5);
}

// One table that two parts of a model use.
class TwoTowers : public Module {
 public:
  explicit TwoTowers(const Initializer& init)
      : Module(init), left_(this, "left", 3, 3, LinearBias::kNo), right_(this, "right", left_) {}

 private:
  class Right : public Module {
   public:
    Right(const Child<Linear>& shared, const Initializer& init) : Module(init) { AddShared("own_name", shared); }
  };
  Child<Linear> left_;
  Child<Right> right_;
};

TEST(ModuleTest, AModuleThatTwoOthersHoldIsListedOnceUnderItsFirstName) {
  TwoTowers towers(Initializer(1));
  EXPECT_EQ(NamesIn(towers), (std::vector<std::string>{"left.weight"}));
  EXPECT_EQ(towers.NumParameters(), 9);
  towers.SetTrainable("right.own_name", Module::Trainable::kNo);
  EXPECT_FALSE(towers.Parameters()[0].trainable);
}

// A module that is a plain member, as nothing prevents.
class Forgetful : public Module {
 public:
  explicit Forgetful(const Initializer& init) : Module(init), forgotten_(3, 5, LinearBias::kNo, init.At("forgotten")) {}

 private:
  Linear forgotten_;
};

TEST(ModuleTest, AModuleThatNobodyRegisteredIsAnErrorThatNamesIt) {
  const Forgetful at_the_root(Initializer(1)), below(Initializer(1).At("model"));
  const std::string expected = "\"forgotten\" was made under \"\" but not registered";
  testing::ExpectError([&] { at_the_root.NumParameters(); }, ErrorKind::kUsage, {expected});
  testing::ExpectError([&] { below.Parameters(); }, ErrorKind::kUsage, {"\"model.forgotten\""});
}

// One that makes two layers of one name.
class Twins : public Module {
 public:
  explicit Twins(const Initializer& init)
      : Module(init), a_(this, "a", 3, 5, LinearBias::kNo), b_(this, "a", 3, 5, LinearBias::kNo) {}

 private:
  Child<Linear> a_, b_;
};

TEST(ModuleTest, ParametersHaveDottedPathsInOrderAndTheirMatrices) {
  const Pair pair(Initializer(1));
  EXPECT_EQ(NamesIn(pair), (std::vector<std::string>{"first.weight", "first.bias", "cube", "second.weight"}));
  EXPECT_EQ(pair.NumParameters(), 3 * 5 + 5 + 24 + 10);
  const std::vector<NamedParameter> parameters = pair.Parameters();
  EXPECT_EQ(parameters[0].matrix_shape, (Shape{3, 5}));
  EXPECT_EQ(parameters[1].matrix_shape.rank(), 0);
  EXPECT_EQ(parameters[2].matrix_shape, (Shape{2, 12}));
}

TEST(ModuleTest, RefusesBadNamesAndShapes) {
  Pair pair(Initializer(1));
  const Tensor value = Tensor::Zeros({4}, DType::kFloat32);
  const Initializer init(1);
  const Linear first(3, 5, LinearBias::kNo, init.At("layer"));
  testing::ExpectRefused(
      {{"a name that is there", [&] { pair.Add("first", value); }, {}},
       {"a path", [&] { pair.Add("a.b", value); }, {}},
       {"no name", [&] { pair.Add("", value); }, {}},
       {"another matrix",
        [&] {
          pair.Add("c", value, {2, 3});
        },
        {}},
       {"no tensor", [&] { pair.Add("d", Tensor()); }, {}},
       {"a layer's name twice", [] { Twins{Initializer(1)}; }, {}},
       {"a path twice", [&] { Linear(3, 5, LinearBias::kNo, init.At("layer")); }, {"\"layer\" has a module already"}}});
  const Linear other_name(3, 5, LinearBias::kNo, init.At("other"));
  const Linear other_model(3, 5, LinearBias::kNo, Initializer(1).At("layer"));
  { const Linear gone(3, 5, LinearBias::kNo, init.At("gone")); }
  const Linear again(3, 5, LinearBias::kNo, init.At("gone"));
  static_assert(!std::is_move_constructible_v<Linear> && !std::is_copy_constructible_v<Linear>);
  static_assert(std::is_move_constructible_v<Child<Linear>> && std::is_copy_constructible_v<Child<Linear>>);
}

// A path freezes what is below it, a pattern what it names.
TEST(ModuleTest, FreezingTakesPathsAndPatterns) {
  Pair pair(Initializer(1));
  const auto frozen = [&](const char* pattern) {
    pair.SetTrainable("", Module::Trainable::kYes);
    pair.SetTrainable(pattern, Module::Trainable::kNo);
    std::string names;
    for (const NamedParameter& parameter : pair.Parameters()) {
      EXPECT_EQ(parameter.value.requires_grad(), parameter.trainable) << parameter.name;
      if (!parameter.trainable) names += parameter.name + " ";
    }
    return names;
  };
  const std::pair<const char*, const char*> kCases[] = {
      {"*", "first.weight first.bias cube second.weight "},
      {"*.weight", "first.weight second.weight "},
      {"first", "first.weight first.bias "},
      {"first.*", "first.weight first.bias "},
      {"f*t", "first.weight first.bias "},  // the module, and so all that is in it
      {"*s*.b*s", "first.bias "},
      {"c*b*", "cube "}};
  for (const auto& [pattern, names] : kCases) EXPECT_EQ(frozen(pattern), names) << pattern;
  for (const char* pattern : {"*.scale", "first.weight.*", "irst*", "*firs", "cub", "firs"}) {
    EXPECT_THROW(pair.SetTrainable(pattern, Module::Trainable::kNo), Error) << pattern;
  }
  EXPECT_EQ(
      testing::MessageOf([&] { pair.SetTrainable("first.weigth", Module::Trainable::kNo); }),
      "there is no parameter \"first.weigth\", nor any under that path; did you mean \"first.weight\"?; the model's "
      "parts are cube, first, second");
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
  for (int field = 0; field < 4; ++field) {
    ForwardContext other = context;
    if (field == 0) other.seed = 4;
    if (field == 1) other.step = 6;
    if (field == 2) other.micro_batch = 1;
    if (field == 3) other.use = 1;
    EXPECT_TRUE(differs(other.DropoutKey("a"))) << "field " << field;
  }
}

// Layers under OpContext::shapes_only: how many multiplications they take.

TEST(ShapesOnlyAttentionTest, MultiplicationsAreThePapersForBothImplementations) {
  constexpr int64_t b = 2, n = 7, m = 11, d = 24;
  for (const char* kind : {"multihead", "talking", "logits", "weights", "dynamic", "bilinear"}) {
    AttentionOptions options;
    options.kind = ParseName<AttentionKind>("attention", kind);
    options.heads = 3;
    AttentionConfig config = MakeAttentionConfig(options, d);
    for (const auto implementation : {AttentionImplementation::kComposed, AttentionImplementation::kFused}) {
      config.implementation = implementation;
      int64_t multiplications = 0;
      const ContextScope shapes_only(&OpContext::shapes_only, true);
      const ContextScope counted(&OpContext::multiplications, &multiplications);
      const AttentionModule attention(config, Initializer(1, DType::kFloat32));
      const Variable X(Tensor::Zeros({b, n, d}, DType::kFloat32)), M(Tensor::Zeros({b, m, d}, DType::kFloat32));
      const AttentionResult result = attention.Forward(X, M, {}, ForwardContext());
      EXPECT_EQ(result.implementation, implementation) << kind;
      EXPECT_EQ(multiplications, b * CostOf(config, n, m).multiplications) << kind << " " << Name(implementation);
    }
  }
}

class MayLeaveHeads : public StoredParameters {
 public:
  using StoredParameters::StoredParameters;

 protected:
  bool IsOptional(const std::string& name) const override { return name.starts_with("head."); }
};

TensorFile FileOf(const std::vector<std::string>& names) {
  TensorFile file = {.path = "file", .tensors = {}, .metadata = {}};
  for (const std::string& name : names) file.tensors.push_back({name, Tensor::Zeros({2}, DType::kFloat32)});
  return file;
}

TEST(StoredParametersTest, WhatIsLeftAndMayNotBeIsNamed) {
  MayLeaveHeads stored(FileOf({"head.W", "tail.W"}), "the test");
  EXPECT_TRUE(testing::Contains(testing::MessageOf([&] { stored.CheckAllTaken(); }, ErrorKind::kData),
                                "tensor 'tail.W' is not a parameter of the model that the test asks for"));
  stored.Take("tail.W", {2}, DType::kFloat32);
  EXPECT_NO_THROW(stored.CheckAllTaken());
  const StoredParameters strict(FileOf({"head.W"}), "the test");
  EXPECT_TRUE(testing::Contains(testing::MessageOf([&] { strict.CheckAllTaken(); }, ErrorKind::kData), "'head.W'"));
}

}  // namespace crosstalk::module_test
