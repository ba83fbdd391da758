#include "crosstalk/models/tasks/task_files.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "crosstalk/models/text/text_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{4} << 30;
// A passage of MultiRC stands twice in a row for each answer: some hundred times the file. What is beyond this times
// its size is no such file.
constexpr double kMaxGrowth = 256;

uint64_t BytesOf(const TaskRow& row) {
  uint64_t bytes = sizeof row + row.source.size() + row.id.size() + row.group.size() + row.first.size() +
                   (row.second ? row.second->size() : 0) + row.input.size();
  for (const TaskRow::Choice& choice : row.choices) {
    bytes += sizeof choice + choice.second.size() + choice.answer.size();
  }
  for (const std::string& target : row.targets) bytes += sizeof target + target.size();
  for (const TaskAnswer& answer : row.answers) bytes += sizeof answer + answer.text.size();
  return bytes;
}

}  // namespace

std::string BaseName(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string ReadTaskFile(const std::string& path) {
  std::string text = ReadText(path, kMaxFileBytes);
  if (text.empty()) Fail(ErrorKind::kData, path, ": the file is empty");
  const size_t invalid = FindInvalidUtf8(text);
  const size_t nul = std::string_view(text).substr(0, invalid).find('\0');
  const size_t bad = std::min(nul, invalid);
  if (bad != std::string::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(bad), '\n');
    Fail(ErrorKind::kData, path, ": line ", line, ": byte ", bad, " of the file is ",
         bad == nul ? "NUL: a binary file, not text" : "not valid UTF-8: convert the file (iconv -t UTF-8)");
  }
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

std::vector<size_t> CharacterBegins(std::string_view text) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsUtf8Continuation(text[i])) begins.push_back(i);
  }
  begins.push_back(text.size());
  return begins;
}

bool TaskLines::Next(std::string_view* line) {
  if (rest_.empty()) return false;
  const size_t end = rest_.find('\n');
  *line = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  if (line->ends_with('\r')) line->remove_suffix(1);
  ++number_;
  return true;
}

void TaskRowList::BeginFile(size_t bytes) { most_bytes_ += kMaxGrowth * static_cast<double>(bytes + sizeof(TaskRow)); }

void TaskRowList::RequireRoom(const std::string& source, double bytes) const {
  if (bytes_ + bytes <= most_bytes_) return;
  Fail(ErrorKind::kData, path_, ": ", source, ": the rows up to here are more than ", kMaxGrowth,
       " times the file: one text stands in too many of them");
}

void TaskRowList::Add(TaskRow row) {
  const auto bytes = static_cast<double>(BytesOf(row));
  RequireRoom(row.source, bytes);
  bytes_ += bytes;
  if (split_ != TaskSplit::kTrain) {
    const auto [other, is_new] = sources_.emplace(row.id, row.source);
    if (!is_new) {
      Fail(ErrorKind::kData, path_, ": ", row.source, ": the id ", Quoted(row.id), " stands at ", other->second,
           " already");
    }
  }
  rows_.push_back(std::move(row));
}

std::vector<TaskRow> TaskRowList::Take() {
  if (rows_.empty()) Fail(ErrorKind::kData, path_, ": there is no row in it");
  return std::move(rows_);
}

PredictionList::PredictionList(std::string path, const std::vector<TaskRow>& rows, UnknownIds unknown)
    : path_(std::move(path)), unknown_(unknown) {
  places_.reserve(rows.size());
  for (const TaskRow& row : rows) places_.emplace(row.id, -1);
}

void PredictionList::Add(const std::string& id, std::string answer, const std::string& place) {
  auto found = places_.find(id);
  if (found == places_.end() && unknown_ == UnknownIds::kAreKept) found = places_.emplace(id, -1).first;
  if (found == places_.end()) {
    Fail(ErrorKind::kData, path_, ": ", place, ": the id ", Quoted(id), " is not one of the scored rows");
  }
  if (found->second >= 0) Fail(ErrorKind::kData, path_, ": ", place, ": a second prediction for the id ", Quoted(id));
  found->second = std::ssize(predictions_);
  predictions_.push_back({.id = id, .answer = std::move(answer), .no_answer = std::nullopt});
}

