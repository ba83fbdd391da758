// The variables of `make train`, `make eval` and `make compare`: each becomes an option of the command, with any value.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

// The last line that `make -n` would run; `arguments` are words of a shell.
std::string LastLine(const std::string& arguments) {
  const std::string command =
      "cd \"$CROSSTALK_SOURCE\" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -n "
      "CROSSTALK_SETUP_DONE=1 BUILD=\"$CROSSTALK_BUILD\" " +
      arguments + " 2>&1 | tail -n 1";
  FILE* pipe = popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), count);
  pclose(pipe);
  return output;
}

class MakeVariablesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CROSSTALK_SOURCE") == nullptr || std::getenv("CROSSTALK_BUILD") == nullptr) {
      GTEST_SKIP() << "run by `make test`, which says where the sources are";
    }
  }
};

TEST_F(MakeVariablesTest, WithoutVariablesThereAreNoOptions) {
  for (const std::string command : {"train", "eval", "compare"}) {
    const std::string line = LastLine(command);
    EXPECT_NE(line.find("/crosstalk " + command), std::string::npos) << line;
    EXPECT_EQ(line.find("--"), std::string::npos) << line;
  }
}

TEST_F(MakeVariablesTest, EachBecomesItsOption) {
  const std::string line = LastLine(
      "train DATA=d ATTENTION=dynamic HEADS=2 STEPS=3 D_MODEL=4 LAYERS=5 BATCH=6 SEED=7 THREADS=8 TOKENIZER=bytes "
      "OUT=o "
      "ARGS='--dry-run --json'");
  for (const std::string option :
       {"--data 'd'", "--attention 'dynamic'", "--heads '2'", "--steps '3'", "--d-model '4'", "--layers '5'",
        "--batch '6'", "--seed '7'", "--threads '8'", "--tokenizer 'bytes'", "--out 'o'", "--dry-run --json"}) {
    EXPECT_NE(line.find(option), std::string::npos) << option << " in " << line;
  }
}

TEST_F(MakeVariablesTest, AValueMayHoldSpacesAndQuotes) {
  EXPECT_NE(LastLine("train \"DATA=my folder/it's.txt\"").find("--data 'my folder/it'\\''s.txt'"), std::string::npos);
  EXPECT_NE(LastLine("eval 'RUN=a;b\"c`d`'").find("--run 'a;b\"c`d`'"), std::string::npos);
}

}  // namespace
