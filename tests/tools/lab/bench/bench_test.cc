// `crosstalk bench` as a user runs it, on sizes at which only its form can be looked at. Steps have no tiny size: their
// model alone takes seconds to initialise.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace bench_test {

using testing::Contains;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.AsObject()) keys.push_back(key);
  return keys;
}

// clang-format off
const std::vector<std::string> kKeys = {"name", "precision", "forward_ms", "backward_ms", "useful_gflop_forward",
    "useful_gflop_backward", "peak_gflops", "share_forward", "share_backward", "extra_bytes", "threads", "blas_core",
    "simd_target"};
// clang-format on

// In bf16 also which unit multiplied.
std::vector<std::string> KeysIn(const std::string& precision) {
  std::vector<std::string> keys = kKeys;
  if (precision == "bf16") keys.insert(keys.begin() + 2, "bfloat16_unit");
  return keys;
}

std::vector<std::string> Tiny(const std::vector<std::string>& more) {
  return Joined({"bench", "--batch", "1", "--n", "16", "--repetitions", "1"}, more);
}

// Every number but the memory is positive and finite (a NaN would be null), and the shares agree with the others.
void ExpectConsistent(const Json& result) {
  for (const char* key : {"forward_ms", "backward_ms", "useful_gflop_forward", "useful_gflop_backward", "peak_gflops",
                          "share_forward", "share_backward", "threads"}) {
    ASSERT_TRUE(result.At(key).is_number()) << result.Dump();
    EXPECT_GT(result.At(key).AsDouble(), 0) << key << " of " << result.Dump();
  }
  EXPECT_GE(result.At("extra_bytes").AsInt(), 0) << result.Dump();
  for (const std::string pass : {"forward", "backward"}) {
    const double share = result.At("useful_gflop_" + pass).AsDouble() /
                         (1e-3 * result.At(pass + "_ms").AsDouble() * result.At("peak_gflops").AsDouble());
    EXPECT_NEAR(result.At("share_" + pass).AsDouble(), share, 1e-9 * share) << result.Dump();
  }
  EXPECT_DOUBLE_EQ(result.At("useful_gflop_backward").AsDouble(), 2 * result.At("useful_gflop_forward").AsDouble());
}

TEST(BenchTest, WritesOneObjectForEachBenchmark) {
  const TempDir dir;
  const CommandResult result =
      Succeeded(RunCommand(Tiny({"--filter", "talking-48,mix-6", "--threads", "2", "--json", dir / "b.json"})));
  const Json json = ReadJsonFile(dir / "b.json");
  std::vector<std::string> names;
  for (const Json& one : json.AsArray()) {
    EXPECT_EQ(Keys(one), KeysIn(one.At("precision").AsString()));
    ExpectConsistent(one);
    names.push_back(one.At("name").AsString());
    EXPECT_EQ(one.At("precision").AsString(), names.back().ends_with("-bf16") ? "bf16" : "fp32");
    EXPECT_EQ(one.At("threads").AsInt(), 2);
    EXPECT_NE(result.output.find(names.back()), std::string::npos) << result.output;
    if (names.back().starts_with("mix-6")) continue;
    // 4·16·768² for the projections, 2·16²·768 for the two products, 2·16²·48² for the mixings: multiplications.
    EXPECT_DOUBLE_EQ(one.At("useful_gflop_forward").AsDouble(), 2e-9 * (37748736 + 393216 + 1179648));
  }
  EXPECT_EQ(names, std::vector<std::string>({"talking-48", "talking-48-bf16", "talking-48-composed",
                                             "talking-48-composed-bf16", "mix-6", "mix-6-composed"}));
}

