// What the tests of an installed copy share: `make install` into a folder of their own, and what consumer.cc prints.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/shell.h"

namespace install_test {

namespace fs = std::filesystem;
using crosstalk::RunShell;
using crosstalk::ShellResult;

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

  ShellResult Make(const std::string& arguments) {
    return RunShell("make --no-print-directory -C '" + source_ + "' BUILD='" + build_ + "' " + arguments);
  }

  // Installs under a prefix with a space in it, which pkg-config escapes for the shell that eval is.
  void Install(const std::string& variables = "") {
    prefix_ = (folder_ / "prefix with space").string();
    const ShellResult install = Make("install PREFIX='" + prefix_ + "' " + variables);
    ASSERT_EQ(install.status, 0) << install.output;
  }
  // Compiles a source of this tree with what pkg-config says.
  ShellResult Compile(const std::string& compiler, const std::string& source, const std::string& pkg_config_options,
                      const std::string& program, const std::string& package = "crosstalk") {
    return RunShell("flags=$(PKG_CONFIG_PATH='" + prefix_ + "/lib/pkgconfig' pkg-config " + pkg_config_options +
                    " --cflags --libs " + package + ") && eval \"" + compiler + " '" + source_ + "/" + source +
                    "' $flags -o '" + (folder_ / program).string() + "'\"");
  }
  // Compiles the program in C++ that a page of this tree shows.
  ShellResult CompileThePage(const std::string& page, const std::string& program) {
    const std::string path = (folder_ / program).string();
    const ShellResult code =
        RunShell("sed -n '/^```cpp$/,/^```$/p' '" + source_ + "/" + page + "' | grep -v '^```' > '" + path + ".cc'");
    if (code.status != 0) return code;
    return RunShell("export PKG_CONFIG_PATH='" + prefix_ + "/lib/pkgconfig' && eval \"g++ -Wall -Werror '" + path +
                    ".cc' $(pkg-config --cflags --libs crosstalk) -o '" + path + "'\"");
  }
  ShellResult Run(const std::string& program) {
    return RunShell("LD_LIBRARY_PATH='" + prefix_ + "/lib' '" + (folder_ / program).string() + "'");
  }

  std::string source_, build_, prefix_;
  fs::path folder_;
};

inline constexpr char kConsumerOutput[] = "321 654 100\n1 parameters\nkind 2\n1 OpenMP runtime\n";

}  // namespace install_test
