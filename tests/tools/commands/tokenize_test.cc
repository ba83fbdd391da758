// `crosstalk tokenize`, by the command alone.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/command_checks.h"
#include "tests/support/packed.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace tokenize_test {

using testing::Contains;

class TokenizeTest : public ::testing::Test {
 protected:
  TokenizeTest() {
    WriteBytes(dir_ / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nboat\n##s\n.\n");
    WriteBytes(dir_ / "text", "The boats.\n\nthe\xCC\x81 [MASK]");
    WriteBytes(dir_ / "pairs", "the\tboats boats the\n");
  }
  CommandResult Tokenize(const std::vector<std::string>& more, const std::string& input = "") {
    CommandOptions options;
    if (!input.empty()) {
      WriteBytes(dir_ / "input", input);
      options.input_from = dir_ / "input";
    }
    return RunCommand(Joined({"tokenize", "--tokenizer", dir_ / "vocab.txt"}, more), options);
  }
  TempDir dir_;
};

TEST_F(TokenizeTest, PrintsIdsOrAnObjectALine) {
  const CommandResult ids = Succeeded(Tokenize({dir_ / "text"}));
  EXPECT_EQ(ids.output, "5 6 7 8\n\n5 4\n");
  WriteBytes(dir_ / "text.gz", Gzip(ReadBytes(dir_ / "text")));
  EXPECT_EQ(Tokenize({dir_ / "text.gz"}).output, ids.output);
  EXPECT_EQ(Tokenize({"/dev/stdin"}, "The boats.\n\nthe [MASK]\n").output, ids.output);
  EXPECT_EQ(Tokenize({}, "The boats.\n\nthe [MASK]\n").output, ids.output);
  EXPECT_EQ(Tokenize({"--special", "-"}, "the").output, "2 5 3\n");
  EXPECT_EQ(Tokenize({"--json", "--special"}, "Boats").output,
            "{\"ids\": [2, 6, 7, 3], \"tokens\": [\"[CLS]\", \"boat\", \"##s\", \"[SEP]\"], "
            "\"offsets\": [[0, 0], [0, 4], [4, 5], [0, 0]], \"segments\": [0, 0, 0, 0]}\n");
}

TEST_F(TokenizeTest, PairsAreCutToALength) {
  EXPECT_EQ(Tokenize({"--pair", dir_ / "pairs"}).output, "5 6 7 6 7 5\n");
  EXPECT_EQ(Tokenize({"--pair", "--special", "--max-length", "6", dir_ / "pairs"}).output, "2 5 3 6 7 3\n");
  EXPECT_EQ(Tokenize({"--pair", "--special", "--max-length", "5", "--json", dir_ / "pairs"}).output,
            "{\"ids\": [2, 5, 3, 6, 3], \"tokens\": [\"[CLS]\", \"the\", \"[SEP]\", \"boat\", \"[SEP]\"], "
            "\"offsets\": [[0, 0], [0, 3], [0, 0], [0, 4], [0, 0]], \"segments\": [0, 0, 0, 1, 1]}\n");
}

TEST_F(TokenizeTest, DecodesLinesOfIds) {
  const CommandResult text = Succeeded(Tokenize({"--decode"}, "2 5 6 7 8 3\n\n5,4,6\n"));
  EXPECT_EQ(text.output, "the boats.\n\nthe boat\n");
  EXPECT_EQ(Tokenize({"--decode", "--json"}, "5 6").output, "{\"text\": \"the boat\"}\n");
}

TEST_F(TokenizeTest, TakesAFolderOrARun) {
  Succeeded(RunCommand({"tokenize", dir_ / "pairs", "--tokenizer", dir_.path()}));
  Succeeded(RunCommand(TinyTrain({"--steps", "1", "--tokenizer", "bytes", "--out", dir_ / "run"})));
  EXPECT_EQ(RunCommand({"tokenize", dir_ / "pairs", "--tokenizer", dir_ / "run"}).output,
            RunCommand({"tokenize", dir_ / "pairs", "--tokenizer", "bytes"}).output);
}

TEST_F(TokenizeTest, ARunKeepsAVocabularyAsItsDescriptor) {
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n,\n";
  for (char c = 'a'; c <= 'z'; ++c) vocabulary += std::string() + c + "\n##" + c + "\n";
  WriteBytes(dir_ / "letters.txt", vocabulary);
  Succeeded(RunCommand(TinyTrain({"--steps", "1", "--tokenizer", dir_ / "letters.txt", "--out", dir_ / "run"})));
  EXPECT_TRUE(Contains(ReadBytes(dir_ / "run/tokenizer.json"), "\"kind\": \"wordpiece\""));
  EXPECT_EQ(RunCommand({"tokenize", dir_ / "text", "--tokenizer", dir_ / "run"}).output,
            RunCommand({"tokenize", dir_ / "text", "--tokenizer", dir_ / "letters.txt"}).output);
}

TEST_F(TokenizeTest, MistakesAreNamed) {
  const std::string packed = dir_ / "packed";
  WriteBytes(packed, "PK\3\4");
  const struct {
    std::vector<std::string> arguments;
    std::string input, says;
    int exit_code;
  } cases[] = {
      {{"--pair"}, "no tab\n", "line 1 is not a pair", 3},
      {{"--pair"}, "a\tb\na\tb\tc\n", "line 2 is not a pair", 3},
      {{}, "fine\n\xFF\n", "line 2 has a byte that is not part of UTF-8", 3},
      {{"--decode"}, "5 x\n", "line 1 is no list of ids: \"x\"", 3},
      {{"--decode"}, "5 5x\n", "is no list of ids", 3},
      {{"--decode"}, "1 1000000\n", "the id 1000000", 3},
      {{"--decode"}, "99999999999\n", "is no list of ids", 3},
      {{"--decode", "--pair"}, "1\n", "--decode takes none of", 2},
      {{"--max-length", "4"}, "the\n", "--max-length counts special tokens", 2},
      {{"--special", "--max-length", "2", "--truncation", "none"}, "the\n", "--max-length", 2},
      {{"--truncation", "longest"}, "the\n", "longest-first", 2},
      {{dir_ / "nothing"}, "", "nothing", 3},
      {{dir_.path()}, "", "is a directory", 3},
      {{packed}, "", "is a zip archive: unpack it", 3},
  };
  for (const auto& [arguments, input, says, exit_code] : cases)
    ExpectExit(Tokenize(arguments, input), exit_code, {says});
  EXPECT_EQ(RunCommand({"tokenize", dir_ / "text"}).exit_code, 2);
  EXPECT_EQ(RunCommand({"tokenize", dir_ / "text", "--tokenizer", dir_ / "text"}).exit_code, 3);
}

}  // namespace tokenize_test
}  // namespace crosstalk
