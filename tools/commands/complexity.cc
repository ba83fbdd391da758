// `crosstalk complexity`: what one attention layer costs, as the paper's tables count it.

#include "crosstalk/models/training/config.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"

namespace crosstalk {
namespace {

struct ComplexitySettings {
  AttentionOptions attention = {.heads = 12};
  int64_t d_model = 768;
  int64_t n = 512;
  int64_t m = 512;
  bool json = false;
};

FieldTable<ComplexitySettings> ComplexityFields() {
  using S = ComplexitySettings;
  return Joined(
      FieldsOfPart(AttentionFields(), &S::attention),
      Grouped<S>("Sizes", {MakeOption("--d-model", &S::d_model, "N", "Width of the layer's inputs and output."),
                           MakeOption("--n", &S::n, "N", "Number of queries."),
                           MakeOption("--m", &S::m, "N", "Number of memory positions.")}),
      Grouped<S>("Output", {MakeOption("--json", &S::json, "",
                                       "Print {\"parameters\": …, \"multiplications\": …} on one line.")}));
}

int RunComplexity(const ComplexitySettings& settings) {
  const AttentionConfig config = MakeAttentionConfig(settings.attention, settings.d_model);
  const AttentionCost cost = CostOf(config, settings.n, settings.m);
  if (settings.json) {
    PrintResult(Json::MakeObject({{"parameters", cost.parameters}, {"multiplications", cost.multiplications}}));
  } else {
    PrintResult(StrCat(ToString(config), "\nparameters       ", cost.parameters, "\nmultiplications  ",
                       cost.multiplications, "  (n=", settings.n, ", m=", settings.m,
                       ", forward; the same for the fused and the composed implementation)\n"));
  }
  return 0;
}

}  // namespace

Command ComplexityCommand() {
  return {"complexity", "cost of an attention layer: parameters and multiplications",
          "Prints the number of parameters of one attention layer, and of scalar multiplications in its forward pass "
          "on one example, as the pseudocode of \"Talking-Heads Attention\" (2020) counts them: every einsum at its "
          "naive cost, neither softmax nor scale. X, M and Y all have the width --d-model.",
          OptionsOf(ComplexityFields, RunComplexity, Computes::kNo)};
}

}  // namespace crosstalk
