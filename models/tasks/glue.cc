#include "crosstalk/models/tasks/glue.h"

#include <map>
#include <string_view>

#include "crosstalk/models/tasks/tsv_task.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

using Columns = std::vector<const char*>;

constexpr const char* kEntailment = "entailment";
constexpr const char* kNotEntailment = "not_entailment";

// MNLI's columns up to the sentences, and those of the labels: one annotator's of the training set, five of a dev set.
Columns MnliColumns(int annotators) {
  Columns columns = {
      "index",           "promptID",        "pairID",    "genre",    "sentence1_binary_parse", "sentence2_binary_parse",
      "sentence1_parse", "sentence2_parse", "sentence1", "sentence2"};
  static constexpr const char* kLabels[] = {"label1", "label2", "label3", "label4", "label5"};
  columns.insert(columns.end(), kLabels, kLabels + annotators);
  if (annotators > 0) columns.push_back("gold_label");
  return columns;
}

// Two sentences in the order of MNLI in T5's paper; the diagnostic is asked as MNLI. diagnostic-full.tsv is the
// diagnostic with its labels and what each row is about.
const std::vector<TsvTask::Field> kPremiseHypothesis = {{"premise", {"sentence1", "Premise"}},
                                                        {"hypothesis", {"sentence2", "Hypothesis"}}};
const std::vector<TsvTask::Field> kSentences = {{"sentence1", {"sentence1"}}, {"sentence2", {"sentence2"}}};

TsvTask Mnli(const char* file) {
  return {.file = file,
          .prefix = "mnli",
          .words = {kEntailment, "neutral", "contradiction"},
          .fields = kPremiseHypothesis,
          .forms = {{.columns = MnliColumns(1), .label = "gold_label", .id = "index"},
                    {.columns = MnliColumns(5), .label = "gold_label", .id = "index"},
                    {.columns = MnliColumns(0), .id = "index"}}};
}

TsvTask SentencePair(const char* file, const char* prefix) {
  return {.file = file,
          .prefix = prefix,
          .words = {},
          .fields = kSentences,
          .forms = {{.columns = {"index", "sentence1", "sentence2", "label"}, .label = "label", .id = "index"},
                    {.columns = {"index", "sentence1", "sentence2"}, .id = "index"}}};
}

// The words are those of T5; the places of the labels those of GLUE's published loaders.
std::map<std::string_view, TsvTask> MakeTasks() {
  std::map<std::string_view, TsvTask> tasks;
  // CoLA's labelled files have no header: source, label, the author's mark, sentence.
  tasks["cola"] = {.file = "CoLA",
                   .prefix = "cola",
                   .words = {"unacceptable", "acceptable"},
                   .fields = {{"sentence", {"sentence"}}},
                   .forms = {{.columns = {"source", "label", "mark", "sentence"}, .label = "label", .header = false},
                             {.columns = {"index", "sentence"}, .id = "index"}}};
  tasks["sst-2"] = {.file = "SST-2",
                    .prefix = "sst2",
                    .words = {"negative", "positive"},
                    .fields = {{"sentence", {"sentence"}}},
                    .forms = {{.columns = {"sentence", "label"}, .label = "label"},
                              {.columns = {"index", "sentence"}, .id = "index"}}};
  tasks["mrpc"] = {.file = "MRPC",
                   .prefix = "mrpc",
                   .words = {"not_equivalent", "equivalent"},
                   .fields = {{"sentence1", {"#1 String"}}, {"sentence2", {"#2 String"}}},
                   .forms = {{.columns = {"Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"}, .label = "Quality"},
                             {.columns = {"index", "#1 ID", "#2 ID", "#1 String", "#2 String"}, .id = "index"}}};
  tasks["qqp"] = {.file = "QQP",
                  .prefix = "qqp",
                  .words = {"not_duplicate", "duplicate"},
                  .fields = {{"question1", {"question1"}}, {"question2", {"question2"}}},
                  .forms = {{.columns = {"id", "qid1", "qid2", "question1", "question2", "is_duplicate"},
                             .label = "is_duplicate",
                             .id = "id"},
                            {.columns = {"id", "question1", "question2"}, .id = "id"}}};
  tasks["sts-b"] = {.file = "STS-B",
                    .prefix = "stsb",
                    .words = {},
                    .fields = kSentences,
                    .forms = {{.columns = {"index", "genre", "filename", "year", "old_index", "source1", "source2",
                                           "sentence1", "sentence2", "score"},
                               .label = "score",
                               .id = "index"},
                              {.columns = {"index", "genre", "filename", "year", "old_index", "source1", "source2",
                                           "sentence1", "sentence2"},
                               .id = "index"}},
                    .low = 0,
                    .high = 5};
  tasks["mnli-m"] = Mnli("MNLI-m");
  tasks["mnli-mm"] = Mnli("MNLI-mm");
  tasks["qnli"] = {.file = "QNLI",
                   .prefix = "qnli",
                   .words = {kEntailment, kNotEntailment},
                   .fields = {{"question", {"question"}}, {"sentence", {"sentence"}}},
                   .forms = {{.columns = {"index", "question", "sentence", "label"}, .label = "label", .id = "index"},
                             {.columns = {"index", "question", "sentence"}, .id = "index"}}};
  tasks["rte"] = SentencePair("RTE", "rte");
  tasks["rte"].words = {kEntailment, kNotEntailment};
  tasks["wnli"] = SentencePair("WNLI", "wnli");
  tasks["wnli"].words = {kNotEntailment, kEntailment};
  tasks["ax"] = Mnli("AX");
  tasks["ax"].forms = {{.columns = {"index", "sentence1", "sentence2"}, .id = "index"},
                       {.columns = {"Lexical Semantics", "Predicate-Argument Structure", "Logic", "Knowledge", "Domain",
                                    "Premise", "Hypothesis", "Label"},
                        .label = "Label"}};
  return tasks;
}

const TsvTask& TsvTaskOf(const TaskType& type) {
  static const std::map<std::string_view, TsvTask> tasks = MakeTasks();
  const auto task = tasks.find(type.name);
  CROSSTALK_CHECK(task != tasks.end(), type.name, " is no task of GLUE");
  return task->second;
}

}  // namespace

std::vector<TaskRow> ReadGlue(const TaskType& type, const std::string& path, TaskSplit split) {
  return ReadTsv(type, TsvTaskOf(type), path, split);
}

std::string GlueAnswerOfText(const TaskType& type, const TaskRow&, const std::string& text) {
  return TsvAnswerOfText(type, TsvTaskOf(type), text);
}

std::vector<TaskFile> WriteGlue(const TaskType& type, const std::vector<TaskRow>& rows,
                                const std::vector<TaskPrediction>& predictions, TaskSplit) {
  return {WriteTsvPredictions(TsvTaskOf(type), rows, predictions)};
}

std::vector<TaskPrediction> ReadGluePredictions(const TaskType&, const std::string& path,
                                                const std::vector<TaskRow>& rows) {
  return ReadTsvPredictions(path, rows);
}

}  // namespace crosstalk
