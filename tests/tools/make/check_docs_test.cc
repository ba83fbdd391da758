// tools/make/check_docs.sh: what README.md and docs/*.md name exists, and what does not is found.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace check_docs_test {

using testing::Contains;
namespace fs = std::filesystem;

class CheckDocsTest : public ::testing::Test {
 protected:
  // The tree by links, except its documents, which are copies.
  void SetUp() override {
    const char* source = std::getenv("CROSSTALK_SOURCE");
    if (source == nullptr) GTEST_SKIP() << "run by `make test`, which says where the sources are";
    for (const char* name : {".ci", "runtime", "kernels", "autograd", "nn", "models", "tools", "tests", "examples"}) {
      fs::create_directory_symlink(fs::path(source) / name, dir_ / name);
    }
    for (const auto& entry : fs::directory_iterator(source)) {
      if (entry.is_regular_file()) fs::copy_file(entry.path(), dir_ / entry.path().filename().string());
    }
    fs::copy(fs::path(source) / "docs", dir_ / "docs", fs::copy_options::recursive);
  }
  CommandResult Check(const std::string& command = CrosstalkBinary()) const {
    return RunCommand({"-c", "cd \"$1\" && exec sh tools/make/check_docs.sh \"$2\"", "sh", dir_.path(), command},
                      {.program = "/bin/sh"});
  }

  const TempDir dir_;
};

TEST_F(CheckDocsTest, WhatTheDocumentsNameExists) { Succeeded(Check()); }

TEST_F(CheckDocsTest, EachKindOfFaultIsFound) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"`<crosstalk/models/decoding/gready.h>`", "there is no public header <crosstalk/models/decoding/gready.h>"},
      // There, but not public.
      {"`<crosstalk/kernels/gemm/amx.h>`", "there is no public header <crosstalk/kernels/gemm/amx.h>"},
      {"`tests/nn/attention_fused_test.cc`", "there is no tests/nn/attention_fused_test.cc"},
      {"`nn/attention/composed.{h,cpp}`", "there is no nn/attention/composed.{h,cpp}"},
      {"`kernels/NAME-out.h`", "there is no kernels/NAME-out.h"},
      {"`gready.h`", "no folder has a gready.h"},
      {"`build/tests/nn/attention/composd_test`", "there is no tests/nn/attention/composd_test"},
      {"[a page](docs/gone.md)", "the link docs/gone.md leads nowhere"},
      {"[a part](docs/inspection.md#gone)", "no heading of docs/inspection.md is #gone"},
      {"`--heads-of-nobody 3`", "no subcommand has an option --heads-of-nobody"},
      {"text with --heads-of-nobody", "no subcommand has an option --heads-of-nobody"},
      {"`crosstalk train --kinds talking`", "crosstalk train has no option --kinds"},
      {"`export --kinds`", "crosstalk export has no option --kinds"},
      {"`crosstalk\ntrian --heads 3`", "there is no subcommand crosstalk trian"},
      {"`make tset`", "there is no target make tset"},
      {"```\nmake test layres\n```", "there is no target make layres"},
      {"```\nX=1 build/crosstalk train \\\n  --seeds 3\n```", "crosstalk train has no option --seeds"},
      {"```cpp\n#include <crosstalk/nn/modul.h>\n```", "there is no public header <crosstalk/nn/modul.h>"}};
  std::string text = ReadBytes(dir_ / "README.md");
  for (const auto& [fault, message] : faults) text += "\n" + fault + "\n";
  WriteBytes(dir_ / "README.md", text);
  // A reader of these pages includes what they name: there, but not public.
  WriteBytes(dir_ / "docs/embedding.md", ReadBytes(dir_ / "docs/embedding.md") + "\nSee `module.h`, `command.h`.\n");
  const CommandResult result = ExpectExit(Check(), 1);
  EXPECT_TRUE(Contains(result.output, "there is no public header command.h")) << result.output;
  for (const auto& [fault, message] : faults) EXPECT_TRUE(Contains(result.output, message)) << message;
}

// Names of other programs, and placeholders for the reader's own.
TEST_F(CheckDocsTest, OtherProgramsOptionsAndPlaceholdersAreNoFaults) {
  WriteBytes(dir_ / "README.md",
             ReadBytes(dir_ / "README.md") +
                 "\n`git log --stat`, `tools/commands/NAME.cc`, `autograd/ops_*`, `<crosstalk/…>`, "
                 "[elsewhere](https://example.org/--x)\n\n"
                 "```\ng++ program.cc $(pkg-config --cflags crosstalk) --std=c++20\n"
                 "crosstalk train --attention talking | tee --append log   # --not-an-option\n```\n");
  Succeeded(Check());
}

TEST_F(CheckDocsTest, ACommandThatDoesNotRunIsAFault) { EXPECT_NE(Check("/bin/false").exit_code, 0); }

}  // namespace check_docs_test
}  // namespace crosstalk
