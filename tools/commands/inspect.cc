// `crosstalk inspect`: what the heads of a model say to each other: attention maps of a text, and the head projections.
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/inputs.h"
#include "crosstalk/models/inspection/attention_maps.h"
#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/task_results.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/numpy_file.h"
#include "crosstalk/runtime/op_context.h"
#include "tools/cli/command.h"
#include "tools/cli/open_model.h"
#include "tools/cli/output.h"
#include "tools/commands/writing.h"
#include "tools/page/maps.h"
#include "tools/page/mixing.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

// The most bytes of values in a page, which is 5 MB with all that is around them.
constexpr int64_t kMostMapsPageBytes = 4'850'000;

struct InspectSettings {
  ModelToOpen chosen;
  std::optional<std::string> text, second, target;
  std::optional<std::string> out, tensors;
  std::optional<Precision> precision;  // none: that of the run
  int64_t max_tokens = InspectedText().max_tokens;
  int64_t max_heads = MapsOptions().most_heads;
  bool json = false;
};

FieldTable<InspectSettings> InspectFields() {
  using S = InspectSettings;
  return Joined(
      FieldsOfPart(ModelToOpenFields(WhichCheckpoint::kNewest), &S::chosen),
      Grouped<S>("What to look at",
                 {MakeOption("--text", &S::text, "TEXT", "The text that the model reads; - reads standard input."),
                  MakeOption("--second", &S::second, "TEXT", "The second segment of a BERT or an ALBERT."),
                  MakeOption("--target", &S::target, "TEXT",
                             "What a T5's decoder is to write; the model's own answer by default."),
                  MakeOption("--max-tokens", &S::max_tokens, "N",
                             "Tokens of a text, at most; the page grows with their square."),
                  MakeOption("--max-heads", &S::max_heads, "N", "Heads of a layer in the page, at most.",
                             {.range = AtLeast(1)}),
                  PrecisionField(&S::precision)}),
      Grouped<S>(
          "What is written",
          {MakeOption("--out,-o", &S::out, "FILE", "HTML page.", {.is_path = true}),
           MakeOption("--tensors", &S::tensors, "FILE", "File of the maps: .npz, else safetensors.", {.is_path = true}),
           MakeOption("--json", &S::json, "",
                      "The numbers of the head projections as one JSON object on standard output.")}));
}

std::optional<std::string> Utf8(const std::optional<std::string>& text) {
  return text ? std::optional(ReadText(*text)[0].text) : std::nullopt;
}

// The head projections, with what the dynamic ones generate for the text; without a text, of a run, as it began too.
RunMixing MixingFor(const InspectSettings& settings, const Trained& trained, const Batch* inputs) {
  const ModelToOpen& chosen = settings.chosen;
  const std::string& folder = chosen.model.empty() ? chosen.run : chosen.model;
  if (inputs == nullptr && RunFolder(folder).HoldsRun()) return MixingOfRun(folder, trained);
  RunMixing mixing;
  mixing.measured_in = trained.model->precision();
  mixing.current = {trained.checkpoint, MixingOf(*trained.model)};
  if (inputs != nullptr) {
    MeasureDynamicMixing(
        [&](const StopRequest&) { trained.model->Outputs(*inputs, OutputDetail::kResults, ForwardContext()); },
        &mixing.current.layers);
  } else {
    mixing.not_measured = "there is no text to measure it on";
  }
  return mixing;
}

void WritePage(const InspectSettings& settings, const Trained& trained, const AttentionMaps* maps,
               const RunMixing& mixing) {
  Page page(maps == nullptr ? "Head projections" : "Attention maps");
  page.SetLead(StrCat(trained.model->Describe(), ", ", AttentionText(*trained.model), ". From ", trained.checkpoint,
                      ", computed in ", Name(trained.model->precision()), "."));
  const std::string projections = MixingSection(mixing);
  page.AddSection("What mixing does", Paragraph(CrossingText(mixing)));
  if (maps != nullptr) {
    const std::optional<MixedHead> mixed = MostMixedHead(mixing.current.layers);
    const MapsSection section =
        DrawMaps(*maps, {.most_heads = settings.max_heads,
                         .most_bytes = kMostMapsPageBytes - static_cast<int64_t>(projections.size()),
                         .first_module = mixed ? mixing.current.layers[mixed->layer].layer : "",
                         .first_head = mixed ? mixed->head : 0});
    for (const std::string& sentence : section.left_out) PrintMessage("inspect: ", sentence);
    page.AddSection("Maps", section.html);
    page.AddSection("Tokens", TokenLists(*maps));
  }
  const char* const none = maps != nullptr ? "" : "No head of this model talks to another: it has no head projections.";
  page.AddSection("Head projections", projections.empty() ? Paragraph(none) : projections);
  const std::string html = page.Html();
  WriteFileAtomically(*settings.out, html);
  PrintMessage("inspect: ", *settings.out, ", ", BytesText(static_cast<int64_t>(html.size())));
}

