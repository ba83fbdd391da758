// A published model as a checkpoint of ours, of step 0, which whatever reads a run or a checkpoint takes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/interop/published_model.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

// The SentencePiece model beside a checkpoint of Mesh TensorFlow.
inline constexpr char kMeshTokenizerName[] = "sentencepiece.model";

// ImportOptions::tokenizer of a model that is to be without one.
inline constexpr char kNoTokenizer[] = "none";

struct ImportOptions {
  std::vector<AttentionKind> attention = {};  // see PublishedModelOptions
  MixingInit mixing_init = MixingInit::kIdentity;
  MeshOptions mesh = {};
  std::string tokenizer = {};  // a file or folder as OpenTokenizer takes it, or none; empty: the one in the folder
  StopRequest stop = {};
};

// The largest difference of a logit (of a last state in a model without logits) between the folder's own function and
// the imported model's, on two rows of ids that are always the same, by both implementations of attention. The fused
// one divides by the sum of a softmax after the sum over the values unless the weights are mixed.
struct ContinuedDifference {
  double composed = 0;
  double fused = 0;
};

struct ImportResult {
  std::string description;  // "T5, 2 + 2 layers"
  int64_t parameters = 0;
  std::optional<ContinuedDifference> difference = {};  // with ImportOptions::attention
  std::vector<std::string> remarks;                    // sentences for the user
};

// Makes the folder `out`, with one checkpoint in it, whole or not at all. Error(kUsage) where `out` holds something
// already, at the beginning or at the end, for options that the folder has no use for, and of the field "attention" for
// a kind that its layers cannot continue as; Error(kData) for a folder
// that cannot be used, and of the field of `mesh` that it needs; Interrupted where `stop` says so.
ImportResult ImportModel(const std::string& path, const std::string& out, const ImportOptions& options);

// The tokenizer of a published model's folder; null, with a remark, if it has none. Error(kData) where it cannot be
// read, or its ids are not the model's.
std::shared_ptr<const Tokenizer> PublishedTokenizer(const PublishedFolder& folder, const Model& model,
                                                    std::vector<std::string>* remarks);

// The published files as an imported checkpoint keeps a copy of them.
struct KeptFile {
  std::string name;
  std::string contents;
};
struct ImportedFiles {
  PublishedRecord record;
  std::vector<KeptFile> files;  // the tokenizer's and others beside the weights
};

// The way in: a trained model from a run, a checkpoint, an imported model, or a published model's folder, which is read
// as an import of it would be. Error(kData) where the path holds none of them, and as of OpenRun; Error(kUsage) of the
// field "implementation" where it is to be the fused one, and that does not compute all of the model's layers in the
// type. A published tokenizer that cannot be read is an error if it is needed, else a remark.
Trained Open(const std::string& path, const OpenOptions& options = {});

// How it is published, in the format that it came in: as it came, else in the first of its kind's forms. Null: nobody
// publishes models of the kind, or it is a language model that came in none of its families' forms.
const PublishedForm* FormOf(const Trained& trained);

// The names of a classification's classes, as a published config.json has them; none where it does not name them.
std::vector<std::string> PublishedClasses(const Trained& trained);

}  // namespace crosstalk
