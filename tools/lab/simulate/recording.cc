#include "tools/lab/simulate/recording.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "crosstalk/kernels/simd.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "tools/cli/statistics.h"
#include "tools/lab/bench/measured_step.h"

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
  if (parameter.trainable && parameter.bytes != 4 * parameter.elements && parameter.bytes != 8 * parameter.elements) {
    reader.FailAt("bytes", "must be 4 or 8 of each element");
  }
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

namespace {

constexpr int kAdditions = 9;  // that a median is of

// The values of all steps.
struct Samples {
  std::vector<double> step, batch, forward, backward, norm, optimizer;
  std::vector<std::vector<double>> gradients;  // by parameter
};

// Parts of a step differ, and the step took their mean. A loop says how long all forward and all backward
// passes took: a part has its share of each.
void AddStep(const StepTimes& times, const StepResult& result, Samples* samples) {
  const auto parts = static_cast<double>(times.parts.size());
  const double backward = result.backward_seconds - times.adding_seconds;
  const double backward_share = backward / (result.forward_seconds + backward);
  std::vector<double> gradients(times.parts[0].gradients.size());
  double begin = times.parts_begin;
  for (const StepTimes::Part& part : times.parts) {
    const double backward_begins = part.end - (part.end - begin) * backward_share;
    for (size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] += std::max(0.0, part.gradients[i] - backward_begins) / parts;
    }
    begin = part.end;
  }
  const double seconds = (times.parts.back().end - times.parts_begin) / parts;
  samples->step.push_back(result.seconds);
  samples->batch.push_back(times.batches_made / parts);
  samples->forward.push_back(seconds * (1 - backward_share));
  samples->backward.push_back(seconds * backward_share);
  samples->norm.push_back(times.squares_known - times.parts_end);
  samples->optimizer.push_back(times.updated - times.squares_known);
  samples->gradients.resize(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) samples->gradients[i].push_back(gradients[i]);
}

// To add a gradient of every trainable parameter to another.
double MeasureAdditions(const std::vector<NamedParameter>& parameters) {
  std::vector<Tensor> left, right;
  for (const NamedParameter& parameter : parameters) {
    if (!parameter.trainable) continue;
    for (std::vector<Tensor>* side : {&left, &right}) {
      side->push_back(Tensor::Zeros(parameter.value.shape(), parameter.value.dtype()));
    }
  }
  std::vector<double> seconds;
  for (int i = 0; i < kAdditions; ++i) {
    const Stopwatch watch;
    for (size_t j = 0; j < left.size(); ++j) AddTo(left[j], right[j]);
    seconds.push_back(watch.seconds());
  }
  return Median(std::move(seconds));
}

}  // namespace

StepRecording RecordStep(const ResolvedConfig& config, int64_t steps, const StopRequest& stop,
                         const std::function<void(int64_t done)>& progress) {
  const OptimizationConfig& optimization = config->optimization;
  const TrainingData data = OpenTrainingData(*config, nullptr, stop);
  TimedReducer reducer(optimization.shards);
  TrainingInMemory training(*config, data, VocabularyOf(*config, data.tokenizer.get()), MakeLoopOptions(optimization),
                            &reducer, stop);
  const std::vector<NamedParameter> parameters = training.model().Parameters();

  Samples samples;
  for (const MeasuredStep& step : MeasureSteps(training.loop(), {.warm_ups = kStepsBeforeRecording,
                                                                .repetitions = steps,
                                                                .reducer = &reducer,
                                                                .stop = stop,
                                                                .progress = progress})) {
    AddStep(step.times, step.result, &samples);
  }

  const PlatformInfo platform = GetPlatformInfo();
  StepRecording recording{.version = platform.version,
                          .processor = platform.cpu_name,
                          .simd_target = kernels::SimdTargetName(),
                          .threads = NumThreads(),
                          .model = training.model().Describe(),
                          .configuration = ToJson(*config),
                          .batch = optimization.batch,
                          .parts = optimization.shards,
                          .steps = steps,
                          .step_seconds = Median(samples.step),
                          .batch_seconds = Median(samples.batch),
                          .forward_seconds = Median(samples.forward),
                          .backward_seconds = Median(samples.backward),
                          .loss_bytes = reducer.loss_bytes(),
                          .add_seconds = MeasureAdditions(parameters),
                          .norm_seconds = Median(samples.norm),
                          .optimizer_seconds = Median(samples.optimizer),
                          .optimizer_bytes = training.optimizer().StateBytes()};
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& value = parameters[i].value.value();
    recording.parameters.push_back({.name = parameters[i].name,
                                    .elements = value.num_elements(),
                                    .bytes = BytesOf(value.num_elements(), value.dtype()),
                                    .trainable = parameters[i].trainable,
                                    .reached = reducer.reached(i),
                                    .seconds = std::min(Median(samples.gradients[i]), recording.backward_seconds)});
  }
  return recording;
}

}  // namespace crosstalk
