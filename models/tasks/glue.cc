#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/tasks/measures.h"
#include "crosstalk/models/tasks/scores.h"
#include "crosstalk/models/tasks/task_files.h"
#include "crosstalk/models/tasks/text_to_text.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr std::string_view kPredictionHeader = "index\tprediction";
constexpr size_t kMostNamedLines = 10;

// A form that a file can have. Which one it is, its header says.
struct TsvForm {
  std::vector<const char*> columns;
  const char* label = nullptr;  // the column of the labels; null: the file has none
  const char* id = nullptr;     // the column of the ids; null: a row's id is its place, from 0
  bool header = true;           // false: the first line is a row already
};

struct TsvTask {
  const char* file;                // of predictions, without ".tsv": "SST-2"
  const char* prefix;              // of the text-to-text form: "sst2"
  std::vector<const char*> words;  // of the labels, text to text; empty: a regression
  struct Field {
    const char* name;                  // text to text: "premise"
    std::vector<const char*> columns;  // the first that the form has: {"sentence1", "Premise"}
  };
  std::vector<Field> fields;  // an encoder reads the first, and then the second if there are two
  std::vector<TsvForm> forms;
  double low = 0, high = 0;  // of a regression
};

const TsvTask& TsvTaskOf(const TaskType& type);

std::vector<std::string> Strings(const std::vector<const char*>& names) { return {names.begin(), names.end()}; }

bool HasColumn(const TsvForm& form, std::string_view name) {
  return std::find(form.columns.begin(), form.columns.end(), name) != form.columns.end();
}

size_t ColumnOf(const TsvForm& form, std::string_view name) {
  return static_cast<size_t>(std::find(form.columns.begin(), form.columns.end(), name) - form.columns.begin());
}

// The columns of the task's fields, in their order.
std::vector<size_t> TextColumns(const TsvTask& task, const TsvForm& form) {
  std::vector<size_t> columns;
  for (const TsvTask::Field& field : task.fields) {
    const auto name = std::find_if(field.columns.begin(), field.columns.end(),
                                   [&](const char* name) { return HasColumn(form, name); });
    CROSSTALK_DCHECK(name != field.columns.end());
    columns.push_back(ColumnOf(form, *name));
  }
  return columns;
}

const TsvForm& FormOf(const TsvTask& task, std::string_view first_line, const std::string& path, TaskSplit split) {
  const std::vector<std::string> columns = Split(first_line, '\t');
  const TsvForm* headless = nullptr;
  std::vector<std::string> expected;
  for (const TsvForm& form : task.forms) {
    if (split != TaskSplit::kTest && form.label == nullptr) continue;
    if (!form.header) {
      headless = &form;
    } else if (columns == Strings(form.columns)) {
      return form;
    } else {
      expected.push_back(Quoted(Join(Strings(form.columns), " ")));
    }
  }
  // A form without a header is told by its number of columns.
  if (headless != nullptr && (expected.empty() || columns.size() == headless->columns.size())) return *headless;
  Fail(ErrorKind::kData, path, ": line 1: the columns are ", Quoted(Join(columns, " ")), ", not ",
       Join(expected, " or "));
}

// The columns of the file's lines. All lines that have too few or too many are named at once, so that who must mend a
// file (QQP is distributed with a few such lines) can do it in one go.
class TsvRows {
 public:
  TsvRows(const std::string& path, size_t columns) : path_(path), columns_(columns) {}

  // False for a line with another number of columns.
  bool Cut(std::string_view line, int64_t number, std::vector<std::string>* columns) {
    *columns = Split(line, '\t');
    if (columns->size() == columns_) return true;
    if (broken_ == 0) first_columns_ = columns->size();
    if (broken_++ < kMostNamedLines) lines_.push_back(StrCat(number));
    return false;
  }
  void FailIfBroken() const {
    if (broken_ == 0) return;
    const bool one = broken_ == 1;
    const std::string more = broken_ > lines_.size() ? StrCat(" and ", broken_ - lines_.size(), " more") : "";
    Fail(ErrorKind::kData, path_, one ? ": line " : ": lines ", Join(lines_, ", "), more, ": ", first_columns_,
         first_columns_ == 1 ? " column" : " columns", one ? "" : " in line " + lines_[0], ", not ", columns_,
         " separated by tabs; mend ", one ? "it" : "them", " or take ", one ? "it" : "them", " out");
  }

 private:
  const std::string& path_;
  size_t columns_;
  size_t broken_ = 0, first_columns_ = 0;
  std::vector<std::string> lines_;
};

// "0", "17": as it is written again.
bool IsIndex(const std::string& text) {
  constexpr size_t kMostDigits = 18;
  return !text.empty() && text.size() <= kMostDigits && text.find_first_not_of("0123456789") == std::string::npos &&
         (text == "0" || text[0] != '0');
}

