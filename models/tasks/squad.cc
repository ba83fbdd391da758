#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/tasks/scores.h"
#include "crosstalk/models/tasks/task_files.h"
#include "crosstalk/models/tasks/text_to_text.h"
#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/packed.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// Where the part of `passage` from `begin` on that reads as `text` ends; npos if none does. White space is the same as
// white space, and as nothing beside punctuation.
size_t EndOfMatch(std::string_view passage, size_t begin, std::string_view text) {
  size_t at = begin;
  for (size_t i = 0; i < text.size();) {
    if (!IsAsciiSpace(text[i])) {
      if (at == passage.size() || passage[at] != text[i]) return std::string_view::npos;
      ++at, ++i;
      continue;
    }
    while (IsAsciiSpace(text[i])) ++i;
    const size_t space = at;
    while (at < passage.size() && IsAsciiSpace(passage[at])) ++at;
    if (at == space && !IsAsciiPunctuation(text[i]) && !IsAsciiPunctuation(passage[at - 1])) {
      return std::string_view::npos;
    }
  }
  return at;
}

}  // namespace

std::string UnspacedAnswer(std::string_view text, std::string_view passage) {
  text = Trimmed(text);
  for (size_t begin = 0; begin < passage.size() && !text.empty(); ++begin) {
    const size_t end = EndOfMatch(passage, begin, text);
    if (end != std::string_view::npos) return std::string(passage.substr(begin, end - begin));
  }
  return std::string(text);
}

namespace {

constexpr const char* kNoAnswerEnd = "-na_prob.json";

bool HasNoAnswers(const TaskType& type) { return std::string_view(type.name) == "squad-v2"; }
std::string NameOf(const TaskType& type) { return HasNoAnswers(type) ? "SQuAD-v2.0" : "SQuAD-v1.1"; }

// A passage with what all of its questions need.
struct Passage {
  explicit Passage(const std::string& text)
      : text(text), spaced(SpacedPunctuation(text)), begins(CharacterBegins(text)) {}

