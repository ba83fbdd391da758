#include "tools/lab/experiment/cell_record.h"

#include <algorithm>
#include <utility>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "tools/cli/statistics.h"

namespace crosstalk {

namespace {

// Where files lie is another thing on another machine; what is in them has a fingerprint.
TrainingConfig WithoutPaths(TrainingConfig config) {
  config.data.text = config.data.validation = config.objective.task_data = config.optimization.init_from = "";
  return config;
}

// "training on /home/me/novels (62 files)" becomes "training on novels (62 files)".
std::string WithNameOf(const std::string& path, std::string text) {
  const size_t folder = path.rfind('/');
  if (folder == std::string::npos || folder + 1 == path.size()) return text;
  for (size_t at = text.find(path); at != std::string::npos; at = text.find(path, at)) {
    text.erase(at, folder + 1);
    at += path.size() - folder - 1;
  }
  return text;
}

constexpr FieldRange kMeasure = {-kMostMeasure, kMostMeasure};

// Written into tables as it stands, so that it must be a line, and a short one.
void CheckLine(const char* key, const std::string& text) {
  constexpr size_t kMost = 4096;
  CROSSTALK_CHECK_FIELD(text.size() <= kMost, key, "is longer than ", kMost, " bytes");
  for (const char c : text) {
    CROSSTALK_CHECK_FIELD(static_cast<unsigned char>(c) >= ' ', key, "has a control character");
  }
}

void CheckDigest(const std::optional<std::string>& digest) {
  CROSSTALK_CHECK_FIELD(
      !digest || (digest->size() == 64 && digest->find_first_not_of("0123456789abcdef") == std::string::npos),
      "model_sha256", "is not 64 hexadecimal digits");
}

// The present key of a field that an earlier version's file calls otherwise.
std::string CurrentKey(const std::string& key) {
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (IsKeyOf(field, key)) return field.key;
  }
  return key;
}

}  // namespace

FieldTable<PretrainingRecord> PretrainingRecord::Fields() {
  using P = PretrainingRecord;
  constexpr AffectsResult kNo = AffectsResult::kNo;
  Field<P> configuration("configuration", &P::config);
  configuration.set = [](P& record, const Json& json) {
    record.config = ReadPart(TrainingFields(), "configuration", json);
  };
  return {{"values", &P::values, {.range = kMeasure}},
          {"step_seconds", &P::step_seconds, {.range = {0, 1e9}, .affects_result = kNo}},
          {"parameters", &P::parameters, {.range = {1, 1LL << 50}}},
          {"model_sha256", &P::model_sha256, {.may_be_missing = true}},
          {"data", &P::data, {.affects_result = kNo}},
          {"data_fingerprint", &P::data_fingerprint, {.help = "fingerprint of the data"}},
          {"versions", &P::versions, {.affects_result = kNo}},
          {"processors", &P::processors, {.affects_result = kNo}},
          {"curve_steps", &P::curve_steps, {.range = kMeasure}},
          {"curve", &P::curve, {.range = kMeasure}},
          configuration,
          {"joules", &P::joules, {.range = {0, kMostMeasure}, .affects_result = kNo, .only_if_set = true}}};
}

void PretrainingRecord::Validate() {
  CROSSTALK_CHECK_FIELD(values.count("ln_ppl") > 0, "values", "has no ln_ppl");
  CROSSTALK_CHECK_FIELD(curve.size() == curve_steps.size(), "curve", "is not as long as curve_steps");
  CROSSTALK_CHECK_FIELD(std::is_sorted(curve_steps.begin(), curve_steps.end()), "curve_steps", "descends");
  CheckDigest(model_sha256);
  CheckLine("data", data);
  CheckLine("data_fingerprint", data_fingerprint);
  for (const std::string& one : versions) CheckLine("versions", one);
  for (const std::string& one : processors) CheckLine("processors", one);
  config = TrainingConfigFromJson(ToJson(config), "configuration");
}

FieldTable<FinetuningRecord> FinetuningRecord::Fields() {
  using F = FinetuningRecord;
  return {{"scores", &F::scores, {.range = kMeasure}},
          {"data_fingerprint", &F::data_fingerprint, {.help = "fingerprint of the data"}},
          {"model_sha256", &F::model_sha256, {.may_be_missing = true}},
          {"scale", &F::of_scale, {.affects_result = AffectsResult::kNo}},
          {"configuration", &F::config}};
}

