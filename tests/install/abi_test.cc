// tools/packaging/abi.sh: a change that breaks programs which are linked with a library is found, and no other.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/install/install_fixture.h"

namespace install_test {

constexpr char kHeader[] = R"(
namespace crosstalk {
struct Settings { int steps; double rate; };
int Train(const Settings& settings);
int Stop(int step);
template <typename T> struct Holder { virtual ~Holder() {} T value; };
inline int Twice(int step) { return 2 * step; }
namespace internal { struct Hidden { int x; }; int Use(Hidden hidden); }
}
)";
constexpr char kSource[] = R"(#include "models/crosstalk.h"
namespace crosstalk {
int Train(const Settings& settings) { Holder<int> holder; holder.value = settings.steps; return Twice(holder.value); }
int Stop(int step) { return step; }
namespace internal { int Use(Hidden hidden) { return hidden.x; } }
}
)";

// A library of one source in a tree of its own, whose tools are this project's.
class AbiTest : public InstallTest {
 protected:
  void SetUp() override {
    InstallTest::SetUp();
    if (IsSkipped()) return;
    if (RunShell("command -v abidiff && command -v xz").status != 0) GTEST_SKIP() << "there is no abidiff";
    fs::create_directories(folder_ / "models/bindings/c");
    fs::create_directory_symlink(source_ + "/tools", folder_ / "tools");
    Compile(kHeader, kSource, "-O0");
    ASSERT_EQ(Abi("dump", "record.xz").status, 0);
  }
  void Compile(const std::string& header, const std::string& source, const std::string& flags) {
    std::ofstream(folder_ / "models/crosstalk.h") << header;
    std::ofstream(folder_ / "models/bindings/c/crosstalk.h");
    std::ofstream(folder_ / "library.cc") << source;
    const ShellResult compile = InFolder("g++ -g -shared -fPIC -I. " + flags + " library.cc -o library.so");
    ASSERT_EQ(compile.status, 0) << compile.output;
  }
  ShellResult InFolder(const std::string& command) { return RunShell("cd '" + folder_.string() + "' && " + command); }
  ShellResult Abi(const std::string& action, const std::string& record) {
    return InFolder("sh tools/packaging/abi.sh " + action + " library.so " + record);
  }
  static std::string Replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
};

TEST_F(AbiTest, WhatIsNewOrInternalOrInlinedIsNoBreak) {
  Compile(Replaced(Replaced(kHeader, "{ int x; }", "{ int x, y; }"), "int Stop(", "int Pause();\nint Stop("),
          Replaced(kSource, "int Stop(", "int Pause() { return 1; }\nint Stop("), "-O2");
  const ShellResult result = Abi("compare", "record.xz");
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST_F(AbiTest, AStructThatIsAnotherIsOne) {
  Compile(Replaced(kHeader, "int steps;", "int steps; long more;"), kSource, "-O0");
  const ShellResult result = Abi("compare", "record.xz");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.output.find("'struct crosstalk::Settings' changed:"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("the version in runtime/version.h must change"), std::string::npos) << result.output;
}

TEST_F(AbiTest, AFunctionThatIsGoneIsOne) {
  Compile(kHeader, Replaced(kSource, "int Stop(", "static int Halt("), "-O0");
  const ShellResult result = Abi("compare", "record.xz");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.output.find("1 Removed"), std::string::npos) << result.output;
}

TEST_F(AbiTest, ASonameWithoutARecordPromisesNothing) {
  Compile(kHeader, Replaced(kSource, "int Stop(", "static int Halt("), "-O0");
  const ShellResult result = Abi("compare", "of_the_next_soname.xz");
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.output.find("no release has this soname yet"), std::string::npos) << result.output;
}

}  // namespace install_test
