// A model from whatever holds one: a published folder, an imported model, a run, or a checkpoint.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/interop/published_model.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/dtype.h"

namespace crosstalk {

struct AnyModelOptions {
  DType dtype = DType::kFloat32;
  std::optional<AttentionImplementation> implementation = {};  // else the model's own
};

struct AnyModel {
  std::unique_ptr<Model> model;         // in double, or in the precision that it was trained in
  const PublishedForm* form = nullptr;  // null: of this kind nobody publishes models
  std::optional<ImportedFiles> imported;
  std::shared_ptr<const Tokenizer> tokenizer;  // null where there is none
  int64_t step = 0;                            // of the checkpoint
  std::string source;                          // the folder or the checkpoint that it is from
  std::vector<std::string> skipped;            // why newer checkpoints were passed over: damaged ones
};

// Error(kData) where the path holds none of them. Error(kUsage) of the field "implementation" where it is to be the
// fused one, and that does not compute all of the model's layers in the type.
AnyModel LoadAnyModel(const std::string& path, const AnyModelOptions& options);

// The tokenizer of a model of that path, also that of a published folder, which is opened for it; null where there is
// none that can be read here, with the reason in `remarks`. Errors of PublishedTokenizer.
std::shared_ptr<const Tokenizer> TokenizerOf(const AnyModel& any, const std::string& path,
                                             std::vector<std::string>* remarks);

}  // namespace crosstalk
