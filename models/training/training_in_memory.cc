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
      alone_(config.optimization.shards),
      batches_(MakeBatches(config, data, alone_.parts())),
      loop_(*model_, *batches_, *optimizer_, alone_, options) {}

TrainingInMemory::TrainingInMemory(const ResolvedConfig& config, const TrainingData& data, RankGroup* ranks)
    : model_(FirstModel(*config, VocabularyOf(*config, data.tokenizer.get()))),
      optimizer_(MakeOwnOptimizer(*config, *model_, 0, ranks == nullptr ? 1 : ranks->size(), StateTransfer::kNone, {})),
      alone_(config->optimization.shards),
      ranks_(ranks == nullptr ? nullptr
                              : std::make_unique<RankLeader>(*ranks, config, data, *model_, StateTransfer::kNone,
                                                             std::vector<NamedTensor>())),
      batches_(MakeBatches(*config, data, reducer().parts())),
      loop_(*model_, *batches_, *optimizer_, reducer(), MakeLoopOptions(config->optimization)) {}

GradientReducer& TrainingInMemory::reducer() { return ranks_ ? ranks_->reducer() : alone_; }

}  // namespace crosstalk
