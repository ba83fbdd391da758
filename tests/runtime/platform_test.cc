#include "crosstalk/runtime/platform.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace crosstalk {
namespace platform_test {

TEST(PlatformTest, ReportsAMachineThatCanBe) {
  const PlatformInfo info = GetPlatformInfo();
  EXPECT_EQ(info.version, Version());
  EXPECT_GE(info.processors, 1);
  EXPECT_GT(info.total_memory_bytes, int64_t{1} << 26);
  EXPECT_TRUE(info.operating_system.starts_with("Linux ")) << info.operating_system;
  EXPECT_NE(info.compiler.find("++ "), std::string::npos) << info.compiler;
  EXPECT_TRUE(info.c_library.starts_with("glibc 2.")) << info.c_library;
  const Json json = ToJson(info);
  EXPECT_EQ(json.At("processors").AsInt(), info.processors);
  for (const char* text : {"version", "cpu_name", "operating_system", "compiler", "c_library"}) {
    EXPECT_FALSE(json.At(text).AsString().empty()) << text;
  }
}

TEST(PlatformTest, TakesTheVariablesThatMatterAndNoOthers) {
  setenv("OPENBLAS_CROSSTALK_TEST", "a=b", 1);
  setenv("OMP_CROSSTALK_TEST", "", 1);
  setenv("SECRET_OMP_", "no", 1);
  PlatformInfo info = GetPlatformInfo();
  unsetenv("OPENBLAS_CROSSTALK_TEST");
  unsetenv("OMP_CROSSTALK_TEST");
  unsetenv("SECRET_OMP_");
  for (const char* name : {"SECRET_OMP_", "PATH"}) EXPECT_EQ(info.environment.count(name), 0u) << name;
  std::erase_if(info.environment, [](const auto& variable) { return !variable.first.ends_with("_CROSSTALK_TEST"); });
  EXPECT_EQ(ToJson(info).At("environment").Dump(), R"({"OMP_CROSSTALK_TEST": "", "OPENBLAS_CROSSTALK_TEST": "a=b"})");
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
