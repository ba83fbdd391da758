// The origin of a run that begins with another's weights: what the configuration's init_from names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/trained_model.h"
#include "crosstalk/runtime/json.h"
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

// The fields inherited from the origin's configuration: all that says what the model is and what it learns, except the
// text. The rest stays.
void TakeModelOf(const TrainingConfig& origin, TrainingConfig& config);

// The fields of the model in which a run is as its origin.
FieldTable<TrainingConfig> ModelFieldsThatBind();

// The origin's tokenizer, unless the configuration asks for another than the origin's did: then null.
std::shared_ptr<const Tokenizer> TokenizerOf(const TrainedModel& origin, const TrainingConfig& config);

// Error(kUsage) of tokenizer unless that is the origin's; of init_from, with the fields that are at fault, unless the
// configuration's model is the origin's, which it is whatever its dropout, mixing_init and implementation.
void CheckModelOf(const TrainedModel& origin, const TrainingConfig& config, const Tokenizer& tokenizer);

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
ModelOfOrigin LoadModelOf(const TrainedModel& origin, const ModelConfig& model, uint64_t seed);

}  // namespace crosstalk