  const std::string& text;
  std::string spaced;
  std::vector<size_t> begins;
};

// The byte of `passage` at which `text` begins, of all the one nearest to `place`, of two the first.
std::optional<int64_t> NearestPlace(std::string_view passage, std::string_view text, size_t place) {
  if (text.empty()) return std::nullopt;
  if (passage.substr(place).starts_with(text)) return static_cast<int64_t>(place);
  const size_t before = passage.rfind(text, place), after = passage.find(text, place);
  if (before == std::string_view::npos && after == std::string_view::npos) return std::nullopt;
  if (after == std::string_view::npos) return static_cast<int64_t>(before);
  if (before == std::string_view::npos) return static_cast<int64_t>(after);
  return static_cast<int64_t>(place - before <= after - place ? before : after);
}

// Right answers as the official files have them, a list of {"text", "answer_start"}, or, as the datasets library has
// them, {"text": […], "answer_start": […]}.
Json::Array AnswersOf(const JsonReader& question) {
  if (!question.Value("answers").is_object()) return question.Array("answers");
  const JsonReader columns = question.Object("answers");
  const Json::Array &texts = columns.Array("text"), &starts = columns.Array("answer_start");
  if (texts.size() != starts.size()) {
    question.FailAt("answers", texts.size(), " texts, but ", starts.size(), " places");
  }
  Json::Array answers;
  for (size_t i = 0; i < texts.size(); ++i) {
    answers.push_back(Json::MakeObject({{"text", texts[i]}, {"answer_start", starts[i]}}));
  }
  return answers;
}

TaskAnswer ReadAnswer(const JsonReader& answer, const Passage& passage) {
  const std::string& text = answer.String("text");
  const int64_t start = answer.Int("answer_start", 0, std::ssize(passage.begins) - 1);
  return {.text = text, .begin = NearestPlace(passage.text, text, passage.begins[static_cast<size_t>(start)])};
}

TaskRow ReadQuestion(const TaskType& type, const JsonReader& question, const std::string& where, TaskSplit split,
                     const Passage& passage) {
  TaskRow row;
  row.source = where;
  row.id = question.String("id");
  if (row.id.empty()) question.FailAt("id", "is empty");
  row.first = question.String("question");
  row.second = passage.text;
  // T5's _string_join collapses the spaces between the parts too.
  row.input = CollapsedSpace(StrCat("question: ", SpacedPunctuation(row.first), " context: ", passage.spaced));
  // The answers decide, and who says so beside them must not say otherwise. A test set may lack them.
  std::optional<bool> impossible;
  const bool says = HasNoAnswers(type) && question.Has("is_impossible") && !question.Value("is_impossible").is_null();
  if (says) impossible = question.Bool("is_impossible");
  if (question.Has("answers") || split != TaskSplit::kTest) {
    const Json::Array answers = AnswersOf(question);
    for (size_t i = 0; i < answers.size(); ++i) {
      row.answers.push_back(ReadAnswer(JsonReader(answers[i], StrCat(where, ".answers[", i, "]")), passage));
      row.targets.push_back(SpacedPunctuation(row.answers.back().text));
    }
    if (impossible.value_or(false) && !answers.empty()) {
      question.FailAt("is_impossible", "is true, but there are answers");
    }
    const bool none = answers.empty() && impossible.value_or(HasNoAnswers(type) && split != TaskSplit::kTest);
    if (!none && answers.empty() && split != TaskSplit::kTest) {
      question.FailAt("answers", "there is none", impossible ? ", but is_impossible is false" : "; squad-v2 has such");
    }
    row.labelled = none || !answers.empty();
    if (none) row.targets = {""};  // T5 publishes no form of 2.0: nothing is written if there is no answer
  }
  if (!row.labelled) row.targets = {kNoLabelText};
  return row;
}

// The first line that is not blank, as a value of its own: in JSON lines, and in a file of one line, whose whole it is.
// None where it is the first of many of one value, or broken, as who reads the whole will say.
struct FirstLine {
  std::optional<Json> value;
  bool is_all;
};
FirstLine ReadFirstLine(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = Trimmed(text.substr(0, end));
  FirstLine first{std::nullopt, Trimmed(text.substr(end)).empty()};
  if (!line.starts_with('{') || !line.ends_with('}')) return first;
  try {
    first.value = ParseJson(line, "");
  } catch (const Error&) {
  }
  return first;
}

// Rows of the datasets library, as it exports them: a question a line.
std::vector<TaskRow> ReadFlatRows(const TaskType& type, const std::string& text, const std::string& path,
                                  TaskSplit split) {
  TaskRowList rows(path, split);
  rows.BeginFile(text.size());
  ForEachJsonlLine(text, path, [&](const JsonlLine& line) {
    const Passage passage(line.object.String("context"));
    TaskRow row = ReadQuestion(type, line.object, line.where, split, passage);
    row.source = line.source;
    rows.Add(std::move(row));
  });
  return rows.Take();
}

std::vector<TaskRow> ReadSquad(const TaskType& type, const std::string& path, TaskSplit split) {
  const std::string text = ReadTaskFile(path);
  FirstLine first = ReadFirstLine(text);
  if (first.value && first.value->Find("context") != nullptr) return ReadFlatRows(type, text, path, split);
  const Json file = first.value && first.is_all ? *std::move(first.value) : ParseJson(text, path);
  if (file.is_array()) {
    Fail(ErrorKind::kData, path, ": must be an object, but is an array; rows are read as JSON lines, an object a line");
  }
  if (!file.is_object()) Fail(ErrorKind::kData, path, ": must be an object, but is ", Name(file.type()));
  TaskRowList rows(path, split);
  rows.BeginFile(text.size());
  const JsonReader data(file, path);
  const Json::Array& articles = data.Array("data");
  for (size_t d = 0; d < articles.size(); ++d) {
    const std::string article_at = StrCat(path, ": data[", d, "]");
    const JsonReader article(articles[d], article_at);
    const Json::Array& paragraphs = article.Array("paragraphs");
    for (size_t p = 0; p < paragraphs.size(); ++p) {
      const std::string paragraph_at = StrCat(article_at, ".paragraphs[", p, "]");
      const JsonReader paragraph(paragraphs[p], paragraph_at);
      const Passage passage(paragraph.String("context"));
      const Json::Array& questions = paragraph.Array("qas");
      for (size_t q = 0; q < questions.size(); ++q) {
        const std::string where = StrCat(paragraph_at, ".qas[", q, "]");
        TaskRow row = ReadQuestion(type, JsonReader(questions[q], where), where, split, passage);
        row.source = StrCat(BaseName(path), ", data[", d, "].paragraphs[", p, "].qas[", q, "]");
        rows.Add(std::move(row));
      }
    }
  }
  return rows.Take();
}

std::string SquadAnswerOfText(const TaskType&, const TaskRow& row, const std::string& text) {
  return UnspacedAnswer(text, *row.second);
}

std::vector<TaskFile> WriteSquad(const TaskType& type, const std::vector<TaskRow>& rows,
                                 const std::vector<TaskPrediction>& predictions, TaskSplit) {
  Json::Object texts, no_answers;
  for (const TaskPrediction* prediction : PredictionsInOrder(rows, predictions)) {
    texts.emplace_back(prediction->id, prediction->answer);
    if (prediction->no_answer) no_answers.emplace_back(prediction->id, *prediction->no_answer);
  }
  std::vector<TaskFile> files = {{NameOf(type) + ".json", Json(std::move(texts)).DumpPretty()}};
  if (!no_answers.empty()) {
    files.push_back({NameOf(type) + kNoAnswerEnd, Json(std::move(no_answers)).DumpPretty()});
  }
  return files;
}

std::vector<TaskPrediction> ReadSquadPredictions(const TaskType& type, const std::string& path,
                                                 const std::vector<TaskRow>& rows) {
  PredictionList predictions(path, rows, UnknownIds::kAreKept);
  const Json texts = ReadJsonById(path);
  for (const auto& [id, text] : texts.AsObject()) predictions.Add(id, StringOf(text, path, id), "the object");
  std::string_view name = WithoutGz(path);
  if (name.ends_with(".json")) name.remove_suffix(5);
  const std::string beside = std::string(name) + kNoAnswerEnd;
  if (!HasNoAnswers(type) || KindOf(beside) == PathKind::kNothing) return predictions.Take();
  const Json no_answers = ReadJsonById(beside);
  for (const auto& [id, number] : no_answers.AsObject()) {
    TaskPrediction* prediction = predictions.Find(id);
    if (prediction == nullptr) Fail(ErrorKind::kData, beside, ": the id ", Quoted(id), " has no prediction in ", path);
    if (!number.is_number()) Fail(ErrorKind::kData, beside, ": ", Quoted(id), ": must be a number");
    prediction->no_answer = number.AsDouble();
  }
  return predictions.Take();
}

// The scores of a question of SQuAD 2.0.
struct Scored {
  bool has_answer = false;
  bool predicted = false;  // that there is an answer: its text is not empty
  AnswerMatch match;       // whatever the prediction says of there being none
  const TaskPrediction* prediction = nullptr;
};

// Answers that leave no words count as none at all; without any the right answer is the empty one.
std::vector<std::string> RightAnswers(const TaskRow& row) {
  std::vector<std::string> right;
  for (const TaskAnswer& answer : row.answers) {
    if (!AnswerWords(answer.text).empty()) right.push_back(answer.text);
  }
  if (right.empty()) right.emplace_back();
  return right;
}

std::vector<Scored> ScoreEach(const TaskType& type, const std::vector<TaskRow>& rows,
                              const std::vector<TaskPrediction>& predictions) {
  const std::vector<const TaskPrediction*> of_rows = PredictionsOf(type, rows, predictions, Missing::kIsAnError);
  std::vector<Scored> scored;
  for (size_t i = 0; i < rows.size(); ++i) {
    const TaskPrediction& prediction = *of_rows[i];
    if (prediction.no_answer.has_value() != of_rows[0]->no_answer.has_value()) {
      Fail(ErrorKind::kData, type.name, ": some predictions say how probable it is that there is no answer, that of ",
           Quoted(rows[prediction.no_answer ? 0 : i].id), " does not");
    }
    if (prediction.no_answer && std::isnan(*prediction.no_answer)) {
      Fail(ErrorKind::kData, type.name, ": the probability that ", Quoted(rows[i].id),
           " has no answer is not a number");
    }
    scored.push_back({!rows[i].answers.empty(), !prediction.answer.empty(),
                      BestMatch(prediction.answer, RightAnswers(rows[i]), NoWords::kMatchEachOther), &prediction});
  }
  return scored;
}

AnswerMatch WithThreshold(const Scored& one, double threshold) {
  const std::optional<double>& no_answer = one.prediction->no_answer;
  if (!no_answer || !(*no_answer > threshold)) return one.match;
  const double right = one.has_answer ? 0 : 1;
  return {right, right};
}

// Appends exact, f1 and total of all, or of those that have an answer or have none, in the order of the rows, in which
// the script sums them up.
void AddSums(const std::string& prefix, const std::vector<Scored>& scored, double threshold,
             std::optional<bool> has_answer, std::vector<Metric>* measures) {
  double exact = 0, f1 = 0, total = 0;
  for (const Scored& one : scored) {
    if (one.has_answer != has_answer.value_or(one.has_answer)) continue;
    const AnswerMatch match = WithThreshold(one, threshold);
    exact += match.exact;
    f1 += match.f1;
    ++total;
  }
  if (total == 0) return;
  measures->push_back({prefix + "exact", 100.0 * exact / total});
  measures->push_back({prefix + "f1", 100.0 * f1 / total});
  measures->push_back({prefix + "total", total});
}

// As if there were no answer anywhere at first, then with the answers of those that are least sure of that.
void AddBest(const std::string& name, double AnswerMatch::*measure, const std::vector<Scored>& sorted,
             std::vector<Metric>* measures) {
  const auto unanswerable =
      std::count_if(sorted.begin(), sorted.end(), [](const Scored& one) { return !one.has_answer; });
  double score = static_cast<double>(unanswerable), best = score, threshold = 0;
  for (const Scored& one : sorted) {
    score += one.has_answer ? one.match.*measure : one.predicted ? -1 : 0;
    if (score > best) best = score, threshold = *one.prediction->no_answer;
  }
  measures->push_back({"best_" + name, 100.0 * best / static_cast<double>(sorted.size())});
  measures->push_back({"best_" + name + "_thresh", threshold});
}

}  // namespace

