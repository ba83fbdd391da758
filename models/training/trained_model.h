// Trained models, read from a run's files or from a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// How much of it is read; each has those before it.
enum class TrainedParts {
  kConfig,
  kTokenizer,
  kModel,
  kOptimizer,
};

struct TrainedOptions {
  TrainedParts parts = TrainedParts::kModel;
  bool tokenizer_may_be_missing = false;                       // as that of an imported model may; else Error(kData)
  DType dtype = DType::kFloat32;                               // of the parameters
  std::optional<AttentionImplementation> implementation = {};  // else the model's own
};

struct TrainedModel {
  TrainingConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Model> model;  // computes in the precision that it was trained in
  TensorFile optimizer_state;
  int64_t step = 0;
  std::string checkpoint;            // its path
  std::string weights_checksum;      // of its model.safetensors
  std::string optimizer_checksum;    // of its optimizer.safetensors, where it has one
  bool has_optimizer_state = false;  // as no published model has
  std::vector<std::string> skipped;  // why others were passed over: damaged ones
};
enum class WhichCheckpoint { kNewest, kBest };
// Error(kData) if there is no run, no good checkpoint, or the files do not fit together; of the field "checkpoint"
// where the best is damaged, or a damaged one may be the best. A training may go on in the run meanwhile: where it
// removes the checkpoint, the one that then is the newest or the best is taken.
TrainedModel LoadTrainedModel(const std::string& run_folder, WhichCheckpoint which, const TrainedOptions& options = {});
TrainedModel LoadTrainedModel(const Checkpoint& checkpoint, const TrainedOptions& options = {});

// Calls use(checkpoint) with the one that is meant, and where a training removes that meanwhile, with the one that then
// is. Why others were passed over is the result: damaged ones. Error(kData) where there is no run or none is good.
std::vector<std::string> UseCheckpoint(const std::string& run_folder, WhichCheckpoint which,
                                       const std::function<void(const Checkpoint& checkpoint)>& use);

// The configuration of a run, from its run.json, or where that is lost from its newest good checkpoint.
TrainingConfig ReadRunConfig(const RunFolder& folder);
}  // namespace crosstalk
