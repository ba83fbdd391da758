// A published model as a checkpoint of ours, of step 0, which whatever reads a run or a checkpoint takes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/interop/published_model.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

// The SentencePiece model beside a checkpoint of Mesh TensorFlow.
inline constexpr char kMeshTokenizerName[] = "sentencepiece.model";

// ImportOptions::tokenizer of a model that is to be without one.
inline constexpr char kNoTokenizer[] = "none";

struct ImportOptions {
  std::optional<AttentionKind> attention = {};  // see PublishedModelOptions
  MeshOptions mesh = {};
  std::string tokenizer = {};  // a file or folder as OpenTokenizer takes it, or none; empty: the one in the folder
  StopRequest stop = {};
};

struct ImportResult {
  std::string description;  // "T5, 2 + 2 layers"
  int64_t parameters = 0;
  std::vector<std::string> remarks;  // sentences for the user
};

// Makes the folder `out`, with one checkpoint in it, whole or not at all. Error(kUsage) where `out` holds something
// already, at the beginning or at the end, and for options that the folder has no use for; Error(kData) for a folder
// that cannot be used, and of the field of `mesh` that it needs; Interrupted where `stop` says so.
ImportResult ImportModel(const std::string& path, const std::string& out, const ImportOptions& options);

// The tokenizer of a published model's folder; null, with a remark, where it has none. Error(kData) where it cannot be
// read, or its ids are not the model's.
std::unique_ptr<Tokenizer> PublishedTokenizer(const PublishedFolder& folder, const Model& model,
                                              std::vector<std::string>* remarks);

// An imported checkpoint's copy of the published files; nothing in a checkpoint that is not imported.
struct KeptFile {
  std::string name;
  std::string contents;
};
struct ImportedFiles {
  PublishedRecord record;
  std::vector<KeptFile> files;  // the tokenizer's and others beside the weights
};
std::optional<ImportedFiles> ReadImportedFiles(const Checkpoint& checkpoint);

// A model from whatever holds one: a published folder, an imported model, a run, or a checkpoint.

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
