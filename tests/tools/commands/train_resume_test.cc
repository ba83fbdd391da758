// The same bits whatever the number of threads and wherever a run was cut.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/command_checks.h"
#include "tests/support/fusing_targets.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace train_resume_test {

using testing::Contains;

std::vector<Json> Metrics(const std::string& run) {
  std::vector<Json> lines;
  std::istringstream in(ReadBytes(run + "/metrics.jsonl"));
  for (std::string line; std::getline(in, line);) lines.push_back(ParseJson(line, "metrics.jsonl"));
  return lines;
}

// "train 3 2.5\n…": what must be equal in two runs, and in order.
std::string ReproducibleMetrics(const std::string& run) {
  std::string text;
  for (const Json& line : Metrics(run)) {
    text += line.At("event").AsString() + " " + line.At("step").Dump() + " " + line.At("ln_ppl").Dump();
    if (const Json* loss = line.Find("loss")) text += " " + loss->Dump() + " " + line.At("gradient_norm").Dump();
    text += "\n";
  }
  return text;
}

// Big enough for several tiles in every product.
std::vector<std::string> WideTrain(const std::string& out, const std::vector<std::string>& more = {}) {
  return TinyTrain(Joined({"--d-model", "48", "--d-ff", "136", "--heads", "4", "--batch", "12", "--input-length", "48",
                           "--dropout", "0.1", "--out", out},
                          more));
}

void ExpectTheSameModelForAnyNumberOfThreads(const std::vector<std::string>& options) {
  const TempDir dir;
  std::string model;
  std::string metrics;
  for (const char* threads : {"1", "2", "3", "5", "8"}) {
    const std::string run = dir / threads;
    Succeeded(RunCommand(WideTrain(run, Joined(options, {"--steps", "3", "--eval-every", "0", "--threads", threads}))));
    const std::string here = ReadBytes(run + "/model.safetensors");
    ASSERT_FALSE(here.empty());
    if (model.empty()) {
      model = here;
      metrics = ReproducibleMetrics(run);
    }
    EXPECT_TRUE(here == model) << threads << " threads";
    EXPECT_EQ(ReproducibleMetrics(run), metrics) << threads << " threads";
  }
}

TEST(TrainResumeTest, TheModelDoesNotDependOnTheNumberOfThreads) {
  for (const char* kind : {"multihead", "talking", "dynamic", "bilinear"}) {
    SCOPED_TRACE(kind);
    ExpectTheSameModelForAnyNumberOfThreads({"--attention", kind});
  }
  ExpectTheSameModelForAnyNumberOfThreads({"--implementation", "composed"});
}

