// SQuAD 1.1 and 2.0 (Rajpurkar et al., 2016 and 2018): as its JSON of articles, or as JSON lines of questions, which
// the datasets library exports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

// A text-to-text model's answer as it stands in the passage.

// T5 reads and writes spaces around punctuation: "U . S . Army". The part of `passage` that reads so, "U.S. Army", at
// its first place; the text itself, without white space at its ends, where it stands nowhere. Normalising an answer
// takes punctuation away but not those spaces, so that without this half of all answers with punctuation within would
// be wrong.
std::string UnspacedAnswer(std::string_view text, std::string_view passage);

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

// Scores of SQuAD 1.1 and 2.0, in per cent, with the digits of the official scripts.

// "exact_match", "f1". A missing prediction scores zero.
std::vector<Metric> ScoreSquad(const TaskType& type, const std::vector<TaskRow>& rows,
                               const std::vector<TaskPrediction>& predictions);

// SQuAD 2.0: "exact", "f1", "total", the same of the questions that have an answer (HasAns_) and of those that have
// none (NoAns_), where there are such. If predictions say how sure they are that there is none, a prediction above
// `threshold` is that there is none, and "best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh" are found by
// one pass over the predictions sorted by it; equal ones keep their order in `predictions`. Error(kData) where only
// some of the rows' predictions say so.
inline constexpr double kSquadThreshold = 1;
std::vector<Metric> ScoreSquadV2At(double threshold, const TaskType& type, const std::vector<TaskRow>& rows,
                                   const std::vector<TaskPrediction>& predictions);
// With the script's own threshold, of a probability: 1.
std::vector<Metric> ScoreSquadV2(const TaskType& type, const std::vector<TaskRow>& rows,
                                 const std::vector<TaskPrediction>& predictions);

}  // namespace crosstalk
