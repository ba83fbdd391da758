// A table of three rows at a scale of a moment, as a user runs it, for the tests of `crosstalk reproduce`.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace reproduce_test {

namespace fs = std::filesystem;
using testing::Contains;

// The rows of table 10.
inline const std::vector<std::string> kRows = {"multihead-24x32", "talking-encoder-24x32", "dynamic-encoder-24x32"};

// A text of another kind than the built-in corpus.
inline std::string LinesOfText() {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "Line " + std::to_string(i) + " of a text of another kind.\n\n";
  return text;
}

class ReproduceTest : public ::testing::Test {
 protected:
  ReproduceTest() {
    fs::create_directories(dir_ / "my tasks/stories");
    std::string rows = "index\tquestion\tanswer\tlabel\n";
    for (int i = 0; i < 6; ++i) rows += std::to_string(i) + "\tWho?\tThe crow.\t" + (i % 2 == 0 ? "yes" : "no") + "\n";
    WriteBytes(dir_ / "my tasks/stories/train.tsv", rows);
    WriteBytes(dir_ / "my tasks/stories/dev.tsv", rows);
    WriteScale(8);
  }

  void WriteScale(int64_t steps, const std::string& length = R"("steps": 2})", const std::string& more = "") const {
    WriteBytes(dir_ / "tiny.json",
               StrCat(R"({"name": "tiny", "about": "for tests.", "seeds": 2, "models": {"t5": {
      "heads_ratio": 0.0834,
      "pretraining": {"d_model": 24, "d_ff": 24, "layers": 1, "tokenizer": "bytes", "input_length": 16, "batch": 4,
                      "steps": )",
                      steps, R"(, "eval_batches": 1, "eval_every": 4, "checkpoint_every": 1)", more, R"(},
      "finetuning": [{"task": "stories", "config": {"input_length": 32, "target_length": 8, "batch": 4, "eval_every": 0,
                                                    )",
                      length, "}]}}}"));
  }

  std::vector<std::string> Table(const std::vector<std::string>& more = {}) const {
    return Joined({"reproduce", "--table", "10", "--scale", dir_ / "tiny.json", "--out", dir_ / "my table",
                   "--task-data", dir_ / "my tasks", "--threads", "1"},
                  more);
  }
  std::string CellFolder(const std::string& row, int seed) const {
    return StrCat(dir_ / "my table/cells/t5-", row, "/seed-", seed);
  }
  // What the cells hold by these names.
  void RemoveFromCells(const std::vector<std::string>& names) const {
    for (const std::string& row : kRows) {
      for (int seed = 1; seed <= 2; ++seed) {
        for (const std::string& name : names) fs::remove_all(CellFolder(row, seed) + "/" + name);
      }
    }
  }
  void RemoveRuns() const { RemoveFromCells({"pretraining", "finetuning-stories", "finetuning-stories.json", "lock"}); }
  std::string ReasonOfMissing(size_t i) const { return Result().At("missing").AsArray().at(i).At("reason").AsString(); }
  Json Result() const { return ParseJson(ReadBytes(dir_ / "my table/table.json"), "table.json"); }

  TempDir dir_;
};

}  // namespace reproduce_test
}  // namespace crosstalk
