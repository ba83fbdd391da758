// A run that goes on for more steps than it had: what stays, and what changes.
#include <gtest/gtest.h>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace train_continue_test {

using testing::Contains;

namespace fs = std::filesystem;

// 8 steps of AdamW on a schedule that falls to 0.
std::vector<std::string> Plan(const std::string& out, const std::vector<std::string>& more = {}) {
  return TinyTrain(Joined({"--optimizer", "adamw", "--warmup", "2", "--dropout", "0.1", "--out", out}, more));
}
CommandResult GoOn(const std::string& run, const std::vector<std::string>& more = {}) {
  return RunCommand(Joined({"train", "--out", run, "--resume", "auto", "--threads", "2"}, more));
}
std::string Model(const std::string& run) { return ReadBytes(run + "/model.safetensors"); }
Json Configuration(const std::string& run) {
  return ParseJson(ReadBytes(run + "/run.json"), "run").At("configuration");
}

std::vector<double> LearningRates(const std::string& run) {
  std::vector<double> rates;
  for (const Json& line : ReadMetrics(run + "/metrics.jsonl")) {
    if (const Json* rate = line.Find("learning_rate")) rates.push_back(rate->AsDouble());
  }
  return rates;
}

TEST(TrainContinueTest, SaysWhatStaysAndWhatChanges) {
  const TempDir dir;
  Succeeded(RunCommand(Plan(dir / "run")));
  const std::string model = Model(dir / "run");
  const CommandResult result = Succeeded(GoOn(dir / "run", {"--steps", "12"}));
  for (const char* says :
       {"this run of 8 steps is continued to 12",
        "warmup = 2; eval_every = 3 and checkpoint_every = 3, which change no bit and may be given again",
        "from step 9 on the schedule is that of a run of 12 steps, whose learning rate rises from "
        "0.000166667 to 0.0004"}) {
    EXPECT_TRUE(Contains(result.errors, says)) << says << "\n" << result.errors;
  }
  const std::vector<double> rates = LearningRates(dir / "run");
  ASSERT_EQ(rates.size(), 12u);
  for (int step = 2; step < 12; ++step) {  // linear: 0.001 · (T - t) / (T - warmup)
    const double total = step < 8 ? 8 : 12;
    EXPECT_NEAR(rates[static_cast<size_t>(step)], 1e-3 * (total - step) / (total - 2), 1e-12) << step;
  }
  EXPECT_FALSE(Model(dir / "run") == model);
  // Once more, and as a plain resumption: nothing is left to do.
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--steps", "12"}, {}}) {
    const std::string before = Snapshot(dir / "run");
    const CommandResult again = Succeeded(GoOn(dir / "run", options));
    EXPECT_FALSE(Contains(again.errors, "is continued")) << again.errors;
    EXPECT_TRUE(Snapshot(dir / "run") == before);
  }
}

TEST(TrainContinueTest, DefaultsStayThoseOfTheFirstPlan) {
  const TempDir dir;
  std::vector<std::string> defaults = TinyTrain({"--steps", "16", "--out", dir / "run"});
  const auto eval_every = std::find(defaults.begin(), defaults.end(), "--eval-every");
  defaults.erase(eval_every, eval_every + 2);
  Succeeded(RunCommand(defaults));
  const Json before = Configuration(dir / "run");
  Succeeded(GoOn(dir / "run", {"--steps", "40"}));
  const Json after = Configuration(dir / "run");
  for (const auto& [key, value] : before.AsObject()) {
    if (key == "steps" || key == "continued_at") continue;
    EXPECT_EQ(after.At(key), value) << key;
  }
  EXPECT_EQ(after.At("steps"), Json(40));
  EXPECT_EQ(after.At("continued_at"), Json("16"));
  EXPECT_EQ(after.At("warmup"), Json(8));  // half of 16 steps
}

TEST(TrainContinueTest, IntervalsMayBeGivenAnew) {
  const TempDir dir;
  Succeeded(RunCommand(Plan(dir / "run")));
  fs::copy(dir / "run", dir / "again", fs::copy_options::recursive);
  Succeeded(GoOn(dir / "run", {"--steps", "14"}));
  const CommandResult again =
      ExpectExit(GoOn(dir / "again", {"--steps", "14", "--eval-every", "5", "--checkpoint-every", "2", "--keep", "9"}),
                 0, {"eval_every = 5 and checkpoint_every = 2"});
  EXPECT_TRUE(fs::exists(dir / "again/checkpoints/step-00000010"));
  EXPECT_TRUE(Model(dir / "again") == Model(dir / "run"));
}

TEST(TrainContinueTest, ACheckpointGoesOnElsewhereAndItsRunStays) {
  const TempDir dir;
  Succeeded(RunCommand(Plan(dir / "run")));
  const std::string before = Snapshot(dir / "run");
  const CommandResult fork = ExpectExit(RunCommand({"train", "--resume", dir / "run/checkpoints/step-00000008", "--out",
                                                    dir / "fork", "--steps", "12", "--threads", "1"}),
                                        0, {"this run of 8 steps is continued to 12"});
  EXPECT_TRUE(Snapshot(dir / "run") == before);
  Succeeded(GoOn(dir / "run", {"--steps", "12"}));
  EXPECT_TRUE(Model(dir / "fork") == Model(dir / "run"));
  // Twice continued is another configuration than once.
  Succeeded(GoOn(dir / "run", {"--steps", "14"}));
  EXPECT_EQ(Configuration(dir / "run").At("continued_at"), Json("8,12"));
}

TEST(TrainContinueTest, ItIsNotMadeShorter) {
  const TempDir dir;
  Succeeded(RunCommand(Plan(dir / "run")));
  const std::string before = Snapshot(dir / "run");
  ExpectExit(GoOn(dir / "run", {"--steps", "4"}), 2, {"--steps: the run has 8; it can be continued for more"});
  EXPECT_TRUE(Snapshot(dir / "run") == before);
}

}  // namespace train_continue_test
}  // namespace crosstalk
