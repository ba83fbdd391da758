#include "tools/lab/experiment/cell_record.h"

#include <cmath>
#include <utility>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "tools/cli/statistics.h"

namespace crosstalk {

namespace {

constexpr int kFormat = 1;
constexpr char kPretraining[] = "pretraining", kFinetunings[] = "finetunings", kConfiguration[] = "configuration",
               kModelDigest[] = "model_sha256";

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

Json Numbers(const std::map<std::string, double>& values) {
  Json json = Json::MakeObject();
  for (const auto& [name, value] : values) json.Set(name, value);
  return json;
}

double Measured(const JsonReader& reader, const std::string& key, const Json& value) {
  if (!value.is_number()) reader.FailAt(key, "must be a number, but is ", Name(value.type()));
  if (!(std::abs(value.AsDouble()) <= kMostMeasure)) {
    reader.FailAt(key, "is not between ", -kMostMeasure, " and ", kMostMeasure);
  }
  return value.AsDouble();
}
double Measured(const JsonReader& reader, const std::string& key) { return Measured(reader, key, reader.Value(key)); }

// Members that are numbers; JSON has no form for others than finite ones.
std::map<std::string, double> NumbersOf(const JsonReader& reader, const Json& json) {
  std::map<std::string, double> values;
  for (const auto& [name, value] : json.AsObject()) {
    if (value.is_number()) values[name] = Measured(reader, name, value);
  }
  return values;
}

Json Doubles(const std::vector<double>& values) {
  Json json = Json::MakeArray();
  for (const double value : values) json.Append(value);
  return json;
}

// The fields in which a finetuning is another than its pretraining.
Json ConfigDifferences(const TrainingConfig& finetuning, const TrainingConfig& pretraining) {
  Json json = Json::MakeObject();
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (const Json value = field.get(finetuning); value != field.get(pretraining)) json.Set(field.key, value);
  }
  return json;
}

// Of a field that an earlier version's file calls otherwise.
std::string CurrentKey(const std::string& key) {
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (IsKeyOf(field, key)) return field.key;
  }
  return key;
}

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json ToJson(const PretrainingRecord& record) {
  Json json = Json::MakeObject({{"values", Numbers(record.values)},
                                {"step_seconds", record.step_seconds ? Json(*record.step_seconds) : Json()},
                                {"parameters", record.parameters},
                                {kModelDigest, TextOrNull(record.model_sha256)},
                                {"data", record.data},
                                {"data_fingerprint", record.data_fingerprint},
                                {"simd_bits", record.simd_bits},
                                {"versions", Strings(record.versions)},
                                {"processors", Strings(record.processors)},
                                {"curve_steps", Doubles(record.curve_steps)},
                                {"curve", Doubles(record.curve)},
                                {kConfiguration, ToJson(record.config)}});
  if (record.joules) json.Set("joules", *record.joules);
  return json;
}

Json ToJson(const FinetuningRecord& record, const TrainingConfig& pretraining) {
  Json scores = Json::MakeObject();
  for (const auto& [task, values] : record.scores) scores.Set(task, Numbers(values));
  return Json::MakeObject({{"scores", scores},
                           {"data_fingerprint", record.data_fingerprint},
                           {kModelDigest, TextOrNull(record.model_sha256)},
                           {"scale", record.of_scale.value_or(Json())},
                           {kConfiguration, ConfigDifferences(record.config, pretraining)}});
}

// Reads result.json: every member is known, and every value of a kind that a finished cell can have.
class RecordReader {
 public:
  explicit RecordReader(std::string source) : source_(std::move(source)) {}

  PretrainingRecord Pretraining(const JsonReader& reader) const {
    PretrainingRecord record;
    record.values = Measures(reader, "values");
    if (record.values.count("ln_ppl") == 0) reader.FailAt("values", "has no ln_ppl");
    if (!reader.Value("step_seconds").is_null()) {
      record.step_seconds = Measured(reader, "step_seconds");
      constexpr double kMostSeconds = 1e9;
      if (!(*record.step_seconds >= 0 && *record.step_seconds <= kMostSeconds)) {
        reader.FailAt("step_seconds", "is not between 0 and ", kMostSeconds);
      }
    }
    if (reader.Has("joules")) {
      record.joules = Measured(reader, "joules");
      if (*record.joules < 0) reader.FailAt("joules", "is less than 0");
    }
    record.parameters = reader.Int("parameters", 1, int64_t{1} << 50);
    record.model_sha256 = ModelDigest(reader);
    record.data = Text(reader, "data");
    record.data_fingerprint = Text(reader, "data_fingerprint");
    record.simd_bits = Text(reader, "simd_bits");
    record.versions = Texts(reader, "versions");
    record.processors = Texts(reader, "processors");
    record.curve_steps = Doubles(reader, "curve_steps");
    record.curve = Doubles(reader, "curve");
    if (record.curve.size() != record.curve_steps.size()) reader.FailAt("curve", "is not as long as curve_steps");
    for (size_t i = 1; i < record.curve_steps.size(); ++i) {
      if (!(record.curve_steps[i] >= record.curve_steps[i - 1])) reader.FailAt("curve_steps", "descends");
    }
    record.config = Config(reader.Value(kConfiguration), kPretraining);
    reader.RejectUnread();
    return record;
  }

