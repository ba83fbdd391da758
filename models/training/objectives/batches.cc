#include "crosstalk/models/training/objectives/batches.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {
namespace {

class TrainingBatches : public BatchSource {
 public:
  TrainingBatches(std::shared_ptr<const ExampleSource> examples, int64_t batch, int64_t parts)
      : examples_(std::move(examples)), batch_(batch), parts_(parts) {
    CROSSTALK_CHECK(parts >= 1 && batch >= parts, "batches: ", batch, " examples in ", parts,
                    " parts; each part must have at least 1");
  }

  Batch Get(int64_t step, int64_t part) override {
    CROSSTALK_CHECK(step >= 0 && part >= 0 && part < parts_, "batches: step ", step, ", part ", part, " of ", parts_);
    const int64_t begin = FirstRowOfPart(batch_, parts_, part), end = FirstRowOfPart(batch_, parts_, part + 1);
    Batch batch = examples_->EmptyBatch(end - begin);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t example = step * batch_ + row;
      examples_->Write(example, example, batch, row - begin);
    }
    return examples_->Finished(std::move(batch));
  }

 private:
  std::shared_ptr<const ExampleSource> examples_;
  int64_t batch_, parts_;
};

}  // namespace

std::unique_ptr<BatchSource> MakeTrainingBatches(std::shared_ptr<const ExampleSource> examples, int64_t batch,
                                                 int64_t parts) {
  return std::make_unique<TrainingBatches>(std::move(examples), batch, parts);
}

EvaluationBatches::EvaluationBatches(std::shared_ptr<const ExampleSource> examples, int64_t rows, int64_t max_examples)
    : examples_(std::move(examples)), rows_(rows), num_examples_(std::min(max_examples, examples_->num_places())) {
  CROSSTALK_CHECK(rows >= 1 && max_examples >= 1, "evaluation: ", max_examples, " examples in batches of ", rows,
                  "; both must be at least 1");
}

int64_t EvaluationBatches::num_batches() const { return CeilDivide(num_examples_, rows_); }

int64_t EvaluationBatches::PlaceOf(int64_t example) const {
  const int64_t places = examples_->num_places();
  if (places == INT64_MAX) return example;
  return static_cast<int64_t>(static_cast<__int128>(example) * places / num_examples_);
}

Batch EvaluationBatches::Get(int64_t index) const {
  CROSSTALK_CHECK(index >= 0 && index < num_batches(), "evaluation: batch ", index, " of ", num_batches());
  const int64_t begin = index * rows_;
  const int64_t end = std::min(num_examples_, begin + rows_);
  Batch batch = examples_->EmptyBatch(end - begin);
  for (int64_t i = begin; i < end; ++i) examples_->Write(PlaceOf(i), i, batch, i - begin);
  return examples_->Finished(std::move(batch));
}

std::optional<double> EvaluationBatches::EntropyBound(const StopRequest& stop) const {
  double nats = 0;
  int64_t targets = 0;
  for (int64_t i = 0; i < num_examples_; ++i) {
    if (i % rows_ == 0) ThrowIfStopped(stop);
    const std::optional<LossBound> bound = examples_->EntropyBound(PlaceOf(i), i);
    if (!bound) return std::nullopt;
    nats += bound->nats;
    targets += bound->targets;
  }
  return nats / static_cast<double>(targets);
}

std::vector<Metric> EvaluationBatches::ConstantGuess(const StopRequest& stop) const {
  const std::vector<AccuracyTargets> answers = examples_->Answers();
  if (answers.empty()) return {};
  std::vector<std::unordered_map<int32_t, int64_t>> counts(answers.size());
  for (int64_t i = 0; i < num_batches(); ++i) {
    ThrowIfStopped(stop);
    const Batch batch = Get(i);
    for (size_t k = 0; k < answers.size(); ++k) {
      const Tensor& targets = batch.Get(answers[k].tensor);
      for (const int32_t target : targets.ToVector<int32_t>()) {
        if (target != answers[k].padding) ++counts[k][target];
      }
    }
  }
  std::vector<Metric> guess;
  for (size_t k = 0; k < answers.size(); ++k) {
    int64_t all = 0, most = 0;
    for (const auto& [target, count] : counts[k]) {
      all += count;
      most = std::max(most, count);
    }
    if (all > 0) guess.push_back({answers[k].metric, static_cast<double>(most) / static_cast<double>(all)});
  }
  return guess;
}

