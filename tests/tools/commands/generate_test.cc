// `crosstalk generate` on every SIMD target, and on files of ids. tests/sessions/generate.session has the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/tensor.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace generate_test {

class GenerateTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    for (const std::string model : {"t5", "lm"}) {
      Succeeded(RunCommand(TinyTrain({"--model", model, "--out", *dir_ / model, "--steps", "2"})));
    }
  }
  static void TearDownTestSuite() { delete dir_; }
  static CommandResult Generate(const std::string& model, const std::vector<std::string>& more) {
    return RunCommand(Joined({"generate", *dir_ / model}, more));
  }
  static inline TempDir* dir_ = nullptr;
};

TEST_F(GenerateTest, IdsOfAFileAreAnsweredWhateverTheirPadding) {
  const auto write = [&](const std::string& name, std::vector<int64_t> ids, std::vector<int64_t> mask) {
    const Shape shape = {2, static_cast<int64_t>(ids.size()) / 2};
    std::vector<NamedTensor> tensors = {{"input_ids", Tensor::FromValues<int64_t>(shape, ids)}};
    if (!mask.empty()) tensors.push_back({"attention_mask", Tensor::FromValues<int64_t>(shape, mask)});
    WriteSafetensors(*dir_ / name, tensors);
  };
  write("a", {70, 80, 90, 1, 75, 85, 0, 0}, {});
  write("b", {70, 80, 90, 1, 9, 9, 9, 75, 85, 0}, {1, 1, 1, 1, 0, 0, 0, 1, 1, 0});
  for (const char* model : {"t5", "lm"}) {
    const auto answers = [&](const std::string& name) {
      return Succeeded(
          Generate(model, {"--inputs", *dir_ / name, "--max-length", "6", "--beams", "2", "--answers", "2", "--json"}));
    };
    const std::string output = answers("a").output;
    EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 4) << output;
    const Json first = ParseJson(output.substr(0, output.find('\n')), "a line");
    EXPECT_FALSE(first.At("ids").AsArray().empty());
    EXPECT_EQ(first.At("text").type(), Json::Type::kString);
    EXPECT_EQ(answers("b").output, output);
  }
  write("c", {70, 80, 90, 1, 75, 85, 0, 0}, {1, 0, 1, 1, 1, 1, 0, 0});
  Succeeded(Generate("t5", {"--inputs", *dir_ / "c"}));
  EXPECT_EQ(Generate("lm", {"--inputs", *dir_ / "c"}).exit_code, 3);
  write("c", {70, 80, 90, 1, 75, 85, 0, 1 << 20}, {});
  EXPECT_EQ(Generate("t5", {"--inputs", *dir_ / "c"}).exit_code, 3);
  write("c", {70, 80, 90, 1, 75, 85, 0, 0}, {1, 1, 1, 1, 0, 0, 0, 0});
  EXPECT_EQ(Generate("t5", {"--inputs", *dir_ / "c"}).exit_code, 3);
}

}  // namespace generate_test
}  // namespace crosstalk
