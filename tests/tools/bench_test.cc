// `crosstalk bench` as a user runs it, on sizes at which only its form can be looked at. Steps have no tiny size: their
// model alone takes seconds to initialise.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace bench_test {

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

const std::vector<std::string> kKeys = {"name",
                                        "precision",
                                        "forward_ms",
                                        "backward_ms",
                                        "useful_gflop_forward",
                                        "useful_gflop_backward",
                                        "peak_gflops",
                                        "share_forward",
                                        "share_backward",
                                        "extra_bytes",
                                        "threads",
                                        "blas_core",
                                        "simd_target"};

// In bf16 also which unit multiplied.
std::vector<std::string> KeysIn(const std::string& precision) {
  std::vector<std::string> keys = kKeys;
  if (precision == "bf16") keys.insert(keys.begin() + 2, "bfloat16_unit");
  return keys;
}

std::vector<std::string> Tiny(std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "--batch", "1", "--n", "16", "--repetitions", "1"});
  return more;
}

// Every number but the memory is positive and finite (a NaN would be null), and the shares are what the others say.
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

TEST(BenchTest, ListsEveryBenchmarkWithTheComposedPathBeside) {
  const CommandResult result = Succeeded(RunCommand({"bench", "--list", "--precision", "fp32"}));
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) { names.insert(names.end(), {name, name + "-composed"}); };
  for (const char* name : {"multihead-12", "talking-12", "talking-24", "talking-48", "talking-6-24-6", "dynamic-12",
                           "dynamic-24", "bilinear-12", "mix-6", "mix-12", "mix-24", "mix-48"}) {
    add(name);
  }
  for (const char* sizes :
       {"512x512x512", "1024x512x2048", "2048x768x768", "2048x768x3072", "4096x512x512", "4096x512x2048"}) {
    const std::string name = std::string("product-") + sizes;
    names.insert(names.end(), {name, name + "-openblas"});
  }
  for (const char* name : {"memory-512", "memory-1024", "memory-2048"}) add(name);
  names.insert(names.end(), {"memory-4096", "memory-8192"});
  for (const char* name : {"step-multihead-8", "step-talking-16", "step-bert-12", "step-bert-talking-12",
                           "step-albert-12", "step-bert-12-512", "step-bert-talking-12-512", "step-albert-12-512"}) {
    add(name);
  }
  for (const char* name : {"decode-t5-768x12-1", "decode-t5-768x12-32", "decode-t5-talking-768x12-1",
                           "decode-t5-talking-768x12-32", "decode-t5-dynamic-768x12-1", "decode-t5-512x6-1",
                           "decode-t5-512x6-32", "decode-lm-256x4-1", "decode-lm-256x4-32"}) {
    names.push_back(name);
  }
  EXPECT_EQ(Lines(result.output), names);

  // In bf16 all but OpenBLAS's products and the mixing of logits, which is in float in any case.
  std::vector<std::string> in_bf16;
  for (const std::string& name : names) {
    if (name.find("-openblas") == std::string::npos && name.rfind("mix-", 0) != 0) in_bf16.push_back(name + "-bf16");
  }
  EXPECT_EQ(Lines(RunCommand({"bench", "--list", "--precision", "bf16"}).output), in_bf16);

  // By default both where bf16 has a goal.
  std::vector<std::string> both;
  const std::vector<std::string> with_goal = {"multihead-12", "talking-12",  "talking-24",     "talking-48",
                                              "dynamic-12",   "bilinear-12", "step-talking-16"};
  for (const std::string& name : names) {
    both.push_back(name);
    if (std::find(with_goal.begin(), with_goal.end(), name) != with_goal.end()) both.push_back(name + "-bf16");
  }
  EXPECT_EQ(Lines(RunCommand({"bench", "--list"}).output), both);
}

TEST(BenchTest, AFilterChoosesByTheNamesInBothPrecisions) {
  const auto list = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"bench", "--list", "--filter"});
    return RunCommand(options).output;
  };
  EXPECT_EQ(list({"dynamic-24"}), "dynamic-24\ndynamic-24-bf16\ndynamic-24-composed\ndynamic-24-composed-bf16\n");
  EXPECT_EQ(list({"dynamic-24-bf16"}), "dynamic-24-bf16\n");
  EXPECT_EQ(list({"memory-8,mix-6", "--precision", "fp32"}), "mix-6\nmix-6-composed\nmemory-8192\n");
  EXPECT_EQ(list({"memory-8,mix-6", "--precision", "bf16"}), "memory-8192-bf16\n");
}

TEST(BenchTest, WritesOneObjectForEachBenchmark) {
  const TempDir dir;
  const CommandResult result =
      Succeeded(RunCommand(Tiny({"--filter", "talking-48", "--threads", "2", "--json", dir / "b.json"})));
  const Json json = ReadJsonFile(dir / "b.json");
  std::vector<std::string> names;
  for (const Json& one : json.AsArray()) {
    EXPECT_EQ(Keys(one), KeysIn(one.At("precision").AsString()));
    ExpectConsistent(one);
    names.push_back(one.At("name").AsString());
    EXPECT_EQ(one.At("precision").AsString(), names.back().ends_with("-bf16") ? "bf16" : "fp32");
    EXPECT_EQ(one.At("threads").AsInt(), 2);
    EXPECT_NE(result.output.find(names.back()), std::string::npos) << result.output;
    // 4·16·768² for the projections, 2·16²·768 for the two products, 2·16²·48² for the mixings: multiplications.
    EXPECT_DOUBLE_EQ(one.At("useful_gflop_forward").AsDouble(), 2e-9 * (37748736 + 393216 + 1179648));
  }
  EXPECT_EQ(names, std::vector<std::string>(
                       {"talking-48", "talking-48-bf16", "talking-48-composed", "talking-48-composed-bf16"}));
}

