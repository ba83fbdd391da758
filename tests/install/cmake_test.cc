// The CMake package that `make install` makes, and Crosstalk as a part of a CMake project.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/install/install_fixture.h"

namespace install_test {

class CMakePackageTest : public InstallTest {
 protected:
  void SetUp() override {
    InstallTest::SetUp();
    if (!IsSkipped() && RunShell("command -v cmake").status != 0) GTEST_SKIP() << "there is no cmake";
  }
  // Configures the project tests/install/PROJECT in a fresh folder.
  ShellResult Configure(const std::string& project, const std::string& options) {
    binary_ = (folder_ / ("binary " + std::to_string(++count_))).string();
    return RunShell("cmake -S '" + source_ + "/tests/install/" + project + "' -B '" + binary_ +
                    "' -DCMAKE_CXX_COMPILER=g++ -DCMAKE_PREFIX_PATH='" + prefix_ + "' " + options);
  }
  // Builds what was configured, and runs these of its programs.
  void ExpectProgramsRun(const std::vector<std::string>& programs) {
    const ShellResult build = RunShell("cmake --build '" + binary_ + "' --parallel 2");
    ASSERT_EQ(build.status, 0) << build.output;
    for (const std::string& program : programs) {
      EXPECT_EQ(RunShell("'" + binary_ + "/" + program + "'").output, kConsumerOutput) << program;
    }
  }
  // Moves the installed copy, so that nothing is where it was installed.
  void Move() {
    const std::string moved = (folder_ / "moved").string();
    fs::rename(prefix_, moved);
    prefix_ = moved;
  }

  std::string binary_;
  int count_ = 0;
};

TEST_F(CMakePackageTest, BothTargetsLinkFromAMovedPrefixInEachFolderOfLibraries) {
  for (const std::string folder : {"lib/x86_64-linux-gnu", "lib64"}) {
    SCOPED_TRACE(folder);
    ASSERT_NO_FATAL_FAILURE(Install("LIBDIR=" + folder));
    ASSERT_NO_FATAL_FAILURE(Move());
    // Debian's cmake looks into lib and its folder of the architecture alone, other systems' into lib64.
    const std::string place = "-Dcrosstalk_DIR='" + prefix_ + "/lib64/cmake/crosstalk'";
    const ShellResult configure = Configure("cmake", folder == "lib64" ? place : "");
    ASSERT_EQ(configure.status, 0) << configure.output;
    for (const std::string& file : {"crosstalk::crosstalk is " + prefix_ + "/" + folder + "/libcrosstalk.so.",
                                    "crosstalk::static is " + prefix_ + "/" + folder + "/libcrosstalk.a"}) {
      EXPECT_NE(configure.output.find(file), std::string::npos) << configure.output;
    }
    if (folder == "lib64") {
      ExpectProgramsRun({"with_shared", "with_static"});
      EXPECT_EQ(RunShell("ldd '" + binary_ + "/with_shared' | grep -c libcrosstalk.so").output, "1\n");
      EXPECT_EQ(RunShell("ldd '" + binary_ + "/with_static' | grep -c libcrosstalk.so").output, "0\n");
    }
    fs::remove_all(prefix_);
  }
}

// A distribution's /lib is a link to /usr/lib: the prefix is then /usr, by whichever of them CMake came.
TEST_F(CMakePackageTest, ALinkToTheLibrariesDoesNotMisleadIt) {
  ASSERT_NO_FATAL_FAILURE(Install());
  const fs::path root = folder_ / "root";
  fs::create_directory(root);
  fs::create_directory_symlink(fs::path(prefix_) / "lib", root / "lib");
  prefix_ = root.string();
  const ShellResult configure = Configure("cmake", "");
  ASSERT_EQ(configure.status, 0) << configure.output;
  EXPECT_NE(configure.output.find("prefix with space/lib/libcrosstalk.a"), std::string::npos) << configure.output;
}

TEST_F(CMakePackageTest, ItRefusesWhatItDoesNotPromise) {
  ASSERT_NO_FATAL_FAILURE(Install());
  // Of version 0.2.0. An empty request is of any version.
  const std::vector<std::pair<std::string, bool>> requests = {{"", true},
                                                              {"0.2", true},
                                                              {"0.2.0 EXACT", true},
                                                              {"0.1...0.3", true},
                                                              {"0.0...<1", true},
                                                              {"9", false},
                                                              {"0", false},
                                                              {"0.1", false},
                                                              {"0.2.1", false},
                                                              {"0.1.9", false},
                                                              {"1.0", false},
                                                              {"0.0...<0.2.0", false},
                                                              {"0.3...1.0", false},
                                                              {"10.2", false},
                                                              {"COMPONENTS python", false},
                                                              {"OPTIONAL_COMPONENTS python", true}};
  std::string list;
  for (const auto& [request, found] : requests) list += request + ";";
  list.pop_back();
  const ShellResult configure = Configure("cmake/request", "'-DREQUESTS=" + list + "'");
  ASSERT_EQ(configure.status, 0) << configure.output;
  for (const auto& [request, found] : requests) {
    if (request.empty()) continue;  // a list drops it; the other projects ask so
    const std::string line = "'" + request + "' " + (found ? "1" : "0") + "\n";
    const std::string word = "'" + request + "' " + (found ? "TRUE" : "FALSE") + "\n";
    EXPECT_TRUE(configure.output.find(line) != std::string::npos || configure.output.find(word) != std::string::npos)
        << request << "\n"
        << configure.output;
  }
}

TEST_F(CMakePackageTest, ItOffersWhatIsInstalledAndSaysWhereNothingIs) {
  ASSERT_NO_FATAL_FAILURE(Install());
  ASSERT_EQ(RunShell("rm '" + prefix_ + "'/lib/libcrosstalk.so*").status, 0);
  EXPECT_NE(Configure("cmake/request", "-DREQUESTS=0.2").output.find("'0.2' 1"), std::string::npos);
  ASSERT_EQ(RunShell("rm '" + prefix_ + "/lib/libcrosstalk.a'").status, 0);
  const ShellResult configure = Configure("cmake", "");
  EXPECT_NE(configure.status, 0);
  EXPECT_NE(configure.output.find("there is neither libcrosstalk.so."), std::string::npos) << configure.output;
}

// With the libraries of this build, which are then there: tools/packaging/cmake does the same in a folder of its own.
TEST_F(CMakePackageTest, AProjectThatFetchesTheSourcesLinksThem) {
  const ShellResult configure = Configure("cmake/sources", "-DSOURCE='" + source_ + "' -DCROSSTALK_BUILD='" + build_ +
                                                               "' -DCROSSTALK_MAKE_VARIABLES=CXX=g++");
  ASSERT_EQ(configure.status, 0) << configure.output;
  ExpectProgramsRun({"with_shared"});
}

}  // namespace install_test
