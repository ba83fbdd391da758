// `crosstalk import`: a published model as one of ours.
#include "crosstalk/models/interop/import.h"

#include <string>

#include "crosstalk/runtime/text.h"
#include "tools/command.h"
#include "tools/format.h"
#include "tools/output.h"
#include "tools/signals.h"

namespace crosstalk {
namespace {

struct ImportSettings {
  std::string folder;
  std::string out;
  std::string attention = "multihead";
};

FieldTable<ImportSettings> ImportFields() {
  using S = ImportSettings;
  return {
      MakeOption("FOLDER", &S::folder, "FOLDER", "The published model's folder.", {.required = true}),
      MakeOption("--out,-o", &S::out, "MODEL", "Folder to make; it must not be there, or be empty.",
                 {.required = true}),
      MakeOption("--attention", &S::attention, "",
                 "Adds P_l and P_w, P_l, or P_w as the identity to every layer: the same function, to finetune from.",
                 {.choices = {"multihead", "talking", "logits", "weights"}})};
}

int Import(const ImportSettings& settings) {
  const StopSignals signals;
  ImportOptions options;
  options.stop = [] { return StopSignals::Received() != 0; };
  if (settings.attention != "multihead") {
    options.attention = ParseName<AttentionKind>("attention", settings.attention);
  }
  const ImportResult result = ImportModel(settings.folder, settings.out, options);
  for (const std::string& remark : result.remarks) PrintMessage("note: ", remark);
  PrintMessage("import: ", result.description, ", ", result.parameters, " parameters, in ", settings.out);
  return 0;
}

constexpr const char* kImportDescription =
    "Reads the folder of a published model as Hugging Face's libraries write it (T5, BERT, ALBERT): config.json; "
    "model.safetensors, or several with their index, of F32, F16 or BF16; the tokenizer's files. Writes a folder that "
    "every other command takes as a run: eval, generate, forward, export, train --init-from. Names, shapes and numbers "
    "of "
    "config.json are checked against the tensors; what the model here cannot compute is refused by name (exit code "
    "3).\n"
    "\n"
    "crosstalk export writes the same tensors back, byte for byte.";

}  // namespace

Command ImportCommand() {
  return {"import", "a published model (a Hugging Face folder) as one of ours", kImportDescription,
          OptionsOf(ImportFields, Import, Computes::kNo)};
}

}  // namespace crosstalk
