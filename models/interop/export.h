// A model as a folder that its publishers' frameworks read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/interop/any_model.h"
#include "crosstalk/models/interop/published_form.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/op_context.h"

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
  // Of the weights. kKeep: as they were imported where every value is one of that type, else float32.
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
ExportResult ExportModel(const AnyModel& model, const std::string& out, const ExportOptions& options);

// Parts of the model that the published configuration and tensors cannot express: "encoder_self.mixing = ["P_l"]", a
// line each; none: it can be written.
std::vector<std::string> NotPublishable(const Model& model, const PublishedForm& form);

}  // namespace crosstalk