TEST(BenchTest, BFloat16StandsBesideFloatAndSaysWhatMultiplied) {
  const TempDir dir;
  const CommandResult result = Succeeded(RunCommand({"bench", "--filter", "multihead-12", "--batch", "1", "--n", "256",
                                                     "--repetitions", "1", "--threads", "1", "--json", dir / "b.json"},
                                                    {.environment = {"CROSSTALK_BFLOAT16=widened"}}));
  EXPECT_NE(result.output.find("\nbfloat16: widened, in software"), std::string::npos) << result.output;
  const Json json = ReadJsonFile(dir / "b.json");
  ASSERT_EQ(json.AsArray().size(), 4u);
  double ms[2];
  for (size_t i = 0; i < 2; ++i) {
    const Json& one = json.AsArray()[i];
    ExpectConsistent(one);
    ms[i] = one.At("forward_ms").AsDouble() + one.At("backward_ms").AsDouble();
  }
  EXPECT_TRUE(json.AsArray()[0].Find("bfloat16_unit") == nullptr);
  EXPECT_EQ(json.AsArray()[1].At("name").AsString(), "multihead-12-bf16");
  EXPECT_EQ(json.AsArray()[1].At("bfloat16_unit").AsString(), "widened");
  // What attention keeps is in bfloat16.
  EXPECT_LT(json.AsArray()[1].At("extra_bytes").AsInt(), json.AsArray()[0].At("extra_bytes").AsInt());
  EXPECT_FALSE(Contains(Succeeded(RunCommand(Tiny({"--filter", "product-512x512x512", "--precision", "fp32"}))).output,
                        "bfloat16"));
  // One run of each, so that the ratio is of those times; it has two digits after the point.
  for (const std::string& line : Lines(result.output)) {
    if (line.rfind("multihead-12-bf16 ", 0) != 0) continue;
    EXPECT_NEAR(std::stod(line.substr(line.rfind(' '))), ms[0] / ms[1], 0.0051) << line;
  }
}

TEST(BenchTest, DecodingStandsBesideTheReadingOfMemory) {
  const TempDir dir;
  const CommandResult result =
      Succeeded(RunCommand({"bench", "--filter", "decode-lm-256x4-1", "--n", "16", "--repetitions", "3", "--threads",
                            "1", "--json", dir / "b.json"}));
  EXPECT_NE(result.output.find("tokens/s"), std::string::npos) << result.output;
  const Json json = ReadJsonFile(dir / "b.json");
  ASSERT_EQ(json.AsArray().size(), 2u);
  EXPECT_EQ(json.AsArray()[1].At("name").AsString(), "decode-lm-256x4-1-bf16");
  EXPECT_EQ(json.AsArray()[1].At("precision").AsString(), "bf16");
  const Json& one = json.AsArray()[0];
  EXPECT_EQ(one.At("precision").AsString(), "fp32");
  EXPECT_EQ(one.At("rows").AsInt(), 1);
  // Each layer has 4 · 256² projections, 2 · 4² mixings, 8 · 256² feed-forward and 2 norms; the table of 1,024 rows,
  // the last norm, and the bias of 4 heads and 32 buckets.
  EXPECT_EQ(one.At("weight_bytes").AsInt(), 4 * (4 * (12 * 65536 + 32 + 512) + 1024 * 256 + 256 + 128));
  EXPECT_GT(one.At("cache_bytes").AsInt(), 4 * 18 * 512 * 4);  // 18 positions of K and V
  const double bytes = one.At("weight_bytes").AsDouble() + one.At("cache_bytes").AsDouble();
  const double reading_ms = 1e-6 * bytes / one.At("gigabytes_per_second").AsDouble();
  EXPECT_NEAR(one.At("times_reading").AsDouble(), one.At("least_ms").AsDouble() / reading_ms, 1e-9);
  EXPECT_LE(one.At("least_ms").AsDouble(), one.At("step_ms").AsDouble());
}

TEST(BenchTest, ScalingGoesThroughThreadsAndLengths) {
  const TempDir dir;
  const CommandResult result = Succeeded(RunCommand(Tiny({"--scaling", "--threads", "3", "--json", dir / "b.json"})));
  EXPECT_NE(result.output.find("ns a byte"), std::string::npos) << result.output;
  const Json json = ReadJsonFile(dir / "b.json");
  std::vector<std::string> names;
  std::vector<int64_t> threads;
  for (const Json& one : json.AsArray()) {
    EXPECT_EQ(Keys(one), kKeys);
    ExpectConsistent(one);
    names.push_back(one.At("name").AsString());
    threads.push_back(one.At("threads").AsInt());
  }
  EXPECT_EQ(names,
            std::vector<std::string>({"scaling-threads-1", "scaling-threads-2", "scaling-threads-3", "scaling-n-16"}));
  EXPECT_EQ(threads, std::vector<int64_t>({1, 2, 3, 3}));
}

}  // namespace bench_test
}  // namespace crosstalk
