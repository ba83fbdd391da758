// `make install`: what it puts where, and that a program can be built against it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

namespace fs = std::filesystem;

struct CommandResult {
  int status;
  std::string output;
};

CommandResult Shell(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), count);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

// Skips where there is nothing to install from (the program was started by hand) or what was built cannot be linked
// by a plain compiler (it carries a sanitizer's run-time).
class InstallTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "an instrumented library is not installed";
#endif
    const char* source = std::getenv("CROSSTALK_SOURCE");
    const char* build = std::getenv("CROSSTALK_BUILD");
    if (source == nullptr || build == nullptr) GTEST_SKIP() << "run by `make test`, which says where the build is";
    source_ = source;
    build_ = build;
    std::string pattern = (fs::temp_directory_path() / "crosstalk-install-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  CommandResult Make(const std::string& arguments) {
    return Shell("make --no-print-directory -C '" + source_ + "' BUILD='" + build_ + "' " + arguments);
  }

  std::string source_, build_;
  fs::path folder_;
};

TEST_F(InstallTest, AProgramCompilesAndRunsAgainstTheInstalledCopy) {
  const std::string prefix = (folder_ / "prefix with space").string();
  const CommandResult install = Make("install PREFIX='" + prefix + "'");
  ASSERT_EQ(install.status, 0) << install.output;
  const std::string program = (folder_ / "consumer").string();
  const std::string lib = prefix + "/lib";
  // pkg-config escapes the space in the prefix for the shell that eval is.
  const CommandResult compile =
      Shell("flags=$(PKG_CONFIG_PATH='" + lib + "/pkgconfig' pkg-config --cflags --libs crosstalk) && " +
            "eval \"g++ '" + source_ + "/tests/install/consumer.cc' $flags -o '" + program + "'\"");
  ASSERT_EQ(compile.status, 0) << compile.output;
  const CommandResult run = Shell("LD_LIBRARY_PATH='" + lib + "' '" + program + "'");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(run.output, "321 654 100\n");
  const CommandResult version = Shell("'" + prefix + "/bin/crosstalk' --version");
  EXPECT_EQ(version.status, 0) << version.output;
}

TEST_F(InstallTest, DestdirStagesWithoutAppearingInTheFiles) {
  const std::string stage = (folder_ / "stage").string();
  const CommandResult install = Make("install DESTDIR='" + stage + "' PREFIX=/opt/crosstalk");
  ASSERT_EQ(install.status, 0) << install.output;
  for (const char* path : {"bin/crosstalk", "lib/libcrosstalk.a", "lib/libcrosstalk.so",
                           "include/crosstalk/models/t5/t5.h", "lib/pkgconfig/crosstalk.pc"}) {
    EXPECT_TRUE(fs::exists(fs::path(stage) / "opt/crosstalk" / path)) << path;
  }
  EXPECT_NE(Shell("grep -q stage '" + stage + "/opt/crosstalk/lib/pkgconfig/crosstalk.pc'").status, 0);
  ASSERT_EQ(Make("uninstall DESTDIR='" + stage + "' PREFIX=/opt/crosstalk").status, 0);
  EXPECT_FALSE(fs::exists(fs::path(stage) / "opt/crosstalk/bin/crosstalk"));
}

}  // namespace