  FinetuningRecord Finetuning(const JsonReader& reader, const std::string& tasks,
                              const TrainingConfig& pretraining) const {
    FinetuningRecord record;
    const JsonReader scores = reader.Object("scores");
    for (const auto& [task, values] : reader.Value("scores").AsObject()) {
      record.scores[task] = Measures(scores, task);
    }
    record.data_fingerprint = Text(reader, "data_fingerprint");
    record.model_sha256 = ModelDigest(reader);
    if (const Json& of_scale = reader.Value("scale"); !of_scale.is_null()) record.of_scale = of_scale;
    Json config = crosstalk::ToJson(pretraining);
    reader.Object(kConfiguration);  // it is an object
    for (const auto& [key, value] : reader.Value(kConfiguration).AsObject()) config.Set(CurrentKey(key), value);
    record.config = Config(config, tasks);
    reader.RejectUnread();
    return record;
  }

 private:
  TrainingConfig Config(const Json& json, const std::string& of) const {
    return TrainingConfigFromJson(json, StrCat(source_, ": configuration of ", of));
  }

  // A result of an earlier version has none.
  static std::string ModelDigest(const JsonReader& reader) {
    if (!reader.Has(kModelDigest) || reader.Value(kModelDigest).is_null()) return "";
    const std::string digest = reader.String(kModelDigest);
    if (digest.size() != 64 || digest.find_first_not_of("0123456789abcdef") != std::string::npos) {
      reader.FailAt(kModelDigest, "is not 64 hexadecimal digits");
    }
    return digest;
  }

  static std::map<std::string, double> Measures(const JsonReader& reader, const std::string& key) {
    const JsonReader numbers = reader.Object(key);
    std::map<std::string, double> values;
    for (const auto& [name, value] : reader.Value(key).AsObject()) values[name] = Measured(numbers, name);
    return values;
  }

  // Written into tables as it stands, so that it must be a line, and a short one.
  static const std::string& Checked(const JsonReader& reader, const std::string& key, const std::string& text) {
    constexpr size_t kMost = 4096;
    if (text.size() > kMost) reader.FailAt(key, "is longer than ", kMost, " bytes");
    for (const char c : text) {
      if (static_cast<unsigned char>(c) < ' ') reader.FailAt(key, "has a control character");
    }
    return text;
  }
  static std::string Text(const JsonReader& reader, const std::string& key) {
    return Checked(reader, key, reader.String(key));
  }
  static std::set<std::string> Texts(const JsonReader& reader, const std::string& key) {
    std::set<std::string> texts;
    for (const Json& text : reader.Array(key)) {
      if (!text.is_string()) reader.FailAt(key, "must hold strings");
      texts.insert(Checked(reader, key, text.AsString()));
    }
    return texts;
  }
  static std::vector<double> Doubles(const JsonReader& reader, const std::string& key) {
    std::vector<double> values;
    for (const Json& value : reader.Array(key)) {
      values.push_back(Measured(reader, key, value));
    }
    return values;
  }

  std::string source_;
};

}  // namespace

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
  record.simd_bits = reader.String("simd_bits");
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

FinetuningRecord ReadFinetuning(const std::string& run_folder, const std::optional<Json>& of_scale) {
  const RunFolder folder(run_folder);
  FinetuningRecord record;
  record.config = WithoutPaths(ReadRunConfig(folder));
  record.of_scale = of_scale;
  const Json run = folder.ReadRunFile();
  record.data_fingerprint = JsonReader(run, folder.RunFile()).String("data_fingerprint");
  record.model_sha256 = Sha256OfFile(folder.ModelFile());
  const Json scores = ReadJsonFile(folder.ScoresFile());
  const JsonReader reader(scores, folder.ScoresFile());
  const JsonReader tasks = reader.Object("tasks");
  for (const auto& [task, values] : reader.Value("tasks").AsObject())
    record.scores[task] = NumbersOf(tasks, tasks.Value(task));
  return record;
}

Json Strings(const std::set<std::string>& texts) {
  Json json = Json::MakeArray();
  for (const std::string& text : texts) json.Append(text);
  return json;
}

Json ToJson(const CellRecord& record) {
  Json finetunings = Json::MakeObject();
  for (const auto& [tasks, finetuning] : record.finetunings) {
    finetunings.Set(tasks, ToJson(finetuning, record.pretraining.config));
  }
  return Json::MakeObject(
      {{"format", kFormat}, {kPretraining, ToJson(record.pretraining)}, {kFinetunings, finetunings}});
}

CellRecord CellRecordFromJson(const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  reader.Int("format", kFormat, kFormat);
  const RecordReader records(source);
  CellRecord record;
  record.pretraining = records.Pretraining(reader.Object(kPretraining));
  const JsonReader finetunings = reader.Object(kFinetunings);
  for (const auto& [tasks, value] : reader.Value(kFinetunings).AsObject()) {
    record.finetunings[tasks] = records.Finetuning(finetunings.Object(tasks), tasks, record.pretraining.config);
  }
  reader.RejectUnread();
  return record;
}

}  // namespace crosstalk
