// Batches of an objective's examples: for training a pure function of (seed, step, part), for evaluation a fixed set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "crosstalk/models/batch.h"
#include "crosstalk/models/metrics.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/op_context.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Where a training loop gets its batches. Get(step, part) always gives the same bits for the same arguments.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual Batch Get(int64_t step, int64_t part) = 0;
};

// A batch's parts, as equal as can be: part p has the rows from ⌊p·batch/parts⌋ on, at most ⌈batch/parts⌉.
constexpr int64_t FirstRowOfPart(int64_t batch, int64_t parts, int64_t p) {
  return static_cast<int64_t>(static_cast<__int128>(p) * batch / parts);
}
constexpr int64_t MostRowsOfPart(int64_t batch, int64_t parts) { return (batch - 1) / parts + 1; }

// A step's batch of `batch` examples, in `parts` parts (1 ≤ parts ≤ batch): its row r is example number step·batch + r.
std::unique_ptr<BatchSource> MakeTrainingBatches(std::shared_ptr<const ExampleSource> examples, int64_t batch,
                                                 int64_t parts);

// A fixed set of held-out examples. If the text has no more than max_examples, all of it once (the last batch may have
// fewer rows), else max_examples spread evenly over it.
class EvaluationBatches {
 public:
  EvaluationBatches(std::shared_ptr<const ExampleSource> examples, int64_t rows, int64_t max_examples);

  int64_t num_examples() const { return num_examples_; }
  int64_t num_batches() const;
  Batch Get(int64_t index) const;  // of at most `rows` rows, 0 ≤ index < num_batches()
  // Nats a target that no model can undercut on this set; nothing where the text does not know. Interrupted where
  // `stop`, which is asked between batches, says so.
  std::optional<double> EntropyBound(const StopRequest& stop = {}) const;
  // For each accuracy of the objective, that of the one answer that is right most often on this set: what a model must
  // beat to have learnt anything. Interrupted where `stop` says so.
  std::vector<Metric> ConstantGuess(const StopRequest& stop = {}) const;

 private:
  int64_t PlaceOf(int64_t example) const;

  std::shared_ptr<const ExampleSource> examples_;
  int64_t rows_;
  int64_t num_examples_;
};

// Batches made ahead on a thread of their own, so that a step does not wait for its text.

// Makes the batches that will be asked for next up to `depth` ahead on one thread, which goes to work when all but a
// quarter of them have been taken: those parts of a step, ascending, in order, and steps in order. The same bits as
// `source`; any order of calls is right, in order is fast. An exception in the thread is rethrown by the Get it belongs
// to. The destructor waits for the batch in hand. Where the system has no thread to give, nothing is made ahead.
std::unique_ptr<BatchSource> MakePrefetchingBatches(std::unique_ptr<BatchSource> source, std::vector<int64_t> parts,
                                                    int64_t depth = 8);

}  // namespace crosstalk
#pragma GCC visibility pop
