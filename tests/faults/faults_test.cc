// A sample of what `make faults` does in full.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/faults/injector.h"
#include "tests/support/run_command.h"

namespace crosstalk {
namespace faults_test {

class FaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a library that is preloaded does not go with a sanitizer";
#endif
  }

  static CommandResult Sweep(const std::vector<std::string>& arguments) {
    const std::filesystem::path folder = std::filesystem::absolute(program_invocation_name).parent_path();
    return RunCommand(arguments, {.program = folder / "sweep"});
  }
};

TEST_F(FaultsTest, ASampleOfAllFaultsDoesNoHarm) {
  const CommandResult result = Sweep({"--sample", "80"});
  if (result.exit_code == faults::kCannotInject) GTEST_SKIP() << result.errors;
  EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
}

// A sweep that could not fail would say nothing: what a fault might take along is removed after it.
TEST_F(FaultsTest, HarmIsNoticed) {
  if (Sweep({"--only", "resume:memory:1"}).exit_code == faults::kCannotInject) GTEST_SKIP();
  for (const auto& [fault, harm, words] : std::vector<std::array<std::string, 3>>{
           {"resume:memory:1", "checkpoints/step-00000002", "lost: the best checkpoint"},
           {"resume:file:1:kill-before", "checkpoints/step-00000003", "lost: checkpoint 3"},
           {"train:file:1:short", "model.safetensors", "model.safetensors has other bits"}}) {
    const std::string said = Sweep({"--only", fault, "--harm", harm}).output;
    EXPECT_NE(said.find(words), std::string::npos) << said;
  }
}

}  // namespace faults_test
}  // namespace crosstalk
