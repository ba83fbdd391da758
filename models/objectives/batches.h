// Batches of span-corrupted examples: for training a pure function of (seed, step, micro-batch), for evaluation a fixed
// set; and a wrapper that makes them ahead on a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "crosstalk/models/objectives/span_corruption.h"
#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

// kPadId (0) fills the rows.
struct Seq2SeqBatch {
  Tensor inputs;   // int32[b, n]
  Tensor targets;  // int32[b, m]
};

// Target tokens that are not padding, the end token counted.
int64_t CountTargetTokens(const Seq2SeqBatch& batch);

struct BatchOptions {
  int64_t batch_size = 32;    // examples in a micro-batch
  int64_t micro_batches = 1;  // micro-batches in a step
  int64_t input_length = 512;
  uint64_t seed = 0;
  SpanCorruptionOptions corruption;
};

// Where a training loop gets its batches. Get(step, micro_batch) always gives the same bits for the same arguments.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual Seq2SeqBatch Get(int64_t step, int64_t micro_batch) = 0;
};

// Example number (step·micro_batches + micro_batch)·batch_size + row of `source`, corrupted.
std::unique_ptr<BatchSource> MakeTrainingBatches(std::shared_ptr<const TextSource> source,
                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                 const BatchOptions& options);

// Makes the batches that will be asked for next (micro-batches in order, steps in order) up to `depth` ahead on one
// thread. The same bits as `source`; any order of calls is right, in order is fast. An exception in the thread is
// rethrown by the Get it belongs to. The destructor waits for the batch in hand.
std::unique_ptr<BatchSource> MakePrefetchingBatches(std::unique_ptr<BatchSource> source, int64_t micro_batches,
                                                    int64_t depth = 4);

// A lower bound on the negative log-likelihood of an evaluation set, where the corpus knows it (synthetic_corpus.h).
struct EvaluationFloor {
  double nats = 0;            // in all
  int64_t target_tokens = 0;  // real ones, so nats / target_tokens stands beside ln(PPL)
};

// A fixed set of examples of the validation part: the same for every run, whatever its seed. If the part is small, all
// of it once (the last batch may have fewer rows), else max_examples spread evenly over it. options.seed and
// options.micro_batches play no part.
class EvaluationBatches {
 public:
  EvaluationBatches(std::shared_ptr<const TextSource> source, std::shared_ptr<const Tokenizer> tokenizer,
                    const BatchOptions& options, int64_t max_examples);
  ~EvaluationBatches();

  int64_t num_examples() const;
  int64_t num_batches() const;
  Seq2SeqBatch Get(int64_t index) const;  // [≤ batch_size, n], 0 ≤ index < num_batches()
  // Nothing if the source is not the built-in corpus.
  std::optional<EvaluationFloor> Floor() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crosstalk
