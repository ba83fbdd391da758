// `crosstalk forward` on published models: equal to the reference implementation, and clear about what it cannot read.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
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

  // The exit code and what it says.
  CommandResult Refused(const std::string& model, const std::vector<NamedTensor>& inputs,
                        const std::vector<std::string>& options = {}) {
    WriteSafetensors(dir_ / "in.safetensors", inputs);
    const CommandResult result = RunCommand(
        Joined({"forward", model, "--inputs", dir_ / "in.safetensors", "--output", dir_ / "out.safetensors"}, options));
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out.safetensors"));
    return result;
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

TEST_F(ForwardTest, InputsThatTheModelCannotReadAreRefusedByName) {
  const Tensor ids = Tensor::Full({2, 7}, 5, DType::kInt64), one = Tensor::Full({2}, 1, DType::kInt64);
  struct Case {
    const char* model;
    std::vector<NamedTensor> inputs;
    std::vector<std::string> words;
  };
  const Case cases[] = {
      {"t5_relu_tied", {{"input_ids", ids}}, {"decoder_input_ids", "missing"}},
      {"t5_relu_tied", {{"labels", ids}}, {"input_ids"}},
      {"t5_relu_tied",
       {{"input_ids", Tensor::Full({2, 7}, 256, DType::kInt64)}, {"labels", ids}},
       {"input_ids", "256"}},
      {"t5_relu_tied", {{"input_ids", ids}, {"labels", Tensor::Full({2, 7}, -1, DType::kInt64)}}, {"labels", "-1"}},
      {"t5_relu_tied", {{"input_ids", ids}, {"labels", Tensor::Full({2, 7}, -100, DType::kInt64)}}, {"labels", "-100"}},
      {"t5_relu_tied", {{"input_ids", ids}, {"labels", ids}, {"attention_mask", one}}, {"attention_mask"}},
      {"t5_relu_tied", {{"input_ids", ids}, {"labels", ids}, {"token_type_ids", ids}}, {"token_type_ids", "no such"}},
      {"t5_relu_tied", {{"input_ids", ids.To(DType::kFloat32)}, {"labels", ids}}, {"input_ids", "float32"}},
      {"bert_pretraining", {{"input_ids", Tensor::Full({1, 41}, 5, DType::kInt64)}}, {"input_ids", "41", "40"}},
      {"bert_pretraining",
       {{"input_ids", ids}, {"token_type_ids", Tensor::Full({2, 7}, 2, DType::kInt64)}},
       {"token_type_ids", "2"}},
      {"bert_pretraining",
       {{"input_ids", ids}, {"next_sentence_label", Tensor::Full({2}, 2, DType::kInt64)}},
       {"next_sentence_label", "2"}},
      {"bert_pretraining", {{"labels", ids}}, {"no \"input_ids\"", "labels"}},
      {"albert_groups1", {}, {"no \"input_ids\"", "nothing"}},
      {"albert_groups1", {{"input_ids", ids}, {"next_sentence_label", one}}, {"next_sentence_label", "no such"}},
  };
  for (const Case& one_case : cases) {
    ExpectExit(Refused(ParityFolder(one_case.model), one_case.inputs), 3, one_case.words);
  }
  ExpectExit(Refused(ParityFolder("bert_pretraining"), {{"input_ids", ids}}, {"--gradients"}), 2);
}

// A run of ours, with attention that nobody publishes, and a language model: gradients under our own names.
TEST_F(ForwardTest, RunsAreComputedToo) {
  const Tensor ids = Tensor::Full({2, 9}, 70, DType::kInt32);
  WriteSafetensors(dir_ / "in.safetensors", std::vector<NamedTensor>{{"input_ids", ids}, {"labels", ids}});
  for (const char* model : {"t5", "lm"}) {
    const std::string run = dir_ / model;
    Succeeded(RunCommand(TinyTrain({"--model", model, "--out", run})));
    const TensorFile got = Forward(run, dir_ / "in.safetensors", {"--gradients"});
    EXPECT_EQ(got.At("logits").size(1), 9);
    EXPECT_GT(got.At("loss").Item(), 0);
    const bool t5 = std::string(model) == "t5";
    EXPECT_NE(got.Find(t5 ? "grad.shared.weight" : "grad.embedding.table"), nullptr);
    EXPECT_NE(
        got.Find(t5 ? "grad.crosstalk.encoder.block_0.self_attention.P_l" : "grad.decoder.block_0.self_attention.P_l"),
        nullptr);
  }
}

TEST_F(ForwardTest, AFolderThatHoldsNoModelIsRefused) {
  const Tensor ids = Tensor::Full({1, 3}, 5, DType::kInt64);
  std::filesystem::create_directory(dir_ / "empty");
  for (const std::string& path : {dir_ / "empty", dir_ / "nothing", dir_ / "in.safetensors"}) {
    ExpectExit(Refused(path, {{"input_ids", ids}}), 3, {"no published model"});
  }
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
  ExpectExit(Refused(dir_ / "huge", {{"input_ids", ids}, {"labels", ids}}), 4);
}

}  // namespace forward_test
}  // namespace crosstalk
