// The descendants of talking-heads against tensors that their authors' published code computed in double: values and
// gradients, composed in double, composed and fused in float. The files' names are those of docs/family.md.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/attention_cases.h"

namespace crosstalk {
namespace family_test {

struct FamilyCase {
  std::string file;
  AttentionConfig config;  // its sizes come from the tensors
};

AttentionConfig CausalWithRotary(Rotary rotary, double base) {
  AttentionConfig config;
  config.causality = Causality::kCausal;
  config.rotary = rotary;
  config.rotary_base = base;
  return config;
}

std::vector<FamilyCase> FamilyCases() {
  FamilyCase dcmha = {"dcmha_five_heads", CausalWithRotary(Rotary::kHalves, 500'000)};
  dcmha.config.dynamic_form = DynamicForm::kLowRank;
  FamilyCase v1 = {"diff_v1_depth5", CausalWithRotary(Rotary::kInterleaved, 10'000)};
  v1.config.differential = Differential::kV1;
  v1.config.depth = 5;
  v1.config.head_norm = HeadNorm::kRmsGain;
  FamilyCase v2 = {"diff_v2_grouped", CausalWithRotary(Rotary::kInterleaved, 10'000)};
  v2.config.differential = Differential::kV2;
  FamilyCase mta = {"mta_full", CausalWithRotary(Rotary::kInterleaved, 100'000)};
  mta.config.mixing.P_l = mta.config.mixing.P_w = true;
  mta.config.head_norm = HeadNorm::kRmsGain;
  mta.config.head_gate = HeadGate::kScalar;
  return {dcmha, v1, v2, mta};
}

class FamilyTest : public ::testing::TestWithParam<FamilyCase> {};

// Y and the gradients of all inputs, of sum(Y·G), by the file's names.
std::vector<NamedTensor> ResultsOf(const FamilyCase& given, const TensorFile& file, DType dtype,
                                   AttentionImplementation implementation) {
  AttentionConfig config = given.config;
  config.implementation = implementation;
  Dims dims("family");
  dims.Bind("X[b, n, d_X]", file.At("X").shape());
  std::vector<std::pair<std::string, Variable>> leaves;
  const auto leaf = [&](std::string_view name) {
    leaves.emplace_back(name, Variable(file.At(name).To(dtype), Variable::RequiresGrad::kYes));
    return leaves.back().second;
  };
  const Variable X = leaf("X");
  AttentionParameters parameters;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (file.Find(projection.name()) == nullptr) continue;
    dims.Bind(projection.paper, file.At(projection.name()).shape());
    parameters.*projection.parameter = Permute(leaf(projection.name()), PaperToStorage(projection));
  }
  config.d_X = config.d_M = dims["d_X"];
  config.h_v = file.At("P_o").size(2);
  config.h_k = config.h = file.At("P_q").size(2);
  for (const auto& [name, size] :
       {std::pair("d_k", &AttentionConfig::d_k), {"d_v", &AttentionConfig::d_v}, {"d_Y", &AttentionConfig::d_Y}}) {
    config.*size = dims[name];
  }
  for (const OptionalAttentionDim& dim : kOptionalAttentionDims) {
    if (dim.set != nullptr && dims.Has(dim.name)) config.*dim.set = dims[dim.name];
  }
  config.scale = 1 / std::sqrt(static_cast<double>(config.d_k));

  const AttentionResult result = ComputeAttention(config, parameters, X, X, {});
  EXPECT_EQ(result.implementation, implementation);
  Backward(result.Y, file.At("G").To(dtype));
  std::vector<NamedTensor> results = {{"Y", result.Y.value()}};
  for (const auto& [name, variable] : leaves) results.push_back({"d" + name, variable.grad()});
  return results;
}

void ExpectResults(const FamilyCase& given, DType dtype, AttentionImplementation implementation, double tolerance) {
  const TensorFile file = ReadSafetensors(
      StrCat(std::getenv("CROSSTALK_SOURCE"), "/tests/nn/attention/family/", given.file, ".safetensors"));
  std::set<std::string> compared;
  for (const NamedTensor& result : ResultsOf(given, file, dtype, implementation)) {
    EXPECT_TRUE(CloseTo(ToArray(result.tensor), ToArray(file.At("out." + result.name)), tolerance)) << result.name;
    compared.insert("out." + result.name);
  }
  for (const NamedTensor& tensor : file.tensors) {
    if (tensor.name == "out.Y" || tensor.name.starts_with("out.d")) {
      EXPECT_TRUE(compared.contains(tensor.name)) << tensor.name;
    }
  }
}

TEST_P(FamilyTest, ComposedInDouble) {
  ExpectResults(GetParam(), DType::kFloat64, AttentionImplementation::kComposed, 1e-10);
}
TEST_P(FamilyTest, ComposedInFloat) {
  ExpectResults(GetParam(), DType::kFloat32, AttentionImplementation::kComposed, 2e-5);
}
TEST_P(FamilyTest, FusedInFloat) { ExpectResults(GetParam(), DType::kFloat32, AttentionImplementation::kFused, 2e-5); }

INSTANTIATE_TEST_SUITE_P(Published, FamilyTest, ::testing::ValuesIn(FamilyCases()),
                         [](const auto& info) { return info.param.file; });

}  // namespace family_test
}  // namespace crosstalk
