#include "tools/page/run_record.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>
#include <string_view>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/statistics.h"

namespace crosstalk {
namespace {

// Far above what a run writes, 300 bytes a step.
constexpr uint64_t kMostMetricsBytes = uint64_t{2} << 30;
constexpr size_t kMostMeasures = 100;
constexpr int64_t kMostSteps = int64_t{1} << 53;  // a double counts to there
constexpr double kMostTokensPerSecond = 1e15;
// Members of a line of metrics.jsonl that are no measure, or measure the cost.
constexpr std::string_view kNoTrainingMeasure[] = {"event", "step", "target_tokens", "tokens", "seconds"};
constexpr std::string_view kNoHeldOutMeasure[] = {"event",  "step",     "loss_lower_bound", "constant_guess",
                                                  "tokens", "examples", "seconds"};

double NumberOr(const Json& json, std::string_view key, double otherwise) {
  const Json* value = json.Find(key);
  return value != nullptr && value->is_number() ? value->AsDouble() : otherwise;
}
int64_t IntOr(const Json& json, std::string_view key, int64_t otherwise) {
  const Json* value = json.Find(key);
  return value != nullptr && value->is_int() ? value->AsInt() : otherwise;
}
std::string StringOr(const Json& json, std::string_view key, const std::string& otherwise) {
  const Json* value = json.Find(key);
  return value != nullptr && value->is_string() ? value->AsString() : otherwise;
}

// Adds the line's numbers but those of `none`; one that is null is not finite.
template <size_t kCount>
void AddMeasures(const Json& line, double step, const std::string_view (&none)[kCount], std::vector<Series>& series) {
  for (const auto& [key, value] : line.AsObject()) {
    if (std::find(std::begin(none), std::end(none), key) != std::end(none)) continue;
    if (!value.is_number() && !value.is_null()) continue;
    auto found =
        std::find_if(series.begin(), series.end(), [&name = key](const Series& one) { return one.name == name; });
    if (found == series.end()) {
      if (value.is_null() || series.size() == kMostMeasures) continue;
      found = series.insert(series.end(), {key, {}, {}});
    }
    found->x.push_back(step);
    found->y.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.AsDouble());
  }
}

void AddLine(const Json& line, RunRecord& record) {
  CheckMeasures(line, "line");
  const int64_t step = IntOr(line, "step", -1);
  const std::string event = StringOr(line, "event", "");
  if (step < 0 || step > kMostSteps) return;
  const double x = static_cast<double>(step), seconds = NumberOr(line, "seconds", 0);
  if (event == "train") {
    AddMeasures(line, x, kNoTrainingMeasure, record.training);
    record.step_seconds.push_back(seconds);
  } else if (event == "eval") {
    AddMeasures(line, x, kNoHeldOutMeasure, record.held_out);
    record.held_out_tokens = IntOr(line, "tokens", 0);
    record.held_out_examples = IntOr(line, "examples", 0);
    const double bound = NumberOr(line, "loss_lower_bound", std::nan(""));
    if (std::isfinite(bound)) record.loss_lower_bound = bound;
    if (const Json* guess = line.Find("constant_guess"); guess != nullptr && guess->is_object()) {
      record.constant_guess.clear();
      for (const auto& [key, value] : guess->AsObject()) {
        if (value.is_number()) record.constant_guess.push_back({key, value.AsDouble()});
      }
    }
  } else {
    return;
  }
  record.step = std::max(record.step, step);
  record.seconds += seconds;
}

void ReadMetricsOf(const RunFolder& folder, RunRecord& record) {
  if (KindOf(folder.MetricsFile()) == PathKind::kNothing) {
    record.missing.push_back("metrics.jsonl is missing: there are no curves");
    return;
  }
  std::string text;
  try {
    text = ReadFile(folder.MetricsFile(), kMostMetricsBytes);
  } catch (const Error& error) {
    record.missing.push_back(StrCat(error.what(), ": there are no curves"));
    return;
  }
  int64_t number = 0, damaged = 0, first_damaged = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // cut off, as that of a run that was killed
    ++number;
    try {
      const Json line = ParseJson(std::string_view(text).substr(begin, end - begin), "line");
      if (!line.is_object()) Fail(ErrorKind::kData, "no object");
      AddLine(line, record);
    } catch (const Error&) {
      if (++damaged == 1) first_damaged = number;
    }
    begin = end + 1;
  }
  if (damaged > 0) {
    record.missing.push_back(StrCat("metrics.jsonl: ", damaged, damaged == 1 ? " line is" : " lines are",
                                    " damaged and left out, the first is line ", first_damaged));
  }
  if (record.training.empty() && record.held_out.empty()) record.missing.push_back("metrics.jsonl has no steps yet");
}

