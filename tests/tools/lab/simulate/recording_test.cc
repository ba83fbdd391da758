// A recording as a file, and `crosstalk simulate` as a user runs it.
#include "tools/lab/simulate/recording.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace recording_test {

using testing::Contains;

std::vector<std::string> TinySimulate(const std::vector<std::string>& more) {
  return Joined({"simulate", "--tokenizer", "bytes", "--d-model",      "16", "--heads", "2", "--d-ff",
                 "24",       "--layers",    "1",     "--input-length", "16", "--batch", "4", "--shards",
                 "4",        "--threads",   "1",     "--repetitions",  "2"},
                more);
}

StepRecording SomeRecording() {
  StepRecording recording;
  recording.version = "0.1.0";
  recording.processor = "a processor";
  recording.simd_target = "SCALAR";
  recording.model = "a model";
  recording.configuration = ToJson(*ResolvedConfig(TrainingConfig()));
  recording.batch = 4;
  recording.parts = 2;
  recording.step_seconds = 1;
  recording.forward_seconds = 0.1;
  recording.backward_seconds = 1.0 / 3;
  recording.parameters = {{.name = "a", .elements = 3, .bytes = 12, .seconds = 0.3},
                          {.name = "b", .elements = 5, .bytes = 20, .trainable = false}};
  return recording;
}

TEST(RecordingTest, ReadsBackWhatWasWritten) {
  const Json written = ToJson(SomeRecording());
  EXPECT_EQ(ToJson(RecordingFromJson(ParseJson(written.DumpPretty(), "text"), "text")), written);
}

TEST(RecordingTest, RefusesWhatCannotBe) {
  using Change = std::function<void(StepRecording&)>;
  const std::vector<std::pair<const char*, Change>> changes = {
      {"backward_seconds", [](StepRecording& r) { r.backward_seconds = -1; }},
      {"forward_seconds", [](StepRecording& r) { r.forward_seconds = 1e300; }},
      {"step_seconds", [](StepRecording& r) { r.step_seconds = 0; }},
      {"step_seconds", [](StepRecording& r) { r.step_seconds = 1e-320; }},
      {"backward_seconds",
       [](StepRecording& r) {
         r.forward_seconds = 0;
         r.backward_seconds = r.parameters[0].seconds = 1e-320;
       }},
      {"parameters[0]: seconds", [](StepRecording& r) { r.parameters[0].seconds = 0.4; }},
      {"parameters[0]: bytes", [](StepRecording& r) { r.parameters[0].bytes = 13; }},
      {"parameters[1]: bytes", [](StepRecording& r) { r.parameters[1].bytes = 400; }},
      {"parameters[0]: elements", [](StepRecording& r) { r.parameters[0].elements = -1; }},
      {"parameters", [](StepRecording& r) { r.parameters.clear(); }},
      {"parameters", [](StepRecording& r) { r.parameters[0].trainable = false; }},
      {"parts", [](StepRecording& r) { r.parts = 5; }},
      {"parts", [](StepRecording& r) { r.parts = 0; }},
      {"threads", [](StepRecording& r) { r.threads = 0; }},
      {"configuration", [](StepRecording& r) { r.configuration.Set("steps", -5); }}};
  for (const auto& [says, change] : changes) {
    StepRecording recording = SomeRecording();
    change(recording);
    try {
      RecordingFromJson(ToJson(recording), "FILE");
      ADD_FAILURE() << "took a recording with another " << says;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
      EXPECT_TRUE(Contains(error.what(), says)) << error.what();
    }
  }
}

TEST(SimulateCommandTest, ARecordingGivesTheSameTableAsTheStepItIsOf) {
  const TempDir folder;
  const std::string file = folder.path() + "/step.json", page = folder.path() + "/scaling.html",
                    svg = folder.path() + "/scaling.svg";
  const std::vector<std::string> shown = {"--ranks", "1,2,3,4,8", "--network", "1GbE,1.1/50", "--out"};
  const CommandResult measured = Succeeded(RunCommand(TinySimulate(Joined({"--record", file}, Joined(shown, {page})))));
  EXPECT_TRUE(Contains(measured.output, "Simulated: "));
  EXPECT_TRUE(Contains(measured.output, "Strong scaling on 1GbE (0.115 GB/s, 50 µs, 5 µs a message), simulated"));
  EXPECT_TRUE(Contains(measured.output, "Weak scaling on 1.1/50 "));
  EXPECT_TRUE(Contains(measured.errors, "strong scaling ends at 4 ranks"));
  const CommandResult read = Succeeded(RunCommand(Joined(Joined({"simulate", "--recording", file}, shown), {svg})));
  EXPECT_EQ(read.output, measured.output);
  EXPECT_TRUE(Contains(ReadFile(page), "Weak scaling, simulated"));
  EXPECT_TRUE(Contains(ReadFile(svg), "Simulated strong scaling"));

  // What the command has written it may write again; nothing else.
  Succeeded(RunCommand({"simulate", "--recording", file, "--ranks", "1", "--out", svg}));
  Succeeded(RunCommand(TinySimulate({"--record", file, "--ranks", "1"})));
  ExpectExit(RunCommand(TinySimulate({"--record", svg})), 2, {"--record", "choose another name"});
  WriteBytes(svg, "mine");
  ExpectExit(RunCommand({"simulate", "--recording", file, "--out", svg}), 2, {"--out", "choose another name"});
  EXPECT_EQ(ReadFile(svg), "mine");

  const StepRecording recording = ReadRecording(file);
  EXPECT_EQ(recording.parts, 4);
  EXPECT_EQ(recording.parameters.back().reached, true);
  double latest = 0;
  for (const RecordedParameter& parameter : recording.parameters) latest = std::max(latest, parameter.seconds);
  EXPECT_GT(latest, recording.backward_seconds / 2);
  EXPECT_GT(recording.step_seconds, 4 * recording.backward_seconds / 2);
  EXPECT_GT(recording.loss_bytes, 16);
}

TEST(SimulateCommandTest, RefusesAForgedRecording) {
  const TempDir folder;
  const std::string file = folder.path() + "/step.json";
  const auto refused = [&](const std::string& text, const char* says) {
    WriteBytes(file, text);
    ExpectExit(RunCommand({"simulate", "--recording", file}), 3, {file, says});
  };
  refused("", "byte");
  refused("{}", "format");
  refused(ToJson(SomeRecording()).Set("parts", 1'000'000).Dump(), "parts");
  refused(ToJson(SomeRecording()).Set("more", 1).Dump(), "more");
  refused(ToJson(SomeRecording()).Set("configuration", Json::MakeObject()).Dump(), "configuration");
  ExpectExit(RunCommand({"simulate", "--recording", folder.path() + "/none.json"}), 3, {"none.json"});
}

TEST(SimulateCommandTest, RefusesOptionsThatItWouldNotRead) {
  ExpectExit(RunCommand({"simulate", "--recording", "x.json", "--batch", "8"}), 2, {"--batch 8"});
  ExpectExit(RunCommand({"simulate", "--recording", "x.json", "--record", "y.json"}), 2, {"--record"});
  ExpectExit(RunCommand({"simulate", "--network", "10gbe"}), 2, {"--network", "10GbE"});
  ExpectExit(RunCommand({"simulate", "--ranks", "0"}), 2, {"--ranks"});
  ExpectExit(RunCommand({"simulate", "--ranks", "2,2"}), 2, {"--ranks"});
  ExpectExit(RunCommand({"simulate", "--init-from", "runs/x"}), 2, {"--init-from"});
}

}  // namespace recording_test
}  // namespace crosstalk
