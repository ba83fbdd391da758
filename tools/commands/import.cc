// `crosstalk import`: a published model as one of ours.
#include "crosstalk/models/interop/import.h"

#include <string>
#include <vector>

#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"

namespace crosstalk {
namespace {

struct ImportSettings {
  std::string folder;
  std::string out;
  std::vector<AttentionKind> attention = {AttentionKind::kMultihead};
  MixingInit mixing_init = MixingInit::kIdentity;
  MeshOptions mesh;
  std::string tokenizer;
};

FieldTable<ImportSettings> ImportFields() {
  using S = ImportSettings;
  return {
      MakeOption("FOLDER", &S::folder, "FOLDER",
                 "The published model's folder; or of a checkpoint of TensorFlow its path up to .index.",
                 {.is_path = true, .required = true}),
      MakeOption("--out,-o", &S::out, "MODEL", "Folder to make; it must not exist, or be empty.",
                 {.is_path = true, .required = true}),
      MakeOption("--attention", &S::attention, "LIST",
                 "Kind of attention that the layers continue as, with the parameters that leave their function as it "
                 "is, to train on from: not bilinear and diff-v1, which have none. Several: a repeating list, in each "
                 "stack of t5."),
      MakeOption("--mixing-init", &S::mixing_init, "",
                 "How what --attention adds begins. random: as in a new layer, with which the function is another."),
      MakeOption("--tokenizer", &S::tokenizer, "PATH",
                 "The model's tokenizer, a file or a folder with one, or none. By default the one in FOLDER.",
                 {.is_path = true, .not_paths = {kNoTokenizer}}),
      MakeOption<S>(
          "--feed-forward", [](auto& s) -> auto& { return s.mesh.feed_forward; }, "",
          "Of a checkpoint of Mesh TensorFlow whose operative_config.gin does not say it: relu in T5 1.0, "
          "gated-gelu in T5 1.1 and in those with talking heads."),
      MakeOption<S>(
          "--dynamic", [](auto& s) -> auto& { return s.mesh.dynamic; }, "LIST",
          "The same: which dynamic projections there are, of Xl, Ml, Xw and Mw. Shapes say it if there are "
          "none, or two on a side."),
      MakeOption<S>("--vocabulary", [](auto& s) -> auto& { return s.mesh.vocabulary; }, "N",
                    "The same: ids of the vocabulary, if the embedding has padding rows. By default every row is an "
                    "id, as in the authors' code.",
                    {.range = {2, 1 << 24}})};
}

int Import(const ImportSettings& settings) {
  const StopSignals signals;
  ImportOptions options;
  options.stop = [] { return StopSignals::Received() != 0; };
  if (settings.attention != ImportSettings().attention) options.attention = settings.attention;
  options.mixing_init = settings.mixing_init;
  CROSSTALK_CHECK_FIELD(!options.attention.empty() || options.mixing_init == ImportSettings().mixing_init,
                        "mixing_init", "is of what ", FieldName{"attention"}, " adds, which is not given");
  options.mesh = settings.mesh;
  options.tokenizer = settings.tokenizer;
  const ImportResult result = ImportModel(settings.folder, settings.out, options);
  for (const std::string& remark : result.remarks) PrintMessage("note: ", remark);
  PrintMessage("import: ", result.description, ", ", result.parameters, " parameters, in ", settings.out);
  if (result.difference) {
    std::vector<std::string> names;
    for (const AttentionKind kind : settings.attention) names.emplace_back(Name(kind));
    PrintMessage("import: ", Join(names, ", "), " attention: largest difference from the folder's own logits ",
                 result.difference->composed, " composed, ", result.difference->fused, " fused",
                 result.difference->fused == result.difference->composed ? "" : ", which adds in another order");
  }
  return 0;
}

constexpr const char* kImportDescription =
    "Reads the folder of a published model as Hugging Face's libraries write it (T5, BERT, GPT-2, Llama and "
    "relatives): config.json; "
    "model.safetensors, or several with their index, of F32, F16 or BF16; the tokenizer's files. Or a T5 as its "
    "authors "
    "released it, a checkpoint of Mesh TensorFlow: checkpoint, model.ckpt-N.index and its files of data, of float32 or "
    "bfloat16; operative_config.gin; sentencepiece.model. With talking heads, T5 1.0 and T5 1.1. Writes a folder that "
    "every other command takes as a run: eval, generate, forward, export, train --init-from. Names, shapes and numbers "
    "of the configuration are checked against the tensors; unsupported features are refused by name (exit code 3).\n"
    "\n"
    "crosstalk export writes the same tensors back, byte for byte.";

}  // namespace

Command ImportCommand() {
  return {"import", "a published model (Hugging Face's or Mesh TensorFlow's) as one of ours", kImportDescription,
          OptionsOf(ImportFields, Import, Computes::kNo)};
}

}  // namespace crosstalk
