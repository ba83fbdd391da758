#include "crosstalk/models/tasks/prediction_files.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "crosstalk/models/tasks/task_files.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/packed.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

void ReadNoAnswerProbabilities(const std::string& path, const std::vector<TaskRow>& rows,
                               std::vector<TaskPrediction>* predictions) {
  const Json json = ReadJsonById(path);
  const Json::Object& values = json.AsObject();
  std::unordered_map<std::string_view, size_t> places;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& [id, value] = values[i];
    if (!value.is_number()) {
      Fail(ErrorKind::kData, path, ": ", Quoted(id), ": must be a number, but is ", Name(value.type()));
    }
    places.emplace(id, i);
  }
  std::unordered_set<std::string_view> ids;
  for (const TaskRow& row : rows) ids.insert(row.id);
  const auto place_of = [&](const TaskPrediction& prediction) {
    const auto place = places.find(prediction.id);
    return place == places.end() ? values.size() : place->second;
  };
  for (TaskPrediction& prediction : *predictions) {
    const size_t place = place_of(prediction);
    if (place < values.size()) {
      prediction.no_answer = values[place].second.AsDouble();
    } else if (ids.contains(prediction.id)) {
      Fail(ErrorKind::kData, path, ": has no number for ", Quoted(prediction.id));
    }
  }
  std::stable_sort(predictions->begin(), predictions->end(),
                   [&](const TaskPrediction& a, const TaskPrediction& b) { return place_of(a) < place_of(b); });
}

std::vector<TaskPrediction> ReadTextPredictions(const TaskType& type, const std::string& path,
                                                const std::vector<TaskRow>& rows) {
  std::vector<TaskPrediction> predictions;
  if (WithoutGz(path).ends_with(".json")) {
    std::unordered_map<std::string_view, const TaskRow*> by_id;
    for (const TaskRow& row : rows) by_id.emplace(row.id, &row);
    const Json texts = ReadJsonById(path);
    for (const auto& [id, text] : texts.AsObject()) {
      const auto row = by_id.find(id);
      if (row == by_id.end()) {
        Fail(ErrorKind::kData, path, ": the id ", Quoted(id), " is not one of the scored rows");
      }
      predictions.push_back({id, type.answer_of_text(type, *row->second, StringOf(text, path, id)), {}});
    }
    return predictions;
  }
  const std::string text = ReadTaskFile(path);
  TaskLines lines(text);
  for (std::string_view line; lines.Next(&line);) {
    if (predictions.size() == rows.size()) {
      Fail(ErrorKind::kData, path, ": has more lines than the ", rows.size(), " rows that are scored");
    }
    const TaskRow& row = rows[predictions.size()];
    predictions.push_back({row.id, type.answer_of_text(type, row, std::string(line)), {}});
  }
  if (predictions.size() < rows.size()) {
    Fail(ErrorKind::kData, path, ": has ", predictions.size(), " lines for ", rows.size(),
         " rows; an answer without words is an empty line");
  }
  return predictions;
}

}  // namespace crosstalk
