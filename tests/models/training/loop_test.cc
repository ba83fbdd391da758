#include "crosstalk/models/training/loop.h"

#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::loop_test {

constexpr int64_t kVocabulary = 40;

ModelConfig Tiny() { return TinyT5("talking", FeedForwardKind::kRelu); }

// Random ids; `rows` rows a part, cut from the same list of examples whatever `rows` is.
class RandomBatches : public BatchSource {
 public:
  explicit RandomBatches(int64_t rows, int64_t parts) : rows_(rows), parts_(parts) {}
  Batch Get(int64_t step, int64_t part) override {
    const int64_t first = (step * parts_ + part) * rows_;
    const Tensor inputs = Ids("inputs", first, 9), targets = Ids("targets", first, 5);
    Batch batch;
    batch.Add("inputs", inputs).Add("targets", targets);
    batch.targets = CountNot(targets, 0);
    batch.positions = targets.num_elements();
    batch.tokens = batch.targets + CountNot(inputs, 0);
    return batch;
  }

 private:
  Tensor Ids(const char* stream, int64_t first, int64_t length) const {
    std::vector<int32_t> ids;
    for (int64_t row = first; row < first + rows_; ++row) {
      const RandomKey key{.seed = 3, .stream = StreamId(stream), .step = static_cast<uint32_t>(row)};
      // Rows of different lengths, the rest is padding.
      const int64_t used = length - row % 3;
      for (int64_t i = 0; i < length; ++i) {
        ids.push_back(i < used ? static_cast<int32_t>(3 + UniformInt(key, i, kVocabulary - 3)) : 0);
      }
    }
    return Tensor::FromValues<int32_t>({rows_, length}, ids);
  }
  int64_t rows_;
  int64_t parts_;
};

LoopOptions Options() {
  LoopOptions options;
  options.schedule.kind = ScheduleKind::kConstant;
  options.schedule.scale = 0.01;
  options.schedule.total_steps = 100;
  options.loss.z_loss = 1e-4;
  options.seed = 11;
  return options;
}

