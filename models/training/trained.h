// Trained models, read from a run's files or from a checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/record.h"
#include "crosstalk/runtime/safetensors.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct ImportedFiles;

// How much of it is read; each has those before it.
enum class TrainedParts {
  kConfig,
  kTokenizer,
  kModel,
  kOptimizer,
};

enum class TokenizerUse {
  kNeeded,      // Error(kData) if there is none
  kWhereThere,  // null if there is none, as an imported or a published model may have none
  kNone,        // it is not read
};

// A run's checkpoint, where a run's folder is read.
enum class WhichCheckpoint {
  kNewest,
  kBest,
  kDefault,  // the best of a run on tasks, the newest of any other
  kNone,     // the run has a configuration and a tokenizer beside its checkpoints, and may have no checkpoint yet
};

struct OpenOptions {
  WhichCheckpoint which = WhichCheckpoint::kNewest;
  TrainedParts parts = TrainedParts::kModel;
  TokenizerUse tokenizer = TokenizerUse::kNeeded;
  DType dtype = DType::kFloat32;                               // of the parameters
  std::optional<AttentionImplementation> implementation = {};  // else the model's own
};

struct Trained {
  TrainingConfig config;  // of a published folder as an import of it has it; unset where no tokenizer is read
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Model> model;  // in double, or in the precision that it was trained in
  TensorFile optimizer_state;
  int64_t step = 0;
  std::string checkpoint;            // its path, or a published folder's
  std::string weights_checksum;      // of its model.safetensors
  std::string optimizer_checksum;    // of its optimizer.safetensors, if it has one
  bool has_optimizer_state = false;  // as no published model has
  std::vector<std::string> skipped;  // why others were passed over: damaged ones
  // What Open (interop/import.h) adds.
  std::shared_ptr<ImportedFiles> imported;  // of an imported checkpoint or a published folder; else null
  std::vector<std::string> remarks;         // on a published folder's tokenizer: sentences for the user
};

// Reads a run's folder or a checkpoint; Open takes published folders too. Error(kData) if there is neither, no good
// checkpoint, or the files do not fit together; of the field "checkpoint" where the best is damaged, or a damaged one
// may be the best; Error(kUsage) of the field "optimizer_start" where the optimizer's state is to be read and there is
// none. A training may go on in the run meanwhile: where it removes the checkpoint, the one that then is the newest or
// the best is taken.
Trained OpenRun(const std::string& path, const OpenOptions& options = {});

// The files of a checkpoint from which OpenRun reads a model; of one without a tokenizer if that is null.
std::vector<CheckpointFile> ModelFiles(const Model& model, const ResolvedConfig& config, const Tokenizer* tokenizer);

// Keeps a model that no run trains in a folder that OpenRun reads, and makes that if it is missing: as the checkpoint
// of the optimizer's step with its state, or of step 0 where that is null. `config.run.keep` of them stay.
// Error(kUsage) for a model in double, and where the folder holds a run, other files or a later checkpoint, or a
// process trains there; Error(kNumerical) for a parameter that is not finite; Error(kResource) on a full disk. The
// earlier checkpoints stand then.
void SaveModel(const std::string& folder, const Model& model, const ResolvedConfig& config, const Tokenizer* tokenizer,
               const Optimizer* optimizer);

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

  static FieldTable<Origin> Fields();
};

// The record of what was read with LoadOrigin: kCarried: of the optimizer's state too.
Origin OriginOf(const Trained& origin, OptimizerStart start);

// The newest checkpoint of a run's folder, or a checkpoint, as OpenRun reads it. Errors are of the field init_from:
// kUsage where nothing is at the path, kData for what cannot be used.
Trained LoadOrigin(const std::string& path, TrainedParts parts);
// A run's start: the model and, if it is carried over, the optimizer's state.
Trained LoadOrigin(const std::string& path, OptimizerStart start);

// The fields inherited from the origin's configuration (Inherited): all that says what the model is and what it
// learns, except the text. The rest stays.
void TakeModelOf(const TrainingConfig& origin, TrainingConfig& config);

// Those in which a run is as its origin (Inherited::kFixed).
FieldTable<TrainingConfig> FixedFields();

// The origin's tokenizer, unless the configuration asks for another than the origin's did: then null.
std::shared_ptr<const Tokenizer> TokenizerOf(const Trained& origin, const TrainingConfig& config);

// Error(kUsage) of tokenizer unless that is the origin's; of init_from, with the fields that are at fault, unless the
// configuration's model is the origin's, which it is whatever its dropout, mixing_init and implementation.
void CheckModelOf(const Trained& origin, const TrainingConfig& config, const Tokenizer& tokenizer);

// The model of this configuration with the origin's parameters. Of its heads (ModelType::heads), those that the origin
// lacks, or has in another shape, get the initial values of the seed; those that it alone has are left out.
// Error(kData) of init_from that names any other parameter which only one of the two has, or which has another shape
// there.
struct ModelOfOrigin {
  std::unique_ptr<Model> model;
  std::vector<std::string> begun, taken, left_out;  // heads
};
ModelOfOrigin LoadModelOf(const Trained& origin, const ModelConfig& model, uint64_t seed);

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// The content of a run's checkpoints, for the code that writes them and the code that reads them.

inline constexpr char kModelName[] = "model.safetensors";
inline constexpr char kOptimizerName[] = "optimizer.safetensors";
inline constexpr char kConfigName[] = "config.json";
inline constexpr char kStateName[] = "state.json";

// A checkpoint's config.json.
struct CheckpointConfig {
  TrainingConfig training;
  Json model;
  std::string fingerprint;            // of the data; empty: the model is an imported one
  std::optional<Origin> origin = {};  // where training.init_from names one
  std::string version = Version();

  static FieldTable<CheckpointConfig> Fields();
  void Validate() const;
};
CheckpointConfig ReadCheckpointConfig(const Checkpoint& checkpoint);

// Its state.json.
struct CheckpointState {
  int64_t step = 0;
  std::optional<RunEvaluation> evaluation = {};  // the newest one

  static FieldTable<CheckpointState> Fields() {
    return {{"step", &CheckpointState::step}, {"evaluation", &CheckpointState::evaluation}};
  }
  void Validate() const {
    CROSSTALK_CHECK_FIELD(!evaluation || evaluation->step <= step, "evaluation.step", "is more than ", step);
  }
  static constexpr UnknownKeys kUnknownKeys = UnknownKeys::kPassedOver;
};

// The path of the tokenizer in a checkpoint. Error(kData) if it has none.
std::string TokenizerPath(const Checkpoint& checkpoint);

// One line each, to follow a colon.
std::string Lines(const std::vector<std::string>& lines);
std::vector<std::string> ReasonsOf(const std::vector<SkippedCheckpoint>& skipped);

}  // namespace crosstalk
