#include "crosstalk/models/training/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/models/training/objectives/task_head.h"
#include "crosstalk/models/training/task_results.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

EvaluationResult Evaluate(const Model& model, const EvaluationBatches& batches, const Observer& observer) {
  const Stopwatch watch;
  EvaluationResult result = ResultOf({SumsOf(model, batches, 0, batches.num_batches(), observer)});
  result.seconds = watch.seconds();
  return result;
}

EvaluationSums SumsOf(const Model& model, const EvaluationBatches& batches, int64_t begin, int64_t end,
                      const Observer& observer) {
  const ContextScope no_grad = NoGrad();
  EvaluationSums sums;
  for (int64_t i = begin; i < end; ++i) {
    ThrowIfStopped(observer.stop);
    const Batch batch = batches.Get(i);
    sums.batches.push_back(model.Loss(batch, {}, ForwardContext()).sums);
    sums.tokens += batch.targets;
    sums.examples += batch.rows();
    if (observer.progress) observer.progress(i + 1 - begin, end - begin);
  }
  return sums;
}

EvaluationResult ResultOf(const std::vector<EvaluationSums>& shares) {
  EvaluationResult result;
  std::vector<MetricSum> sums;
  for (const EvaluationSums& share : shares) {
    for (const std::vector<MetricSum>& batch : share.batches) AddSums(sums, batch);
    result.tokens += share.tokens;
    result.examples += share.examples;
  }
  result.metrics = Means(sums);
  for (const MetricSum& sum : sums) {
    if (sum.count == 0) Fail(ErrorKind::kData, "the held-out text gives nothing to measure ", sum.name, " on");
  }
  for (const Metric& metric : result.metrics) {
    if (std::isfinite(metric.value)) continue;
    Fail(ErrorKind::kNumerical, "the held-out ", DisplayOf(metric).label,
         " is not finite: the model's parameters have diverged");
  }
  return result;
}

FieldTable<RunEvaluation> RunEvaluation::Fields() {
  using E = RunEvaluation;
  using R = EvaluationResult;
  return {{"step", &E::step, {.range = AtLeast(0)}},
          {"metrics", Within(&E::result, &R::metrics)},
          {"loss_lower_bound", Within(&E::baselines, &Baselines::entropy_bound)},
          {"tokens", Within(&E::result, &R::tokens), {.range = {0, 0x1p62}}},
          {"examples", Within(&E::result, &R::examples), {.range = {1, 0x1p62}}},
          {"seconds", Within(&E::result, &R::seconds), {.range = {.low = 0}}},
          {"constant_guess", Within(&E::baselines, &Baselines::constant_guess), {.only_if_set = true}}};
}

Json EvaluationMembers(const RunEvaluation& evaluation) {
  Json json = Json::MakeObject({{"step", evaluation.step}});
  SetMetrics(json, evaluation.result.metrics);
  const Json all = ToJson(evaluation);
  for (const char* key : {"loss_lower_bound", "constant_guess", "tokens", "examples"}) {
    if (const Json* value = all.Find(key)) json.Set(key, *value);
  }
  return json;
}

Json EvaluationEvent(const RunEvaluation& evaluation) {
  Json json = Json::MakeObject({{"event", "eval"}});
  const Json members = EvaluationMembers(evaluation);
  for (const auto& [key, value] : members.AsObject()) json.Set(key, value);
  return json.Set("seconds", evaluation.result.seconds);
}

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

constexpr int64_t kPositionsTogether = 2048;

// Parted by Unicode's white space.
int64_t CountWords(std::string_view text) {
  int64_t words = 0;
  bool in_word = false;
  for (const char32_t code : ToUtf32(text)) {
    const bool space = IsWhiteSpace(code);
    words += !in_word && !space ? 1 : 0;
    in_word = !space;
  }
  return words;
}

class HeldOutWindows : public HeldOut {
 public:
  HeldOutWindows(const std::string& text, const Tokenizer& tokenizer, const WindowOptions& options)
      : options_(options), ids_(TokensBeforeText(tokenizer)), bytes_(std::ssize(text)), words_(CountWords(text)) {
    const std::vector<int32_t> own = tokenizer.Encode(text);
    ids_.insert(ids_.end(), own.begin(), own.end());
    if (ids_.size() < 2) {
      FailField(ErrorKind::kData, "data", "the text has ", ids_.empty() ? "no token" : "one token",
                "; to score one takes two");
    }
    windows_ = 1 + CeilDivide(std::max<int64_t>(0, std::ssize(ids_) - options.length), options.stride);
  }

