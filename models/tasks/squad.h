// SQuAD 1.1 and 2.0 (Rajpurkar et al., 2016 and 2018): as its JSON of articles, or as JSON lines of questions, which
// the datasets library exports.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

// The functions of their lines in registry.cc. Only squad-v2 has questions without an answer: those whose `answers` are
// empty. An `is_impossible` that says otherwise is an error.
//
// answer_start counts characters from 0 and becomes a byte. Where the answer's text does not stand there, it is looked
// for: the place nearest to answer_start counts. An answer that stands nowhere in the passage keeps its text, which is
// scored, and has no place to train on.
std::vector<TaskRow> ReadSquad(const TaskType& type, const std::string& path, TaskSplit split);
std::string SquadAnswerOfText(const TaskType& type, const TaskRow& row, const std::string& text);

// {"ID": "text", …} in SQuAD-v1.1.json or SQuAD-v2.0.json, for 2.0 an empty text where there is no answer. Where the
// predictions say how sure they are of that, {"ID": number, …} in SQuAD-v2.0-na_prob.json.
std::vector<TaskFile> WriteSquad(const TaskType& type, const std::vector<TaskRow>& rows,
                                 const std::vector<TaskPrediction>& predictions, TaskSplit split);
// Of NAME.json, with NAME-na_prob.json for squad-v2 where that is there.
std::vector<TaskPrediction> ReadSquadPredictions(const TaskType& type, const std::string& path,
                                                 const std::vector<TaskRow>& rows);

}  // namespace crosstalk
