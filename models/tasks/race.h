// RACE (Lai et al., 2017): multiple choice over an article; a folder of .txt files, each a JSON object, in the folders
// high and middle or one of them.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

// The functions of its line in registry.cc. `path` is the folder of a split: it has the folders high and middle, one of
// them, or, if it is one of them itself, the files. A question's id is that of its file, high19088.txt, and its place
// there from 0: "high19088.txt-0"; its group is "high" or "middle".
std::vector<TaskRow> ReadRace(const TaskType& type, const std::string& path, TaskSplit split);
std::string RaceAnswerOfText(const TaskType& type, const TaskRow& row, const std::string& text);

// RACE.json: {"high19088.txt-0": "A", …}. Its authors publish no form of predictions; this one is ours.
std::vector<TaskFile> WriteRace(const TaskType& type, const std::vector<TaskRow>& rows,
                                const std::vector<TaskPrediction>& predictions, TaskSplit split);
std::vector<TaskPrediction> ReadRacePredictions(const TaskType& type, const std::string& path,
                                                const std::vector<TaskRow>& rows);

// Scores of RACE, as shares of 1.

// "accuracy" of all questions, and of those of each school there is (the rows' group): "accuracy_middle",
// "accuracy_high".
std::vector<Metric> ScoreRace(const TaskType& type, const std::vector<TaskRow>& rows,
                              const std::vector<TaskPrediction>& predictions);

}  // namespace crosstalk
