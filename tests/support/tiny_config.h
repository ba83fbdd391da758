// A training that takes a moment, for tests of the library: four steps, measured at every second and saved at each.
#pragma once

#include "crosstalk/models/training/config.h"

namespace crosstalk {

inline ResolvedConfig TinyConfig() {
  TrainingConfig config;
  config.data.tokenizer = "bytes";
  config.model.d_model = 16;
  config.model.attention.heads = 2;
  config.model.d_ff = 24;
  config.model.layers = 1;
  config.objective.input_length = 16;
  config.optimization.batch = 4;
  config.optimization.steps = 4;
  config.run.eval_every = 2;
  config.run.eval_batches = 1;
  config.run.checkpoint_every = 1;
  config.run.keep = 1;
  return ResolvedConfig(config);
}

}  // namespace crosstalk