TEST(BenchTest, BFloat16StandsBesideFloatAndSaysWhatMultiplied) {
  const TempDir dir;
  const CommandResult result = Succeeded(RunCommand({"bench", "--filter", "multihead-12", "--batch", "1", "--n", "64",
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
  // One run of each, so that the ratio is of those times; it has two digits behind the point.
  for (const std::string& line : Lines(result.output)) {
    if (line.rfind("multihead-12-bf16 ", 0) != 0) continue;
    EXPECT_NEAR(std::stod(line.substr(line.rfind(' '))), ms[0] / ms[1], 0.0051) << line;
  }
}

// Tiles in software take some fifty times as long as multiply-adds of floats: that shows what the timed runs computed
// in.
TEST(BenchTest, TimesAreThoseOfThePrecision) {
  const std::vector<std::string> targets = kernels::SupportedSimdTargets();
  if (std::find(targets.begin(), targets.end(), "AVX2") == targets.end()) GTEST_SKIP() << "no AVX2";
  const TempDir dir;
  // A neighbour on the machine can make one run of floats ten times as slow, hardly each of five.
  bool forward_shows = false, backward_shows = false;
  for (int i = 0; i < 5 && !(forward_shows && backward_shows); ++i) {
    const CommandResult result =
        Succeeded(RunCommand(Tiny({"--filter", "multihead-12", "--threads", "1", "--json", dir / "b.json"}),
                             {.environment = {"CROSSTALK_BFLOAT16=tiles", "CROSSTALK_SIMD=AVX2"}}));
    EXPECT_NE(result.output.find("\nbfloat16: tiles, in software"), std::string::npos) << result.output;
    const Json json = ReadJsonFile(dir / "b.json");
    ASSERT_EQ(json.AsArray().size(), 4u);
    const Json &floats = json.AsArray()[0], &tiles = json.AsArray()[1];
    const auto shows = [&](const char* ms) { return tiles.At(ms).AsDouble() > 5 * floats.At(ms).AsDouble(); };
    forward_shows |= shows("forward_ms");
    backward_shows |= shows("backward_ms");
  }
  EXPECT_TRUE(forward_shows);
  EXPECT_TRUE(backward_shows);
}

TEST(BenchTest, FloatAloneSaysNothingOfBFloat16) {
  const CommandResult result = Succeeded(RunCommand(Tiny({"--filter", "product-512x512x512", "--precision", "fp32"})));
  EXPECT_EQ(result.output.find("bfloat16"), std::string::npos) << result.output;
}

TEST(BenchTest, MeasuresTheHeadMixingAlone) {
  const TempDir dir;
  Succeeded(RunCommand(Tiny({"--filter", "mix-6", "--json", dir / "b.json"})));
  const Json json = ReadJsonFile(dir / "b.json");
  ASSERT_EQ(json.AsArray().size(), 2u);
  for (const Json& one : json.AsArray()) {
    EXPECT_EQ(Keys(one), kKeys);
    ExpectConsistent(one);
  }
  EXPECT_EQ(json.AsArray()[0].At("extra_bytes").AsInt(), 0);
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
  // Of each layer 4 · 256² projections, 2 · 4² mixings, 8 · 256² feed-forward and 2 norms; the table of 1,024 rows, the
  // last norm, and the bias of 4 heads and 32 buckets.
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

  const CommandResult in_bf16 =
      Succeeded(RunCommand(Tiny({"--scaling", "--threads", "1", "--precision", "bf16", "--json", dir / "b.json"})));
  EXPECT_NE(in_bf16.output.find("\nbfloat16: "), std::string::npos) << in_bf16.output;
  EXPECT_EQ(ReadJsonFile(dir / "b.json").AsArray()[0].At("name").AsString(), "scaling-threads-1-bf16");
}

TEST(BenchTest, OptionsThatCannotBeMeantAreUsageErrors) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--filter", "chatty"}, "chatty"},
      {{"--n", "0"}, "--n"},
      {{"--batch", "-1"}, "--batch"},
      {{"--repetitions", "0"}, "--repetitions"},
      {{"--filter", "mix,"}, "--filter"},
      {{"--scaling", "--filter", "mix"}, "--filter"},
      {{"--scaling", "--list"}, "--list"},
      {{"--precision", "fp8"}, "fp8"},
      {{"--filter", "mix-6", "--precision", "bf16"}, "bf16"},
  };
  for (const auto& [options, says] : cases) {
    std::vector<std::string> arguments = {"bench"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    ExpectExit(RunCommand(arguments), 2, {says});
  }
}

}  // namespace bench_test
}  // namespace crosstalk
