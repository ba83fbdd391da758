#include "tools/lab/experiment/tables.h"

#include <algorithm>

#include "crosstalk/runtime/check.h"
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

}  // namespace crosstalk
