#include "crosstalk/models/tasks/superglue.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/tasks/task_files.h"
#include "crosstalk/models/tasks/text_to_text.h"
#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/packed.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// The word with the pronoun in it marked; nothing if it is another word.
std::optional<std::string> Marked(std::string_view word, std::string_view pronoun) {
  const size_t at = word.find(pronoun);
  if (pronoun.empty() || at == std::string_view::npos) return std::nullopt;
  const std::string_view before = word.substr(0, at), after = word.substr(at + pronoun.size());
  const auto is_letter = [](char c) { return IsAsciiLetter(c) || (c & 0x80) != 0; };
  if (std::any_of(before.begin(), before.end(), is_letter) || std::any_of(after.begin(), after.end(), is_letter)) {
    return std::nullopt;
  }
  return StrCat(before, before.empty() ? "" : " ", "*", pronoun, "*", after.empty() ? "" : " ", after);
}

std::vector<std::string> CleanWords(std::string_view text) {
  static const std::set<std::string_view> determiners = {"a",     "an",    "few",  "her",   "his",   "each",  "every",
                                                         "many",  "much",  "my",   "our",   "some",  "that",  "the",
                                                         "their", "these", "this", "those", "which", "whose", "your"};
  text = Trimmed(text);
  TracedText traced = TraceText(text, 0, std::ssize(text));
  Apply({.kind = RewriteKind::kLowerCase}, &traced);
  std::vector<std::string> words = Split(ToUtf8(traced).text, ' ');
  std::erase_if(words, [](const std::string& word) { return determiners.count(word) > 0; });
  return words;
}

// The text with the pronoun, its word number `index` from 0, as *he*. Where another word stands there (of two texts of
// the original files), the nearest one that is the pronoun is marked, the later of two. The pronoun may have
// punctuation on it, which is set apart: "him,\"" is "*him* ,\"". Error(kData) at `key` of `object` if there is
// none.
std::string MarkPronoun(std::string_view text, std::string_view pronoun, int64_t index, const JsonReader& object,
                        const char* key) {
  std::vector<std::string> words = Split(text, ' ');
  const auto count = std::ssize(words);
  if (index < 0 || index >= count) object.FailAt(key, index, " is no word of a text of ", count);
  if (words[static_cast<size_t>(index)] == pronoun) {
    words[static_cast<size_t>(index)] = StrCat("*", pronoun, "*");
    return Join(words, " ");
  }
  for (int64_t distance = 0; distance < count; ++distance) {
    for (const int64_t at : {index + distance, index - distance}) {
      if (at < 0 || at >= count) continue;
      const std::optional<std::string> marked = Marked(words[static_cast<size_t>(at)], pronoun);
      if (!marked) continue;
      words[static_cast<size_t>(at)] = *marked;
      return std::string(Trimmed(Join(words, " ")));
    }
  }
  object.FailAt(key, "the text has no word ", Quoted(pronoun));
}

// The span as it stands in the text: where it does not, with white space for line ends, without a full stop, and with
// the case of the letter at word number `index`. Source: the corrected WSC ("wsc.fixed") that T5 is trained on.
std::string ReferentIn(const std::string& text, const std::string& span, int64_t index) {
  if (text.find(span) != std::string::npos) return span;
  std::string found = Replaced(span, "\n", " ");
  while (found.ends_with('.')) found.pop_back();
  const std::vector<std::string> words = Split(text, ' ');
  if (!found.empty() && index >= 0 && index < std::ssize(words)) {
    const std::string& word = words[static_cast<size_t>(index)];
    if (!word.empty() && IsAsciiLetter(word[0]) && IsAsciiLetter(found[0])) {
      found[0] = static_cast<char>((found[0] & ~0x20) | (word[0] & 0x20));
    }
  }
  return text.find(found) != std::string::npos ? found : span;
}

}  // namespace

