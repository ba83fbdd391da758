#include "crosstalk/models/training/run.h"

#include <gtest/gtest.h>

#include <limits>

#include "crosstalk/models/training/state_dict.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace {

using testing::Contains;
using testing::MessageOf;

ResolvedConfig TinyConfig() {
  TrainingConfig config;
  config.tokenizer = "bytes";
  config.d_model = 16;
  config.attention.heads = 2;
  config.d_ff = 24;
  config.layers = 1;
  config.input_length = 16;
  config.batch = 4;
  config.steps = 5;
  config.eval_every = 0;
  config.checkpoint_every = 2;
  return ResolvedConfig(config);
}

// A step with a finite loss and finite gradients can still leave such a parameter: the update itself overflows.
TEST(TrainingRunTest, NoCheckpointIsMadeOfAParameterThatIsNotFinite) {
  const TempDir dir;
  TrainingObserver observer;
  TrainingRun* running = nullptr;
  observer.step = [&](const StepResult& step) {
    if (step.step != 4) return;
    for (const NamedTensor& parameter : ParameterTensors(running->model())) {
      if (parameter.name == "embedding.table") {
        Tensor(parameter.tensor).data<float>()[1] = -std::numeric_limits<float>::infinity();
      }
    }
  };
  TrainingRun run(TinyConfig(), dir / "run", {}, observer);
  running = &run;
  const std::string message = MessageOf([&] { run.Train(); }, ErrorKind::kNumerical);
  EXPECT_TRUE(Contains(message, "after step 4, embedding.table[1] is -inf: no checkpoint is made of it")) << message;
  const FoundCheckpoint newest = CheckpointStore(RunFolder(dir / "run").CheckpointDirectory()).FindNewestGood();
  ASSERT_TRUE(newest.checkpoint);
  EXPECT_EQ(newest.checkpoint->step, 2);
}

}  // namespace
}  // namespace crosstalk
