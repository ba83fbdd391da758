#include "crosstalk/runtime/platform.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/processors.h"
#include "tests/support/temp_dir.h"

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

using Files = std::vector<std::pair<std::string, std::string>>;

// The quota of a system whose root folder holds these files.
std::optional<double> QuotaOf(const std::string& groups, const std::string& mounts, const Files& files) {
  const TempDir root;
  root.Put("proc/self/cgroup", groups);
  root.Put("proc/self/mountinfo", mounts);
  for (const auto& [path, text] : files) PutFile(root.path() + path, text);
  return ProcessorQuota(root.path());
}

constexpr char kTwo[] = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kOne[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

TEST(ProcessorQuotaTest, IsTheLeastOfTheGroupsAndThoseAboveIt) {
  const std::string top = "/sys/fs/cgroup", one = top + "/cpu,cpuacct", of_docker = "9 8 0:29 /docker/12 ";
  // cpu.max of groups in version 2, and the quota of one in version 1.
  const auto two = [&](const std::vector<std::pair<std::string, std::string>>& groups) {
    Files files;
    for (const auto& [group, text] : groups) files.push_back({top + group + "/cpu.max", text});
    return files;
  };
  const auto first = [&](const std::string& group, const std::string& quota) {
    return Files{{one + group + "/cpu.cfs_quota_us", quota + "\n"}, {one + group + "/cpu.cfs_period_us", "100000\n"}};
  };
  Files both = first("/a", "400000");
  both.push_back({top + "/unified/a/cpu.max", "50000 100000\n"});
  struct Case {
    const char* of;
    std::string groups, mounts;
    Files files;
    std::optional<double> quota;
  };
  const std::optional<double> none;
  const std::vector<Case> cases = {
      {"a container of version 2", "0::/\n", kTwo, two({{"", "150000 100000\n"}}), 1.5},
      {"no limit", "0::/\n", kTwo, two({{"", "max 100000\n"}}), none},
      {"the top of a machine, which has no file", "0::/\n", kTwo, {}, none},
      {"a service", "0::/system.slice/a.service\n", kTwo, two({{"/system.slice/a.service", "20000 10000"}}), 2},
      {"a group above it", "0::/a/b/c\n", kTwo, two({{"/a", "250000 100000\n"}, {"/a/b/c", "max 100000\n"}}), 2.5},
      {"the lesser of two", "0::/a/b\n", kTwo, two({{"/a", "100000 100000\n"}, {"/a/b", "300000 100000\n"}}), 1},
      {"its own", "0::/a/b\n", kTwo, two({{"/a", "400000 100000\n"}, {"/a/b", "200000 100000\n"}}), 2},
      {"another group's", "0::/a\n", kTwo, two({{"/ab", "100000 100000\n"}}), none},
      {"version 1", "4:memory:/\n3:cpu,cpuacct:/a:b\n0::/\n", kOne, first("/a:b", "350000"), 3.5},
      {"version 1 without a limit", "3:cpu,cpuacct:/a\n", kOne, first("/a", "-1"), none},
      {"version 1, a group above it", "3:cpu,cpuacct:/a/b\n", kOne, first("", "700000"), 7},
      {"cpuset is another controller", "3:cpuset:/a\n", kOne, first("/a", "100000"), none},
      {"both versions", "3:cpu,cpuacct:/a\n0::/a\n", kOne, both, 0.5},
      {"a mount of the container's own group", "3:cpu,cpuacct:/docker/12/in\n",
       of_docker + "/sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpuacct,cpu\n", first("/in", "200000"), 2},
      {"a mount of which the group's path says nothing", "0::/../../kubepods/pod1\n",
       "9 8 0:29 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n", two({{"", "50000 100000\n"}}), 0.5},
      {"a mount with a blank in its path",
       "0::/a\\b\n",
       "9 8 0:29 / /my\\040groups rw - cgroup2 none rw\n",
       {{"/my groups/a\\b/cpu.max", "100000 50000\n"}},
       2},
      {"what is not understood", "0::/\nx\n:\n", kTwo, two({{"", "-5 x 7\n"}}), none},
      {"nor this", "::::\n0::a\n", std::string("1 2\n - \n") + kTwo, two({{"", "5e4 100000"}}), none},
      {"an empty /proc", "", "", two({{"", "100000 100000\n"}}), none},
  };
  for (const Case& one_case : cases) {
    EXPECT_EQ(QuotaOf(one_case.groups, one_case.mounts, one_case.files), one_case.quota) << one_case.of;
  }
  EXPECT_EQ(ProcessorQuota("/no/such/folder"), std::nullopt);
}

TEST(AvailableProcessorsTest, AreAtMostThoseOfTheMask) {
  EXPECT_GE(AvailableProcessors(), 1);
  EXPECT_LE(AvailableProcessors(), ProcessorsOfMask());
}

}  // namespace platform_test
}  // namespace crosstalk
