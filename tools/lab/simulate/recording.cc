#include "tools/lab/simulate/recording.h"

#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

constexpr char kFormat[] = "crosstalk step recording";
constexpr int64_t kFormatVersion = 1;

// Bounds of what is simulated, far from overflow.
constexpr double kMostSeconds = 1e6, kLeastSeconds = 1e-9;  // the least of what others are divided by
constexpr int64_t kMostParameters = 100'000, kMostElements = int64_t{1} << 40, kMostParts = 4096;

double Seconds(const JsonReader& reader, const char* key) {
  const double seconds = reader.Double(key);
  if (!(seconds >= 0 && seconds <= kMostSeconds)) reader.FailAt(key, "must be from 0 to ", kMostSeconds, " seconds");
  return seconds;
}

Json ToJson(const RecordedParameter& parameter) {
  return Json::MakeObject({{"name", parameter.name},
                           {"elements", parameter.elements},
                           {"bytes", parameter.bytes},
                           {"trainable", parameter.trainable},
                           {"reached", parameter.reached},
                           {"seconds", parameter.seconds}});
}

RecordedParameter ParameterFromJson(const Json& json, const std::string& source, double backward_seconds) {
  const JsonReader reader(json, source);
  RecordedParameter parameter;
  parameter.name = reader.String("name");
  parameter.elements = reader.Int("elements", 0, kMostElements);
  parameter.bytes = reader.Int("bytes", parameter.elements, 8 * parameter.elements);
  parameter.trainable = reader.Bool("trainable");
  parameter.reached = reader.Bool("reached");
  parameter.seconds = Seconds(reader, "seconds");
  if (parameter.seconds > backward_seconds) reader.FailAt("seconds", "is more than backward_seconds");
  reader.RejectUnread();
  return parameter;
}

}  // namespace

int64_t StepRecording::TrainableBytes() const {
  int64_t bytes = 0;
  for (const RecordedParameter& parameter : parameters) bytes += parameter.trainable ? parameter.bytes : 0;
  return bytes;
}

Json ToJson(const StepRecording& recording) {
  Json parameters = Json::MakeArray();
  for (const RecordedParameter& parameter : recording.parameters) parameters.Append(ToJson(parameter));
  return Json::MakeObject({{"format", kFormat},
                           {"format_version", kFormatVersion},
                           {"version", recording.version},
                           {"processor", recording.processor},
                           {"simd_target", recording.simd_target},
                           {"threads", recording.threads},
                           {"model", recording.model},
                           {"configuration", recording.configuration},
                           {"batch", recording.batch},
                           {"parts", recording.parts},
                           {"steps", recording.steps},
                           {"step_seconds", recording.step_seconds},
                           {"batch_seconds", recording.batch_seconds},
                           {"forward_seconds", recording.forward_seconds},
                           {"backward_seconds", recording.backward_seconds},
                           {"loss_bytes", recording.loss_bytes},
                           {"add_seconds", recording.add_seconds},
                           {"norm_seconds", recording.norm_seconds},
                           {"optimizer_seconds", recording.optimizer_seconds},
                           {"optimizer_bytes", recording.optimizer_bytes},
                           {"parameters", std::move(parameters)}});
}

StepRecording RecordingFromJson(const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  if (reader.String("format") != kFormat) reader.FailAt("format", "is not that of a recorded step");
  reader.Int("format_version", kFormatVersion, kFormatVersion);
  StepRecording recording;
  recording.version = reader.String("version");
  recording.processor = reader.String("processor");
  recording.simd_target = reader.String("simd_target");
  recording.threads = reader.Int("threads", 1, 1 << 16);
  recording.model = reader.String("model");
  recording.configuration = reader.Value("configuration");
  TrainingConfigFromJson(recording.configuration, source + ": configuration");
  recording.batch = reader.Int("batch", 1, kMostElements);
  recording.parts = reader.Int("parts", 1, kMostParts);
  if (recording.parts > recording.batch) reader.FailAt("parts", "is more than the rows of batch");
  recording.steps = reader.Int("steps", 1, kMostElements);
  recording.step_seconds = Seconds(reader, "step_seconds");
  if (recording.step_seconds < kLeastSeconds) reader.FailAt("step_seconds", "is too short to be compared with");
  recording.batch_seconds = Seconds(reader, "batch_seconds");
  recording.forward_seconds = Seconds(reader, "forward_seconds");
  recording.backward_seconds = Seconds(reader, "backward_seconds");
  recording.loss_bytes = reader.Int("loss_bytes", 0, 1 << 20);
  recording.add_seconds = Seconds(reader, "add_seconds");
  recording.norm_seconds = Seconds(reader, "norm_seconds");
  recording.optimizer_seconds = Seconds(reader, "optimizer_seconds");
  recording.optimizer_bytes = reader.Int("optimizer_bytes", 0, 64 * kMostElements);
  const Json::Array& parameters = reader.Array("parameters");
  if (parameters.empty() || parameters.size() > kMostParameters) {
    reader.FailAt("parameters", "must be from 1 to ", kMostParameters);
  }
  int64_t elements = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    recording.parameters.push_back(
        ParameterFromJson(parameters[i], StrCat(source, ": parameters[", i, "]"), recording.backward_seconds));
    elements += recording.parameters.back().elements;
    if (elements > kMostElements) reader.FailAt("parameters", "are more than ", kMostElements, " elements");
  }
  if (recording.TrainableBytes() == 0) reader.FailAt("parameters", "none is trainable");
  const double compute = recording.batch_seconds + recording.forward_seconds + recording.backward_seconds;
  if (compute < kLeastSeconds) reader.FailAt("backward_seconds", "a part that takes no time cannot be compared with");
  reader.RejectUnread();
  return recording;
}

std::string RecordingBegin() { return StrCat("{\n  \"format\": \"", kFormat, "\""); }

StepRecording ReadRecording(const std::string& path) { return RecordingFromJson(ReadJsonFile(path), path); }

}  // namespace crosstalk
