// Common to the readers of all tasks: a task's file as lines of checked text, its rows as they come in, and
// predictions as they are read back.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "crosstalk/models/tasks/task.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// "train.tsv" of "/data/SST-2/train.tsv".
std::string BaseName(std::string_view path);

// The file's text without a byte-order mark, unpacked if it is gzip. Error(kData) if it is empty or of another
// kind (text/text_file.h), with the line if it is not UTF-8 text without NUL bytes.
std::string ReadTaskFile(const std::string& path);

// Where each character of a text of UTF-8 begins, and where the last one ends: files count characters, we count bytes.
std::vector<size_t> CharacterBegins(std::string_view text);

// Goes through the lines of a text, which may end in "\n" or "\r\n", the last one in nothing.
class TaskLines {
 public:
  explicit TaskLines(std::string_view text) : rest_(text) {}
  // False at the end.
  bool Next(std::string_view* line);
  int64_t number() const { return number_; }  // of the line read last, from 1

 private:
  std::string_view rest_;
  int64_t number_ = 0;
};

// The rows of a file in the making. A dev or test set whose ids are not unique is an Error(kData), since predictions
// are told apart by them; of a training set they are not (ReCoRD has a row for each answer). A file that repeats one
// passage in too many rows to be held is refused too.
class TaskRowList {
 public:
  TaskRowList(std::string path, TaskSplit split) : path_(std::move(path)), split_(split) {}
  // Before the rows of a file: how long it is.
  void BeginFile(size_t bytes);
  // Before a row is made of which so many bytes would be copies of the file's: Error(kData) if they are too many.
  void RequireRoom(const std::string& source, double bytes) const;
  void Add(TaskRow row);
  // Error(kData) if there is none.
  std::vector<TaskRow> Take();

 private:
  std::string path_;
  TaskSplit split_;
  double bytes_ = 0, most_bytes_ = 0;
  std::vector<TaskRow> rows_;
  std::unordered_map<std::string, std::string> sources_;  // by id
};

// Predictions in the making. Error(kData) for an id that a prediction has already, and for one that no row has, unless
// the official script leaves those out.
enum class UnknownIds { kAreErrors, kAreKept };
class PredictionList {
 public:
  PredictionList(std::string path, const std::vector<TaskRow>& rows, UnknownIds unknown = UnknownIds::kAreErrors);
  // `place`: "line 3".
  void Add(const std::string& id, std::string answer, const std::string& place);
  std::vector<TaskPrediction> Take() { return std::move(predictions_); }
  // The one of `id`; null if there is none.
  TaskPrediction* Find(const std::string& id);

 private:
  std::string path_;
  UnknownIds unknown_;
  std::unordered_map<std::string, int64_t> places_;  // by id: in predictions_, or -1
  std::vector<TaskPrediction> predictions_;
};

// A file of predictions that is one object: texts or numbers by id. Error(kData) if it is not, or has an id twice.
Json ReadJsonById(const std::string& path);
const std::string& StringOf(const Json& value, const std::string& path, const std::string& id);

// The predictions of the rows, in their order: null if there is none. Those of other ids are not looked at.
struct MatchedPredictions {
  std::vector<const TaskPrediction*> of_rows;
  const TaskPrediction* doubled = nullptr;  // the first whose id another has already, if there is one
};
MatchedPredictions MatchPredictions(const std::vector<TaskRow>& rows, const std::vector<TaskPrediction>& predictions);

// The same where each row has one: a mistake of the caller's otherwise, std::logic_error.
std::vector<const TaskPrediction*> PredictionsInOrder(const std::vector<TaskRow>& rows,
                                                      const std::vector<TaskPrediction>& predictions);

// A line of a task's JSONL, with its place in every error: "val.jsonl: line 3: passage.text: …".

struct JsonlLine {
  JsonReader object;
  std::string where;   // "/data/val.jsonl: line 3": of messages
  std::string source;  // "val.jsonl, line 3": of a row
  int64_t number;      // from 1
  int64_t place;       // from 0, blank lines not counted
};

// Calls add(line) for each line that is not blank. Error(kData) for one that is no object.
void ForEachJsonlLine(const std::string& text, const std::string& path,
                      const std::function<void(const JsonlLine&)>& add);

// The class that the value names: one of `labels`, its place, or, if there are two, false or true. None for -1.
// Error(kData) for anything else.
std::optional<int64_t> LabelOf(const JsonReader& object, const char* key, const std::vector<const char*>& labels);

// "idx": 3 as "3"; the place if there is none.
std::string IdOf(const JsonReader& object, int64_t place);

}  // namespace crosstalk
