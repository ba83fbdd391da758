#include "crosstalk/models/training/held_out.h"

#include <algorithm>
#include <utility>

#include "crosstalk/models/training/objectives/encoder_answers.h"
#include "crosstalk/models/training/task_results.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/measure.h"

namespace crosstalk {
namespace {

class HeldOutText : public HeldOut {
 public:
  explicit HeldOutText(std::unique_ptr<EvaluationBatches> batches) : batches_(std::move(batches)) {}

  EvaluationResult Evaluate(const Model& model, const Observer& observer) const override {
    return crosstalk::Evaluate(model, *batches_, observer);
  }
  Baselines FindBaselines(const StopRequest& stop) const override {
    return {.entropy_bound = batches_->EntropyBound(stop), .constant_guess = batches_->ConstantGuess(stop)};
  }
  const EvaluationBatches* batches() const override { return batches_.get(); }

 private:
  std::unique_ptr<EvaluationBatches> batches_;
};

// The held-out rows of a task, some of which have answers.
struct MeasuredTask {
  const TaskType* type;
  TaskRows rows;
};

class HeldOutTasks : public HeldOut {
 public:
  HeldOutTasks(const TrainingConfig& config, const TaskSet& tasks, std::shared_ptr<const Tokenizer> tokenizer)
      : config_(config), tokenizer_(std::move(tokenizer)) {
    for (const TaskData& task : tasks.tasks) {
      const auto has_answer = [](const TaskRow& row) { return row.labelled; };
      if (task.dev == nullptr || std::none_of(task.dev->begin(), task.dev->end(), has_answer)) continue;
      tasks_.push_back({task.type, task.dev});
    }
  }

  // SQuAD 2.0's threshold is the same at all steps.
  EvaluationResult Evaluate(const Model& model, const Observer& observer) const override {
    const Stopwatch watch;
    EvaluationResult result;
    int64_t rows = 0, before = 0;
    for (const MeasuredTask& task : tasks_) rows += std::ssize(*task.rows);
    std::vector<TaskResult> results;
    for (const MeasuredTask& task : tasks_) {
      const Observer answering = {.stop = observer.stop, .progress = [&](int64_t done, int64_t) {
                                    if (observer.progress) observer.progress(before + done, rows);
                                  }};
      results.push_back(
          AnswerTask(config_, model, *tokenizer_, *task.type, TaskSplit::kDev, *task.rows, answering, kEvenNoAnswer));
      before += std::ssize(*task.rows);
    }
    result.metrics = MetricsOf(results);
    result.examples = before;
    result.seconds = watch.seconds();
    return result;
  }

  Baselines FindBaselines(const StopRequest& stop) const override {
    std::vector<TaskResult> results;
    for (const MeasuredTask& task : tasks_) {
      ThrowIfStopped(stop);
      TaskResult guess;
      guess.type = task.type;
      guess.measures = ConstantGuessOf(*task.type, *task.rows);
      results.push_back(std::move(guess));
    }
    return {.constant_guess = MetricsOf(results)};
  }

 private:
  static std::vector<Metric> MetricsOf(const std::vector<TaskResult>& results) {
    std::vector<Metric> metrics = {{"score", MeanScore(results)}};
    for (const TaskResult& result : results) {
      for (const Metric& one : result.measures) {
        metrics.push_back({StrCat(result.type->name, "_", one.name), one.value});
      }
    }
    return metrics;
  }

  TrainingConfig config_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<MeasuredTask> tasks_;
};

}  // namespace

std::unique_ptr<HeldOut> MakeHeldOutText(std::unique_ptr<EvaluationBatches> batches) {
  return std::make_unique<HeldOutText>(std::move(batches));
}

std::unique_ptr<HeldOut> MakeHeldOutTasks(const TrainingConfig& config, std::shared_ptr<const TaskSet> tasks,
                                          std::shared_ptr<const Tokenizer> tokenizer) {
  return std::make_unique<HeldOutTasks>(config, *tasks, std::move(tokenizer));
}

}  // namespace crosstalk