void ReadSessions(RunRecord& record) {
  const Json* sessions = record.run.Find("sessions");
  if (sessions == nullptr || !sessions->is_array()) return;
  for (const Json& one : sessions->AsArray()) {
    if (one.is_object()) record.sessions.push_back(WhatFits<RunSession>(one));
  }
}

bool IsImported(const RunFolder& folder) {
  if (folder.HasRunFile() || !folder.HoldsRun()) return false;
  const FoundCheckpoint found = CheckpointStore(folder.CheckpointDirectory()).FindNewestGood();
  return found.checkpoint && ReadCheckpointConfig(*found.checkpoint).fingerprint.empty();
}

void ReadConfigurationOf(const RunFolder& folder, RunRecord& record) {
  std::string lost;
  try {
    record.run = folder.ReadRunFile();
    ReadSessions(record);
  } catch (const Error& error) {
    record.run = Json::MakeObject();
    lost = folder.HasRunFile() ? error.what() : "run.json is missing";
  }
  try {
    record.config = ReadRunConfig(folder);
    record.imported = IsImported(folder);
    if (!lost.empty() && !record.imported) record.missing.push_back(lost);
  } catch (const Error& error) {
    record.missing.push_back(StrCat("the configuration is not known: ", lost.empty() ? error.what() : lost));
  }
}

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool HoldsAnything(const RunFolder& folder) {
  return folder.HoldsRun() || KindOf(folder.MetricsFile()) == PathKind::kFile;
}

// The last `parts` names of a path.
std::string Tail(const std::string& path, size_t parts) {
  const std::vector<std::string> names = Split(path, '/');
  const size_t first = names.size() - std::min(parts, names.size());
  return Join({names.begin() + static_cast<int64_t>(first), names.end()}, "/");
}

// As many names of the paths' ends as tell them apart.
void NameApart(std::vector<RunRecord>& runs) {
  for (size_t parts = 1; parts < 64; ++parts) {
    std::set<std::string> names;
    for (size_t i = 0; i < runs.size(); ++i) {
      runs[i].name = Tail(runs[i].folder, parts);
      names.insert(runs[i].name);
    }
    if (names.size() == runs.size()) return;
  }
}

}  // namespace

const Series* RunRecord::Training(std::string_view metric) const {
  for (const Series& one : training) {
    if (one.name == metric) return &one;
  }
  return nullptr;
}

std::vector<RunEvent> RunRecord::Events() const {
  std::vector<RunEvent> events;
  std::vector<int64_t> continued;
  if (config && !config->optimization.continued_at.empty()) {
    for (const std::string& part : Split(config->optimization.continued_at, ',')) {
      continued.push_back(std::strtoll(part.c_str(), nullptr, 10));
    }
  }
  for (const int64_t at : continued) events.push_back({RunEvent::Kind::kContinued, at});
  for (size_t i = 1; i < sessions.size(); ++i) {
    const int64_t at = sessions[i].from_step;
    const auto same = [at](const RunEvent& event) { return event.step == at; };
    if (std::none_of(events.begin(), events.end(), same)) events.push_back({RunEvent::Kind::kResumed, at});
  }
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return events;
}

