#include "tools/lab/experiment/scale.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/training/finetuning.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/file_calls.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

namespace {

constexpr char kTables[] =
#include "embedded/tools/lab/experiment/tables.json.inc"
    ;

// tables.json.
struct TablesFile {
  std::string source;
  std::map<std::string, std::vector<TableMeasure>> measures;  // by model, of tables without their own
  std::vector<Table> tables;

  static FieldTable<TablesFile> Fields() {
    using F = TablesFile;
    return {{"source", &F::source}, {"measures", &F::measures}, {"tables", &F::tables}};
  }
  void Validate() {
    for (Table& table : tables) {
      if (table.measures.empty()) table.measures = measures[table.model];
      for (const TableClaim& claim : table.claims) CheckClaim(table, claim);
    }
  }

 private:
  static void CheckClaim(const Table& table, const TableClaim& claim) {
    const auto find = [](const auto& all, const std::string& name) {
      return std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
    };
    for (const std::vector<std::string>& pair : claim.pairs) {
      const auto place = [&](size_t i) { return i < pair.size() ? find(table.rows, pair[i]) : table.rows.end(); };
      const auto better = place(0), worse = place(1), none = table.rows.end();
      CROSSTALK_CHECK_FIELD(pair.size() == 2 && better != none && worse != none && better->group == worse->group,
                            "pairs", "table ", table.name, ": ", Join(pair, ", "),
                            " are not two of its rows of one group");
    }
    for (const std::string& name : claim.measures) {
      CROSSTALK_CHECK_FIELD(find(table.measures, name) != table.measures.end(), "measures", "table ", table.name, ": ",
                            Quoted(name), " is none of its measures");
    }
  }
};

}  // namespace

const std::vector<Table>& Tables() {
  static const auto file = FromJson<TablesFile>(ParseJson(kTables, "tables.json"), "tables.json");
  return file.tables;
}

std::vector<std::string> TableNames() {
  std::vector<std::string> names;
  for (const Table& table : Tables()) names.push_back(table.name);
  return names;
}

namespace {

struct NamedText {
  const char* name;
  const char* text;
};

constexpr NamedText kScales[] = {
    {
        "smoke",
#include "embedded/tools/lab/experiment/scales/smoke.json.inc"
    },
    {
        "small",
#include "embedded/tools/lab/experiment/scales/small.json.inc"
    },
    {
        "medium",
#include "embedded/tools/lab/experiment/scales/medium.json.inc"
    },
    {
        "paper",
#include "embedded/tools/lab/experiment/scales/paper.json.inc"
    },
};

const NamedText* FindScale(const std::string& name) {
  const auto found =
      std::find_if(std::begin(kScales), std::end(kScales), [&](const auto& one) { return name == one.name; });
  return found == std::end(kScales) ? nullptr : found;
}

// Fields that rows of the tables and cells decide.
constexpr const char* kFieldsOfRows[] = {"attention",  "heads",   "key_heads",    "value_heads",  "key_size",
                                         "value_size", "dynamic", "encoder_self", "decoder_self", "encoder_decoder",
                                         "model",      "seed",    "init_from",    "continued_at", "optimizer_start",
                                         "objective",  "task",    "corpus"};
bool IsOfRows(const std::string& key) {
  return std::find(std::begin(kFieldsOfRows), std::end(kFieldsOfRows), key) != std::end(kFieldsOfRows);
}

const Field<TrainingConfig>& FieldOf(const std::string& key) {
  std::vector<std::string> keys;
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (IsKeyOf(field, key)) return field;
    keys.push_back(field.key);
  }
  Fail(ErrorKind::kUsage, Quoted(key), " is not a field of a training configuration", DidYouMean(key, keys));
}

// The members of an object, each a field that a scale may decide, as a scale in `folder` means them.
Json FieldsIn(const std::string& folder, const Json& said) {
  TrainingConfig checked;
  Json fields = Json::MakeObject();
  for (const auto& [name, value] : said.AsObject()) {
    CROSSTALK_CHECK(!IsOfRows(name), Quoted(name), " is decided by the rows of the tables and their cells");
    const Field<TrainingConfig>& field = FieldOf(name);
    field.set(checked, value);
    CROSSTALK_CHECK_FIELD(fields.Find(field.key) == nullptr, field.key, "is there twice, by its former name too");
    fields.Set(field.key, ValueIn(folder, field.options, value));
  }
  return fields;
}

// Fields that a finetuning inherits from the pretraining.
void CheckFieldsOfFinetuning(const Json& fields) {
  const std::vector<std::string> taken = FieldsOfTheOrigin();
  for (const auto& [name, value] : fields.AsObject()) {
    CROSSTALK_CHECK(std::find(taken.begin(), taken.end(), name) == taken.end(), Quoted(name),
                    " is that of the pretraining, whose model is finetuned");
  }
}

