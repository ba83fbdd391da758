// The origin of a run that begins with another's weights: what the configuration's init_from names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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

struct LoadedOrigin {
  Origin origin;
  TrainingConfig config;
  std::unique_ptr<ModelConfig> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  TensorFile parameters;
  TensorFile optimizer_state;        // where it was asked for
  std::vector<std::string> skipped;  // why newer checkpoints were passed over: damaged ones
};
// From a run folder, its newest good checkpoint, or from a checkpoint, checked as LoadTrainedModel does. A training may
// go on in the run meanwhile.
// Errors are of the field init_from: kUsage where nothing is at the path, kData for what cannot be used.
// kCarried: with its optimizer's state; Error(kUsage) of the field optimizer_start where it has none.
LoadedOrigin LoadOrigin(const std::string& path, OptimizerStart start = OptimizerStart::kFresh);
// Its configuration alone.
TrainingConfig ReadOriginConfig(const std::string& path);

// What decides the configuration of a run, without the weights.
struct OriginOutline {
  TrainingConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
  bool has_optimizer_state = false;
};
OriginOutline ReadOriginOutline(const std::string& path);
// The same from a run that began with an origin, which is not looked at: it may be gone. Error(kData) as of a run.
OriginOutline OutlineOfRun(const std::string& run_folder);

// What a run takes over of its origin's configuration: all that says what the model is and what it learns, but for the
// text. The rest stays.
void TakeModelOf(const TrainingConfig& origin, TrainingConfig& config);

// The fields of the model in which a run is as its origin.
FieldTable<TrainingConfig> ModelFieldsThatBind();

// The origin's tokenizer, unless the configuration asks for another than the origin's did: then null.
std::shared_ptr<const Tokenizer> TokenizerOf(const LoadedOrigin& origin, const TrainingConfig& config);

// Error(kUsage) of tokenizer unless that is the origin's; of init_from, with the fields that are at fault, unless the
// configuration's model is the origin's, which it is whatever its dropout, mixing_init and implementation.
void CheckModelOf(const LoadedOrigin& origin, const TrainingConfig& config, const Tokenizer& tokenizer);

// The configuration of a model under `config` that was `model` under the configuration `before`. What the fields say is
// as they say it; what they do not stays as it was (ModelConfig::KeepFrom).
std::unique_ptr<ModelConfig> ModelUnder(const TrainingConfig& config, const ModelConfig& model,
                                        const TrainingConfig& before, const Vocabulary& vocabulary);

// The model of this configuration with the origin's parameters. Of its heads (ModelType::heads), those that the origin
// lacks, or has in another shape, get the initial values of the seed; those that it alone has are left out.
// Error(kData) of init_from that names any other parameter which only one of the two has, or which has another shape
// there.
struct ModelOfOrigin {
  std::unique_ptr<Model> model;
  std::vector<std::string> begun, taken, left_out;  // heads
};
ModelOfOrigin LoadModelOf(const LoadedOrigin& origin, const ModelConfig& model, uint64_t seed);

}  // namespace crosstalk