// A run with composed attention that is cut on the first instruction set of a sort and goes on with the last has the
// bits of one that was not moved, and nothing is said. From one sort to another the bits change, and a note says so.
TEST(TrainResumeTest, AnInstructionSetOfTheSameSortGoesOnWithTheSameBits) {
  const TempDir dir;
  const std::vector<std::string> fusing = kernels::SimdTargetsOf("fma"), others = kernels::SimdTargetsOf("no-fma");
  const std::vector<std::string> options = {"--implementation",   "composed", "--eval-every", "0",
                                            "--checkpoint-every", "2"};
  const auto train = [&](const std::string& name, const std::string& target, const std::vector<std::string>& more) {
    const CommandResult result =
        Succeeded(RunCommand(WideTrain(dir / name, Joined(options, Joined({"--simd", target}, more)))));
    return result.errors;
  };
  const auto session = [&](const std::string& name, size_t i, const char* key) {
    return ParseJson(ReadBytes(dir / name + "/run.json"), name).At("sessions").AsArray().at(i).At(key).AsString();
  };
  const std::vector<std::vector<std::string>> sorts = {fusing, others};
  for (const auto& sort : sorts) {
    if (sort.empty()) continue;
    const std::string whole = sort.front() + "-whole", moved = sort.front() + "-moved";
    train(whole, sort.front(), {"--steps", "4"});
    train(moved, sort.front(), {"--steps", "4"});
    // As if it had been killed after its checkpoint of step 2.
    std::filesystem::remove(dir / moved + "/model.safetensors");
    std::filesystem::remove_all(dir / moved + "/checkpoints/step-00000004");
    const std::string said = train(moved, sort.back(), {"--steps", "4", "--resume", "auto"});
    EXPECT_FALSE(Contains(said, "its bits will differ")) << said;
    EXPECT_EQ(session(moved, 1, "simd_target"), sort.back());
    EXPECT_EQ(session(moved, 1, "simd_bits"), session(moved, 0, "simd_bits"));
    EXPECT_EQ(ReadBytes(dir / moved + "/model.safetensors"), ReadBytes(dir / whole + "/model.safetensors"));
  }
  if (fusing.empty() || others.empty()) return;
  const std::string moved = fusing.front() + "-moved";
  std::filesystem::remove(dir / moved + "/model.safetensors");
  std::filesystem::remove_all(dir / moved + "/checkpoints/step-00000004");
  const auto bits = [&] { return ParseJson(ReadBytes(dir / moved + "/run.json"), moved).At("simd_bits").AsString(); };
  std::string said = train(moved, others.front(), {"--steps", "4", "--resume", "auto"});
  EXPECT_TRUE(Contains(said, StrCat("this run computed steps 1 to 2 with ", fusing.front(), " and goes on with ",
                                    others.front(), ", which rounds a·b + c otherwise")))
      << said;
  EXPECT_EQ(bits(), "mixed");
  // Back on the first: the steps between stay rounded as they are.
  said = train(moved, fusing.front(), {"--steps", "6", "--resume", "auto"});
  EXPECT_TRUE(Contains(said, StrCat("this run computed steps 3 to 4 with ", others.front(), " and goes on with ",
                                    fusing.front(), ", which rounds a·b + c otherwise")))
      << said;
  EXPECT_EQ(bits(), "mixed");
  // From before they were computed: nothing of them stands.
  std::filesystem::remove(dir / moved + "/model.safetensors");
  for (const char* step : {"4", "6"}) {
    std::filesystem::remove_all(dir / moved + "/checkpoints/step-0000000" + step);
  }
  said = train(moved, fusing.front(), {"--steps", "6", "--resume", "auto"});
  EXPECT_FALSE(Contains(said, "otherwise")) << said;
  EXPECT_EQ(bits(), "fma");
}

