#include "crosstalk/models/training/run.h"

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/registry.h"
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

}  // namespace crosstalk::run_test
