#include "tools/lab/bench/measured_step.h"

#include <algorithm>
#include <memory>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

std::vector<MeasuredStep> MeasureSteps(Loop& loop, const Measuring& measuring) {
  std::vector<MeasuredStep> steps;
  const Stopwatch watch;
  for (int64_t i = -measuring.warm_ups; i < measuring.repetitions; ++i) {
    if (!steps.empty() && watch.seconds() >= measuring.most_seconds) break;
    ThrowIfStopped(measuring.stop);
    const auto trace = measuring.traced ? std::make_shared<Trace>() : nullptr;
    MeasuredStep step;
    {
      const ContextScope traced(&OpContext::trace, trace);
      step.result = loop.Step();
    }
    if (i < 0) continue;
    if (measuring.reducer != nullptr) step.times = measuring.reducer->times();
    if (trace) step.events = trace->Events();
    steps.push_back(std::move(step));
    if (measuring.progress) measuring.progress(i + 1);
  }
  return steps;
}

ResolvedConfig MeasuredConfig(TrainingConfig chosen, int64_t steps) {
  CROSSTALK_CHECK_FIELD(chosen.optimization.init_from.empty(), "init_from", chosen.optimization.init_from,
                        ": a step takes as long with the first weights; leave it out");
  chosen.optimization.steps = std::max(chosen.optimization.steps, steps);
  return ResolvedConfig(chosen);
}

}  // namespace crosstalk
