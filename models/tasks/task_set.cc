#include "crosstalk/models/tasks/task_set.h"

#include <algorithm>
#include <utility>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

TaskMixture::TaskMixture(std::vector<int64_t> sizes, std::optional<int64_t> cap, uint64_t seed)
    : sizes_(std::move(sizes)), seed_(seed) {
  CROSSTALK_CHECK(!sizes_.empty(), "a mixture needs a task");
  int64_t end = 0;
  for (const int64_t size : sizes_) {
    CROSSTALK_CHECK(size >= 1, "a mixture's task has no rows");
    shares_.push_back(cap ? std::min(size, *cap) : size);
    end += shares_.back();
    ends_.push_back(end);
  }
}

TaskMixture::Place TaskMixture::At(int64_t place) const {
  const int64_t pass = place / size();
  const int64_t shuffled = PermutedIndex(place % size(), size(), ExampleKey(seed_, "models.tasks.mixture", pass));
  const size_t task = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), shuffled) - ends_.begin());
  // The rows of one task that a pass takes come after those of the passes before it.
  const int64_t taken = pass * shares_[task] + (shuffled - (ends_[task] - shares_[task]));
  const int64_t own_pass = taken / sizes_[task];
  const RandomKey key = ExampleKey(seed_ + 0x9E3779B97F4A7C15u * (task + 1), "models.tasks.mixture.rows", own_pass);
  return {task, PermutedIndex(taken % sizes_[task], sizes_[task], key)};
}

namespace {

constexpr char kTaskField[] = "task";
constexpr char kFolderField[] = "task_data";

// Each with its length before it, so that no two rows have one form.
void Add(Crc64& checksum, std::string_view text) {
  checksum.Update(StrCat(text.size(), ":"));
  checksum.Update(text);
}

void AddRow(Crc64& checksum, const TaskRow& row) {
  for (const std::string* text : {&row.id, &row.group, &row.first, &row.input}) Add(checksum, *text);
  Add(checksum, row.second ? "2" + *row.second : "");
  for (const TaskRow::Choice& choice : row.choices) {
    for (const std::string* text : {&choice.second, &choice.answer}) Add(checksum, *text);
  }
  for (const std::string& target : row.targets) Add(checksum, target);
  checksum.Update(StrCat(row.labelled, " ", row.label, " ", Json(row.number).Dump(), "\n"));
  for (const TaskAnswer& answer : row.answers) Add(checksum, StrCat(answer.begin.value_or(-1), " ", answer.text));
}

std::string Fingerprint(const std::vector<TaskData>& tasks) {
  Crc64 checksum;
  for (const TaskData& task : tasks) {
    Add(checksum, task.type->name);
    for (const TaskRows& rows : {task.train, task.dev}) {
      Add(checksum, StrCat(rows == nullptr ? -1 : static_cast<int64_t>(rows->size())));
      if (rows == nullptr) continue;
      for (const TaskRow& row : *rows) AddRow(checksum, row);
    }
  }
  return "tasks-" + ChecksumText(checksum.value());
}

std::string CountOf(const TaskRows& rows, const char* text) {
  return rows == nullptr ? StrCat("none ", text) : StrCat(rows->size(), " ", text);
}

std::string Description(const std::vector<TaskData>& tasks) {
  std::vector<std::string> texts;
  for (const TaskData& task : tasks) {
    texts.push_back(StrCat(task.type->name, " (", CountOf(task.train, "to train on"), ", ",
                           CountOf(task.dev, "held out"), task.test == nullptr ? "" : ", ",
                           task.test == nullptr ? "" : CountOf(task.test, "to test"), ")"));
  }
  return Join(texts, ", ");
}

bool IsLabelled(const TaskRows& rows) {
  return rows != nullptr && std::any_of(rows->begin(), rows->end(), [](const TaskRow& row) { return row.labelled; });
}

}  // namespace

std::vector<TaskSet::Part> TaskSet::TrainingParts() const {
  std::vector<Part> parts;
  std::vector<std::string> files;
  for (const TaskData& task : tasks) {
    if (task.train == nullptr || task.train->empty()) continue;
    if (std::find(files.begin(), files.end(), task.train_file) != files.end()) continue;
    files.push_back(task.train_file);
    parts.push_back({task.type, task.train});
  }
  return parts;
}

std::vector<const TaskType*> ParseTasks(const std::string& names) {
  CROSSTALK_CHECK_FIELD(!names.empty(), kTaskField, "is missing; one or more of ", Join(TaskNames(), ", "));
  std::vector<const TaskType*> tasks;
  for (const std::string& name : Split(names, ',')) {
    const TaskType& task = FindTask(name);
    CROSSTALK_CHECK_FIELD(std::find(tasks.begin(), tasks.end(), &task) == tasks.end(), kTaskField, Quoted(names), ": ",
                          name, " stands there twice");
    tasks.push_back(&task);
  }
  return tasks;
}

const TaskType& TaskOfHead(const std::vector<const TaskType*>& tasks) {
  const TaskType& head = *tasks.at(0);
  const auto labels = [](const TaskType& task) {
    return std::vector<std::string_view>(task.labels.begin(), task.labels.end());
  };
  for (const TaskType* task : tasks) {
    CROSSTALK_CHECK_FIELD(task->form == head.form && labels(*task) == labels(head), kTaskField, head.name, " and ",
                          task->name, " have other answers, and an encoder has one head: finetune it on each alone");
  }
  return head;
}

TaskSet OpenTasks(const std::vector<const TaskType*>& tasks, const std::string& folder, const StopRequest& stop) {
  CROSSTALK_CHECK_FIELD(!folder.empty(), kFolderField, "is missing: the folder with the tasks' files");
  TaskSet set;
  bool measured = false;
  for (const TaskType* type : tasks) {
    TaskData data;
    data.type = type;
    const auto read = [&](TaskSplit split) -> TaskRows {
      ThrowIfStopped(stop);
      const std::optional<std::string> path = FindTaskFile(*type, folder, split);
      if (!path) return nullptr;
      if (split == TaskSplit::kTrain) data.train_file = *path;
      return std::make_shared<std::vector<TaskRow>>(type->read(*type, *path, split));
    };
    data.train = read(TaskSplit::kTrain);
    data.dev = read(TaskSplit::kDev);
    data.test = read(TaskSplit::kTest);
    CROSSTALK_CHECK_FIELD(data.train || data.dev || data.test, kFolderField, Quoted(folder), " has no file of ",
                          type->name, " (", type->train.empty() ? type->test.at(0) : type->train.at(0), ", …)");
    measured = measured || IsLabelled(data.dev);
    set.tasks.push_back(std::move(data));
  }
  CROSSTALK_CHECK_FIELD(measured, kFolderField, Quoted(folder), " has no held-out rows with answers of ",
                        tasks.size() == 1 ? tasks[0]->name : "these tasks", " to measure on");
  set.fingerprint = Fingerprint(set.tasks);
  set.description = Description(set.tasks);
  return set;
}

}  // namespace crosstalk
