// `crosstalk forward`: a model on a user's own ids, for checking it against any other framework.
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/interop/names.h"
#include "crosstalk/runtime/numpy_file.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/open_model.h"
#include "tools/cli/output.h"

namespace crosstalk {
namespace {

struct ForwardSettings {
  ModelToOpen chosen;
  std::string inputs;
  std::string output;
  std::string precision = "fp32";
  std::optional<AttentionImplementation> implementation;
  bool gradients = false;
  bool all = false;
};

FieldTable<ForwardSettings> ForwardFields() {
  using S = ForwardSettings;
  return Joined(
      FieldsOfPart(ModelToOpenFields(WhichCheckpoint::kNewest), &S::chosen),
      {MakeOption("--inputs,-i", &S::inputs, "FILE", "Tensors to read: safetensors, .npz or .npy.",
                  {.is_path = true, .required = true}),
       MakeOption("--output,-o", &S::output, "FILE", "File to write: .npz, .npy of one result, else safetensors.",
                  {.is_path = true, .required = true}),
       MakeOption("--precision", &S::precision, "",
                  "Arithmetic; float is fp32. bf16: operands of matrix products are rounded to bfloat16. double: also "
                  "the results' type, and by the composed implementation of attention.",
                  {.choices = {"fp32", "bf16", "double", "float"}}),
       MakeOption("--gradients", &S::gradients, "", "Also the gradient of the loss for each parameter."),
       MakeOption("--all", &S::all, "", "Also the results of each layer."),
       MakeOption("--implementation", &S::implementation, "", "Of attention; the model's own by default.")});
}

// A file of inputs may hold the prompts of a generation too, which have rows of their own.
constexpr std::string_view kPromptPrefix = "gen_";

// A file's tensors as a model's inputs; the errors name the file.
std::vector<NamedVariable> Outputs(const Model& model, const TensorFile& file, OutputDetail detail) {
  try {
    Batch batch;
    for (const NamedTensor& tensor : file.tensors) {
      if (!tensor.name.starts_with(kPromptPrefix)) batch.Add(tensor.name, tensor.tensor);
    }
    return model.Outputs(batch, detail, ForwardContext());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    Fail(ErrorKind::kData, file.path, ": ", error.what());
  }
}

// "grad.NAME" of each parameter, in the published layout if there is one: d loss / d parameter, the total where the
// parameter has several names.
void AddGradients(const Trained& trained, const Variable& loss, std::vector<NamedTensor>* results) {
  Backward(loss);
  const int64_t vocabulary = trained.model->config().vocabulary;
  std::optional<PublishedNames> names;
  if (const PublishedForm* const form = FormOf(trained)) names.emplace(*form, &trained.model->config());
  std::vector<NamedTensor> gradients;
  for (const NamedParameter& parameter : trained.model->Parameters()) {
    const Tensor& value = parameter.value.value();
    Tensor gradient = parameter.value.grad();
    if (!gradient.defined()) gradient = Tensor::Zeros(value.shape(), value.dtype());
    std::string name = parameter.name;
    if (names) {
      const PublishedName usual = names->UsualName(parameter.name);
      name = usual.name;
      gradient = ToPublished(gradient, usual.layout, parameter, vocabulary);
    }
    gradients.push_back({"grad." + name, gradient});
  }
  for (NamedTensor& gradient : JoinParts(gradients)) results->push_back(std::move(gradient));
}

template <typename T>
void CheckFinite(const NamedTensor& result) {
  const Tensor dense = result.tensor.Contiguous();
  const T* const values = dense.data<T>();
  for (int64_t i = 0; i < dense.num_elements(); ++i) {
    if (std::isfinite(values[i])) continue;
    Fail(ErrorKind::kNumerical, "result '", result.name, "' has ", values[i], " at place ", i, " of ", dense.shape());
  }
}

int Forward(const ForwardSettings& settings) {
  CheckNotInput("--output", settings.output, settings.inputs);
  CheckOutput("--output", settings.output);
  const Trained trained =
      OpenModel(settings.chosen, {.tokenizer = TokenizerUse::kNone,
                                  .dtype = settings.precision == "double" ? DType::kFloat64 : DType::kFloat32,
                                  .implementation = settings.implementation});
  trained.model->SetPrecision(settings.precision == "bf16" ? Precision::kBFloat16 : Precision::kFloat32);
  const TensorFile inputs = ReadTensors(settings.inputs);
  const OutputDetail detail = settings.all ? OutputDetail::kAll : OutputDetail::kResults;
  std::vector<NamedTensor> results;
  Variable loss;
  {
    const ContextScope recording(&OpContext::recording, settings.gradients);
    for (const NamedVariable& output : Outputs(*trained.model, inputs, detail)) {
      const bool is_loss = output.name == "loss";
      if (is_loss) loss = output.value;
      results.push_back({output.name, is_loss ? output.value.value().Reshape({1}) : output.value.value()});
    }
  }
  if (settings.gradients) {
    CROSSTALK_CHECK(loss.defined(), "--gradients: there is no loss without labels in ", settings.inputs);
    AddGradients(trained, loss, &results);
  }
  for (const NamedTensor& result : results) {
    if (result.tensor.dtype() == DType::kFloat64) CheckFinite<double>(result);
    if (result.tensor.dtype() == DType::kFloat32) CheckFinite<float>(result);
  }
  WriteTensors(settings.output, results);
  PrintMessage("forward: ", trained.model->Describe(), ", ", results.size(), " tensors in ", settings.output);
  return 0;
}

constexpr const char* kForwardDescription =
    "Computes a model on the ids of a file and writes the results, under Hugging Face's names, for "
    "comparison with other frameworks. Nothing is dropped. Brackets are shapes; b is a batch, n and m are lengths:\n"
    "\n"
    "input_ids[b,n] ids, I32 or I64; attention_mask[b,n] 1 or true = attend, all by default\n"
    "BERT, ALBERT: token_type_ids[b,n]; labels[b,n] of masked tokens, or [b] of classes, or F32[b] of a regression; "
    "next_sentence_label[b], sentence_order_label[b]; start_positions[b], end_positions[b]; multiple choice: "
    "[b,choices,n] and labels[b]\n"
    "T5: decoder_input_ids[b,m], by default the labels shifted right; decoder_attention_mask[b,m]; labels[b,m]\n"
    "lm: labels[b,n], each what stands at its position; position_ids[b,n], by default 0, 1, 2, …\n"
    "gen_NAME, prompts of a generation, are ignored\n"
    "labels of -100 are ignored; the loss is the mean over the others; several losses are summed\n"
    "\n"
    "Results, as far as the model has them: logits, prediction_logits, seq_relationship_logits, sop_logits, "
    "start_logits, end_logits, pooler_output, last_hidden_state, encoder_last_hidden_state, "
    "decoder_last_hidden_state, loss[1]; with --all hidden_states.I and attentions.I[b,heads,n,m] (T5: encoder_…, "
    "decoder_… and cross_attentions.I); with --gradients grad.NAME of each parameter by its published name and in its "
    "layout. A file whose tensors the model cannot read is refused with exit code 3; a result that is not finite with "
    "exit code 4.";

}  // namespace

Command ForwardCommand() {
  return {"forward", "a model on your own ids, for checking against other frameworks", kForwardDescription,
          OptionsOf(ForwardFields, Forward, Computes::kYes)};
}

}  // namespace crosstalk
