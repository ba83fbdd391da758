#include "tools/lab/experiment/scale.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/training/trained.h"
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

std::vector<std::string> StringsOf(const JsonReader& reader, const char* key) {
  std::vector<std::string> strings;
  for (const Json& one : reader.Array(key)) strings.push_back(one.AsString());
  return strings;
}

TableMeasure MeasureFrom(const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  TableMeasure measure = {.name = reader.String("name"), .label = reader.String("label")};
  measure.digits = static_cast<int>(reader.Int("digits", 0, 9));
  if (reader.Has("task")) {
    measure.task = reader.String("task");
    measure.of = reader.String("of");
  }
  if (reader.Has("curve_below")) measure.curve_below = reader.Double("curve_below");
  if (reader.Has("mean_of")) measure.mean_of = StringsOf(reader, "mean_of");
  reader.RejectUnread();
  return measure;
}

TableRow RowFrom(const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  TableRow row = {.name = reader.String("name"), .config = reader.Value("config"), .paper = Json::MakeObject()};
  if (reader.Has("paper")) row.paper = reader.Value("paper");
  if (reader.Has("group")) row.group = reader.String("group");
  if (reader.Has("series")) row.series = reader.String("series");
  if (reader.Has("paper_label")) row.label_lost = reader.String("paper_label") == "lost";
  reader.RejectUnread();
  return row;
}

TableClaim ClaimFrom(const Json& json, const Table& table, const std::string& source) {
  const JsonReader reader(json, source);
  TableClaim claim = {
      .text = reader.String("text"), .source = reader.String("source"), .measures = StringsOf(reader, "measures")};
  const auto find = [&](const std::string& name) {
    return std::find_if(table.rows.begin(), table.rows.end(), [&](const TableRow& one) { return one.name == name; });
  };
  for (const Json& pair : reader.Array("pairs")) {
    const Json::Array& names = pair.AsArray();
    const auto place = [&](size_t i) { return i < names.size() ? find(names[i].AsString()) : table.rows.end(); };
    const auto better = place(0), worse = place(1);
    if (names.size() != 2 || better == table.rows.end() || worse == table.rows.end() || better->group != worse->group) {
      reader.FailAt("pairs", "table ", table.name, ": ", Excerpt(pair.Dump()), " are not two of its rows of one group");
    }
    claim.pairs.emplace_back(names[0].AsString(), names[1].AsString());
  }
  for (const std::string& name : claim.measures) {
    const auto is_it = [&](const TableMeasure& one) { return one.name == name; };
    if (std::none_of(table.measures.begin(), table.measures.end(), is_it)) {
      reader.FailAt("measures", "table ", table.name, ": ", Quoted(name), " is none of its measures");
    }
  }
  reader.RejectUnread();
  return claim;
}

}  // namespace

std::vector<Table> TablesFromJson(const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  reader.String("source");
  const JsonReader measures = reader.Object("measures");
  std::vector<Table> tables;
  for (const Json& one : reader.Array("tables")) {
    const JsonReader fields(one, source);
    Table table;
    table.name = fields.String("name");
    table.title = fields.String("title");
    if (fields.Has("section")) table.section = fields.String("section");
    if (fields.Has("width")) table.width = fields.Int("width", 1, 1 << 20);
    if (fields.Has("scale")) table.scale = fields.String("scale");
    if (fields.Has("over")) table.over = fields.String("over");
    table.model = fields.String("model");
    table.note = fields.String("note");
    const JsonReader& with_measures = fields.Has("measures") ? fields : measures;
    for (const Json& measure : with_measures.Array(fields.Has("measures") ? "measures" : table.model.c_str()))
      table.measures.push_back(MeasureFrom(measure, source));
    for (const Json& row : fields.Array("rows")) table.rows.push_back(RowFrom(row, source));
    for (const Json& claim : fields.Array("claims")) table.claims.push_back(ClaimFrom(claim, table, source));
    fields.RejectUnread();
    tables.push_back(std::move(table));
  }
  reader.RejectUnread();
  return tables;
}

