// `crosstalk attend`: one attention layer on a user's own tensors, for checking against any other framework.
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/numpy_file.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"
#include "tools/commands/attention_file.h"

namespace crosstalk {
namespace {

struct AttendSettings {
  std::string input;
  std::string output;
  std::optional<AttentionImplementation> implementation;
  AttentionConfig layer;
  bool causal = false;
  bool no_weights = false;
  bool allow_non_finite = false;
  std::string precision = "fp32";
};

// Properties of a layer that the tensors do not show.
FieldTable<AttentionConfig> LayerFields() {
  using L = AttentionConfig;
  return {MakeOption("--scale", &L::scale, "S", "Factor on the dot products of queries and keys."),
          MakeOption("--rotary", &L::rotary, "", "Turns queries and keys by their position."),
          MakeOption<L>("--rotary-base", Within(&L::rotary_frequencies, &kernels::RotaryFrequencies::base), "X",
                        "Base of the rotary positions."),
          MakeOption("--depth", &L::depth, "N",
                     "Layers before this one, from which λ_init of differential attention follows.",
                     {.range = {0, 100'000}}),
          MakeOption("--lambda-init", &L::lambda_init, "X", "λ_init itself."),
          MakeOption("--key-sharing", &L::key_sharing, "",
                     "Which of fewer key heads a head reads: consecutive heads one, or pairs of heads a pair."),
          MakeOption("--convolution-keys", &L::convolution_keys, "",
                     "Keys that a convolution reads: on both sides of its own, to the left, or to the right."),
          MakeOption("--mixing-group", &L::mixing_group, "N",
                     "P_l and P_w mix within groups of N heads; 0: all of them.", {.range = {0, 16'777'216}}),
          MakeOption("--window", &L::window, "N",
                     "Beside --causal: query i attends to the positions i - N + 1 … i; 0: to all up to i.",
                     {.range = {0, 16'777'216}}),
          MakeOption("--head-norm", &L::head_norm, "",
                     "RMS norm of each head's output; a norm_gain asks for rms-gain by itself."),
          MakeOption("--head-norm-factor", &L::head_norm_factor, "X",
                     "Factor after that norm; 1 - λ_init by default if there is a λ_init, else 1.")};
}

FieldTable<AttendSettings> AttendFields() {
  using S = AttendSettings;
  return Joined<S>(
      FieldsOfPart(LayerFields(), &S::layer),
      {MakeOption("IN", &S::input, "FILE", "Tensors to read: safetensors, .npz or .npy.",
                  {.is_path = true, .required = true}),
       MakeOption("--output,-o", &S::output, "FILE", "File to write: .npz, .npy of one result, else safetensors.",
                  {.is_path = true, .required = true}),
       MakeOption("--implementation", &S::implementation, "",
                  "fused (one kernel, float only, nothing of size n·m kept; W, which it never holds, then comes from "
                  "the composed one), or composed (the paper's pseudocode in einsum); by default fused in float and "
                  "composed in double."),
       MakeOption("--causal", &S::causal, "", "Query i attends to the positions 0 … i."),
       MakeOption("--no-weights", &S::no_weights, "", "Leave W out of the results."),
       MakeOption("--allow-non-finite", &S::allow_non_finite, "",
                  "Accept NaN and infinity in inputs and results; name the results that have them."),
       MakeOption("--precision", &S::precision, "",
                  "Arithmetic; float is fp32. bf16: operands of matrix products are rounded to bfloat16. double: also "
                  "the results' type.",
                  {.choices = {"fp32", "bf16", "double", "float"}})});
}

int RunAttend(const AttendSettings& settings) {
  AttentionTensorsOptions options;
  options.implementation = settings.implementation;
  options.layer = settings.layer;
  if (settings.causal) options.layer.causality = Causality::kCausal;
  options.dtype = settings.precision == "double" ? DType::kFloat64 : DType::kFloat32;
  options.outputs = settings.no_weights ? AttentionOutputs::kOutputOnly : AttentionOutputs::kWithWeights;
  options.non_finite = settings.allow_non_finite ? NonFinite::kAllow : NonFinite::kRefuse;
  CheckNotInput("--output", settings.output, settings.input);
  CheckOutput("--output", settings.output);
  const ContextScope products(&OpContext::precision,
                              settings.precision == "bf16" ? Precision::kBFloat16 : Precision::kFloat32);
  const AttentionEvaluation evaluation = EvaluateAttention(ReadTensors(settings.input), options);
  WriteTensors(settings.output, evaluation.tensors);
  const bool apart = evaluation.implementation == AttentionImplementation::kFused && !settings.no_weights;
  PrintMessage("attend: computed by the ", Name(evaluation.implementation), " implementation",
               apart ? ", W by the composed one" : "");
  for (const std::string& text : evaluation.non_finite) PrintMessage("attend: ", text);
  return 0;
}

std::string AttendDescription() {
  std::vector<std::string> dynamic;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (IsDynamic(projection)) dynamic.push_back(Join(Split(projection.paper, ' '), ""));
  }
  return StrCat(
      "Computes one attention layer on the tensors of FILE and writes the results to another file. The "
      "tensors decide the kind of attention; brackets are shapes, b is a batch:\n"
      "\n"
      "X[b,n,d_X] queries; M[b,m,d_M] memory (without it M is X: self-attention)\n"
      "P_q[d_X,d_k,h_k] P_k[d_M,d_k,h_k] P_v[d_M,d_v,h_v] P_o[d_Y,d_v,h_v] multi-head; with them, any of\n"
      "P_l[h_k,h] P_w[h,h_v] talking heads: static projections of logits and weights\n",
      Join(dynamic, " "),
      " dynamic projections\n"
      "dw1[d_X,4,4h] qkw[4,4h,4,h] dd[d_X,4,h] dynamically composed heads\n"
      "lambda_q1[d_k] lambda_k1 lambda_q2 lambda_k2 differential attention; P_lambda[d_X,h_v] its second version\n"
      "conv_l[c_q,c_k,h_k] conv_w[c_q,c_k,h] convolutions of logits and of weights; q_norm[d_k] k_norm[d_k] norms\n"
      "norm_gain[d_v] gate[d_v,1 or d_v] gate_bias norm and gate of each head's output; with these P_k and P_v may "
      "have\n"
      "fewer heads, which the others share\n"
      "b_q[d_k,h_k] b_k[d_k,h_k] b_v[d_v,h_v] b_o[d_Y] biases of the four projections: all, all but b_o, or none\n"
      "P[d_X,d_M,h] Q[d_M,d_Y,h] general bilinear, instead of all the others\n"
      "none of these: dot-product attention, where d_X = d_M = d_Y\n"
      "mask[b,n,m] BOOL, true = attend; a query that may attend to nothing gets zeros\n"
      "bias[h,n,m] is added to the logits, after P_l and before the mask\n"
      "dY[b,n,d_Y] is the gradient of Y, and asks for all the others'\n"
      "\n"
      "Results: Y[b,n,d_Y]; W[b,n,m,h], the weights after the softmax; and where dY is given the gradient of every "
      "floating-point input, named d and its name (dX, dP_q, …; dX holds both parts where M is X). Inputs are F32 or "
      "F64; they are converted to --precision, which is also the type of the results. A file whose tensors do not fit "
      "together is refused with exit code 3, a NaN or an infinity in an input or a result with exit code 4 (except a "
      "bias of -infinity, which hides a pair as the mask does).");
}

}  // namespace

Command AttendCommand() {
  return {"attend", "one attention layer on your own tensors", AttendDescription(),
          OptionsOf(AttendFields, RunAttend, Computes::kYes)};
}

}  // namespace crosstalk
