// TrainingInMemory: what a configuration trains, without a run's folder: its model at the first values, its optimizer,
// its batches, and the loop over them.
//
//   const TrainingData data = OpenTrainingData(*config);
//   TrainingInMemory training(*config, data);
//   training.loop().Train(100);
#pragma once

#include <memory>

#include "crosstalk/models/model.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/models/training/ranks/rank_session.h"
#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/nn/optim/optimizer.h"

namespace crosstalk {

class TrainingInMemory {
 public:
  // On rank 0 of `ranks`, with those that serve it, or where that is null by itself. Refers to both. Errors of
  // RankLeader.
  TrainingInMemory(const ResolvedConfig& config, const TrainingData& data, RankGroup* ranks);
  // `config` is resolved. Refers to `data`.
  TrainingInMemory(const TrainingConfig& config, const TrainingData& data)
      : TrainingInMemory(config, data, VocabularyOf(config, data.tokenizer.get()),
                         MakeLoopOptions(config.optimization)) {}
  // With another vocabulary than that of the data's tokenizer, as long as it has all its ids.
  TrainingInMemory(const TrainingConfig& config, const TrainingData& data, const Vocabulary& vocabulary,
                   const LoopOptions& options);

  const Model& model() const { return *model_; }
  Loop& loop() { return loop_; }

 private:
  GradientReducer& reducer();

  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  LocalReducer alone_;
  std::unique_ptr<RankLeader> ranks_;  // null: this process alone
  std::unique_ptr<BatchSource> batches_;
  Loop loop_;
};

}  // namespace crosstalk
