#include "crosstalk/nn/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {

void ScheduleConfig::Validate() const {
  CROSSTALK_CHECK_FIELD(std::isfinite(scale) && scale >= 0, "learning_rate", scale, " is not finite, or negative");
  CROSSTALK_CHECK_FIELD(warmup_steps >= 0, "warmup", warmup_steps, " is negative");
  CROSSTALK_CHECK_FIELD(total_steps >= 0, "steps", total_steps, " is negative");
  CROSSTALK_CHECK_FIELD(decay_fraction >= 0 && decay_fraction <= 1, "decay", decay_fraction, " is not between 0 and 1");
  const bool falls_to_final = kind == ScheduleKind::kCosine || kind == ScheduleKind::kPolynomial;
  if (kind == ScheduleKind::kLinear || kind == ScheduleKind::kLinearBert || falls_to_final) {
    const int64_t total = earlier_totals.empty() ? total_steps : earlier_totals[0];
    CROSSTALK_CHECK_FIELD(total > warmup_steps, "warmup", warmup_steps, " is not less than steps = ", total,
                          ", which leaves nothing for the decay");
  }
  CROSSTALK_CHECK_FIELD(final_rate >= 0 && (!falls_to_final || final_rate <= scale), "final_learning_rate", final_rate,
                        " is not between 0 and the learning rate of ", scale);
  CROSSTALK_CHECK_FIELD(std::isfinite(power) && power > 0, "decay_power", power, " is not finite, or not positive");
}

double LearningRate(const ScheduleConfig& config, int64_t step) {
  config.Validate();
  CROSSTALK_CHECK(step >= 0, "schedule: step = ", step, " must not be negative");
  const auto& earlier = config.earlier_totals;
  const auto stage = std::upper_bound(earlier.begin(), earlier.end(), step);
  const int64_t total_steps = stage == earlier.end() ? config.total_steps : *stage;
  if (total_steps > 0) step = std::min(step, total_steps - 1);
  const double t = static_cast<double>(step);
  const double total = static_cast<double>(total_steps);
  const double warmup = static_cast<double>(config.warmup_steps);
  switch (config.kind) {
    case ScheduleKind::kConstant:
      return config.scale;
    case ScheduleKind::kLinear: {
      // Rises to `scale` at step warmup - 1, falls from it at step `warmup` to scale/(T - warmup) at step T - 1.
      if (t < warmup) return config.scale * (t + 1) / warmup;
      return config.scale * (total - t) / (total - warmup);
    }
    case ScheduleKind::kLinearBert:
      return config.scale * (t < warmup ? t / warmup : (total - t) / total);
    case ScheduleKind::kCosine: {
      if (t < warmup) return config.scale * (t + 1) / warmup;
      const double part = (t - warmup) / (total - warmup);
      return config.final_rate + (config.scale - config.final_rate) * 0.5 * (1 + CosPi(part));
    }
    case ScheduleKind::kPolynomial: {
      if (t < warmup) return config.scale * (t + 1) / warmup;
      const double part = (total - t) / (total - warmup);
      return config.final_rate +
             (config.scale - config.final_rate) * (config.power == 1 ? part : Pow(part, config.power));
    }
    case ScheduleKind::kInverseSquareRoot: {
      double rate = config.scale / std::sqrt(std::max({t, warmup, 1.0}));
      const double decay_steps = config.decay_fraction * total;
      if (decay_steps > 0) rate *= std::min(1.0, (total - t) / decay_steps);
      return rate;
    }
  }
  Fail(ErrorKind::kUsage, "schedule: unknown kind");
}

}  // namespace crosstalk
