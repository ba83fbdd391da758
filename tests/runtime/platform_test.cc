#include "crosstalk/runtime/platform.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace crosstalk {
namespace platform_test {

TEST(PlatformTest, ReportsAMachineThatCanBe) {
  const PlatformInfo info = GetPlatformInfo();
  EXPECT_EQ(info.version, Version());
  EXPECT_FALSE(info.cpu_name.empty());
  EXPECT_GE(info.processors, 1);
  EXPECT_GT(info.total_memory_bytes, int64_t{1} << 26);
  EXPECT_EQ(info.operating_system.rfind("Linux ", 0), 0u) << info.operating_system;
  EXPECT_NE(info.compiler.find("++ "), std::string::npos) << info.compiler;
  EXPECT_EQ(info.c_library.rfind("glibc 2.", 0), 0u) << info.c_library;
}

TEST(PlatformTest, TakesTheVariablesThatMatterAndNoOthers) {
  setenv("OPENBLAS_CROSSTALK_TEST", "a=b", 1);
  setenv("OMP_CROSSTALK_TEST", "", 1);
  setenv("SECRET_OMP_", "no", 1);
  const PlatformInfo info = GetPlatformInfo();
  unsetenv("OPENBLAS_CROSSTALK_TEST");
  unsetenv("OMP_CROSSTALK_TEST");
  unsetenv("SECRET_OMP_");
  ASSERT_EQ(info.environment.count("OPENBLAS_CROSSTALK_TEST"), 1u);
  EXPECT_EQ(info.environment.at("OPENBLAS_CROSSTALK_TEST"), "a=b");
  EXPECT_EQ(info.environment.count("OMP_CROSSTALK_TEST"), 1u);
  EXPECT_EQ(info.environment.count("SECRET_OMP_"), 0u);
  EXPECT_EQ(info.environment.count("PATH"), 0u);
}

TEST(PlatformTest, JsonHasEveryMember) {
  PlatformInfo info = GetPlatformInfo();
  info.environment = {{"OMP_NUM_THREADS", "3"}};
  const Json json = ToJson(info);
  EXPECT_EQ(json.At("environment").Dump(), R"({"OMP_NUM_THREADS": "3"})");
  EXPECT_EQ(json.At("processors").AsInt(), info.processors);
  for (const char* text : {"version", "cpu_name", "operating_system", "compiler", "c_library"}) {
    EXPECT_FALSE(json.At(text).AsString().empty()) << text;
  }
}

TEST(PlatformTest, PeakGrowsWithTheMemoryTouched) {
  constexpr size_t kBytes = size_t{96} << 20;
  const int64_t before = PeakResidentBytes();
  EXPECT_GT(before, 0);
  std::vector<char> block(before + kBytes, 1);
  // All of the block was touched while all of it was held.
  EXPECT_GE(PeakResidentBytes(), before + static_cast<int64_t>(kBytes)) << block[kBytes / 2];
}

}  // namespace platform_test
}  // namespace crosstalk
