// `crosstalk compare`: the members of the attention family, or the values of any field, side by side: the rest is the
// same for all, and so are the seeds.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/models/training/step_cost.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/option_table.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/run_metrics.h"
#include "tools/seed_groups.h"
#include "tools/seed_runs.h"
#include "tools/signals.h"
#include "tools/statistics.h"
#include "tools/training_observer.h"
#include "tools/training_options.h"

namespace crosstalk {

namespace {

// What each run has for itself, and what would give only some of them something to start from.
const std::vector<std::string> kNotOffered = {"seed", "init_from", "continued_at"};

// What a kind of attention brings or not all kinds have: no field for all kinds side by side.
std::vector<std::string> FieldsOfKinds() {
  std::vector<std::string> keys = {"dynamic", "key_heads", "value_heads", "mixing_init"};
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (field.choices == NamesOf<AttentionKind>()) keys.push_back(field.key);
  }
  return keys;
}

struct CompareSettings {
  TrainingConfig config = {.optimization = {.steps = 600}};
  std::vector<AttentionKind> kinds = {AttentionKind::kMultihead, AttentionKind::kTalking, AttentionKind::kDynamic,
                                      AttentionKind::kBilinear};
  std::string vary;  // "heads=2,4"; empty: the kinds of attention
  std::vector<uint64_t> seeds = {1, 2, 3};
  std::string out = "runs/compare";
  bool json = false;
};

FieldTable<CompareSettings> ComparisonFields() {
  using S = CompareSettings;
  return Grouped<S>(
      "Comparison",
      {MakeOption("--kinds", &S::kinds, "LIST", "Kinds of attention to compare."),
       MakeOption("--vary", &S::vary, "FIELD=LIST",
                  "Values of an option of train to compare instead, as in heads=2,4,8 or learning_rate=0.001,0.003."),
       MakeOption("--seeds", &S::seeds, "LIST", "Seeds: each kind or value is trained once with each.",
                  {.range = kSeedRange}),
       MakeOption("--out", &S::out, "FOLDER", "Where the runs and the table go."),
       MakeOption("--json", &S::json, "", "The table as one JSON object on standard output.")});
}

// One trained model.
struct RunResult {
  uint64_t seed = 0;
  RunEvaluation evaluation;
  std::optional<double> step_seconds;  // median; none if the lines of the steps are lost
};

// What is compared, and with what it was trained.
struct SettingResult {
  std::string value;   // of the field that tells the settings apart
  std::string folder;  // the name of its runs' folders, but for their seeds
  TrainingConfig config;
  AttentionConfig layer;
  AttentionCost cost;  // of one layer over one example's inputs
  int64_t model_parameters = 0;
  std::vector<RunResult> runs;
};

SeedGroup GroupOf(const SettingResult& result) {
  SeedGroup group = {result.value, {}};
  for (const RunResult& run : result.runs) {
    for (const Metric& metric : run.evaluation.result.metrics) group.Add(metric.name, run.seed, metric.value);
  }
  return group;
}
std::optional<double> StepSeconds(const SettingResult& result) {
  std::vector<double> known;
  for (const RunResult& run : result.runs) {
    if (run.step_seconds) known.push_back(*run.step_seconds);
  }
  return MedianOfKnown(std::move(known));
}
Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::vector<SeedGroup> GroupsOf(const std::vector<SettingResult>& results) {
  std::vector<SeedGroup> groups;
  for (const SettingResult& result : results) groups.push_back(GroupOf(result));
  return groups;
}

TextTable ResultsTable(const std::string& field, const std::vector<SettingResult>& results, size_t seeds) {
  const std::vector<SeedGroup> groups = GroupsOf(results);
  const std::vector<std::string> measures = MeasuresOf(groups);
  TextTable table = {{field}, {}};
  for (const std::string& measure : measures) {
    const MetricDisplay display = DisplayOf({measure, 0});
    table.header.push_back(StrCat("held-out ", display.label, display.lower_is_better ? "" : " (higher is better)",
                                  seeds > 1 ? ", mean ± standard deviation" : ""));
  }
  for (const char* cost : {"step time (ms)", "parameters, layer", "multiplications, layer", "parameters, model"}) {
    table.header.emplace_back(cost);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(results[i].value);
    for (const std::string& measure : measures) row.push_back(MeanText(measure, groups[i].ValuesOf(measure)));
    const std::optional<double> seconds = StepSeconds(results[i]);
    row.push_back(seconds ? FixedText(1000 * *seconds, 1) : "unknown");
    row.push_back(CountText(results[i].cost.parameters));
    row.push_back(CountText(results[i].cost.multiplications));
    row.push_back(CountText(results[i].model_parameters));
  }
  return table;
}

Json ResultJson(const std::string& field, const SettingResult& result) {
  Json runs = Json::MakeArray();
  for (const RunResult& run : result.runs) {
    runs.Append(ToJson(run.evaluation).Set("seed", run.seed).Set("step_seconds", OrNull(run.step_seconds)));
  }
  Json json = Json::MakeObject({{field, result.value}, {"layer", ToString(result.layer)}});
  for (const auto& [measure, values] : GroupOf(result).measures) {
    const MeanAndDeviation summary = Summarise(ValuesOf(values));
    json.Set(measure + "_mean", summary.mean).Set(measure + "_deviation", summary.deviation);
  }
  return json.Set("step_seconds", OrNull(StepSeconds(result)))
      .Set("layer_parameters", result.cost.parameters)
      .Set("layer_multiplications", result.cost.multiplications)
      .Set("model_parameters", result.model_parameters)
      .Set("runs", runs);
}

Json ResultsJson(const CompareSettings& settings, const std::string& field, const std::string& data,
                 const std::vector<SettingResult>& results) {
  Json seeds = Json::MakeArray(), list = Json::MakeArray();
  for (uint64_t seed : settings.seeds) seeds.Append(seed);
  for (const SettingResult& result : results) list.Append(ResultJson(field, result));
  Json json = Json::MakeObject(
      {{"data", data}, {"seeds", seeds}, {"configuration", ToJson(settings.config)}, {"results", list}});
  if (!settings.vary.empty()) json.Set("vary", field).Set("differences", DifferencesJson(GroupsOf(results)));
  return json;
}

// A value as a part of a file's name: "a/b" is a%2Fb.
std::string NamePart(const std::string& value) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string part;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
    part += plain ? std::string(1, c) : std::string{'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return part;
}

std::string OptionOf(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

const Field<TrainingConfig>& VariedField(std::string name) {
  if (name.starts_with("--")) name.erase(0, 2);
  std::replace(name.begin(), name.end(), '-', '_');
  std::vector<std::string> keys;
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    CROSSTALK_CHECK(name != "seed", "--vary: seeds are given by --seeds, and are the same for all values");
    if (field.key == name) return field;
    keys.push_back(field.key);
  }
  Fail(ErrorKind::kUsage, "--vary: ", Quoted(name), " is no field of a training", DidYouMean(name, keys));
}

// "heads=2,4": a setting for each value.
std::vector<SettingResult> VariedSettings(const CompareSettings& settings, const Field<TrainingConfig>& field,
                                          const std::string& list) {
  std::vector<SettingResult> results;
  std::vector<std::string> values;
  for (const std::string& text : SplitList("--vary", list)) {
    SettingResult& result = results.emplace_back();
    result.config = settings.config;
    field.set(result.config, FieldValue(OptionOf(field.key), field.type, text));
    const Json value = field.get(result.config);
    result.value = value.is_string() ? value.AsString() : value.Dump();
    result.folder = StrCat(field.key, "-", NamePart(result.value));
    values.push_back(result.value);
  }
  CheckDistinct("--vary", values);
  return results;
}

std::vector<SettingResult> KindSettings(const CompareSettings& settings) {
  std::vector<SettingResult> results;
  std::vector<std::string> names;
  for (const AttentionKind kind : settings.kinds) {
    SettingResult& result = results.emplace_back();
    result.config = settings.config;
    result.config.model.attention.kind = kind;
    result.value = result.folder = names.emplace_back(Name(kind));
  }
  CheckDistinct("--kinds", names);  // the same run twice would count as two, with no spread between them
  return results;
}

// What is compared, all of it checked before the first run begins, and the field that tells one from the other.
std::vector<SettingResult> SettingsToCompare(const OptionTable& options, const CompareSettings& settings,
                                             std::string* field_key) {
  std::vector<SettingResult> results;
  if (settings.vary.empty()) {
    for (const std::string& key : FieldsOfKinds()) {
      CROSSTALK_CHECK(!options.Given(OptionOf(key)), OptionOf(key),
                      ": the kinds of --kinds differ in it; with --vary, ",
                      "which compares something else, it holds for all runs");
    }
    results = KindSettings(settings);
    *field_key = "attention";
  } else {
    const std::string* const kinds = options.Given("--kinds");
    CROSSTALK_CHECK(kinds == nullptr, "--kinds: --vary compares something else; --vary attention=", *kinds,
                    " compares kinds");
    const size_t sign = settings.vary.find('=');
    CROSSTALK_CHECK(sign != std::string::npos, "--vary: ", Quoted(settings.vary),
                    " has no =; a field and its values are expected, as in heads=2,4,8");
    const Field<TrainingConfig>& field = VariedField(settings.vary.substr(0, sign));
    const bool offered = std::find(kNotOffered.begin(), kNotOffered.end(), field.key) == kNotOffered.end();
    CROSSTALK_CHECK(!offered || !options.Given(OptionOf(field.key)), OptionOf(field.key), ": --vary gives its values");
    results = VariedSettings(settings, field, settings.vary.substr(sign + 1));
    *field_key = field.key;
  }
  for (SettingResult& result : results) {
    MakePathsAbsolute(&result.config);
    const ResolvedConfig resolved(result.config);
    result.layer =
        MakeModelOfShapes(resolved, {.size = result.config.data.vocabulary, .tokens = {}})->AttentionPlaces()[0].config;
    result.cost = CostOf(result.layer, result.config.objective.input_length, result.config.objective.input_length);
  }
  return results;
}

// Steps and lengths where they are the same for all; what was measured, of the first run.
std::string FootNote(const CompareSettings& settings, const std::vector<SettingResult>& results) {
  const TrainingConfig& config = results[0].config;
  const auto shared = [&](const auto& value_of) {
    return std::all_of(results.begin(), results.end(),
                       [&](const SettingResult& one) { return value_of(one.config) == value_of(config); });
  };
  const auto steps = [](const TrainingConfig& one) { return one.optimization.steps; };
  const auto length = [](const TrainingConfig& one) { return one.objective.input_length; };
  const RunEvaluation& last = results[0].runs[0].evaluation;
  return StrCat(settings.seeds.size(), " seed(s), ", shared(steps) ? StrCat(steps(config), " steps, ") : "",
                CountText(last.result.tokens), " held-out tokens", BoundText(last),
                "; a layer's cost is for n = m = ", shared(length) ? StrCat(length(config)) : "its input_length");
}

int Compare(const OptionTable& options) {
  CompareSettings settings = options.Over(ComparisonFields());
  settings.config = options.Over(TrainingFields(), settings.config);
  MakePathsAbsolute(&settings.config);
  CheckDistinct("--seeds", settings.seeds);
  std::string field;
  std::vector<SettingResult> results = SettingsToCompare(options, settings, &field);

  const StopSignals signals;
  const size_t total = results.size() * settings.seeds.size();
  size_t number = 0;
  std::string data;
  for (uint64_t seed : settings.seeds) {  // seed by seed, so that an early look compares all settings
    for (SettingResult& result : results) {
      TrainingConfig config = result.config;
      config.optimization.seed = seed;
      Progress progress(std::chrono::seconds(30));
      ResumeOptions resume;
      resume.from = ResumeOptions::From::kNewest;
      PrintMessage(Bold(StrCat("[", ++number, "/", total, "] ",
                               settings.vary.empty() ? "" : StrCat(field, " ", result.value, ", "),
                               ToString(result.layer), ", seed ", seed)));
      TrainingRun run(ResolvedConfig(config), StrCat(settings.out, "/", result.folder, "-seed-", seed), resume,
                      MakeTrainingObserver(progress, signals, config.optimization.steps));
      const TrainingSummary summary = run.Train();
      if (summary.end == TrainingSummary::End::kStopped) {
        PrintMessage("interrupted; the same command goes on from here");
        return 128 + signals.Received();
      }
      data = run.data().description;
      result.model_parameters = summary.parameters;
      result.runs.push_back(
          {seed, *summary.last_evaluation, MedianStepSeconds(ReadMetrics(run.folder().MetricsFile()))});
    }
  }

  const Json json = ResultsJson(settings, field, data, results);
  std::string text = MarkdownTable(ResultsTable(field, results, settings.seeds.size()));
  if (!settings.vary.empty()) {
    text += StrCat("\n", MarkdownTable(DifferencesTable(GroupsOf(results))), "\n", DifferencesNote(), "\n");
  }
  WriteFileAtomically(settings.out + "/compare.json", json.DumpPretty());
  WriteFileAtomically(settings.out + "/compare.md", text);
  if (settings.json) {
    PrintResult(json);
  } else {
    PrintResult(text);
  }
  PrintMessage(FootNote(settings, results), "\nwritten: ", settings.out, "/compare.md, ", settings.out,
               "/compare.json");
  return 0;
}

}  // namespace

Command CompareCommand() {
  return {
      "compare", "train the members of the family, or the values of any option, alike and print the table",
      "Trains one model for each kind of attention and seed, on the same data for the same number of steps, each in "
      "its own run folder under --out, and ends with a table: the held-out measure over the seeds, step time, and "
      "parameters and multiplications of one layer in the model's first place of attention. What is finished or begun "
      "is "
      "taken up again by the same command.\n"
      "With --vary FIELD=A,B it compares the values of any option of train instead, and adds the differences between "
      "them over the same seeds, each with its 95 % interval. The options of the kinds of attention then hold for all "
      "runs.",
      [](OptionTable& options) -> std::function<int()> {
        AddTrainingOptions(options, CompareSettings().config, kNotOffered);
        options.AddFields(ComparisonFields());
        options.AddThreads();
        options.ShowFirst({"--data", "--model", "--heads", "--d-model", "--layers", "--steps", "--batch", "--vary",
                           "--seeds", "--out"});
        return [&options] { return Compare(options); };
      }};
}

}  // namespace crosstalk
