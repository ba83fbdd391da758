// The benchmarks: the formats of their files, each in the file of its name, and the scores that are more than measures
// of classes. The lines of their tasks are in registry.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

using TaskScore = std::vector<Metric>(const TaskType& type, const std::vector<TaskRow>& rows,
                                      const std::vector<TaskPrediction>& predictions);

// GLUE (Wang et al., 2018): CoLA, SST-2, MRPC, QQP, STS-B, MNLI (matched and mismatched), QNLI, RTE, WNLI and the
// diagnostic AX, in the files that its site distributes: classification and regression of one or two texts in
// tab-separated columns. Quotes are literal text; a row is a line. Predictions are "index\tprediction", GLUE's form for
// the test sets that its site scores; here for dev sets too. Our own task of stories has the same form.
extern const TaskFormat kGlueFormat;

// "pearson", "spearmanr". An answer that is not a number is -1, as T5 has it.
TaskScore ScoreStsB;

// SuperGLUE (Wang et al., 2019): BoolQ, CB, COPA, MultiRC, ReCoRD, RTE, WiC, WSC and the diagnostics AX-b and AX-g, an
// object a line. Labels are those of the official files, or, as Hugging Face exports them, their places. RTE reads
// GLUE's .tsv too, and is written in both forms; AX-b reads diagnostic-full.tsv, of whose labels neutral and
// contradiction are one.
extern const TaskFormat kSuperGlueFormat;

// WSC as text to text (T5): whether words name the referent. After case and determiners are dropped, the words of one
// are all among those of the other, and both or neither have an apostrophe. Nothing of words that say nothing.
std::optional<bool> NamesReferent(std::string_view words, std::string_view referent);

// Its scores, as shares of 1, under the names of Hugging Face's evaluation.

// Rows are options, of group the question. "exact_match" (EM0): questions with all options right; "em1": with at most
// one wrong; "f1_a": F1 of all options; "f1_m": 2PR/(P + R) of the means over the questions of precision and recall,
// each 1 where it has nothing to count.
TaskScore ScoreMultiRc;

// "exact_match" and "f1" of the words, against the answer that gives most. A missing prediction scores zero.
TaskScore ScoreRecord;

// "accuracy" and, where rows are in pairs that differ by gender alone (their group), "gender_parity": the share of
// pairs with the same answer to both.
TaskScore ScoreAxG;

// SQuAD 1.1 and 2.0 (Rajpurkar et al., 2016 and 2018): as its JSON of articles, or as JSON lines of questions, which
// the datasets library exports. Only squad-v2 has questions without an answer: those whose `answers` are empty. An
// `is_impossible` that says otherwise is an error.
//
// answer_start counts characters from 0 and becomes a byte. Where the answer's text does not stand there, it is looked
// for: the place nearest to answer_start counts. An answer that stands nowhere in the passage keeps its text, which is
// scored, and has no place to train on.
//
// Predictions: {"ID": "text", …} in SQuAD-v1.1.json or SQuAD-v2.0.json, for 2.0 an empty text if there is no answer.
// Where they say how sure they are of that, {"ID": number, …} in SQuAD-v2.0-na_prob.json beside it.
extern const TaskFormat kSquadFormat;

// T5 reads and writes spaces around punctuation: "U . S . Army". The part of `passage` that reads so, "U.S. Army", at
// its first place; the text itself, without white space at its ends, where it stands nowhere. Normalising an answer
// takes punctuation away but not those spaces, so that without this half of all answers with punctuation within would
// be wrong.
std::string UnspacedAnswer(std::string_view text, std::string_view passage);

// Its scores, in per cent, with the digits of the official scripts.

// "exact_match", "f1". A missing prediction scores zero.
TaskScore ScoreSquad;

// SQuAD 2.0: "exact", "f1", "total", the same of the questions that have an answer (HasAns_) and of those that have
// none (NoAns_), if there are such. If predictions say how sure they are that there is none, a prediction above
// `threshold` is that there is none, and "best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh" are found by
// one pass over the predictions sorted by it; equal ones keep their order in `predictions`. Error(kData) where only
// some of the rows' predictions say so.
std::vector<Metric> ScoreSquadV2At(double threshold, const TaskType& type, const std::vector<TaskRow>& rows,
                                   const std::vector<TaskPrediction>& predictions);
// With the script's own threshold, of a probability: 1.
TaskScore ScoreSquadV2;

// RACE (Lai et al., 2017): multiple choice over an article; a folder of .txt files, each a JSON object. The path is the
// folder of a split: it has the folders high and middle, one of them, or, if it is one of them itself, the files. A
// question's id is that of its file, high19088.txt, and its place there from 0: "high19088.txt-0"; its group is "high"
// or "middle". Predictions are RACE.json: {"high19088.txt-0": "A", …}. Its authors publish no form of them; this one is
// ours.
extern const TaskFormat kRaceFormat;

// "accuracy" of all questions, and of those of each school there is (the rows' group): "accuracy_middle",
// "accuracy_high".
TaskScore ScoreRace;

}  // namespace crosstalk