namespace {

class PrefetchingBatches : public BatchSource {
 public:
  PrefetchingBatches(std::unique_ptr<BatchSource> source, std::vector<int64_t> parts, int64_t depth)
      : source_(std::move(source)), parts_(std::move(parts)), depth_(depth) {
    CROSSTALK_CHECK(depth >= 1, "prefetching batches: ", depth, " ahead; there must be at least 1");
    ready_.reserve(static_cast<size_t>(depth));
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      // The system has no thread to give: each batch is made when it is asked for.
    }
  }

  ~PrefetchingBatches() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  Batch Get(int64_t step, int64_t part) override {
    const auto place = std::lower_bound(parts_.begin(), parts_.end(), part);
    CROSSTALK_CHECK(step >= 0 && place != parts_.end() && *place == part, "batches: step ", step, ", part ", part,
                    ", which is not made ahead");
    if (!thread_.joinable()) return source_->Get(step, part);
    const int64_t wanted = step * std::ssize(parts_) + (place - parts_.begin());
    std::unique_lock<std::mutex> lock(mutex_);
    if (wanted != next_taken_) {  // a jump, the first call of a resumed run for one
      ready_.clear();
      next_taken_ = next_made_ = wanted;
      ++jumps_;
    }
    const bool make_here = ready_.empty() && !making_;  // sooner done than asked for
    if (make_here) Make(lock);
    changed_.wait(lock, [this] { return !ready_.empty(); });
    Item item = std::move(ready_.front());
    ready_.erase(ready_.begin());
    ++next_taken_;
    // The thread is woken once for several batches: to wake it takes longer than to make a small one.
    const bool refill = 4 * std::ssize(ready_) <= depth_ && (!std::exchange(filling_, true) || make_here);
    lock.unlock();
    if (refill) changed_.notify_all();
    if (item.exception) std::rethrow_exception(item.exception);
    return std::move(item.batch);
  }

 private:
  struct Item {
    Batch batch;
    std::exception_ptr exception;
  };

  // Makes the next one, without the lock meanwhile.
  void Make(std::unique_lock<std::mutex>& lock) {
    const int64_t number = next_made_;
    const int64_t jump = jumps_;
    making_ = true;
    lock.unlock();
    Item item;
    try {
      item.batch = source_->Get(number / std::ssize(parts_), parts_[static_cast<size_t>(number % std::ssize(parts_))]);
    } catch (...) {
      item.exception = std::current_exception();
    }
    lock.lock();
    making_ = false;
    if (jump != jumps_) return;  // nobody waits for it any more
    ready_.push_back(std::move(item));
    ++next_made_;
  }

  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || (filling_ && !making_); });
      if (stopping_) return;
      Make(lock);
      filling_ = std::ssize(ready_) < depth_;
      if (ready_.size() == 1) changed_.notify_all();  // it is awaited, perhaps
    }
  }

  std::unique_ptr<BatchSource> source_;
  std::vector<int64_t> parts_;
  int64_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Item> ready_;  // numbers next_taken_ …; with room for depth_, so that the thread allocates in Get alone
  int64_t next_taken_ = -1;  // step · number of parts + place of the part
  int64_t next_made_ = -1;
  int64_t jumps_ = 0;
  bool making_ = false;   // one, here or on the thread
  bool filling_ = false;  // the thread goes on until there are depth_
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<BatchSource> MakePrefetchingBatches(std::unique_ptr<BatchSource> source, std::vector<int64_t> parts,
                                                    int64_t depth) {
  return std::make_unique<PrefetchingBatches>(std::move(source), std::move(parts), depth);
}

}  // namespace crosstalk
