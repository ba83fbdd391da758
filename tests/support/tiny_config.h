// A training that takes a moment, for tests of the library: four steps, measured at every second and saved at each.
#pragma once

#include <string>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/config.h"

namespace crosstalk {

inline ResolvedConfig TinyConfig() {
  TrainingConfig config;
  config.data.tokenizer = "bytes";
  config.model.name = "t5";
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

inline TrainingConfig TinyConfigOf(const std::string& model) {
  TrainingConfig config = *TinyConfig();
  const TrainingConfig plain;
  for (const Field<TrainingConfig>& field : TrainingFields()) {  // the fields of TinyConfig's own model are resolved
    if (std::string(field.options.read_by.key) == "model") field.set(config, field.get(plain));
  }
  config.objective.name.reset();
  config.model.name = model;
  config.model.dropout_rate = 0.1;
  return config;
}

}  // namespace crosstalk