std::optional<bool> NamesReferent(std::string_view words, std::string_view referent) {
  const std::vector<std::string> said = CleanWords(words), meant = CleanWords(referent);
  if (Join(said, " ").empty()) return std::nullopt;
  const auto has_apostrophe = [](const std::vector<std::string>& all) {
    return Join(all, " ").find('\'') != std::string::npos;
  };
  if (has_apostrophe(said) != has_apostrophe(meant)) return false;
  const std::set<std::string> a(said.begin(), said.end()), b(meant.begin(), meant.end());
  return std::includes(a.begin(), a.end(), b.begin(), b.end()) || std::includes(b.begin(), b.end(), a.begin(), a.end());
}

namespace {

using Fields = std::vector<std::pair<std::string_view, std::string_view>>;

struct Reading {
  const TaskType& type;
  TaskSplit split;
  TaskRowList rows;
};

struct SuperGlueTask {
  const char* file;                // of predictions, without ".jsonl"
  const char* prefix;              // text to text
  std::vector<const char*> words;  // of the labels or choices, text to text
  void (*add)(const SuperGlueTask& task, const JsonlLine& line, Reading* reading);
};

const SuperGlueTask& SuperGlueTaskOf(const TaskType& type);

TaskRow NewRow(const JsonlLine& line) {
  TaskRow row;
  row.source = line.source;
  row.id = IdOf(line.object, line.place);
  return row;
}

// The label of `key` and its target. Only a test set may have none.
void SetLabel(const SuperGlueTask& task, const JsonReader& object, const char* key, const Reading& reading,
              TaskRow* row) {
  const std::vector<const char*> places = {"0", "1"};  // of COPA's choices
  const bool may_lack = reading.split == TaskSplit::kTest;
  std::optional<int64_t> label;
  if (object.Has(key) || !may_lack) label = LabelOf(object, key, row->choices.empty() ? reading.type.labels : places);
  if (!label && !may_lack) object.FailAt(key, "is -1, which means that there is none");
  row->labelled = label.has_value();
  row->label = label.value_or(0);
  row->targets = {label ? task.words[static_cast<size_t>(*label)] : kNoLabelText};
}

void AddLabelled(const SuperGlueTask& task, const JsonReader& object, TaskRow row, Reading* reading,
                 const char* key = "label") {
  SetLabel(task, object, key, *reading, &row);
  reading->rows.Add(std::move(row));
}

// ---- Two texts ---------------------------------------------------------------------------------------------------
// An encoder reads the question and then the passage, as for SQuAD.
void AddBoolQ(const SuperGlueTask& task, const JsonlLine& line, Reading* reading) {
  TaskRow row = NewRow(line);
  row.first = line.object.String("question");
  row.second = line.object.String("passage");
  row.input = TaskInput(task.prefix, {{"passage", *row.second}, {"question", row.first}});
  // Google's own file, from which SuperGLUE's is made, calls it the answer.
  const char* label = line.object.Has("answer") && !line.object.Has("label") ? "answer" : "label";
  AddLabelled(task, line.object, std::move(row), reading, label);
}

// CB, RTE, AX-g, and AX-b, which calls them sentences. T5's fields are in the order of their names.
void AddEntailment(const SuperGlueTask& task, const JsonlLine& line, Reading* reading) {
  const bool sentences = line.object.Has("sentence1");
  TaskRow row = NewRow(line);
  row.first = line.object.String(sentences ? "sentence1" : "premise");
  row.second = line.object.String(sentences ? "sentence2" : "hypothesis");
  row.input = TaskInput(task.prefix, {{"hypothesis", *row.second}, {"premise", row.first}});
  // AX-g's rows come in pairs that differ in the gender of a pronoun, one after the other.
  if (std::string_view(reading->type.name) == "ax-g") row.group = StrCat(line.place / 2);
  AddLabelled(task, line.object, std::move(row), reading);
}

// The places of the word in the sentences, if they are given, must lie in them. Neither T5 nor we use them.
void CheckWordPlace(const JsonReader& object, const char* begin, const char* end, const std::string& sentence) {
  if (!object.Has(begin)) return;
  const int64_t characters = std::ssize(CharacterBegins(sentence)) - 1;
  object.Int(end, object.Int(begin, 0, characters), characters);
}

// Published encoders classify the vectors of the word's two occurrences. A head on [CLS] has to be told the word: it
// stands in front of the first sentence.
void AddWiC(const SuperGlueTask& task, const JsonlLine& line, Reading* reading) {
  TaskRow row = NewRow(line);
  const std::string& word = line.object.String("word");
  const std::string& sentence = line.object.String("sentence1");
  row.first = StrCat(word, ": ", sentence);
  row.second = line.object.String("sentence2");
  CheckWordPlace(line.object, "start1", "end1", sentence);
  CheckWordPlace(line.object, "start2", "end2", *row.second);
  row.input = TaskInput(task.prefix, {{"sentence1", sentence}, {"sentence2", *row.second}, {"word", word}});
  AddLabelled(task, line.object, std::move(row), reading);
}

// An encoder reads the text with its pronoun marked as for T5, and then what it may refer to. T5 answers with the
// referent, so that a row whose pronoun means another has no target, and is not trained on.
void AddWsc(const SuperGlueTask& task, const JsonlLine& line, Reading* reading) {
  TaskRow row = NewRow(line);
  const std::string& text = line.object.String("text");
  const JsonReader target = line.object.Object("target");
  row.first = MarkPronoun(text, target.String("span2_text"), target.Int("span2_index"), target, "span2_index");
  row.second = ReferentIn(text, target.String("span1_text"), target.Int("span1_index"));
  row.input = StrCat(task.prefix, " ", row.first);
  SetLabel(task, line.object, "label", *reading, &row);
  if (row.labelled) row.targets.clear();
  if (row.labelled && row.label == 1) row.targets = {*row.second};
  reading->rows.Add(std::move(row));
}

// ---- Several rows a line, several choices a row ------------------------------------------------------------------
// An encoder reads the premise with the question as COPA's authors ask it, and then an alternative.
void AddCopa(const SuperGlueTask& task, const JsonlLine& line, Reading* reading) {
  TaskRow row = NewRow(line);
  const std::string& premise = line.object.String("premise");
  const std::string& question = line.object.String("question");
  if (question != "cause" && question != "effect") {
    line.object.FailAt("question", Quoted(question), " is neither \"cause\" nor \"effect\"");
  }
  row.first = premise + (question == "cause" ? " What was the CAUSE of this?" : " What happened as a RESULT?");
  const std::string& first = line.object.String("choice1");
  const std::string& second = line.object.String("choice2");
  row.choices = {{first, "0"}, {second, "1"}};
  row.input =
      TaskInput(task.prefix, {{"choice1", first}, {"choice2", second}, {"premise", premise}, {"question", question}});
  AddLabelled(task, line.object, std::move(row), reading);
}

// A row for each answer, of which any number may be right. An encoder reads the paragraph, and then the question with
// the answer.
void AddMultiRc(const SuperGlueTask& task, const JsonlLine& line, Reading* reading) {
  const std::string passage_id = IdOf(line.object, line.place);
  const JsonReader passage = line.object.Object("passage");
  const auto without_html = [](std::string_view text) {
    return Replaced(Replaced(Replaced(text, "<br>", " "), "<b>", ""), "</b>", "");
  };
  const std::string& text = passage.String("text");
  const std::string paragraph = without_html(text);
  const Json::Array& questions = passage.Array("questions");
  for (size_t q = 0; q < questions.size(); ++q) {
    const std::string where = StrCat(line.where, ": passage.questions[", q, "]");
    const JsonReader question(questions[q], where);
    const Json::Array& answers = question.Array("answers");
    const std::string group = StrCat(passage_id, "/", IdOf(question, static_cast<int64_t>(q)));
    for (size_t a = 0; a < answers.size(); ++a) {
      const JsonReader answer(answers[a], StrCat(where, ".answers[", a, "]"));
      TaskRow row;
      row.source = line.source;
      row.group = group;
      row.id = StrCat(group, "/", IdOf(answer, static_cast<int64_t>(a)));
      const std::string& asked = question.String("question");
      row.first = paragraph;
      row.second = StrCat(without_html(asked), " ", without_html(answer.String("text")));
      row.input = without_html(
          TaskInput(task.prefix, {{"question", asked}, {"answer", answer.String("text")}, {"paragraph", text}}));
      AddLabelled(task, answer, std::move(row), reading);
    }
  }
}

// The passage's entities, each once, sorted by their bytes, as T5's input lists them.
std::set<std::string> EntitiesOf(const JsonReader& passage, const std::string& where) {
  const std::string& text = passage.String("text");
  const std::vector<size_t> begins = CharacterBegins(text);
  const int64_t last = std::ssize(begins) - 2;  // characters are counted, and `end` is the last one
  std::set<std::string> entities;
  const Json::Array& places = passage.Array("entities");
  for (size_t i = 0; i < places.size(); ++i) {
    const JsonReader place(places[i], StrCat(where, ": passage.entities[", i, "]"));
    const int64_t begin = place.Int("start", 0, last), end = place.Int("end", begin, last);
    const size_t from = begins[static_cast<size_t>(begin)];
    entities.insert(text.substr(from, begins[static_cast<size_t>(end) + 1] - from));
  }
  return entities;
}

// "\n@highlight\n" sets the passage's summary apart: it becomes the end of a sentence, if there is none already.
std::string WithoutHighlights(std::string_view passage) {
  constexpr std::string_view kMark = "\n@highlight\n";
  std::string text;
  for (size_t at = 0;;) {
    const size_t found = passage.find(kMark, at);
    text += passage.substr(at, found == std::string_view::npos ? found : found - at);
    if (found == std::string_view::npos) return text;
    const bool ended = found > at && std::string_view(".?!\"'").find(passage[found - 1]) != std::string_view::npos;
    text += ended ? " " : ". ";
    at = found + kMark.size();
  }
}

// A row for each query; in training, as T5 has it, for each query and answer. An encoder reads the passage, and then
// the query with an entity in its place, of which the row's answer is the right one. T5 leaves the punctuation as it
// is.
void AddRecord(const SuperGlueTask& task, const JsonlLine& line, Reading* reading) {
  constexpr std::string_view kPlaceholder = "@placeholder";
  const JsonReader passage = line.object.Object("passage");
  const std::set<std::string> entities = EntitiesOf(passage, line.where);
  const std::string text = WithoutHighlights(passage.String("text"));
  const std::string listed = Join(std::vector<std::string>(entities.begin(), entities.end()), ", ");
  const Json::Array& queries = line.object.Array("qas");
  for (size_t q = 0; q < queries.size(); ++q) {
    const std::string where = StrCat(line.where, ": qas[", q, "]");
    const JsonReader query(queries[q], where);
    const std::string& asked = query.String("query");
    if (asked.find(kPlaceholder) == std::string::npos) query.FailAt("query", "has no ", kPlaceholder);
    std::set<std::string> answers;
    if (query.Has("answers") || reading->split != TaskSplit::kTest) {
      const Json::Array& given = query.Array("answers");
      for (size_t a = 0; a < given.size(); ++a) {
        answers.insert(JsonReader(given[a], StrCat(where, ".answers[", a, "]")).String("text"));
      }
      if (answers.empty() && reading->split != TaskSplit::kTest) query.FailAt("answers", "there is none");
    }
    TaskRow row;
    row.source = line.source;
    row.id = IdOf(query, static_cast<int64_t>(q));
    row.first = text;
    row.input = TaskInput(StrCat(task.prefix), {{"query", asked}, {"entities", listed}, {"passage", text}});
    std::set<std::string> choices = entities;
    choices.insert(answers.begin(), answers.end());
    double bytes = 0;
    for (const std::string& choice : choices) {
      bytes += static_cast<double>(asked.size());
      bytes += static_cast<double>(CountOf(asked, kPlaceholder)) * static_cast<double>(choice.size());
    }
    reading->rows.RequireRoom(row.source, bytes);
    for (const std::string& choice : choices) {
      row.choices.push_back({Replaced(asked, kPlaceholder, choice), choice});
    }
    for (const std::string& answer : answers) row.answers.push_back({answer, std::nullopt});
    row.labelled = !answers.empty();
    const auto add = [&](TaskRow with, std::vector<std::string> targets) {
      if (row.labelled) with.label = std::distance(choices.begin(), choices.find(targets[0]));
      with.targets = std::move(targets);
      reading->rows.Add(std::move(with));
    };
    if (!row.labelled) {
      add(std::move(row), {kNoLabelText});
    } else if (reading->split == TaskSplit::kTrain) {
      for (const std::string& answer : answers) add(row, {answer});
    } else {
      add(row, {answers.begin(), answers.end()});
    }
  }
}

const SuperGlueTask& SuperGlueTaskOf(const TaskType& type) {
  static const std::vector<const char*> entails = {"entailment", "not_entailment"}, truth = {"False", "True"};
  static const std::map<std::string_view, SuperGlueTask> tasks = {
      {"boolq", {"BoolQ", "boolq", truth, AddBoolQ}},
      {"cb", {"CB", "cb", {"entailment", "contradiction", "neutral"}, AddEntailment}},
      {"copa", {"COPA", "copa", {"choice1", "choice2"}, AddCopa}},
      {"multirc", {"MultiRC", "multirc", truth, AddMultiRc}},
      {"record", {"ReCoRD", "record", {}, AddRecord}},
      {"rte", {"RTE", "rte", entails, AddEntailment}},
      {"wic", {"WiC", "wic", truth, AddWiC}},
      {"wsc", {"WSC", "wsc:", truth, AddWsc}},
      {"ax-b", {"AX-b", "rte", entails, AddEntailment}},  // the diagnostics are asked as RTE
      {"ax-g", {"AX-g", "rte", entails, AddEntailment}},
  };
  const auto task = tasks.find(type.name);
  CROSSTALK_CHECK(task != tasks.end(), type.name, " is no task of SuperGLUE");
  return task->second;
}

// ---- AX-b as GLUE's diagnostic -----------------------------------------------------------------------------------
std::vector<TaskRow> ReadDiagnostic(const TaskType& type, const std::string& path, TaskSplit split) {
  const TaskType& glue = FindTask("ax");
  std::vector<TaskRow> rows = glue.read(glue, path, split);
  for (TaskRow& row : rows) {
    row.input = TaskInput(SuperGlueTaskOf(type).prefix, {{"hypothesis", *row.second}, {"premise", row.first}});
    if (row.labelled && row.label != 0) row.label = 1;
    if (row.labelled) row.targets = {SuperGlueTaskOf(type).words[static_cast<size_t>(row.label)]};
  }
  return rows;
}

}  // namespace

