// Runs that an earlier version trained, one of each model (earlier_runs/): they are measured and gone on with as it
// did.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace earlier_runs_test {

struct EarlierRun {
  const char* model;
  double ln_ppl;        // held out, after its 3 steps
  const char* weights;  // SHA-256 of model.safetensors after 2 more; of instruction sets that fuse multiply-adds
};

constexpr EarlierRun kRuns[] = {
    {"t5", 5.304661055405934, "b16c5af8bc363dbf512a1ea75463d6e3fd1cdf23525580b94a4a4f9d2ebe71d2"},
    {"lm", 4.53179198751847, "70eea89d37958fc0a48bcb0bed5ee3434817ccbd1e77bcf6e37227d48c8fcc0a"},
    {"bert", 5.48684960603714, "65228c9b7121e43140b52798fb3b4f9719c3c641635bff273b651691a6820730"},
    {"albert", 5.316338634490966, "367ec6ad2aa1c41bc9fe3be57e6a1e9353fff1d9997f811dc09ceffe1c3c74f9"},
};

TEST(EarlierRunsTest, AreMeasuredAndGoneOnWithToTheSameBits) {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "run by `make test`, which says where the sources are";
  for (const EarlierRun& earlier : kRuns) {
    SCOPED_TRACE(earlier.model);
    const TempDir dir;
    const std::string run = dir / "run";
    std::filesystem::copy(std::string(source) + "/tests/tools/commands/earlier_runs/" + earlier.model, run,
                          std::filesystem::copy_options::recursive);
    const CommandResult measured = Succeeded(RunCommand({"eval", "--run", run, "--json"}));
    EXPECT_EQ(ParseJson(measured.output, "eval").At("ln_ppl").AsDouble(), earlier.ln_ppl);
    Succeeded(RunCommand({"train", "--resume", run, "--steps", "5"}));
    EXPECT_EQ(Sha256OfFile(run + "/model.safetensors"), earlier.weights);
  }
}

}  // namespace earlier_runs_test
}  // namespace crosstalk
