#include "crosstalk/models/training/run.h"

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/op_context.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::run_test {

TEST(TrainingRunTest, NoCheckpointIsMadeOfParametersThatAreNotFinite) {
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const TempDir dir;
    const Model* model = nullptr;
    TrainingObserver observer;
    observer.step = [&](const StepResult& step) {
      Tensor parameter = model->Parameters()[0].value.value();  // shares its elements
      if (step.step == 3) parameter.data<float>()[1] = value;
    };
    TrainingRun run(TinyConfig(), dir / "run", {}, observer);
    model = &run.model();
    const std::string name = model->Parameters()[0].name + "[1] is ";
    testing::ExpectError([&] { run.Train(); }, ErrorKind::kNumerical, {"after step 3, " + name});
    EXPECT_EQ(CheckpointStore(dir / "run/checkpoints").FindNewestGood().checkpoint->step, 2);
  }
}

// That a model computes in its own precision, and a run gives it the configuration's.

TEST(ModelPrecisionTest, ALossInBfloat16IsThatOfARun) {
  for (const std::string& name : ModelNames()) {
    SCOPED_TRACE(name);
    TrainingConfig config = TinyConfigOf(name);
    config.optimization.precision = Precision::kBFloat16;
    config.optimization.steps = 1;
    const ResolvedConfig resolved(config);
    const TempDir dir;
    double in_the_run = 0;
    const auto observe = [&](const StepResult& step) { in_the_run = step.metrics[0].value; };
    TrainingRun(resolved, dir / "run", {}, {.message = {}, .step = observe, .evaluation = {}, .stop = {}}).Train();

    const TrainingData data = OpenTrainingData(*resolved);
    const Batch batch = MakeBatches(*resolved, data, {0})->Get(0, 0);
    const std::unique_ptr<Model> model =
        MakeModel(ConfigureModel(*resolved, VocabularyOf(*resolved, data.tokenizer.get())), config.optimization.seed);
    const ForwardContext context = {.phase = ForwardContext::Phase::kTraining, .seed = config.optimization.seed};
    const auto loss = [&] {
      return Means(model->Loss(batch, MakeLossOptions(resolved->optimization), context).sums)[0].value;
    };
    EXPECT_NE(loss(), in_the_run) << "in fp32, the default";
    model->SetPrecision(Precision::kBFloat16);
    EXPECT_EQ(loss(), in_the_run);
    model->SetPrecision(Precision::kFloat32);
    const ContextScope outside(&OpContext::precision, Precision::kBFloat16);
    EXPECT_NE(loss(), in_the_run) << "what the context says";
  }
}

// What a measurement says, in a checkpoint and in the metrics.

std::vector<std::string> Keys(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.AsObject()) keys.push_back(key);
  return keys;
}

TEST(EvaluationTest, AStateIsReadBack) {
  RunEvaluation plain{.step = 7, .baselines = {.entropy_bound = 0.5}};
  plain.result.metrics = {{"ln_ppl", 2.5}};
  plain.result.tokens = 100;
  plain.result.examples = 4;
  RunEvaluation guessed = plain;
  guessed.result.metrics.push_back({"masked_accuracy", 0.25});
  guessed.baselines.constant_guess = {{"masked_accuracy", 0.125}};
  RunEvaluation undefined = plain;
  undefined.result.metrics = {{"score", 0}, {"sts-b_pearson", std::nan("")}};
  undefined.baselines.constant_guess = undefined.result.metrics;
  for (const RunEvaluation& evaluation : {plain, guessed, undefined}) {
    const Json state = ToJson(evaluation);
    EXPECT_EQ(ToJson(FromJson<RunEvaluation>(state, "state.json")), state);
  }
  EXPECT_EQ(Keys(EvaluationMembers(plain)),
            (std::vector<std::string>{"step", "ln_ppl", "loss_lower_bound", "tokens", "examples"}));
  EXPECT_EQ(EvaluationMembers(guessed).At("constant_guess").At("masked_accuracy").AsDouble(), 0.125);
  EXPECT_EQ(EvaluationMembers(guessed).At("masked_accuracy").AsDouble(), 0.25);
  // What is undefined is null, and stays so.
  EXPECT_TRUE(ToJson(undefined).At("metrics").At("sts-b_pearson").is_null());
  const RunEvaluation again = FromJson<RunEvaluation>(ToJson(undefined), "state.json");
  EXPECT_TRUE(std::isnan(again.result.metrics[1].value));
  EXPECT_TRUE(EvaluationMembers(again).At("constant_guess").At("sts-b_pearson").is_null());
}

TEST(EvaluationTest, AStateThatNoRunWritesIsRefusedByItsMember) {
  const Json good = ParseJson(R"({"step": 7, "metrics": {"ln_ppl": 2.5}, "loss_lower_bound": null, "tokens": 100,
                                  "examples": 4, "seconds": 0.5})",
                              "good");
  const std::pair<const char*, const char*> cases[] = {{"step", "4611686018427387904"},
                                                       {"step", "8"},
                                                       {"step", "-1"},
                                                       {"tokens", "-1"},
                                                       {"examples", "0"},
                                                       {"seconds", "-0.5"},
                                                       {"metrics", "{}"},
                                                       {"metrics", R"({"ln_ppl": "low"})"},
                                                       {"metrics", R"({"score": null, "sts-b_pearson": 1})"},
                                                       {"loss_lower_bound", "\"low\""},
                                                       {"constant_guess", R"({"masked_accuracy": "low"})"}};
  for (const auto& [key, value] : cases) {
    const Json state = Json::MakeObject({{"step", 7}, {"evaluation", Json(good).Set(key, ParseJson(value, "value"))}});
    testing::ExpectError([&] { FromJson<CheckpointState>(state, "state.json"); }, ErrorKind::kData,
                         {std::string("state.json: evaluation.") + key});
  }
}

}  // namespace crosstalk::run_test