const TaskFormat kSquadFormat = {ReadSquad, SquadAnswerOfText, WriteSquad, ReadSquadPredictions};

std::vector<Metric> ScoreSquad(const TaskType& type, const std::vector<TaskRow>& rows,
                               const std::vector<TaskPrediction>& predictions) {
  return ScoreWords(type, rows, predictions, 100, "; SQuAD 2.0 has such questions");
}

std::vector<Metric> ScoreSquadV2At(double threshold, const TaskType& type, const std::vector<TaskRow>& rows,
                                   const std::vector<TaskPrediction>& predictions) {
  std::vector<Scored> scored = ScoreEach(type, rows, predictions);
  std::vector<Metric> measures;
  AddSums("", scored, threshold, std::nullopt, &measures);
  AddSums("HasAns_", scored, threshold, true, &measures);
  AddSums("NoAns_", scored, threshold, false, &measures);
  if (!scored[0].prediction->no_answer) return measures;
  // `prediction` points into `predictions`: at equal values their order decides.
  std::sort(scored.begin(), scored.end(), [](const Scored& a, const Scored& b) {
    const double first = *a.prediction->no_answer, second = *b.prediction->no_answer;
    return first < second || (first == second && a.prediction < b.prediction);
  });
  AddBest("exact", &AnswerMatch::exact, scored, &measures);
  AddBest("f1", &AnswerMatch::f1, scored, &measures);
  return measures;
}

std::vector<Metric> ScoreSquadV2(const TaskType& type, const std::vector<TaskRow>& rows,
                                 const std::vector<TaskPrediction>& predictions) {
  return ScoreSquadV2At(1, type, rows, predictions);
}

}  // namespace crosstalk
