// A training that takes a moment, for tests of the library: four steps, measured at every second and saved at each.
#pragma once

#include "crosstalk/models/training/config.h"

namespace crosstalk {

inline ResolvedConfig TinyConfig() {
  TrainingConfig config;
  config.tokenizer = "bytes";
  config.d_model = 16;
  config.attention.heads = 2;
  config.d_ff = 24;
  config.layers = 1;
  config.input_length = 16;
  config.batch = 4;
  config.steps = 4;
  config.eval_every = 2;
  config.eval_batches = 1;
  config.checkpoint_every = 1;
  config.keep = 1;
  return ResolvedConfig(config);
}

}  // namespace crosstalk
