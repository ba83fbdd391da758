// A model as a folder that its publishers' frameworks read.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/interop/hugging_face.h"
#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/interop/published_model.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/safetensors.h"

namespace crosstalk {

enum class ExportDType { kKeep, kFloat32, kFloat16, kBFloat16 };
template <>
struct EnumNames<ExportDType> {
  static constexpr EnumName<ExportDType> kTable[] = {{ExportDType::kKeep, "keep"},
                                                     {ExportDType::kFloat32, "float32"},
                                                     {ExportDType::kFloat16, "float16"},
                                                     {ExportDType::kBFloat16, "bfloat16"}};
};

// The treatment of parts without a published form.
enum class Extensions { kRefuse, kWrite };

struct ExportOptions {
  PublishedFormat format = PublishedFormat::kHuggingFace;
  // The type of the weights. kKeep: as they were imported if every value is one of that type, else float32.
  ExportDType dtype = ExportDType::kKeep;
  Extensions extensions = Extensions::kRefuse;
  StopRequest stop = {};
};

struct ExportResult {
  int64_t tensors = 0;
  std::vector<std::string> remarks;  // sentences for the user
};

// Makes the folder `out`, whole or not at all. Of a model that was imported in that format config.json, the names of
// the tensors and the tokenizer's files are those that it came with. Error(kUsage) where `out` holds something already,
// where nobody publishes such models, or where the form cannot say something of the model, which is named; Interrupted
// where `stop` says so.
ExportResult ExportModel(const Trained& model, const std::string& out, const ExportOptions& options);

// Parts of the model that the published configuration and tensors cannot express: "encoder_self.mixing = ["P_l"]", a
// line each; none: it can be written.
std::vector<std::string> NotPublishable(const Model& model, const PublishedForm& form);

// The tensors of a model as a published form has them, and what it cannot say of the model.

// The tensors of the files to write, each made when it is read, and which of them in 16 bits.
struct PublishedWeights {
  std::vector<TensorSource> tensors;
  HalfTensors halves;
  std::vector<std::string> widened;  // those that their recorded type does not hold
};

// Those of `record` under its names and in its types, as far as `dtype` keeps these; the others, and all where it is
// null, under their usual names. `any` and `names` must be there as long as the result.
PublishedWeights WeightsOf(const Trained& any, const PublishedRecord* record, const PublishedNames& names,
                           ExportDType dtype);

// The record by which a model imported in that format is written again; null for other models.
const PublishedRecord* RecordOf(const Trained& any, PublishedFormat format);
void AddRemarkOfWidened(const PublishedWeights& weights, ExportResult* result);

// Whether two configurations of a model, as JSON, compute the same in evaluation.
bool SameConfiguration(const Json& ours, const Json& theirs);

// The files of an export: its tokenizer's, and how each is written and read back.

// The tokenizer's files in a format: those that the model came with in it, else those that publish its tokenizer; none,
// with a remark, if it has no published form. Error if it has one that cannot say all of it.
std::vector<KeptFile> TokenizerFiles(const Trained& any, PublishedFormat format, ExportResult* result);

// Whoever reads the folder must read text as the model does: else Error(kFailure).
void CheckWrittenTokenizer(const Trained& any, const PublishedFolder& folder);

// Writes `name` into a folder that messages call `out`.
void WriteExportFile(const std::string& folder, const std::string& out, const std::string& name,
                     const std::string& contents);

}  // namespace crosstalk