// As it was begun, without an option that says so.
TEST(TrainResumeTest, ARunGoesOnAsItComputed) {
  const std::vector<std::vector<std::string>> kinds = {
      {"--implementation", "composed"},
      {"--precision", "bf16"},
      {"--accumulate", "2", "--activations", "recompute", "--optimizer", "adamw"}};
  for (const std::vector<std::string>& options : kinds) {
    SCOPED_TRACE(options[1]);
    const TempDir dir;
    const std::string whole = dir / "whole", cut = dir / "cut";
    Succeeded(RunCommand(WideTrain(whole, Joined(options, {"--checkpoint-every", "2", "--steps", "6"}))));
    std::filesystem::copy(whole, cut, std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(cut + "/checkpoints/step-00000006");  // as if it had been killed after step 4
    std::filesystem::remove(cut + "/model.safetensors");
    const CommandResult resumed = RunCommand({"train", "--out", cut, "--resume", "auto", "--threads", "3"});
    ExpectExit(resumed, 0, {"resuming after step 4 of 6"});
    EXPECT_EQ(Contains(resumed.errors, "composed attention"), options[1] == "composed") << resumed.errors;
    EXPECT_TRUE(ReadBytes(cut + "/model.safetensors") == ReadBytes(whole + "/model.safetensors"));
    EXPECT_EQ(ReproducibleMetrics(cut), ReproducibleMetrics(whole));
    const Json run = ReadJsonFile(cut + "/run.json");
    EXPECT_EQ(run.At("implementation").AsString(), options[1] == "composed" ? "composed" : "fused");
    EXPECT_EQ(run.At("sessions").AsArray().back().Find("bfloat16_unit") != nullptr, options[1] == "bf16");
    // Measured as it was trained, unless one asks for something else.
    const auto score = [&](const std::vector<std::string>& more) {
      return ParseJson(RunCommand(Joined({"eval", "--run", cut, "--json"}, more)).output, "eval").At("ln_ppl");
    };
    EXPECT_EQ(score({}) == score({"--precision", "fp32"}), options[1] != "bf16");
  }
}

TEST(TrainResumeTest, AnySignalAtAnyMomentResumesToTheSameBits) {
  const TempDir dir;
  const std::vector<std::string> options = {"--steps", "16", "--eval-every", "5", "--checkpoint-every", "1"};
  const auto start = std::chrono::steady_clock::now();
  const CommandResult whole = RunCommand(TinyTrain(Joined(options, {"--out", dir / "whole"})));
  const auto duration = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  const std::string model = ReadBytes(dir / "whole/model.safetensors");
  const std::string metrics = ReproducibleMetrics(dir / "whole");

  RandomSequence random({.seed = 7, .stream = StreamId("signals")});
  for (const int number : {SIGKILL, SIGTERM, SIGINT, SIGKILL}) {
    const std::string run = dir / "cut";
    std::filesystem::remove_all(run);
    int cuts = 0;
    // A run that was cut before it had anything on the disk begins again.
    const auto begin_or_resume = [&] {
      const bool begun = std::filesystem::exists(run + "/run.json");
      return TinyTrain(Joined(options, {"--out", run, "--resume", begun ? "auto" : "none"}));
    };
    for (int attempt = 0; attempt < 50; ++attempt) {
      RunningCommand command(begin_or_resume());
      // With a checkpoint after each step most of the time goes into saving.
      std::this_thread::sleep_for(duration * (cuts < 3 ? 0.1 + 0.5 * random.UniformDouble() : 100));
      command.Signal(number);
      const CommandResult result = command.Wait();
      if (result.exit_code == 0) break;
      ++cuts;
      ASSERT_EQ(result.exit_code, 128 + number) << result.errors;
      if (number != SIGKILL && !result.signalled) {
        EXPECT_TRUE(Contains(result.errors, "--resume auto")) << result.errors;
      }
      if (cuts == 3) {
        Succeeded(RunCommand(begin_or_resume()));
        break;
      }
    }
    EXPECT_TRUE(ReadBytes(run + "/model.safetensors") == model) << "signal " << number << ", cuts " << cuts;
    EXPECT_EQ(ReproducibleMetrics(run), metrics) << "signal " << number << ", cuts " << cuts;
  }
}

TEST(TrainResumeTest, ATerminatedRunHasACheckpointOfItsLastStep) {
  const TempDir dir;
  RunningCommand command(TinyTrain({"--steps", "100000", "--eval-every", "0", "--out", dir / "run"}));
  while (command.Running() && Snapshot(dir.path()).find("\"step\": 5,") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  command.Signal(SIGTERM);
  const CommandResult result = ExpectExit(command.Wait(), 143);
  EXPECT_FALSE(result.signalled) << "the signal was not handled";
  const std::vector<Json> lines = Metrics(dir / "run");
  ASSERT_FALSE(lines.empty());
  const std::string step = lines.back().At("step").Dump();
  EXPECT_TRUE(Contains(result.errors, "interrupted after step " + step)) << result.errors;
  EXPECT_TRUE(std::filesystem::exists(dir / ("run/checkpoints/step-" + std::string(8 - step.size(), '0') + step)));
  EXPECT_FALSE(std::filesystem::exists(dir / "run/model.safetensors"));
}

// A finished run of 8 steps whose last two checkpoints, of steps 6 and 8, are there.
void MakeFinishedRun(const std::string& run) { Succeeded(RunCommand(TinyTrain({"--out", run}))); }

TEST(TrainResumeTest, ADamagedCheckpointIsSkippedWithItsReason) {
  const TempDir dir;
  MakeFinishedRun(dir / "whole");
  const std::string model = ReadBytes(dir / "whole/model.safetensors");
  int variant = 0;
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "state.json", "config.json", "manifest.json", "tokenizer.json"}) {
    for (const bool truncate : {false, true}) {
      const std::string run = dir / ("run-" + std::to_string(variant++));
      std::filesystem::copy(dir / "whole", run, std::filesystem::copy_options::recursive);
      std::filesystem::remove(run + "/model.safetensors");
      const std::string path = run + "/checkpoints/step-00000008/" + name;
      std::string bytes = ReadBytes(path);
      ASSERT_FALSE(bytes.empty()) << path;
      if (truncate) {
        bytes.resize(bytes.size() / 2);
      } else {
        bytes[bytes.size() / 2] ^= 0x10;
      }
      WriteBytes(path, bytes);
      ExpectExit(RunCommand({"eval", "--run", run}), 0, {"skipped a damaged checkpoint"});
      ExpectExit(RunCommand({"train", "--out", run, "--resume", "auto", "--threads", "1"}), 0,
                 {"skipped a damaged checkpoint", name, "resuming after step 6"});
      EXPECT_TRUE(ReadBytes(run + "/model.safetensors") == model) << name;
      // Named, it is refused.
      WriteBytes(path, bytes);
      ExpectExit(
          RunCommand({"train", "--out", dir / "new", "--resume", run + "/checkpoints/step-00000008", "--threads", "1"}),
          3, {name});
      EXPECT_FALSE(std::filesystem::exists(dir / "new"));
    }
  }
}

