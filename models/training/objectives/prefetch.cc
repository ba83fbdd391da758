#include "crosstalk/models/training/objectives/prefetch.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"

namespace crosstalk {
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
    changed_.notify_all();
    changed_.wait(lock, [this] { return !ready_.empty(); });
    Item item = std::move(ready_.front());
    ready_.erase(ready_.begin());
    ++next_taken_;
    changed_.notify_all();
    lock.unlock();
    if (item.exception) std::rethrow_exception(item.exception);
    return std::move(item.batch);
  }

 private:
  struct Item {
    Batch batch;
    std::exception_ptr exception;
  };

  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock,
                    [this] { return stopping_ || (next_made_ >= 0 && static_cast<int64_t>(ready_.size()) < depth_); });
      if (stopping_) return;
      const int64_t number = next_made_;
      const int64_t jump = jumps_;
      lock.unlock();
      Item item;
      try {
        item.batch =
            source_->Get(number / std::ssize(parts_), parts_[static_cast<size_t>(number % std::ssize(parts_))]);
      } catch (...) {
        item.exception = std::current_exception();
      }
      lock.lock();
      if (jump != jumps_) continue;  // nobody waits for it any more
      ready_.push_back(std::move(item));
      ++next_made_;
      changed_.notify_all();
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
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<BatchSource> MakePrefetchingBatches(std::unique_ptr<BatchSource> source, std::vector<int64_t> parts,
                                                    int64_t depth) {
  return std::make_unique<PrefetchingBatches>(std::move(source), std::move(parts), depth);
}

}  // namespace crosstalk