std::vector<float> AllValues(const std::vector<NamedTensor>& tensors) {
  std::vector<float> values;
  for (const NamedTensor& tensor : tensors) {
    if (tensor.tensor.dtype() != DType::kFloat32) continue;
    const std::vector<float> part = tensor.tensor.ToVector<float>();
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

double LnPpl(const StepResult& step) {
  EXPECT_EQ(step.metrics.size(), 1u);
  EXPECT_EQ(step.metrics[0].name, "ln_ppl");
  return step.metrics[0].value;
}

struct Rig {
  explicit Rig(int64_t parts, const ModelConfig& config = Tiny(), const LoopOptions& options = Options())
      : model(config, 7),
        optimizer(model.Parameters()),
        batches(12 / parts, parts),
        reducer(parts),
        loop(model, batches, optimizer, reducer, options) {}
  T5 model;
  AdamW optimizer;
  RandomBatches batches;
  LocalReducer reducer;
  Loop loop;
};

TEST(LoopTest, AccumulatedGradientsAreThoseOfTheWholeBatch) {
  for (const int64_t parts : {2, 3, 6}) {
    Rig cut(parts);
    const StepResult a = Rig(1).loop.Step();
    const StepResult b = cut.loop.Step();
    // The same sums in another order: a few rounding errors of float, relative to the sum.
    EXPECT_NEAR(a.loss, b.loss, 1e-5 * a.loss) << parts;
    EXPECT_NEAR(LnPpl(a), LnPpl(b), 1e-5 * LnPpl(a)) << parts;
    EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-4 * a.gradient_norm) << parts;
    EXPECT_EQ(a.target_tokens, b.target_tokens);
    EXPECT_EQ(a.tokens, b.tokens);
  }
}

TEST(LoopTest, CountsWhatIsNotPadding) {
  const StepResult result = Rig(1).loop.Step();
  // Every third row has all positions; the two after it lack one and two.
  EXPECT_EQ(result.target_tokens, 12 * 5 - 12);
  EXPECT_EQ(result.tokens, 12 * (5 + 9) - 24);
  EXPECT_EQ(result.step, 1);
}

TEST(LoopTest, DenominatorsDifferByThePadding) {
  LoopOptions options = Options();
  const StepResult tokens = Rig(1, Tiny(), options).loop.Step();
  options.denominator = LossDenominator::kPositions;
  const StepResult positions = Rig(1, Tiny(), options).loop.Step();
  EXPECT_NEAR(tokens.loss * 48, positions.loss * 60, 1e-9 * 60 * positions.loss);
  EXPECT_EQ(LnPpl(tokens), LnPpl(positions));
  EXPECT_GT(tokens.loss, LnPpl(tokens)) << "the z-loss comes on top";
}

// One part after the other, and beside it.
TEST(LoopTest, ANonFiniteLossMakesNoUpdateAndNamesTheLayer) {
  for (const int threads : {1, 2}) {
    const ThreadsScope scope(threads);
    Rig rig(2);
    rig.loop.Step();
    for (const NamedParameter& parameter : rig.model.Parameters()) {
      if (parameter.name == "decoder.block_0.feed_forward.wi") {
        parameter.value.value().data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    const std::vector<NamedTensor> parameters = ParameterTensors(rig.model);
    std::vector<std::vector<uint32_t>> before;
    for (const NamedTensor& tensor : parameters) {
      const uint32_t* bits = reinterpret_cast<const uint32_t*>(tensor.tensor.data<float>());
      before.emplace_back(bits, bits + tensor.tensor.num_elements());
    }
    const std::vector<float> state = AllValues(rig.optimizer.State());
    testing::ExpectError([&] { rig.loop.Step(); }, ErrorKind::kNumerical, {"step 2", "decoder.block_0.feed_forward"});
    EXPECT_EQ(rig.loop.step(), 1);
    EXPECT_EQ(AllValues(rig.optimizer.State()), state);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const uint32_t* bits = reinterpret_cast<const uint32_t*>(parameters[i].tensor.data<float>());
      EXPECT_TRUE(std::vector<uint32_t>(bits, bits + parameters[i].tensor.num_elements()) == before[i])
          << parameters[i].name << ", " << threads;
    }
  }
}

TEST(LoopTest, ClippingBoundsTheUpdateNotTheReport) {
  LoopOptions options = Options();
  const StepResult free = Rig(1, Tiny(), options).loop.Step();
  options.clip_norm = free.gradient_norm / 10;
  Rig clipped(1, Tiny(), options);
  EXPECT_EQ(clipped.loop.Step().gradient_norm, free.gradient_norm);
  // AdamW's first moment is (1 - beta1) times the clipped gradient.
  double squares = 0;
  for (const NamedTensor& slot : clipped.optimizer.State()) {
    if (!slot.name.ends_with(".m")) continue;
    for (float m : slot.tensor.ToVector<float>()) squares += static_cast<double>(m) * m;
  }
  EXPECT_NEAR(std::sqrt(squares), 0.1 * options.clip_norm, 1e-5 * options.clip_norm);
}

TEST(StateDictTest, WhatDoesNotFitIsRefusedAndChangesNothing) {
  const TempDir dir;
  T5 model(Tiny(), 7);
  const std::vector<NamedTensor> tensors = ParameterTensors(model);
  const std::vector<float> before = AllValues(tensors);
  T5 other(Tiny(), 8);
  using Change = void (*)(std::vector<NamedTensor>&);
  testing::ExpectRefused<Change>(
      {{"one missing", [](auto& list) { list.pop_back(); }, {"final_norm"}},
       {"one more",
        [](auto& list) {
          list.push_back({"stranger", Tensor::Zeros({2}, DType::kFloat32)});
        },
        {"stranger"}},
       {"a shape",
        [](auto& list) {
          list[0].tensor = Tensor::Zeros({3, 5}, DType::kFloat32);
        },
        {"embedding"}},
       {"a type", [](auto& list) { list[0].tensor = list[0].tensor.To(DType::kFloat64); }, {"embedding"}}},
      [&](Change change) {
        std::vector<NamedTensor> list = ParameterTensors(other);
        change(list);
        WriteSafetensors(dir / "model.safetensors", list);
        LoadParameters(ReadSafetensors(dir / "model.safetensors"), model);
      },
      ErrorKind::kData);
  EXPECT_TRUE(AllValues(tensors) == before);
}

}  // namespace crosstalk::loop_test
