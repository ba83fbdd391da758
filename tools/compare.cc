// `crosstalk compare`: the members of the attention family side by side: same data, same steps, same seeds.
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/run_metrics.h"
#include "tools/seed_runs.h"
#include "tools/signals.h"
#include "tools/statistics.h"
#include "tools/training_observer.h"
#include "tools/training_options.h"

namespace crosstalk {

namespace {

// What tells the runs apart, and what would give only some of them something to start from. Their steps are the same
// for all, so that none is continued.
std::vector<std::string> FixedFields() {
  std::vector<std::string> keys = {"dynamic", "key_heads", "value_heads", "mixing_init",
                                   "seed",    "init_from", "continued_at"};
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (field.choices == NamesOf<AttentionKind>()) keys.push_back(field.key);
  }
  return keys;
}

struct CompareSettings {
  TrainingConfig config;
  std::string kinds = "multihead,talking,dynamic,bilinear";
  std::vector<uint64_t> seeds = {1, 2, 3};
  std::string out = "runs/compare";
  bool json = false;
};

// One trained model.
struct RunResult {
  uint64_t seed = 0;
  RunEvaluation evaluation;
  std::optional<double> step_seconds;  // median; none if the lines of the steps are lost
};

struct KindResult {
  std::string kind;
  AttentionConfig layer;
  AttentionCost cost;  // of one layer over one example's inputs
  int64_t model_parameters = 0;
  std::vector<RunResult> runs;
};

const std::vector<Metric>& MetricsOf(const KindResult& result) { return result.runs[0].evaluation.result.metrics; }
// Of a metric over the seeds; the runs are ranked by number 0.
MeanAndDeviation SummaryOf(const KindResult& result, size_t metric) {
  std::vector<double> values;
  for (const RunResult& run : result.runs) values.push_back(run.evaluation.result.metrics.at(metric).value);
  return Summarise(values);
}
std::optional<double> StepSeconds(const KindResult& result) {
  std::vector<double> known;
  for (const RunResult& run : result.runs) {
    if (run.step_seconds) known.push_back(*run.step_seconds);
  }
  return MedianOfKnown(std::move(known));
}
Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::string MarkdownTable(const std::vector<KindResult>& results, size_t seeds) {
  const std::vector<Metric>& metrics = MetricsOf(results[0]);
  std::string table = "| attention |", rule = "|---|";
  for (const Metric& metric : metrics) {
    table +=
        StrCat(" held-out ", DisplayOf(metric).label, DisplayOf(metric).lower_is_better ? "" : " (higher is better)",
               seeds > 1 ? ", mean ± standard deviation" : "", " |");
    rule += "---|";
  }
  table += StrCat(" step time (ms) | parameters, layer | multiplications, layer | parameters, model |\n", rule,
                  "---|---|---|---|\n");
  for (const KindResult& result : results) {
    const std::optional<double> seconds = StepSeconds(result);
    table += StrCat("| ", result.kind, " |");
    for (size_t i = 0; i < metrics.size(); ++i) {
      const MeanAndDeviation summary = SummaryOf(result, i);
      table += StrCat(" ", MetricText(metrics[i], summary.mean, 4),
                      result.runs.size() > 1 ? " ± " + MetricText(metrics[i], summary.deviation, 4) : "", " |");
    }
    table += StrCat(" ", seconds ? FixedText(1000 * *seconds, 1) : "unknown", " | ", CountText(result.cost.parameters),
                    " | ", CountText(result.cost.multiplications), " | ", CountText(result.model_parameters), " |\n");
  }
  return table;
}

Json ResultsJson(const CompareSettings& settings, const std::string& data, const std::vector<KindResult>& results) {
  Json seeds = Json::MakeArray();
  for (uint64_t seed : settings.seeds) seeds.Append(seed);
  Json kinds = Json::MakeArray();
  for (const KindResult& result : results) {
    Json runs = Json::MakeArray();
    for (const RunResult& run : result.runs) {
      runs.Append(ToJson(run.evaluation).Set("seed", run.seed).Set("step_seconds", OrNull(run.step_seconds)));
    }
    Json kind = Json::MakeObject({{"attention", result.kind}, {"layer", ToString(result.layer)}});
    for (size_t i = 0; i < MetricsOf(result).size(); ++i) {
      const MeanAndDeviation summary = SummaryOf(result, i);
      const std::string& name = MetricsOf(result)[i].name;
      kind.Set(name + "_mean", summary.mean).Set(name + "_deviation", summary.deviation);
    }
    kinds.Append(kind.Set("step_seconds", OrNull(StepSeconds(result)))
                     .Set("layer_parameters", result.cost.parameters)
                     .Set("layer_multiplications", result.cost.multiplications)
                     .Set("model_parameters", result.model_parameters)
                     .Set("runs", runs));
  }
  return Json::MakeObject(
      {{"data", data}, {"seeds", seeds}, {"configuration", ToJson(settings.config)}, {"results", kinds}});
}

int Compare(CompareSettings& settings) {
  MakePathsAbsolute(&settings.config);
  const std::vector<std::string> kinds = SplitList("--kinds", settings.kinds);
  CheckDistinct("--kinds", kinds);  // the same run twice would count as two, with no spread between them
  CheckSeeds(settings.seeds);
  std::vector<KindResult> results;
  for (const std::string& kind : kinds) {  // every configuration is checked before the first run begins
    TrainingConfig config = settings.config;
    config.attention.kind = ParseName<AttentionKind>("kinds", kind);
    const ResolvedConfig resolved(config);
    KindResult result;
    result.kind = kind;
    result.layer = DescribeModel(resolved, {.size = config.vocabulary, .tokens = {}}).places[0].config;
    result.cost = CostOf(result.layer, config.input_length, config.input_length);
    results.push_back(result);
  }

  const StopSignals signals;
  const size_t total = kinds.size() * settings.seeds.size();
  size_t number = 0;
  std::string data;
  for (uint64_t seed : settings.seeds) {  // seed by seed, so that an early look compares all kinds
    for (KindResult& result : results) {
      TrainingConfig config = settings.config;
      config.attention.kind = ParseName<AttentionKind>("attention", result.kind);
      config.seed = seed;
      Progress progress(std::chrono::seconds(30));
      ResumeOptions resume;
      resume.from = ResumeOptions::From::kNewest;
      PrintMessage(Bold(StrCat("[", ++number, "/", total, "] ", ToString(result.layer), ", seed ", seed)));
      TrainingRun run(ResolvedConfig(config), StrCat(settings.out, "/", result.kind, "-seed-", seed), resume,
                      MakeTrainingObserver(progress, signals, config.steps));
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

  const Json json = ResultsJson(settings, data, results);
  const std::string table = MarkdownTable(results, settings.seeds.size());
  WriteFileAtomically(settings.out + "/compare.json", json.DumpPretty());
  WriteFileAtomically(settings.out + "/compare.md", table);
  if (settings.json) {
    PrintResult(json);
  } else {
    PrintResult(table);
  }
  const RunEvaluation& last = results[0].runs[0].evaluation;
  PrintMessage(settings.seeds.size(), " seed(s), ", settings.config.steps, " steps, ", CountText(last.result.tokens),
               " held-out tokens", BoundText(last), "; a layer's cost is for n = m = ", settings.config.input_length,
               "\nwritten: ", settings.out, "/compare.md, ", settings.out, "/compare.json");
  return 0;
}

}  // namespace

Command CompareCommand() {
  return {
      "compare", "train the members of the family alike and print the table",
      "Trains one model for each kind of attention and seed, on the same data for the same number of steps, each in "
      "its own run folder under --out, and ends with a table: the held-out measure over the seeds, step time, and "
      "parameters and multiplications of one layer in the model's first place of attention. What is finished or begun "
      "is "
      "taken up again by the same command.",
      [](OptionTable& options) -> std::function<int()> {
        const auto settings = std::make_shared<CompareSettings>();
        settings->config.steps = 600;
        AddTrainingOptions(options, &settings->config, FixedFields());
        options.Group("Comparison");
        options.Add("--kinds", &settings->kinds, "LIST", StrCat("Some of ", Join(NamesOf<AttentionKind>(), ", "), "."));
        options.Add("--seeds", &settings->seeds, "LIST", "Seeds: each kind is trained once with each.");
        options.Add("--out", &settings->out, "FOLDER", "Where the runs and the table go.");
        options.AddFlag("--json", &settings->json, "The table as one JSON object on standard output.");
        options.AddThreads();
        return [settings] { return Compare(*settings); };
      }};
}

}  // namespace crosstalk
