// `crosstalk forward` on published models: equal to the reference implementation. tests/sessions/forward.session has
// the rest.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/runtime/safetensors.h"
#include "tests/support/command_checks.h"
#include "tests/support/parity.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace forward_test {

// In double the two implementations differ by the order of their sums (2e-15 of the largest value here); in float by
// the roundings of some 20 operations in a row (2e-6).
constexpr double kDoubleTolerance = 1e-10;
constexpr double kFloatTolerance = 2e-5;

class ForwardTest : public ::testing::Test {
 protected:
  TensorFile Forward(const std::string& model, const std::string& inputs, const std::vector<std::string>& options) {
    const CommandResult result = Succeeded(
        RunCommand(Joined({"forward", model, "--inputs", inputs, "--output", dir_ / "out.safetensors"}, options)));
    EXPECT_EQ(result.output, "");
    return ReadSafetensors(dir_ / "out.safetensors");
  }

  TempDir dir_;
};

class ForwardParityTest : public ForwardTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string folder_ = ParityFolder(GetParam());
  std::string inputs_ = folder_ + "/inputs.safetensors";
  TensorFile expected_ = ReadSafetensors(folder_ + "/expected.safetensors");
};

INSTANTIATE_TEST_SUITE_P(Models, ForwardParityTest, ::testing::ValuesIn(kParityModels),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ForwardParityTest, EqualsTheReferenceInDouble) {
  const TensorFile got = Forward(folder_, inputs_, {"--precision", "double", "--all", "--gradients"});
  ExpectParity(expected_, got, kDoubleTolerance, ParityTensors::kAll);
  for (const NamedTensor& tensor : got.tensors) EXPECT_EQ(tensor.tensor.dtype(), DType::kFloat64) << tensor.name;
}

TEST_P(ForwardParityTest, EqualsTheReferenceInFloat) {
  for (const char* implementation : {"fused", "composed"}) {
    SCOPED_TRACE(implementation);
    ExpectParity(expected_, Forward(folder_, inputs_, {"--gradients", "--implementation", implementation}),
                 kFloatTolerance, ParityTensors::kResultsAndGradients);
    ExpectParity(expected_, Forward(folder_, inputs_, {"--gradients", "--all", "--implementation", implementation}),
                 kFloatTolerance, ParityTensors::kAll);
  }
}

TEST_P(ForwardParityTest, AnImportedModelGivesTheSameBytes) {
  Succeeded(RunCommand({"import", folder_, "--out", dir_ / "model"}));
  Forward(folder_, inputs_, {"--gradients"});
  const std::string direct = ReadBytes(dir_ / "out.safetensors");
  Forward(dir_ / "model", inputs_, {"--gradients"});
  EXPECT_TRUE(ReadBytes(dir_ / "out.safetensors") == direct);
  Forward(dir_ / "model/checkpoints/step-00000000", inputs_, {"--gradients"});
  EXPECT_TRUE(ReadBytes(dir_ / "out.safetensors") == direct);
}

// P_l = P_w = I is the same function; gradients of the rest too.
TEST_P(ForwardParityTest, HeadsThatTalkAsTheIdentityChangeNothing) {
  for (const char* attention : {"talking", "logits", "weights"}) {
    SCOPED_TRACE(attention);
    const std::string model = dir_ / attention;
    Succeeded(RunCommand({"import", folder_, "--out", model, "--attention", attention}));
    const TensorFile got = Forward(model, inputs_, {"--precision", "double", "--gradients", "--all"});
    ExpectParity(expected_, got, kDoubleTolerance, ParityTensors::kAll);
    const auto has = [&](const std::string& end) {
      for (const NamedTensor& tensor : got.tensors) {
        if (tensor.name.rfind("grad.crosstalk.", 0) == 0 && tensor.name.ends_with(end)) return true;
      }
      return false;
    };
    EXPECT_EQ(has(".P_l"), std::string(attention) != "weights");
    EXPECT_EQ(has(".P_w"), std::string(attention) != "logits");
    ExpectParity(expected_, Forward(model, inputs_, {"--gradients"}), kFloatTolerance,
                 ParityTensors::kResultsAndGradients);
  }
}

