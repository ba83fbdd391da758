// `crosstalk complexity`: what one attention layer costs, as the paper's tables count it.
#include <functional>
#include <memory>

#include "crosstalk/models/training/config.h"
#include "tools/command.h"
#include "tools/output.h"

namespace crosstalk {
namespace {

struct ComplexitySettings {
  AttentionOptions attention;
  int64_t d_model = 768;
  int64_t n = 512;
  int64_t m = 512;
  bool json = false;
};

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
  return {
      "complexity", "cost of an attention layer: parameters and multiplications",
      "Prints the number of parameters of one attention layer, and of scalar multiplications in its forward pass on "
      "one example, as the pseudocode of \"Talking-Heads Attention\" (2020) counts them: every einsum at its naive "
      "cost, "
      "neither softmax nor scale. X, M and Y all have the width --d-model.",
      [](OptionTable& options) -> std::function<int()> {
        auto settings = std::make_shared<ComplexitySettings>();
        settings->attention.heads = 12;
        options.AddFields(AttentionFields(), settings->attention);
        options.Group("Sizes");
        options.Add("--d-model", &settings->d_model, "N", "Width of the layer's inputs and output.");
        options.Add("--n", &settings->n, "N", "Number of queries.");
        options.Add("--m", &settings->m, "N", "Number of memory positions.");
        options.Group("Output");
        options.AddFlag("--json", &settings->json, "Print {\"parameters\": …, \"multiplications\": …} on one line.");
        return [settings, &options] {
          settings->attention = options.Over(AttentionFields(), settings->attention);
          return RunComplexity(*settings);
        };
      }};
}

}  // namespace crosstalk
