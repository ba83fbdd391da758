// TaskSet: the tasks that one model is finetuned on and measured by, read from a folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/tasks/task.h"
#include "crosstalk/runtime/op_context.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Tasks mixed in proportion to their sizes, as an endless order of rows that is computed one place at a time.

// One pass has min(size, cap) rows of each task, in random order. Each task's own rows come in passes of their own,
// every row once before any comes again, in another order each time.
class TaskMixture {
 public:
  // Sizes of at least 1.
  TaskMixture(std::vector<int64_t> sizes, std::optional<int64_t> cap, uint64_t seed);

  struct Place {
    size_t task;
    int64_t row;  // of that task
  };
  // A pure function of (sizes, cap, seed, place).
  Place At(int64_t place) const;
  // Places of a pass.
  int64_t size() const { return ends_.back(); }

 private:
  std::vector<int64_t> sizes_, shares_;
  std::vector<int64_t> ends_;  // shares_[0] + … + shares_[i]
  uint64_t seed_;
};

using TaskRows = std::shared_ptr<const std::vector<TaskRow>>;

// A task's rows; null where its folder has no such file.
struct TaskData {
  const TaskType* type = nullptr;
  TaskRows train, dev, test;
  std::string train_file;  // its path
};

struct TaskSet {
  std::vector<TaskData> tasks;
  std::string fingerprint;  // of the files' contents: two sets with the same one hold the same
  std::string description;  // "cola (8,551 to train on, 1,043 held out), …"

  // Rows to train on, by the task that each is of. Tasks that share a file (MNLI's two held-out sets) train on it once.
  struct Part {
    const TaskType* type;
    TaskRows rows;
  };
  std::vector<Part> TrainingParts() const;
};

// "cola,mrpc" → the tasks. Error(kUsage) of the field "task" for none, one that is unknown, or one that stands twice.
std::vector<const TaskType*> ParseTasks(const std::string& names);

// The task whose head does for all of them: they must have one form and the same labels. Error(kUsage) of the field
// "task" for tasks that need heads of their own.
const TaskType& TaskOfHead(const std::vector<const TaskType*>& tasks);

// Reads every file that the folder has for them. Error(kUsage) of the field "task_data" if there is nothing to train
// on, or no held-out rows; Error(kData) for files that are not of their format. Interrupted where `stop` says so.
TaskSet OpenTasks(const std::vector<const TaskType*>& tasks, const std::string& folder, const StopRequest& stop = {});

}  // namespace crosstalk
#pragma GCC visibility pop