// Whatever it finds wrong stands at that place of the file.
template <typename Function>
void At(const std::string& place, const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    Fail(ErrorKind::kData, place, ": ", error.what());
  }
}

int64_t IntOf(const Json& config, const char* key, int64_t otherwise) {
  const Json* value = config.Find(key);
  return value == nullptr ? otherwise : value->AsInt();
}

}  // namespace

const ScaleModel* TableScale::SettingsOf(const Table& table) const {
  for (const std::string& name : {StrCat(table.model, ".", table.name), table.model}) {
    if (const auto found = models.find(name); found != models.end()) return &found->second;
  }
  return nullptr;
}

int64_t TableScale::SeedsOf(const Table& table) const {
  const ScaleModel* const settings = SettingsOf(table);
  return settings == nullptr ? seeds : settings->seeds.value_or(seeds);
}

std::vector<std::string> ScaleNames() {
  std::vector<std::string> names;
  for (const NamedText& one : kScales) names.emplace_back(one.name);
  return names;
}

std::string ScaleText(const std::string& name) {
  const NamedText* scale = FindScale(name);
  CROSSTALK_CHECK(scale != nullptr, "--print-scale: ", Quoted(name), " is none of ", Join(ScaleNames(), ", "),
                  DidYouMean(name, ScaleNames()));
  return scale->text;
}

FieldTable<ScaleModel> ScaleModel::Fields() {
  using S = ScaleModel;
  return {{"pretraining", &S::fields},
          {"heads_ratio", &S::heads_ratio, {.range = {1e-9, 1000}, .may_be_missing = true}},
          {"seeds", &S::seeds, {.range = {1, 10000}, .may_be_missing = true}},
          {"finetuning", &S::finetunings}};
}

FieldTable<TableScale> TableScale::Fields() {
  using S = TableScale;
  return {
      {"name", &S::name}, {"about", &S::about}, {"seeds", &S::seeds, {.range = {1, 10000}}}, {"models", &S::models}};
}

void TableScale::Validate() const {
  const bool plain = !name.empty() && name.size() <= 60 &&
                     name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  CROSSTALK_CHECK_FIELD(plain, "name", Quoted(name), " is not a name of a-z, 0-9 and -");
}

TableScale ScaleFromJson(const Json& json, const std::string& source, const std::string& folder) {
  TableScale scale = FromJson<TableScale>(json, source);
  for (auto& [name, model] : scale.models) {
    const std::string place = StrCat(source, ": models.", Excerpt(name), ".");
    model.pretraining.model.name = name.substr(0, name.find('.'));
    At(place + "pretraining", [&, &model = model] {
      model.fields = FieldsIn(folder, model.fields);
      for (const auto& [key, value] : model.fields.AsObject()) FieldOf(key).set(model.pretraining, value);
    });
    std::set<std::string> folders;
    for (size_t i = 0; i < model.finetunings.size(); ++i) {
      CellFinetuning& one = model.finetunings[i];
      const std::string at = StrCat(place, "finetuning[", i, "]");
      At(at, [&] { ParseTasks(one.tasks); });
      At(at + ": config", [&] {
        one.config = FieldsIn(folder, one.config);
        CheckFieldsOfFinetuning(one.config);
      });
      if (!folders.insert(one.FolderName()).second) Fail(ErrorKind::kData, at, ": task: stands there twice");
    }
  }
  scale.fingerprint = ChecksumText(Crc64Of(json.Dump()));
  return scale;
}

TableScale LoadScale(const std::string& name_or_path) {
  const NamedText* named = FindScale(name_or_path);
  if (named != nullptr) return ScaleFromJson(ParseJson(named->text, named->name), StrCat("scale ", named->name));
  if (KindOf(name_or_path) == PathKind::kNothing) {
    Fail(ErrorKind::kUsage, "--scale: ", Quoted(name_or_path), " is neither a file nor one of ",
         Join(ScaleNames(), ", "), DidYouMean(name_or_path, ScaleNames()));
  }
  return ScaleFromJson(ReadJsonFile(name_or_path), name_or_path, ParentOf(name_or_path));
}

int64_t ScaledHeads(int64_t heads, double ratio, int64_t product) {
  const double wanted = static_cast<double>(heads) * ratio;
  int64_t best = 1;
  const auto consider = [&](int64_t divisor) {
    const double distance = std::abs(static_cast<double>(divisor) - wanted);
    const double least = std::abs(static_cast<double>(best) - wanted);
    if (distance < least || (distance == least && divisor > best)) best = divisor;
  };
  for (int64_t i = 1; i * i <= product; ++i) {
    if (product % i != 0) continue;
    consider(i);
    consider(product / i);
  }
  return best;
}

