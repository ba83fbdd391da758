// `crosstalk export`: a model of ours as its publishers' framework reads it.
#include "crosstalk/models/interop/export.h"

#include <string>

#include "crosstalk/runtime/atomic_file.h"
#include "tools/cli/command.h"
#include "tools/cli/open_model.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"

namespace crosstalk {
namespace {

struct ExportSettings {
  ModelToOpen chosen;
  std::string out;
  PublishedFormat format = PublishedFormat::kHuggingFace;
  ExportDType dtype = ExportDType::kKeep;
  bool with_extensions = false;
};

FieldTable<ExportSettings> ExportFields() {
  using S = ExportSettings;
  return Joined(
      FieldsOfPart(ModelToOpenFields(WhichCheckpoint::kNewest), &S::chosen),
      {MakeOption("--out,-o", &S::out, "FOLDER", "Folder to make; it must not exist, or be empty.",
                  {.is_path = true, .required = true}),
       MakeOption("--format", &S::format, "",
                  "huggingface: config.json and model.safetensors. mesh: a checkpoint of Mesh TensorFlow, for a T5."),
       MakeOption("--dtype", &S::dtype, "",
                  "Type of the weights. keep: that in which they were imported, where it holds every value, else "
                  "float32. Rounding is to the nearest, ties to even."),
       MakeOption("--with-extensions", &S::with_extensions, "", "Also write the parts without a published form.")});
}

int Export(const ExportSettings& settings) {
  const StopSignals signals;
  CheckNewDirectory(settings.out);
  const Trained trained = OpenModel(settings.chosen, {.tokenizer = TokenizerUse::kWhereThere});
  ExportOptions options;
  options.format = settings.format;
  options.dtype = settings.dtype;
  options.stop = [] { return StopSignals::Received() != 0; };
  options.extensions = settings.with_extensions ? Extensions::kWrite : Extensions::kRefuse;
  const ExportResult result = ExportModel(trained, settings.out, options);
  for (const std::string& remark : result.remarks) PrintMessage("note: ", remark);
  PrintMessage("export: ", trained.model->Describe(), ", ", result.tensors, " tensors of ", trained.checkpoint, ", in ",
               settings.out);
  return 0;
}

constexpr const char* kExportDescription =
    "Writes a model as the folder that Hugging Face's libraries read: config.json, model.safetensors, and the "
    "tokenizer's files. An imported model, or a published one, keeps the names, types and "
    "bytes of its tensors, unless training has changed them.\n"
    "\n"
    "Features without a published form are refused by name: talking heads, dynamic and bilinear attention, tied keys "
    "and values, an explicit scale in T5. --with-extensions writes them too: the tensors as crosstalk.PATH, "
    "in the layouts of model.safetensors of a run, and the model's configuration as the member crosstalk of "
    "config.json. crosstalk import reads them back; other programs ignore them and compute a different function.\n"
    "\n"
    "--format mesh writes a T5 for its authors' framework: checkpoint, model.ckpt-N.index with its file of data, "
    "operative_config.gin, sentencepiece.model. It supports talking heads and dynamic projections too. The files are "
    "read back before the folder appears.";

}  // namespace

Command ExportCommand() {
  return {"export", "a model as a Hugging Face folder or a Mesh TensorFlow checkpoint", kExportDescription,
          OptionsOf(ExportFields, Export, Computes::kNo)};
}

}  // namespace crosstalk