int Inspect(const InspectSettings& settings) {
  CROSSTALK_CHECK(settings.out || settings.tensors || settings.json,
                  "--out, --tensors and --json say where to write; give one");
  CROSSTALK_CHECK(settings.text || !settings.tensors, "--tensors needs --text: maps are of a text");
  CROSSTALK_CHECK(settings.text || (!settings.second && !settings.target), "--second and --target belong to a --text");
  CROSSTALK_CHECK(!settings.out || settings.out != settings.tensors, "--out and --tensors both name ", *settings.out);
  if (settings.out) CheckOutput("--out", *settings.out, kPageBegin);
  if (settings.tensors) CheckOutput("--tensors", *settings.tensors);
  const Trained trained = OpenModel(settings.chosen, {.tokenizer = TokenizerUse::kWhereThere});
  // Weights are not rounded: the projections are shown as they were trained.
  if (settings.precision) trained.model->SetPrecision(*settings.precision);
  std::optional<Batch> inputs;
  std::optional<AttentionMaps> maps;
  if (settings.text) {
    inputs = ReadText(*trained.model, trained.tokenizer,
                      {.text = *Utf8(settings.text),
                       .second = Utf8(settings.second),
                       .target = Utf8(settings.target),
                       .max_tokens = settings.max_tokens});
    maps = MapAttention(*trained.model, *trained.tokenizer, *inputs);
  }
  if (settings.tensors) {
    const std::vector<NamedTensor> tensors = TensorsOf(*maps);
    WriteTensors(*settings.tensors, tensors);
    PrintMessage("inspect: ", *settings.tensors, ", ", tensors.size(), " tensors");
  }
  if (!settings.out && !settings.json) return 0;
  const RunMixing mixing = MixingFor(settings, trained, inputs ? &*inputs : nullptr);
  if (settings.out) WritePage(settings, trained, maps ? &*maps : nullptr, mixing);
  if (settings.json) {
    Json json = Json::MakeObject({{"model", trained.checkpoint},
                                  {"precision", Name(trained.model->precision())},
                                  {"projections", ToJson(mixing.current.layers)}});
    if (mixing.initial) json.Set("initial_projections", ToJson(mixing.initial->layers));
    PrintResult(json);
  }
  return 0;
}

constexpr const char* kInspectDescription =
    "Shows what the heads of a model do with a text, and how they are mixed.\n"
    "\n"
    "Of every attention layer the page has J (the dot products, before the heads are mixed), L (the logits after P_l, "
    "bias and mask), W (the weights, after the softmax) and U (after P_w), a map for each head, with the tokens; and "
    "P_l, P_w and P_l·P_w with their determinants, eigenvalues and singular values, what dynamic projections generate, "
    "λ "
    "of differential attention and the filters of Multi-Token Attention. Without --text it has the projections alone, "
    "of a run as they began and as they are. It is one file, which needs no network.\n"
    "\n"
    "Three underscores in a text are a blank: a sentinel to a T5, [MASK] to a BERT or an ALBERT. A T5's decoder writes "
    "--target, in which each blank is the next sentinel, or else the model's own answer.\n"
    "\n"
    "--tensors writes the same maps with all their digits, [heads, n, m]: LAYER.J, LAYER.L (-infinity where masked), "
    "LAYER.W, LAYER.U, as far as the layer has them, the matrices LAYER.R_Xl [n, h_k, h] and so on of dynamic "
    "projections, and the ids, input_ids and decoder_input_ids.";

}  // namespace

Command InspectCommand() {
  return {"inspect", "what the heads say to each other: attention maps of a text, head projections",
          kInspectDescription, OptionsOf(InspectFields, Inspect, Computes::kYes)};
}

}  // namespace crosstalk
