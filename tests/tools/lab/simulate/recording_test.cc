// A recording as a file. tests/sessions/bench.session has `crosstalk simulate`.
#include "tools/lab/simulate/recording.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace recording_test {

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
  const std::pair<const char*, std::function<void(StepRecording&)>> changes[] = {
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
    testing::ExpectError([&] { RecordingFromJson(ToJson(recording), "FILE"); }, ErrorKind::kData, {says});
  }
}

}  // namespace recording_test
}  // namespace crosstalk
