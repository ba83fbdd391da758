// `crosstalk import` and `crosstalk export --format mesh`: a T5 in its authors' format, as a user works with it.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/bundles.h"
#include "tests/support/command_checks.h"
#include "tests/support/parity.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace mesh_checkpoint_test {

class MeshCheckpointTest : public ::testing::Test {
 protected:
  CommandResult Import(const std::string& from, const std::vector<std::string>& options = {}) {
    std::filesystem::remove_all(Model());
    return RunCommand(Joined({"import", from, "--out", Model()}, options));
  }
  CommandResult ExportMesh(const std::string& model, const std::vector<std::string>& options = {}) {
    std::filesystem::remove_all(Mesh());
    return RunCommand(Joined({"export", model, "--format", "mesh", "--out", Mesh()}, options));
  }
  std::string Model() const { return dir_ / "model"; }
  std::string Mesh() const { return dir_ / "mesh"; }

  TempDir dir_;
};

TEST_F(MeshCheckpointTest, WhatIsPassedOverAndWhatIsMissingIsSaid) {
  const CommandResult read = ExpectExit(Import(BundleFixture("t5_th_mesh")), 0,
                                        {"64 tensors of its optimizer", "global_step, 1000000", "no tokenizer"});
  EXPECT_NE(read.errors.find("T5, 2 + 2 layers, 34096 parameters"), std::string::npos) << read.errors;
  ExpectExit(Import(BundleFixture("mesh_t5_index_only")), 3, {"model.ckpt-0.data-00001-of-00002", "missing"});
  EXPECT_FALSE(std::filesystem::exists(Model()));
  ExpectExit(Import(BundleFixture("half_plus_two_mkl")), 3, {"shared/embedding"});
  ExpectExit(Import(dir_ / "nothing"), 3, {"there is nothing there"});
}

TEST_F(MeshCheckpointTest, AnOptionIsNamedWhereItIsNeeded) {
  std::filesystem::copy(BundleFixture("t5_th_mesh"), Mesh());
  std::filesystem::remove(Mesh() + "/operative_config.gin");
  ExpectExit(Import(Mesh()), 3, {"--feed-forward: is needed", "gated-gelu"});
  Succeeded(Import(Mesh() + "/model.ckpt-1000000", {"--feed-forward", "gated-gelu", "--vocabulary", "117"}));
  ExpectExit(Import(ParityFolder("t5_relu_tied"), {"--feed-forward", "relu"}), 2, {"--feed-forward", "Mesh"});
  ExpectExit(Import(ParityFolder("t5_relu_tied"), {"--dynamic", "Xl"}), 2, {"--dynamic", "Mesh"});
}

// A T5 1.0 that computes what Hugging Face's code does is the same model in this format.
TEST_F(MeshCheckpointTest, APublishedModelIsTheSameInBothFormats) {
  const std::string published = ParityFolder("t5_relu_tied");
  Succeeded(Import(published));
  Succeeded(ExportMesh(Model()));
  const auto forward = [&](const std::string& model) {
    Succeeded(RunCommand(
        {"forward", model, "--inputs", published + "/inputs.safetensors", "--output", dir_ / "out.safetensors"}));
    return ReadBytes(dir_ / "out.safetensors");
  };
  const std::string expected = forward(Model());
  EXPECT_TRUE(forward(Mesh()) == expected);
  Succeeded(Import(Mesh()));
  EXPECT_TRUE(forward(Model()) == expected);
  Succeeded(RunCommand({"export", Model(), "--out", dir_ / "back"}));
  const TensorFile before = ReadSafetensors(published + "/model.safetensors");
  for (const NamedTensor& tensor : ReadSafetensors(dir_ / "back/model.safetensors").tensors) {
    EXPECT_EQ(tensor.tensor.ToVector<float>(), before.At(tensor.name).ToVector<float>()) << tensor.name;
  }
}

// A run with its tokenizer, out and in; then it is evaluated, writes, is trained on, and goes out again.
TEST_F(MeshCheckpointTest, AnImportIsUsedAsARunIs) {
  const std::string run = dir_ / "run", tuned = dir_ / "tuned";
  Succeeded(RunCommand(
      TinyTrain({"--tokenizer", "sentencepiece", "--vocabulary", "330", "--attention", "dynamic", "--out", run})));
  Succeeded(ExportMesh(run));
  EXPECT_EQ(ReadBytes(Mesh() + "/sentencepiece.model"), ReadBytes(run + "/tokenizer.model"));
  EXPECT_TRUE(std::filesystem::exists(Mesh() + "/model.ckpt-8.index"));
  Succeeded(Import(Mesh()));
  const Tensor ids = Tensor::Full({2, 9}, 70, DType::kInt32);
  WriteSafetensors(dir_ / "in.safetensors", std::vector<NamedTensor>{{"input_ids", ids}, {"labels", ids}});
  const auto forward = [&](const std::string& model) {
    Succeeded(
        RunCommand({"forward", model, "--inputs", dir_ / "in.safetensors", "--output", dir_ / "out.safetensors"}));
    return ReadBytes(dir_ / "out.safetensors");
  };
  EXPECT_TRUE(forward(Model()) == forward(run));
  std::string text;
  for (int i = 0; i < 200; ++i) text += "Line " + std::to_string(i) + " of a text that is long enough.\n";
  WriteBytes(dir_ / "text", text);
  const auto eval = [&](const std::string& model) {
    const CommandResult result = Succeeded(RunCommand({"eval", model, "--data", dir_ / "text", "--json"}));
    return ParseJson(result.output, "output").At("ln_ppl").AsDouble();
  };
  EXPECT_EQ(eval(Mesh()), eval(Model()));
  Succeeded(RunCommand({"generate", "--run", Model(), "--text", "Once ___ a time"}));
  Succeeded(RunCommand({"generate", Mesh(), "--text", "Once ___ a time"}));
  Succeeded(RunCommand({"inspect", Model(), "--text", "Once upon a time", "--out", dir_ / "page.html"}));
  Succeeded(RunCommand({"train", "--init-from", Model(), "--out", tuned, "--steps", "2", "--batch", "2", "--threads",
                        "1", "--eval-batches", "1"}));
  Succeeded(ExportMesh(tuned));
  EXPECT_EQ(ReadBytes(Mesh() + "/sentencepiece.model"), ReadBytes(run + "/tokenizer.model"));

  std::filesystem::remove(Mesh() + "/sentencepiece.model");
  ExpectExit(Import(Mesh()), 0, {"no tokenizer"});
  EXPECT_EQ(Succeeded(Import(Mesh(), {"--tokenizer", run + "/tokenizer.model"})).errors.find("no tokenizer"),
            std::string::npos);
  Succeeded(RunCommand({"generate", "--run", Model(), "--text", "Once ___ a time"}));
}

TEST_F(MeshCheckpointTest, WhatHasNoPlaceInTheFormatIsRefused) {
  const std::string run = dir_ / "run";
  Succeeded(RunCommand(TinyTrain({"--model", "lm", "--out", run})));
  ExpectExit(ExportMesh(run), 2, {"\"lm\"", "a t5 has one"});
  Succeeded(Import(BundleFixture("t5_th_mesh")));
  ExpectExit(ExportMesh(Model(), {"--with-extensions"}), 2, {"--with-extensions"});
  ExpectExit(ExportMesh(Model(), {"--dtype", "float16"}), 2, {"--dtype", "float16"});
  EXPECT_FALSE(std::filesystem::exists(Mesh()));
}

}  // namespace mesh_checkpoint_test
}  // namespace crosstalk