void FinetuningRecord::Validate() {
  CheckDigest(model_sha256);
  CheckLine("data_fingerprint", data_fingerprint);
}

FieldTable<CellRecord> CellRecord::Fields() {
  return {MakeConstantField<CellRecord>("format", 1),
          {"pretraining", &CellRecord::pretraining},
          {"finetunings", &CellRecord::finetunings}};
}

void CellRecord::Validate() {
  for (const auto& [tasks, finetuning] : finetunings) ConfigOf(finetuning);
}

TrainingConfig CellRecord::ConfigOf(const FinetuningRecord& finetuning) const {
  Json config = ToJson(pretraining.config);
  for (const auto& [key, value] : finetuning.config.AsObject()) config.Set(CurrentKey(key), value);
  return TrainingConfigFromJson(config, "configuration of a finetuning");
}

PretrainingRecord ReadPretraining(const std::string& run_folder) {
  const RunFolder folder(run_folder);
  const TrainingConfig config = ReadRunConfig(folder);
  PretrainingRecord record;
  const std::vector<Json> lines = ReadMetrics(folder.MetricsFile());
  for (const Json& line : lines) {
    CheckMeasures(line, folder.MetricsFile());
    if (line.At("event").AsString() != "eval") continue;
    const JsonReader reader(line, folder.MetricsFile());
    if (reader.Has("joules")) record.joules = record.joules.value_or(0) + reader.Double("joules");
    const int64_t step = reader.Int("step");
    record.curve_steps.push_back(static_cast<double>(step));
    record.curve.push_back(reader.Double("ln_ppl"));
    if (step != config.optimization.steps) continue;
    for (const char* measure : {"ln_ppl", "masked_accuracy", "sentence_accuracy"}) {
      const Json* value = line.Find(measure);
      if (value != nullptr && value->is_number()) record.values[measure] = value->AsDouble();
    }
  }
  record.step_seconds = MedianStepSeconds(lines);
  if (record.values.empty())
    Fail(ErrorKind::kData, "its metrics.jsonl has no measure of step ", config.optimization.steps);
  const Json run = folder.ReadRunFile();
  const JsonReader reader(run, folder.RunFile());
  record.data = WithNameOf(config.data.validation, WithNameOf(config.data.text, reader.String("data")));
  record.data_fingerprint = reader.String("data_fingerprint");
  record.parameters = reader.Int("parameters");
  record.model_sha256 = Sha256OfFile(folder.ModelFile());
  for (const Json& session : reader.Array("sessions")) {
    const JsonReader fields(session, folder.RunFile());
    record.versions.insert(fields.String("version"));
    const int64_t threads = fields.Int("threads");
    record.processors.insert(
        StrCat(fields.Object("platform").String("cpu_name"), ", ", threads, threads == 1 ? " thread" : " threads"));
  }
  record.config = WithoutPaths(config);
  return record;
}

FinetuningRecord ReadFinetuning(const std::string& run_folder, const std::optional<Json>& of_scale,
                                const TrainingConfig& pretraining) {
  const RunFolder folder(run_folder);
  FinetuningRecord record;
  const TrainingConfig config = WithoutPaths(ReadRunConfig(folder));
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (const Json value = field.get(config); value != field.get(pretraining)) record.config.Set(field.key, value);
  }
  record.of_scale = of_scale;
  const Json run = folder.ReadRunFile();
  record.data_fingerprint = JsonReader(run, folder.RunFile()).String("data_fingerprint");
  record.model_sha256 = Sha256OfFile(folder.ModelFile());
  const Json scores = ReadJsonFile(folder.ScoresFile());
  const JsonReader scores_reader(scores, folder.ScoresFile());
  for (const auto& [task, values] : scores_reader.Value("tasks").AsObject()) {
    CheckMeasures(values, folder.ScoresFile());
    std::map<std::string, double>& numbers = record.scores[task];
    for (const auto& [name, value] : values.AsObject()) {
      if (value.is_number()) numbers[name] = value.AsDouble();
    }
  }
  return record;
}

}  // namespace crosstalk