std::optional<RunScore> RunRecord::Best() const {
  std::optional<RunScore> best;
  if (held_out.empty()) return best;
  for (size_t i = 0; i < held_out[0].y.size(); ++i) {
    const double value = held_out[0].y[i];
    if (!std::isfinite(value)) continue;
    const std::string& name = held_out[0].name;
    if (best && Score({name, value}) >= Score({name, best->value})) continue;
    best = {static_cast<int64_t>(held_out[0].x[i]), value};
  }
  return best;
}

std::optional<RunScore> RunRecord::Last() const {
  if (held_out.empty()) return std::nullopt;
  return RunScore{static_cast<int64_t>(held_out[0].x.back()), held_out[0].y.back()};
}

std::optional<double> RunRecord::TokensPerSecond() const {
  const Series* speed = Training("tokens_per_second");
  if (speed == nullptr) return std::nullopt;
  std::vector<double> values = speed->y;
  std::erase_if(values, [](double value) { return !(std::abs(value) < kMostTokensPerSecond); });
  return values.empty() ? std::nullopt : std::optional<double>(Median(std::move(values)));
}

std::optional<int64_t> RunRecord::Parameters() const {
  const int64_t parameters = IntOr(run, "parameters", -1);
  return parameters < 0 ? std::nullopt : std::optional<int64_t>(parameters);
}

RunRecord ReadRun(const std::string& path) {
  const RunFolder folder(WithoutSlash(path));
  if (KindOf(path) == PathKind::kNothing) Fail(ErrorKind::kData, path, ": there is nothing there");
  if (KindOf(path) != PathKind::kDirectory) Fail(ErrorKind::kData, path, ": not a folder, and so not a run's");
  if (!HoldsAnything(folder)) {
    Fail(ErrorKind::kData, path, ": there is no run here (no run.json, checkpoints or metrics.jsonl)");
  }
  RunRecord record;
  record.folder = WithoutSlash(std::filesystem::absolute(folder.path()).lexically_normal().string());
  record.name = Tail(record.folder, 1);
  ReadConfigurationOf(folder, record);
  if (record.imported) return record;
  ReadMetricsOf(folder, record);
  const bool model = KindOf(folder.ModelFile()) == PathKind::kFile;
  record.finished = model && record.config && record.step == record.config->optimization.steps;
  if (record.config && !record.finished) {
    record.missing.push_back(record.step == record.config->optimization.steps
                                 ? "model.safetensors is missing: the last step was taken, but the run has not ended"
                                 : StrCat("the run has not ended: the last line of metrics.jsonl is of step ",
                                          record.step, " of ", record.config->optimization.steps));
  }
  if (KindOf(folder.ScoresFile()) == PathKind::kFile) {
    try {
      record.scores = ReadJsonFile(folder.ScoresFile());
    } catch (const Error& error) {
      record.missing.push_back(error.what());
    }
  }
  return record;
}

std::vector<RunRecord> ReadRuns(const std::vector<std::string>& paths) {
  std::vector<RunRecord> runs;
  for (const std::string& path : paths) {
    std::vector<std::string> inner;
    if (KindOf(path) == PathKind::kDirectory && !HoldsAnything(RunFolder(path))) {
      for (const std::string& name : ListDirectory(path)) {
        const std::string one = StrCat(WithoutSlash(path), "/", name);
        if (KindOf(one) == PathKind::kDirectory && HoldsAnything(RunFolder(one))) inner.push_back(one);
      }
    }
    if (inner.empty()) inner.push_back(path);
    for (const std::string& one : inner) runs.push_back(ReadRun(one));
  }
  NameApart(runs);
  return runs;
}

std::string MeasureLabel(const std::string& name) {
  const Metric metric{name, 0};
  std::string label = DisplayOf(metric).label;
  if (label == name) std::replace(label.begin(), label.end(), '_', ' ');
  return label;
}

}  // namespace crosstalk
