// What the model of a run is and costs, from its run.json alone: it is built and applied to one example on shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// One layer of a place of attention, on one example of n queries and m memory positions.
struct PlaceCost {
  std::string name;
  AttentionConfig layer;
  int64_t n = 0, m = 0;
  AttentionCost cost;
};

struct ModelCost {
  std::string text;            // "T5, 2 + 2 layers"
  std::string implementation;  // of attention
  std::string example;         // "128 inputs and 29 targets"
  int64_t parameters = 0;
  int64_t forward_multiplications = 0;  // of one example
  std::vector<PlaceCost> places;
};

// `model`: the member of run.json. Error(kData) with `source` for one that is no model's, Error(kResource) for counts
// that no machine holds.
ModelCost CostOfModel(const TrainingConfig& config, const Json& model, const std::string& source);

}  // namespace crosstalk