// The label or number of `row` from its text.
void SetLabel(const TaskType& type, const TsvTask& task, const std::string& text, const std::string& where,
              TaskRow* row) {
  row->labelled = true;
  if (task.words.empty()) {
    if (!ParseNumber(text, &row->number) || row->number < task.low || row->number > task.high) {
      Fail(ErrorKind::kData, where, ": the score ", Quoted(text), " is not a number from ", task.low, " to ",
           task.high);
    }
    row->targets = {SimilarityText(row->number)};
    return;
  }
  const auto label = std::find(type.labels.begin(), type.labels.end(), std::string_view(text));
  if (label == type.labels.end()) {
    Fail(ErrorKind::kData, where, ": the label ", Quoted(text), " is none of ", Join(Strings(type.labels), ", "));
  }
  row->label = label - type.labels.begin();
  row->targets = {task.words[static_cast<size_t>(row->label)]};
}

std::vector<TaskRow> ReadGlue(const TaskType& type, const std::string& path, TaskSplit split) {
  const TsvTask& task = TsvTaskOf(type);
  const std::string text = ReadTaskFile(path);
  TaskLines lines(text);
  std::string_view line;
  lines.Next(&line);
  const TsvForm& form = FormOf(task, line, path, split);
  const std::vector<size_t> texts = TextColumns(task, form);
  TsvRows rows_of_file(path, form.columns.size());
  TaskRowList rows(path, split);
  rows.BeginFile(text.size());
  const std::string file = BaseName(path);
  std::vector<std::string> columns;
  int64_t place = 0;
  for (bool more = form.header ? lines.Next(&line) : true; more; more = lines.Next(&line), ++place) {
    if (!rows_of_file.Cut(line, lines.number(), &columns)) continue;
    TaskRow row;
    row.source = StrCat(file, ", line ", lines.number());
    const std::string where = StrCat(path, ": line ", lines.number());
    row.id = form.id == nullptr ? StrCat(place) : columns[ColumnOf(form, form.id)];
    if (!IsIndex(row.id)) Fail(ErrorKind::kData, where, ": the ", form.id, " ", Quoted(row.id), " is not a number");
    std::vector<std::pair<std::string_view, std::string_view>> fields;
    for (size_t i = 0; i < texts.size(); ++i) {
      fields.emplace_back(task.fields[i].name, columns[texts[i]]);
    }
    row.input = TaskInput(task.prefix, fields);
    row.first = columns[texts[0]];
    if (texts.size() == 2) row.second = columns[texts[1]];
    if (form.label != nullptr) {
      SetLabel(type, task, columns[ColumnOf(form, form.label)], where, &row);
    } else {
      row.targets = {kNoLabelText};
    }
    rows.Add(std::move(row));
  }
  rows_of_file.FailIfBroken();
  return rows.Take();
}

std::string AnswerOfText(const TaskType& type, const TaskRow&, const std::string& text) {
  const TsvTask& task = TsvTaskOf(type);
  if (task.words.empty()) {
    double number;
    return ParseNumber(Trimmed(text), &number) ? std::string(Trimmed(text)) : text;
  }
  const int label = FindWord(task.words, text);
  return label < 0 ? text : type.labels[static_cast<size_t>(label)];
}

std::vector<TaskFile> WriteGlue(const TaskType& type, const std::vector<TaskRow>& rows,
                                const std::vector<TaskPrediction>& predictions, TaskSplit) {
  std::string contents = StrCat(kPredictionHeader, "\n");
  for (const TaskPrediction* prediction : PredictionsInOrder(rows, predictions)) {
    std::string answer = prediction->answer;
    // A text-to-text model may write anything; a row stays one line of two columns.
    for (char& c : answer) {
      if (c == '\t' || c == '\n' || c == '\r') c = ' ';
    }
    contents += StrCat(prediction->id, "\t", answer, "\n");
  }
  return {{StrCat(TsvTaskOf(type).file, ".tsv"), std::move(contents)}};
}

std::vector<TaskPrediction> ReadGluePredictions(const TaskType&, const std::string& path,
                                                const std::vector<TaskRow>& rows) {
  const std::string text = ReadTaskFile(path);
  TaskLines lines(text);
  std::string_view line;
  lines.Next(&line);
  if (line != kPredictionHeader) {
    Fail(ErrorKind::kData, path, ": line 1: ", Quoted(line), ", not the header ", Quoted(kPredictionHeader));
  }
  TsvRows rows_of_file(path, 2);
  PredictionList predictions(path, rows);
  std::vector<std::string> columns;
  while (lines.Next(&line)) {
    if (!rows_of_file.Cut(line, lines.number(), &columns)) continue;
    predictions.Add(columns[0], columns[1], StrCat("line ", lines.number()));
  }
  rows_of_file.FailIfBroken();
  return predictions.Take();
}

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

// With the labels after the other columns, and without. The first column is the id.
std::vector<TsvForm> Forms(Columns columns, const char* label) {
  TsvForm labelled = {.columns = columns, .label = label, .id = columns[0]};
  labelled.columns.push_back(label);
  return {labelled, {.columns = std::move(columns), .id = labelled.id}};
}