TrainingConfig ConfigOfRow(const TableScale& scale, const Table& table, const TableRow& row) {
  const ScaleModel* const settings = scale.SettingsOf(table);
  CROSSTALK_CHECK(settings != nullptr, "scale ", scale.name, ": has no ", table.model, ", which table ", table.name,
                  " is of");
  TrainingConfig config = settings->pretraining;
  const int64_t width = config.model.d_model;
  const double ratio = settings->heads_ratio.value_or(static_cast<double>(width) / static_cast<double>(table.width));
  for (const auto& [key, value] : row.config.AsObject()) FieldOf(key).set(config, value);
  if (row.config.Find("corpus") != nullptr) config.data.text = config.data.validation = "";
  const int64_t h = row.config.At("heads").AsInt();
  const int64_t h_k = IntOf(row.config, "key_heads", h), h_v = IntOf(row.config, "value_heads", h);
  const int64_t d_k = IntOf(row.config, "key_size", table.width / h), d_v = IntOf(row.config, "value_size", d_k);
  // All heads' keys, or values, together.
  const auto product = [&](int64_t heads, int64_t size) {
    CROSSTALK_CHECK_FIELD(width * heads * size % table.width == 0, "heads_ratio", "row ", row.name, ": ", heads, "·",
                          size, " of ", table.width, " is not a whole number at d_model = ", width);
    return width * heads * size / table.width;
  };
  const int64_t keys = product(h_k, d_k), values = product(h_v, d_v);
  const int64_t key_heads = ScaledHeads(h_k, ratio, keys), value_heads = ScaledHeads(h_v, ratio, values);
  const int64_t heads = h == h_k ? key_heads : h == h_v ? value_heads : ScaledHeads(h, ratio, width);
  CROSSTALK_CHECK_FIELD(key_heads * h == heads * h_k && value_heads * h == heads * h_v, "heads_ratio", "row ", row.name,
                        ": its ", h_k, ", ", h, ", ", h_v, " heads would be ", key_heads, ", ", heads, ", ",
                        value_heads, ", which are in another ratio");
  AttentionOptions& attention = config.model.attention;
  const auto unless = [](int64_t value, int64_t otherwise) {
    return value == otherwise ? std::nullopt : std::optional<int64_t>(value);
  };
  attention.heads = heads;
  attention.key_heads = unless(key_heads, heads);
  attention.value_heads = unless(value_heads, heads);
  if (attention.kind != AttentionKind::kBilinear) {
    attention.key_size = keys == width ? std::nullopt : std::optional(keys / key_heads);
    attention.value_size = values == width ? std::nullopt : std::optional(values / value_heads);
  }
  return config;
}

std::vector<TrainingConfig> ConfigsOfRows(const TableScale& scale, const Table& table) {
  std::vector<TrainingConfig> configs;
  for (const TableRow& row : table.rows) {
    configs.push_back(ConfigOfRow(scale, table, row));
    for (size_t i = 0; i + 1 < configs.size(); ++i) {
      CROSSTALK_CHECK_FIELD(ToJson(configs[i]) != ToJson(configs.back()), "heads_ratio", "rows ", table.rows[i].name,
                            " and ", row.name, " of table ", table.name, " would both have ",
                            configs[i].model.attention.heads,
                            " heads; choose another heads_ratio, or a d_model with more divisors");
    }
  }
  return configs;
}

Experiment ExperimentOf(const TableScale& scale, const Table& table, int64_t seeds, const std::string& data) {
  Experiment experiment;
  experiment.table = table;
  experiment.configs = ConfigsOfRows(scale, table);
  for (TrainingConfig& config : experiment.configs) {
    if (data.empty()) continue;
    config.data.text = data;
    config.data.validation.clear();  // the scale's is of the scale's text
  }
  experiment.finetunings = scale.SettingsOf(table)->finetunings;
  for (int64_t seed = 1; seed <= seeds; ++seed) experiment.seeds.push_back(static_cast<uint64_t>(seed));
  experiment.scale = scale.name;
  experiment.fingerprint = scale.fingerprint;
  experiment.about = StrCat("Scale ", scale.name, " (", scale.fingerprint, "): ", scale.about);
  experiment.lead =
      StrCat(table.IsOfPaper() ? StrCat("Talking-Heads Attention, section ", table.section) : "A table of this project",
             ", at scale ", scale.name, ".");
  return experiment;
}

}  // namespace crosstalk
