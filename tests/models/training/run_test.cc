#include "crosstalk/models/training/run.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_config.h"

namespace crosstalk {
namespace run_test {

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

}  // namespace run_test
}  // namespace crosstalk