TaskPrediction* PredictionList::Find(const std::string& id) {
  const auto found = places_.find(id);
  return found == places_.end() || found->second < 0 ? nullptr : &predictions_[static_cast<size_t>(found->second)];
}

Json ReadJsonById(const std::string& path) {
  Json object = ParseJson(ReadTaskFile(path), path);
  if (!object.is_object()) Fail(ErrorKind::kData, path, ": must be an object, but is ", Name(object.type()));
  return object;
}

const std::string& StringOf(const Json& value, const std::string& path, const std::string& id) {
  if (!value.is_string()) {
    Fail(ErrorKind::kData, path, ": ", Quoted(id), ": must be a string, but is ", Name(value.type()));
  }
  return value.AsString();
}

MatchedPredictions MatchPredictions(const std::vector<TaskRow>& rows, const std::vector<TaskPrediction>& predictions) {
  MatchedPredictions matched;
  std::unordered_map<std::string_view, const TaskPrediction*> by_id;
  for (const TaskPrediction& prediction : predictions) {
    const bool is_new = by_id.emplace(prediction.id, &prediction).second;
    if (!is_new && matched.doubled == nullptr) matched.doubled = &prediction;
  }
  matched.of_rows.reserve(rows.size());
  for (const TaskRow& row : rows) {
    const auto found = by_id.find(row.id);
    matched.of_rows.push_back(found == by_id.end() ? nullptr : found->second);
  }
  return matched;
}

std::vector<const TaskPrediction*> PredictionsInOrder(const std::vector<TaskRow>& rows,
                                                      const std::vector<TaskPrediction>& predictions) {
  MatchedPredictions matched = MatchPredictions(rows, predictions);
  if (matched.doubled != nullptr) throw std::logic_error("two predictions of the id " + matched.doubled->id);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (matched.of_rows[i] == nullptr) throw std::logic_error("no prediction of the id " + rows[i].id);
  }
  return std::move(matched.of_rows);
}

void ForEachJsonlLine(const std::string& text, const std::string& path,
                      const std::function<void(const JsonlLine&)>& add) {
  const std::string file = BaseName(path);
  TaskLines lines(text);
  int64_t place = 0;
  for (std::string_view line; lines.Next(&line);) {
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string where = StrCat(path, ": line ", lines.number());
    const Json object = ParseJson(line, where);
    if (!object.is_object()) Fail(ErrorKind::kData, where, ": must be an object, but is ", Name(object.type()));
    add({.object = JsonReader(object, where),
         .where = where,
         .source = StrCat(file, ", line ", lines.number()),
         .number = lines.number(),
         .place = place++});
  }
}

std::optional<int64_t> LabelOf(const JsonReader& object, const char* key, const std::vector<const char*>& labels) {
  const Json& value = object.Value(key);
  if (value.is_bool() && labels.size() == 2) return value.AsBool() ? 1 : 0;
  if (value.is_int() && value.AsInt() == -1) return std::nullopt;
  if (value.is_int() && value.AsInt() >= 0 && value.AsInt() < std::ssize(labels)) return value.AsInt();
  if (value.is_string()) {
    const auto label = std::find(labels.begin(), labels.end(), std::string_view(value.AsString()));
    if (label != labels.end()) return label - labels.begin();
  }
  object.FailAt(key, Excerpt(value.Dump()), " is none of ",
                Join(std::vector<std::string>(labels.begin(), labels.end()), ", "));
}

std::string IdOf(const JsonReader& object, int64_t place) {
  return StrCat(object.Has("idx") ? object.Int("idx", 0, INT64_MAX) : place);
}

}  // namespace crosstalk
