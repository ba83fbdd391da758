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
#include "crosstalk/runtime/json.h"
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

// The origin of a run that begins with another's weights: what the configuration's init_from names.

// As run.json and the run's checkpoints record it: with the configuration it decides the run's bits.
struct Origin {
  std::string checkpoint;  // its path when the run began
  int64_t step = 0;
  std::string weights;          // the checksum of its model.safetensors
  std::string optimizer_state;  // of its optimizer.safetensors, where the run carries that over; else empty

  // Two origins with the same one give a run the same bits.
  std::string checksums() const { return weights + optimizer_state; }
};
Json ToJson(const Origin& origin);
// Error(kData) with `source`.
Origin OriginFromJson(const Json& json, const std::string& source);

// The record of what was read with LoadOrigin: kCarried: of the optimizer's state too.
Origin OriginOf(const TrainedModel& origin, OptimizerStart start);

// Of a run folder, its newest good checkpoint, or of a checkpoint, read as LoadTrainedModel does. A training may go on
// in the run meanwhile. Errors are of the field init_from: kUsage where nothing is at the path, kData for what cannot
// be used.
TrainedModel LoadOrigin(const std::string& path, TrainedParts parts);
// A run's start: the model and, where it is carried over, the optimizer's state. Error(kUsage) of the
// field optimizer_start where there is none.
TrainedModel LoadOrigin(const std::string& path, OptimizerStart start);
// Configuration and tokenizer of a run that began with an origin, which is not looked at: it may be gone. It has an
// optimizer's state where that was carried over. Error(kData) as of a run.
TrainedModel OutlineOfRun(const std::string& run_folder);

// The fields inherited from the origin's configuration (Inherited): all that says what the model is and what it
// learns, except the text. The rest stays.
void TakeModelOf(const TrainingConfig& origin, TrainingConfig& config);

// Those in which a run is as its origin (Inherited::kFixed).
FieldTable<TrainingConfig> FixedFields();

// The origin's tokenizer, unless the configuration asks for another than the origin's did: then null.
std::shared_ptr<const Tokenizer> TokenizerOf(const TrainedModel& origin, const TrainingConfig& config);

// Error(kUsage) of tokenizer unless that is the origin's; of init_from, with the fields that are at fault, unless the
// configuration's model is the origin's, which it is whatever its dropout, mixing_init and implementation.
void CheckModelOf(const TrainedModel& origin, const TrainingConfig& config, const Tokenizer& tokenizer);

// The model of this configuration with the origin's parameters. Of its heads (ModelType::heads), those that the origin
// lacks, or has in another shape, get the initial values of the seed; those that it alone has are left out.
// Error(kData) of init_from that names any other parameter which only one of the two has, or which has another shape
// there.
struct ModelOfOrigin {
  std::unique_ptr<Model> model;
  std::vector<std::string> begun, taken, left_out;  // heads
};
ModelOfOrigin LoadModelOf(const TrainedModel& origin, const ModelConfig& model, uint64_t seed);

}  // namespace crosstalk

namespace crosstalk {

// The content of a run's checkpoints, for the code that writes them and the code that reads them.

inline constexpr char kModelName[] = "model.safetensors";
inline constexpr char kOptimizerName[] = "optimizer.safetensors";
inline constexpr char kConfigName[] = "config.json";
inline constexpr char kStateName[] = "state.json";

// The members of a checkpoint's config.json, checked.
struct CheckpointConfig {
  TrainingConfig training;
  Json model;
  std::string fingerprint;
  std::optional<Origin> origin;  // where training.init_from names one
};
CheckpointConfig ReadCheckpointConfig(const Checkpoint& checkpoint);

// The path of the tokenizer in a checkpoint. Error(kData) if it has none.
std::string TokenizerPath(const Checkpoint& checkpoint);

// One line each, to follow a colon.
std::string Lines(const std::vector<std::string>& lines);
std::vector<std::string> ReasonsOf(const std::vector<SkippedCheckpoint>& skipped);

}  // namespace crosstalk