TsvTask SentencePair(const char* file, const char* prefix, Columns words) {
  return {file, prefix, std::move(words), kSentences, Forms({"index", "sentence1", "sentence2"}, "label")};
}

// The words are those of T5; the places of the labels those of GLUE's published loaders.
std::map<std::string_view, TsvTask> MakeTasks() {
  TsvTask ax = Mnli("AX");
  ax.forms = {{.columns = {"index", "sentence1", "sentence2"}, .id = "index"},
              {.columns = {"Lexical Semantics", "Predicate-Argument Structure", "Logic", "Knowledge", "Domain",
                           "Premise", "Hypothesis", "Label"},
               .label = "Label"}};
  return {
      // CoLA's labelled files have no header: source, label, the author's mark, sentence.
      {"cola",
       {.file = "CoLA",
        .prefix = "cola",
        .words = {"unacceptable", "acceptable"},
        .fields = {{"sentence", {"sentence"}}},
        .forms = {{.columns = {"source", "label", "mark", "sentence"}, .label = "label", .header = false},
                  {.columns = {"index", "sentence"}, .id = "index"}}}},
      {"sst-2",
       {.file = "SST-2",
        .prefix = "sst2",
        .words = {"negative", "positive"},
        .fields = {{"sentence", {"sentence"}}},
        .forms = {{.columns = {"sentence", "label"}, .label = "label"},
                  {.columns = {"index", "sentence"}, .id = "index"}}}},
      {"mrpc",
       {.file = "MRPC",
        .prefix = "mrpc",
        .words = {"not_equivalent", "equivalent"},
        .fields = {{"sentence1", {"#1 String"}}, {"sentence2", {"#2 String"}}},
        .forms = {{.columns = {"Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"}, .label = "Quality"},
                  {.columns = {"index", "#1 ID", "#2 ID", "#1 String", "#2 String"}, .id = "index"}}}},
      {"qqp",
       {.file = "QQP",
        .prefix = "qqp",
        .words = {"not_duplicate", "duplicate"},
        .fields = {{"question1", {"question1"}}, {"question2", {"question2"}}},
        .forms = {{.columns = {"id", "qid1", "qid2", "question1", "question2", "is_duplicate"},
                   .label = "is_duplicate",
                   .id = "id"},
                  {.columns = {"id", "question1", "question2"}, .id = "id"}}}},
      {"sts-b",
       {.file = "STS-B",
        .prefix = "stsb",
        .words = {},
        .fields = kSentences,
        .forms =
            Forms({"index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2"},
                  "score"),
        .low = 0,
        .high = 5}},
      {"mnli-m", Mnli("MNLI-m")},
      {"mnli-mm", Mnli("MNLI-mm")},
      {"qnli",
       {.file = "QNLI",
        .prefix = "qnli",
        .words = {kEntailment, kNotEntailment},
        .fields = {{"question", {"question"}}, {"sentence", {"sentence"}}},
        .forms = Forms({"index", "question", "sentence"}, "label")}},
      {"rte", SentencePair("RTE", "rte", {kEntailment, kNotEntailment})},
      {"wnli", SentencePair("WNLI", "wnli", {kNotEntailment, kEntailment})},
      {"ax", ax},
      // Made of the built-in stories (examples/stories_task.cc): does the second sentence answer the question in the
      // first? Half of them did in a story; the others answer one of another kind.
      {"stories",
       {.file = "stories",
        .prefix = "stories",
        .words = {"no", "yes"},
        .fields = {{"question", {"question"}}, {"answer", {"answer"}}},
        .forms = Forms({"index", "question", "answer"}, "label")}},
  };
}

const TsvTask& TsvTaskOf(const TaskType& type) {
  static const std::map<std::string_view, TsvTask> tasks = MakeTasks();
  const auto task = tasks.find(type.name);
  CROSSTALK_CHECK(task != tasks.end(), type.name, " is no task of GLUE");
  return task->second;
}

}  // namespace

const TaskFormat kGlueFormat = {ReadGlue, AnswerOfText, WriteGlue, ReadGluePredictions};

std::vector<Metric> ScoreStsB(const TaskType& type, const std::vector<TaskRow>& rows,
                              const std::vector<TaskPrediction>& predictions) {
  constexpr double kNoNumber = -1;  // as T5 has it
  const std::vector<const TaskPrediction*> of_rows = PredictionsOf(type, rows, predictions, Missing::kIsAnError);
  std::vector<double> targets, answers;
  for (size_t i = 0; i < rows.size(); ++i) {
    targets.push_back(rows[i].number);
    answers.push_back(NumberOfAnswer(of_rows[i]->answer).value_or(kNoNumber));
  }
  return {{"pearson", Pearson(targets, answers)}, {"spearmanr", Spearman(targets, answers)}};
}

}  // namespace crosstalk
