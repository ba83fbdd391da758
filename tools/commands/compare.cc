// `crosstalk compare`: the members of the attention family, or the values of any field, side by side: the rest is the
// same for all, and so are the seeds.
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/training/finetuning.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/option_table.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/training.h"
#include "tools/lab/experiment/driver.h"

namespace crosstalk {

namespace {

// Fields that each run sets itself, and one that would give only some runs a start.
const std::vector<std::string> kNotOffered = {"seed", "continued_at"};

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
  bool dry_run = false;
  bool status = false;
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
       MakeOption("--out", &S::out, "FOLDER", "Folder of the table; its cells/ has the runs.", {.is_path = true}),
       MakeOption("--dry-run", &S::dry_run, "", "Only print time, disk and memory."),
       MakeOption("--status", &S::status, "", "Print each run's progress, and where it runs."),
       MakeOption("--json", &S::json, "", "The table as one JSON object on standard output.")});
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

const Field<TrainingConfig>& VariedField(std::string_view given) {
  std::string name(given);
  if (name.starts_with("--")) name.erase(0, 2);
  std::replace(name.begin(), name.end(), '-', '_');
  std::vector<std::string> keys;
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    CROSSTALK_CHECK(name != "seed", "--vary: seeds are given by --seeds, and are the same for all values");
    if (IsKeyOf(field, name)) return field;
    keys.push_back(field.key);
  }
  Fail(ErrorKind::kUsage, "--vary: ", Quoted(name), " is not a field of a training", DidYouMean(name, keys));
}

// Adds a setting to what is compared.
void AddRow(const std::string& key, const std::string& value, const TrainingConfig& config, Experiment* experiment) {
  TableRow row = {.name = value, .config = Json::MakeObject()};
  row.cell = StrCat(key, "-", NamePart(value));
  experiment->table.rows.push_back(std::move(row));
  experiment->configs.push_back(config);
}

std::vector<std::string> NamesOfRows(const Experiment& experiment) {
  std::vector<std::string> names;
  for (const TableRow& row : experiment.table.rows) names.push_back(row.name);
  return names;
}

// "heads=2,4": a setting for each value. A run that begins with another's weights has its model, as in train.
void AddValues(const OptionTable& options, const Field<TrainingConfig>& field, const std::string& list,
               Experiment* experiment) {
  for (const std::string& text : SplitList("--vary", list)) {
    const auto over = [&](TrainingConfig base) {
      TrainingConfig config = options.Over(TrainingFields(), std::move(base));
      field.set(config, FieldValue(OptionOf(field.key), field.type, text));
      return config;
    };
    const TrainingConfig config = ConfigToBegin(over, CompareSettings().config);
    const Json value = field.get(config);
    AddRow(field.key, value.is_string() ? value.AsString() : value.Dump(), config, experiment);
  }
  CheckDistinct("--vary", NamesOfRows(*experiment));
  experiment->table.rows_are = field.key;
}

void AddKinds(const CompareSettings& settings, Experiment* experiment) {
  for (const AttentionKind kind : settings.kinds) {
    TrainingConfig config = settings.config;
    config.model.attention.kind = kind;
    AddRow("attention", Name(kind), config, experiment);
  }
  CheckDistinct("--kinds", NamesOfRows(*experiment));  // the same run twice would count as two, with no spread
  experiment->table.rows_are = "attention";
}

// The settings to compare, all checked before the first run begins.
Experiment ExperimentOf(const OptionTable& options, const CompareSettings& settings) {
  Experiment experiment;
  if (settings.vary.empty()) {
    for (const std::string& key : FieldsOfKinds()) {
      CROSSTALK_CHECK(!options.Given(OptionOf(key)), OptionOf(key),
                      ": the kinds of --kinds differ in it; with --vary, ",
                      "which compares something else, it holds for all runs");
    }
    CROSSTALK_CHECK(settings.config.optimization.init_from.empty(),
                    "--init-from: weights are of one kind of attention; ",
                    "import --attention makes an origin of each kind, and --vary init_from=A,B compares them");
    AddKinds(settings, &experiment);
  } else {
    const std::string* const kinds = options.Given("--kinds");
    CROSSTALK_CHECK(kinds == nullptr, "--kinds: --vary compares something else; --vary attention=", *kinds,
                    " compares kinds");
    const size_t sign = settings.vary.find('=');
    CROSSTALK_CHECK(sign != std::string::npos, "--vary: ", Quoted(settings.vary),
                    " has no =; a field and its values are expected, as in heads=2,4,8");
    const Field<TrainingConfig>& field = VariedField(std::string_view(settings.vary).substr(0, sign));
    const bool offered = std::find(kNotOffered.begin(), kNotOffered.end(), field.key) == kNotOffered.end();
    CROSSTALK_CHECK(!offered || !options.Given(OptionOf(field.key)), OptionOf(field.key), ": --vary gives its values");
    AddValues(options, field, settings.vary.substr(sign + 1), &experiment);
  }
  const std::string& field = experiment.table.rows_are;
  const std::string values = Join(NamesOfRows(experiment), ", ");
  experiment.table.title = StrCat("Comparison of ", field, ": ", values);
  experiment.about = StrCat("The runs differ in ", field, " and in their seed alone.");
  experiment.lead = StrCat("Models that differ in ", field, " and in their seed alone.");
  experiment.seeds = settings.seeds;
  experiment.out = AbsolutePath("out", settings.out);
  experiment.cells = experiment.out + "/cells";
  return experiment;
}

int Compare(const OptionTable& options) {
  CompareSettings settings = options.Over(ComparisonFields());
  settings.config = options.Over(TrainingFields(), settings.config);
  CheckDistinct("--seeds", settings.seeds);
  CROSSTALK_CHECK(!settings.dry_run || !settings.status, "--dry-run and --status each say what to do; give one");
  const std::vector<Experiment> experiments = {ExperimentOf(options, settings)};
  const std::vector<Cell> cells = CellsOf(experiments);
  if (settings.status) {
    PrintStatus(cells, settings.json);
    return 0;
  }
  const StopSignals signals;
  const Plan plan = MakePlan(cells, signals);
  if (settings.dry_run) {
    PrintPlan(plan, settings.json);
    return 0;
  }
  PrintMessage(experiments[0].table.title, ", in ", experiments[0].out, "\n", PlanSummary(plan));
  return RunCells(experiments, cells, settings.json, signals);
}

}  // namespace

Command CompareCommand() {
  return {
      "compare", "train the members of the family, or the values of any option, alike and print the table",
      "Trains one model for each kind of attention and seed, on the same data for the same number of steps, each in "
      "its own run folder under --out/cells, and ends with a table, as `crosstalk reproduce` has it: the held-out "
      "measures over the seeds, the differences between the same seeds with their 95 % intervals, step time, and "
      "parameters and multiplications of one layer. The same command resumes; several processes, on one machine or on "
      "many with a common folder, share the work.\n"
      "With --vary FIELD=A,B it compares the values of any option of train instead. The options of the kinds of "
      "attention then hold for all runs. --vary init_from=A,B compares trainings that begin with the weights of runs "
      "or "
      "of imported models.",
      [](OptionTable& options) -> std::function<int()> {
        options.AddFields(TrainingFields(), CompareSettings().config, kNotOffered, "train");
        options.AddFields(ComparisonFields());
        options.AddThreads();
        return [&options] { return Compare(options); };
      }};
}

}  // namespace crosstalk
