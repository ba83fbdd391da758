// Trainer: one optimisation step of a T5 as a pure function of (parameters, optimizer state, step, seed), and the
// held-out measure. No files and no loop: those are training_run.h's.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "crosstalk/models/objectives/batches.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/nn/optim/schedule.h"

namespace crosstalk {

struct TrainerOptions {
  ScheduleConfig schedule;
  int64_t micro_batches = 1;  // parts of a step's batch, whose gradients are added up in order
  double clip_norm = 0;       // 0: none
  double z_loss = 1e-4;
  LossDenominator denominator = LossDenominator::kTargetTokens;
  uint64_t seed = 0;  // of dropout
};

struct StepResult {
  int64_t step = 0;   // steps done, this one counted
  double loss = 0;    // what was minimised: z-loss included, over the denominator
  double ln_ppl = 0;  // mean -ln p of the target tokens, before the update
  double learning_rate = 0;
  double gradient_norm = 0;   // before clipping
  int64_t target_tokens = 0;  // that are not padding
  int64_t tokens = 0;         // the same, inputs counted too
  double seconds = 0;         // wall time: the only field that is not reproducible
};

class Trainer {
 public:
  // Refers to its arguments, which must outlive it.
  Trainer(const T5& model, Optimizer& optimizer, BatchSource& batches, const TrainerOptions& options);

  // Steps done: the optimizer's count, which checkpoints keep.
  int64_t step() const { return optimizer_.step(); }

  // One step. A loss or gradient that is not finite throws Error(kNumerical), naming the layer and operation that
  // produced the first such value (the step is computed again to find it); parameters and optimizer state are then as
  // they were before.
  StepResult Step();

 private:
  struct Sums {
    double loss = 0;
    double nll = 0;
  };
  Sums ForwardBackward(const std::vector<Seq2SeqBatch>& batches, double scale) const;
  [[noreturn]] void ExplainNonFinite(const std::vector<Seq2SeqBatch>& batches, double scale, const char* what) const;

  const T5& model_;
  Optimizer& optimizer_;
  BatchSource& batches_;
  TrainerOptions options_;
  std::vector<NamedParameter> parameters_;
};

struct EvaluationResult {
  double ln_ppl = 0;   // mean -ln p over target tokens
  int64_t tokens = 0;  // target tokens that are not padding
  int64_t examples = 0;
  double seconds = 0;
  bool finished = true;  // false: `stop` said so, and the rest is over what had been done
};

// No dropout, no z-loss, nothing recorded. `stop` (may be empty) is asked between batches. Error(kNumerical) if the
// measure is not finite.
EvaluationResult Evaluate(const T5& model, const EvaluationBatches& batches, const std::function<bool()>& stop = {});

}  // namespace crosstalk