TEST(TrainResumeTest, WhereNoCheckpointIsGoodNothingIsOverwritten) {
  const TempDir dir;
  MakeFinishedRun(dir / "run");
  for (const auto& entry : std::filesystem::directory_iterator(dir / "run/checkpoints")) {
    WriteBytes(entry.path().string() + "/model.safetensors", "short");
  }
  const std::string before = Snapshot(dir / "run");
  ExpectExit(RunCommand({"train", "--out", dir / "run", "--resume", "auto"}), 3, {"model.safetensors"});
  EXPECT_TRUE(Snapshot(dir / "run") == before);
}

TEST(TrainResumeTest, AnotherConfigurationIsRefusedByItsFields) {
  const TempDir dir;
  MakeFinishedRun(dir / "run");
  const std::string before = Snapshot(dir / "run");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--d-model", "32"}, "d_model: 32 here, 16 there"},
      {{"--seed", "9"}, "seed: 9 here, 1 there"},
      {{"--attention", "multihead"}, "attention: \"multihead\" here, \"talking\" there"},
      {{"--implementation", "composed"}, "implementation: \"composed\" here, \"fused\" there"},
      {{"--precision", "bf16"}, "precision: \"bf16\" here, \"fp32\" there"},
      {{"--continued-at", "4"}, "continued_at: \"4\" here, \"\" there"},
      {{"--init-from", dir / "run"}, "--init-from: weights"},
      {{"--frozen", "encoder"}, "frozen: \"encoder\" here, \"\" there"},
      {{"--tokenizer", "sentencepiece"}, "tokenizer"},
  };
  for (const auto& [options, says] : cases) {
    for (const std::string& resume : {std::string("auto"), dir / "run/checkpoints/step-00000008"}) {
      ExpectExit(RunCommand(Joined({"train", "--out", dir / "run", "--resume", resume, "--threads", "1"}, options)), 3,
                 {says});
      EXPECT_TRUE(Snapshot(dir / "run") == before) << says;
    }
  }
}

TEST(TrainResumeTest, AForeignCheckpointIsRefused) {
  const TempDir dir;
  MakeFinishedRun(dir / "run");
  Succeeded(RunCommand(TinyTrain({"--out", dir / "other", "--d-ff", "40", "--steps", "9"})));
  std::filesystem::rename(dir / "other/checkpoints/step-00000009", dir / "run/checkpoints/step-00000009");
  const std::string before = Snapshot(dir / "run");
  ExpectExit(RunCommand({"train", "--out", dir / "run", "--resume", "auto"}), 3, {"d_ff: 24 here, 40 there"});
  EXPECT_TRUE(Snapshot(dir / "run") == before);
}

TEST(TrainResumeTest, AnExistingRunIsNotOverwritten) {
  const TempDir dir;
  MakeFinishedRun(dir / "run");
  const std::string before = Snapshot(dir / "run");
  ExpectExit(RunCommand(TinyTrain({"--out", dir / "run"})), 2, {"--resume auto"});
  EXPECT_TRUE(Snapshot(dir / "run") == before);
  // Nor is a folder of something else.
  WriteBytes(dir / "letter.txt", "Dear reader");
  ExpectExit(RunCommand(TinyTrain({"--out", dir.path()})), 2);
}

TEST(TrainResumeTest, TwoProcessesDoNotShareARunFolder) {
  const TempDir dir;
  RunningCommand first(TinyTrain({"--steps", "100000", "--eval-every", "0", "--out", dir / "run"}));
  while (first.Running() && !std::filesystem::exists(dir / "run/metrics.jsonl")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ExpectExit(RunCommand({"train", "--out", dir / "run", "--resume", "auto"}), 2, {"another process"});
}

}  // namespace train_resume_test
}  // namespace crosstalk
