#include "crosstalk/models/training/training_in_memory.h"

#include "crosstalk/models/registry.h"

namespace crosstalk {

namespace {

std::unique_ptr<Model> FirstModel(const TrainingConfig& config, const Vocabulary& vocabulary) {
  std::unique_ptr<Model> model = MakeModel(*ConfigureModel(config, vocabulary), config.optimization.seed);
  PrepareModel(config.optimization, *model);
  return model;
}

}  // namespace

TrainingInMemory::TrainingInMemory(const TrainingConfig& config, const TrainingData& data, const Vocabulary& vocabulary,
                                   const LoopOptions& options)
    : model_(FirstModel(config, vocabulary)),
      optimizer_(MakeOptimizer(config.optimization, model_->Parameters())),
      reducer_(config.optimization.accumulate),
      batches_(MakeBatches(config, data, reducer_.parts())),
      loop_(*model_, *batches_, *optimizer_, reducer_, options) {}

}  // namespace crosstalk