const std::vector<Table>& Tables() {
  static const std::vector<Table> tables = TablesFromJson(ParseJson(kTables, "tables.json"), "tables.json");
  return tables;
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
Json FieldsIn(const std::string& folder, const JsonReader& reader, const char* key) {
  TrainingConfig checked;
  Json fields = Json::MakeObject();
  for (const auto& [name, value] : reader.Value(key).AsObject()) {
    if (IsOfRows(name)) reader.FailAt(key, Quoted(name), " is decided by the rows of the tables and their cells");
    try {
      const Field<TrainingConfig>& field = FieldOf(name);
      field.set(checked, value);
      CROSSTALK_CHECK_FIELD(fields.Find(field.key) == nullptr, field.key, "is there twice, by its former name too");
      fields.Set(field.key, ValueIn(folder, field.options, value));
    } catch (const Error& error) {
      reader.FailAt(key, error.what());
    }
  }
  return fields;
}

// Fields that a finetuning inherits from the pretraining.
void CheckFieldsOfFinetuning(const Json& fields, const JsonReader& reader, const char* key) {
  std::vector<std::string> taken = {"tokenizer", "vocabulary"};
  for (const Field<TrainingConfig>& field : FixedFields()) taken.push_back(field.key);
  for (const auto& [name, value] : fields.AsObject()) {
    if (std::find(taken.begin(), taken.end(), name) == taken.end()) continue;
    reader.FailAt(key, Quoted(name), " is that of the pretraining, whose model is finetuned");
  }
}

CellFinetuning FinetuningFrom(const Json& json, const std::string& source, const std::string& folder) {
  CellFinetuning finetuning = FromJson<CellFinetuning>(json, source);
  try {
    ParseTasks(finetuning.tasks);
  } catch (const Error& error) {
    Fail(ErrorKind::kData, source, ": ", error.what());
  }
  const Json as_read = ToJson(finetuning);
  const JsonReader reader(as_read, source);
  finetuning.config = FieldsIn(folder, reader, "config");
  CheckFieldsOfFinetuning(finetuning.config, reader, "config");
  return finetuning;
}

ScaleModel ModelFrom(const std::string& name, const JsonReader& reader, const std::string& source,
                     const std::string& folder) {
  ScaleModel model;
  model.pretraining.model.name = name.substr(0, name.find('.'));
  const Json fields = FieldsIn(folder, reader, "pretraining");
  for (const auto& [key, value] : fields.AsObject()) FieldOf(key).set(model.pretraining, value);
  if (reader.Has("heads_ratio")) {
    model.heads_ratio = reader.Double("heads_ratio");
    if (!(*model.heads_ratio > 0 && *model.heads_ratio <= 1000))
      reader.FailAt("heads_ratio", "must be above 0, at most 1000");
  }
  if (reader.Has("seeds")) model.seeds = reader.Int("seeds", 1, 10000);
  for (const Json& one : reader.Array("finetuning")) {
    const std::string place = StrCat(source, ": models.", name, ".finetuning[", model.finetunings.size(), "]");
    CellFinetuning finetuning = FinetuningFrom(one, place, folder);
    for (const CellFinetuning& other : model.finetunings) {
      if (other.FolderName() == finetuning.FolderName()) Fail(ErrorKind::kData, place, ": task: stands there twice");
    }
    model.finetunings.push_back(std::move(finetuning));
  }
  reader.RejectUnread();
  return model;
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

TableScale ScaleFromJson(const Json& json, const std::string& source, const std::string& folder) {
  const JsonReader reader(json, source);
  TableScale scale;
  scale.name = reader.String("name");
  const bool plain = !scale.name.empty() && scale.name.size() <= 60 &&
                     scale.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  if (!plain) reader.FailAt("name", Quoted(scale.name), " is not a name of a-z, 0-9 and -");
  scale.about = reader.String("about");
  scale.seeds = reader.Int("seeds", 1, 10000);
  const JsonReader models = reader.Object("models");
  for (const auto& [name, value] : reader.Value("models").AsObject()) {
    try {
      scale.models[name] = ModelFrom(name, models.Object(name), source, folder);
    } catch (const Error& error) {
      const std::string message = error.what();
      Fail(ErrorKind::kData, message.starts_with(source) ? "" : source + ": ", message);
    }
  }
  reader.RejectUnread();
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
