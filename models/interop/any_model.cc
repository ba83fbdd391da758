#include "crosstalk/models/interop/any_model.h"

#include <utility>

#include "crosstalk/models/interop/published_folder.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/checkpoint_config.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/trained_model.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

AnyModel FromCheckpoint(const Checkpoint& checkpoint, const AnyModelOptions& options) {
  TrainedModel trained = LoadTrainedModel(
      checkpoint, {.tokenizer_may_be_missing = true, .dtype = options.dtype, .implementation = options.implementation});
  AnyModel any;
  any.model = std::move(trained.model);
  any.imported = ReadImportedFiles(checkpoint);
  any.form =
      FormOf(any.model->config().model(), any.imported ? any.imported->record.format : PublishedFormat::kHuggingFace);
  any.step = checkpoint.step;
  any.tokenizer = std::move(trained.tokenizer);
  any.source = checkpoint.path;
  return any;
}

AnyModel Load(const std::string& path, const AnyModelOptions& options) {
  AnyModel any;
  if (KindOf(path) == PathKind::kDirectory && RunFolder(path).HoldsRun()) {
    std::vector<std::string> skipped = UseCheckpoint(path, WhichCheckpoint::kNewest, [&](const Checkpoint& checkpoint) {
      any = FromCheckpoint(checkpoint, options);
    });
    any.skipped = std::move(skipped);
    return any;
  }
  if (HasManifest(path)) {
    return FromCheckpoint(VerifyCheckpoint(path), options);
  }
  if (!IsPublished(path)) {
    Fail(ErrorKind::kData, path,
         ": holds no run, no checkpoint and no published model (no run.json, no manifest.json, ",
         "no config.json and no index of a TensorFlow checkpoint)");
  }
  const std::unique_ptr<PublishedFolder> folder = OpenPublishedFolder(path);
  PublishedModel published =
      LoadPublishedModel(*folder, {.dtype = options.dtype, .implementation = options.implementation});
  any.model = std::move(published.model);
  any.form = published.form;
  any.imported = ImportedFiles{std::move(published.record), {}};
  any.source = folder->path();
  return any;
}

}  // namespace

AnyModel LoadAnyModel(const std::string& path, const AnyModelOptions& options) {
  const bool fused = options.implementation == AttentionImplementation::kFused;
  CROSSTALK_CHECK_FIELD(!fused || options.dtype == DType::kFloat32, "implementation",
                        "fused computes in float32, and not in ", options.dtype, "; composed does");
  AnyModel any = Load(path, options);
  for (const AttentionPlace& place : any.model->AttentionPlaces()) {
    CROSSTALK_CHECK_FIELD(!fused || ImplementationFor(place.config, options.dtype, AttentionOutputs::kOutputOnly) ==
                                        AttentionImplementation::kFused,
                          "implementation", "fused has no kernel for the ", place.name, " of ", any.source,
                          "; composed computes it");
  }
  return any;
}

std::shared_ptr<const Tokenizer> TokenizerOf(const AnyModel& any, const std::string& path,
                                             std::vector<std::string>* remarks) {
  if (any.tokenizer != nullptr || any.form == nullptr || !IsPublished(path)) return any.tokenizer;
  try {
    return PublishedTokenizer(*OpenPublishedFolder(path), *any.model, *any.form, remarks);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    remarks->push_back(StrCat("its tokenizer cannot be read: ", error.what(),
                              "; the model computes on ids, but reads and writes no text"));
    return nullptr;
  }
}

}  // namespace crosstalk
