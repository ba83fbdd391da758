// `crosstalk complexity` as a user runs it. The numbers of every row are in tests/nn/attention/config_test.cc too.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/command_checks.h"

namespace crosstalk {
namespace complexity_test {

struct Row {
  std::vector<std::string> options;
  std::string json;
};

// The paper's tables 1, 2, 3, 8 and 9: parameters as printed there, multiplications from its pseudocode.
TEST(ComplexityTest, PrintsThePapersTablesToTheDigit) {
  const std::vector<Row> rows = {
      {{"--attention", "multihead", "--heads", "24", "--key-size", "64", "--value-size", "64"},
       R"({"parameters": 4718592, "multiplications": 3221225472})"},
      {{"--attention", "talking", "--heads", "48"}, R"({"parameters": 2363904, "multiplications": 2818572288})"},
      {{"--attention", "talking", "--heads", "24", "--key-heads", "6", "--value-heads", "24"},
       R"({"parameters": 2360016, "multiplications": 1799356416})"},
      {{"--attention", "talking", "--heads", "24", "--key-heads", "6", "--value-heads", "24", "--key-size", "128",
        "--value-size", "32"},
       R"({"parameters": 2360016, "multiplications": 1799356416})"},
      {{"--attention", "bilinear", "--heads", "12"}, R"({"parameters": 14155776, "multiplications": 12079595520})"},
      {{"--attention", "dynamic", "--heads", "12", "--dynamic", "Mw"},
       R"({"parameters": 2470176, "multiplications": 1780482048})"},
      {{"--attention", "dynamic", "--heads", "12", "--dynamic", "Xl,Ml,Xw,Mw"},
       R"({"parameters": 2801952, "multiplications": 2063597568})"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> arguments = {"complexity", "--d-model", "768", "--n", "512", "--m", "512", "--json"};
    arguments.insert(arguments.end(), row.options.begin(), row.options.end());
    const CommandResult result = Succeeded(RunCommand(arguments));
    EXPECT_EQ(result.output, row.json + "\n");
    EXPECT_EQ(result.errors, "");
  }
}

TEST(ComplexityTest, WithoutJsonItSaysWhatItCounted) {
  const CommandResult result =
      Succeeded(RunCommand({"complexity", "--attention", "talking", "--heads", "6", "--d-model", "768"}));
  for (const char* part : {"talking-heads", "h_k=6", "2359368", "1629487104", "n=512"}) {
    EXPECT_NE(result.output.find(part), std::string::npos) << result.output;
  }
}

TEST(ComplexityTest, ImpossibleOptionsAreUsageErrors) {
  const std::vector<Row> cases = {
      {{"--attention", "multihead", "--heads", "7"}, "h_k=7"},
      {{"--attention", "multihead", "--heads", "12", "--key-heads", "6"}, "h_k=6 and h=12"},
      {{"--attention", "bilinear", "--heads", "12", "--key-size", "64"}, "--key-size"},
      {{"--attention", "dynamic", "--heads", "12", "--dynamic", "Xm"}, "Xm"},
      {{"--attention", "chatty", "--heads", "12"}, "chatty"},
      {{"--attention", "talking", "--heads", "0"}, "--heads"},
      {{"--n", "0"}, "n=0"},
  };
  for (const Row& row : cases) {
    std::vector<std::string> arguments = {"complexity", "--json"};
    arguments.insert(arguments.end(), row.options.begin(), row.options.end());
    const CommandResult result = ExpectExit(RunCommand(arguments), 2);
    EXPECT_EQ(result.output, "");
    EXPECT_NE(result.errors.find(row.json), std::string::npos) << result.errors;
  }
}

}  // namespace complexity_test
}  // namespace crosstalk