  EvaluationResult Evaluate(const Model& model, const Observer& observer) const override {
    const Stopwatch watch;
    const ContextScope no_grad = NoGrad();
    const int64_t together = std::max<int64_t>(1, kPositionsTogether / options_.length);
    EvaluationSums sums;
    double nats = 0;
    for (int64_t begin = 0, end = 0; begin < windows_; begin = end) {
      ThrowIfStopped(observer.stop);
      end = begin == windows_ - 1 ? windows_ : std::min(windows_ - 1, begin + together);  // the last may be shorter
      const Batch batch = Windows(begin, end);
      sums.batches.push_back(model.Loss(batch, {}, ForwardContext()).sums);
      sums.tokens += batch.targets;
      sums.examples += batch.rows();
      nats += sums.batches.back()[0].sum;
      if (observer.progress) observer.progress(end, windows_);
    }
    EvaluationResult result = ResultOf({sums});
    const double a_token = result.metrics[0].value;
    const double a_byte = nats / static_cast<double>(bytes_), a_word = nats / static_cast<double>(words_);
    result.metrics.insert(result.metrics.end(), {{"nats_per_byte", a_byte},
                                                 {"nats_per_word", a_word},
                                                 {"perplexity", Exp(a_token)},
                                                 {"byte_perplexity", Exp(a_byte)},
                                                 {"word_perplexity", Exp(a_word)}});
    result.seconds = watch.seconds();
    return result;
  }
  Baselines FindBaselines(const StopRequest&) const override { return {}; }

 private:
  // The windows begin … end-1, of n tokens each: inputs int32[windows, n - 1], and targets, kNoToken where none is
  // scored.
  Batch Windows(int64_t begin, int64_t end) const {
    const int64_t n = std::min(options_.length, std::ssize(ids_) - begin * options_.stride);
    Batch batch = EmptyTokenRows(end - begin, n - 1, n - 1, kNoToken);
    for (int64_t window = begin; window < end; ++window) {
      const auto first = ids_.begin() + window * options_.stride;
      std::vector<int32_t> targets(first + 1, first + n);
      const int64_t seen = window == 0 ? 0 : options_.length - options_.stride - 1;  // by the window before
      std::fill_n(targets.begin(), seen, kNoToken);
      WriteTokenRow({first, first + n - 1}, targets, window - begin, batch);
    }
    return batch;
  }

  WindowOptions options_;
  std::vector<int32_t> ids_;
  int64_t bytes_, words_, windows_ = 0;
};

}  // namespace

std::unique_ptr<HeldOut> MakeHeldOutText(std::unique_ptr<EvaluationBatches> batches) {
  return std::make_unique<HeldOutText>(std::move(batches));
}

std::unique_ptr<HeldOut> MakeHeldOutWindows(const ModelConfig& model, const TextSource& text,
                                            const Tokenizer& tokenizer, const WindowOptions& options) {
  CROSSTALK_CHECK_FIELD(model.name == "lm", "length", "is for a language model, which ", model.name, " is not");
  CROSSTALK_CHECK_FIELD(options.length >= 2 && options.length <= model.context, "length", options.length,
                        " tokens are not between 2 and the ", model.context, " of the model's context");
  CROSSTALK_CHECK_FIELD(options.stride >= 1 && options.stride < options.length, "stride", options.stride,
                        " tokens are not between 1 and ", options.length - 1,
                        ": a window's first token has nothing before it");
  return std::make_unique<HeldOutWindows>(text.WholeText(), tokenizer, options);
}

std::unique_ptr<HeldOut> MakeHeldOutTasks(const TrainingConfig& config, std::shared_ptr<const TaskSet> tasks,
                                          std::shared_ptr<const Tokenizer> tokenizer) {
  return std::make_unique<HeldOutTasks>(config, *tasks, std::move(tokenizer));
}

}  // namespace crosstalk