// The complete fixtures, and the weights as older releases have them: every name of a tied tensor, and buffers.
TEST_P(ForwardParityTest, AllExpectedValuesAndTheWholeState) {
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr) GTEST_SKIP() << "set CROSSTALK_DATA to the folder of real data";
  const std::string complete = std::string(data) + "/parity/" + GetParam();
  const TensorFile expected = ReadSafetensors(complete + "/expected.safetensors");
  std::string model = complete;
  if (const std::string state = complete + "/state_dict_full.safetensors"; std::filesystem::exists(state)) {
    model = dir_ / "full";
    std::filesystem::create_directory(model);
    std::filesystem::copy_file(folder_ + "/config.json", model + "/config.json");
    std::filesystem::copy_file(state, model + "/model.safetensors");
  }
  ExpectParity(expected, Forward(model, inputs_, {"--precision", "double", "--all", "--gradients"}), kDoubleTolerance,
               ParityTensors::kAll);
  ExpectParity(expected, Forward(model, inputs_, {"--gradients"}), kFloatTolerance,
               ParityTensors::kResultsAndGradients);
}

// The same without labels, in other types, and with the labels alone where the decoder's ids follow from them.
TEST_F(ForwardTest, InputsMayBeOfEitherIntegerTypeAndTheMaskOfAny) {
  const std::string folder = ParityFolder("t5_relu_tied");
  const TensorFile file = ReadSafetensors(folder + "/inputs.safetensors");
  const TensorFile all = Forward(folder, folder + "/inputs.safetensors", {});
  const auto forward = [&](std::vector<NamedTensor> tensors) {
    WriteSafetensors(dir_ / "in.safetensors", tensors);
    return Forward(folder, dir_ / "in.safetensors", {});
  };
  const auto same = [&](const TensorFile& got, const char* name) {
    const Tensor &a = got.At(name), &b = all.At(name);
    EXPECT_EQ(std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(b.num_elements()) * 4), 0) << name;
  };
  const Tensor ids = file.At("input_ids"), mask = file.At("attention_mask"), labels = file.At("labels");
  // The decoder reads its labels shifted, with padding for those that count nothing.
  for (const DType type : {DType::kBool, DType::kFloat32, DType::kInt32}) {
    const TensorFile got =
        forward({{"input_ids", ids.To(DType::kInt32)}, {"attention_mask", mask.To(type)}, {"labels", labels}});
    for (const char* name : {"logits", "loss"}) same(got, name);
  }
  const TensorFile unlabelled =
      forward({{"input_ids", ids}, {"attention_mask", mask}, {"decoder_input_ids", file.At("decoder_input_ids")}});
  same(unlabelled, "logits");
  EXPECT_EQ(unlabelled.Find("loss"), nullptr);
}

TEST_F(ForwardTest, AResultThatIsNotFiniteHasItsExitCode) {
  std::filesystem::copy(ParityFolder("t5_relu_tied"), dir_ / "huge");
  TensorFile weights = ReadSafetensors(dir_ / "huge/model.safetensors");
  for (NamedTensor& tensor : weights.tensors) {
    if (tensor.name == "decoder.final_layer_norm.weight") tensor.tensor.Fill(1e38);
  }
  std::filesystem::remove(dir_ / "huge/model.safetensors");
  WriteSafetensors(dir_ / "huge/model.safetensors", weights.tensors);
  const Tensor ids = Tensor::Full({1, 3}, 5, DType::kInt64);
  WriteSafetensors(dir_ / "in.safetensors", std::vector<NamedTensor>{{"input_ids", ids}, {"labels", ids}});
  ExpectExit(RunCommand({"forward", dir_ / "huge", "--inputs", dir_ / "in.safetensors", "--output", dir_ / "out"}), 4);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
}

}  // namespace forward_test
}  // namespace crosstalk