bool IsJsonl(std::string_view path) {
  path = WithoutGz(path);
  return path.ends_with(".jsonl") || path.ends_with(".json");
}

std::string SuperGluePredictionsFile(const TaskType& type) { return StrCat(SuperGlueTaskOf(type).file, ".jsonl"); }

std::vector<TaskRow> ReadSuperGlue(const TaskType& type, const std::string& path, TaskSplit split) {
  if (!IsJsonl(path)) {
    if (std::string_view(type.name) == "ax-b") return ReadDiagnostic(type, path, split);
    if (std::string_view(type.name) == "rte") return kGlueFormat.read(type, path, split);
  }
  const std::string text = ReadTaskFile(path);
  Reading reading{type, split, TaskRowList(path, split)};
  reading.rows.BeginFile(text.size());
  const SuperGlueTask& task = SuperGlueTaskOf(type);
  ForEachJsonlLine(text, path, [&](const JsonlLine& line) { task.add(task, line, &reading); });
  return reading.rows.Take();
}

std::string SuperGlueAnswerOfText(const TaskType& type, const TaskRow& row, const std::string& text) {
  const SuperGlueTask& task = SuperGlueTaskOf(type);
  if (std::string_view(type.name) == "wsc") {
    const std::optional<bool> meant = NamesReferent(text, *row.second);
    return meant ? type.labels[*meant ? 1 : 0] : text;
  }
  const int label = FindWord(task.words, text);
  if (label < 0) return task.words.empty() ? std::string(Trimmed(text)) : text;
  return type.labels.empty() ? StrCat(label) : type.labels[static_cast<size_t>(label)];
}

}  // namespace crosstalk
