// `make install`: what it puts where, and that a program can be built against it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>

#include "tests/install/install_fixture.h"

namespace install_test {

TEST_F(InstallTest, AProgramCompilesAndRunsAgainstTheInstalledCopy) {
  ASSERT_NO_FATAL_FAILURE(Install());
  const ShellResult compile = Compile("g++", "tests/install/consumer.cc", "", "consumer");
  ASSERT_EQ(compile.status, 0) << compile.output;
  const ShellResult run = Run("consumer");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(run.output, kConsumerOutput);
}

TEST_F(InstallTest, PkgConfigIsToldOfAPrefixThatWasMoved) {
  ASSERT_NO_FATAL_FAILURE(Install());
  const std::string moved = (folder_ / "moved prefix").string();
  fs::rename(prefix_, moved);
  prefix_ = moved;
  const std::string says = "--define-variable=prefix='" + moved + "'";
  const ShellResult compile = Compile("g++", "tests/install/consumer.cc", says, "consumer");
  ASSERT_EQ(compile.status, 0) << compile.output;
  EXPECT_EQ(Run("consumer").output, kConsumerOutput);
}

TEST_F(InstallTest, AProgramOfClangsLoadsOneOpenMpRuntime) {
  if (RunShell("command -v clang++").status != 0) GTEST_SKIP() << "there is no clang++";
  ASSERT_NO_FATAL_FAILURE(Install());
  const ShellResult compile = Compile("clang++", "tests/install/consumer.cc", "", "consumer");
  ASSERT_EQ(compile.status, 0) << compile.output;
  const ShellResult run = Run("consumer");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(run.output, kConsumerOutput);
}

TEST_F(InstallTest, StaticLinksTheArchive) {
  ASSERT_NO_FATAL_FAILURE(Install());
  // What docs/embedding.md says where both are there, and the plain line where only the archive is.
  const ShellResult named = RunShell(
      "flags=$(PKG_CONFIG_PATH='" + prefix_ + "/lib/pkgconfig' pkg-config --static --cflags --libs crosstalk | " +
      "sed 's/-lcrosstalk/-l:libcrosstalk.a/') && eval \"g++ '" + source_ + "/tests/install/consumer.cc' $flags " +
      "-o '" + (folder_ / "named").string() + "'\" && ldd '" + (folder_ / "named").string() + "'");
  ASSERT_EQ(named.status, 0) << named.output;
  EXPECT_EQ(named.output.find("libcrosstalk"), std::string::npos) << named.output;
  ASSERT_EQ(RunShell("rm '" + prefix_ + "'/lib/libcrosstalk.so*").status, 0);
  const ShellResult compile = Compile("g++", "tests/install/consumer.cc", "--static", "consumer");
  ASSERT_EQ(compile.status, 0) << compile.output;
  for (const std::string program : {"named", "consumer"}) EXPECT_EQ(Run(program).output, kConsumerOutput);
}

TEST_F(InstallTest, AHostsHeaderOfTheSameNameIsNotTaken) {
  ASSERT_NO_FATAL_FAILURE(Install());
  const ShellResult compile =
      Compile("g++ -I'" + source_ + "/tests/install/host'", "tests/install/host/host.cc", "", "host");
  ASSERT_EQ(compile.status, 0) << compile.output;
  EXPECT_EQ(Run("host").output, "42 and 8\n");
}

TEST_F(InstallTest, TheExamplesNeedNothingButWhatIsInstalled) {
  ASSERT_NO_FATAL_FAILURE(Install());
  for (const std::string name : {"whole_stack", "embed_training", "paper_pseudocode"}) {
    const ShellResult compile = Compile("g++", "examples/" + name + ".cc", "", name);
    EXPECT_EQ(compile.status, 0) << compile.output;
  }
}

TEST_F(InstallTest, TheProgramOfThePageOnEmbeddingRuns) {
  ASSERT_NO_FATAL_FAILURE(Install());
  const ShellResult compile = CompileThePage("docs/embedding.md", "page");
  ASSERT_EQ(compile.status, 0) << compile.output;
  EXPECT_EQ(Run("page").status, 0) << Run("page").output;
}

TEST_F(InstallTest, TheProgramOfTheFrontPagePrintsWhatThePageSays) {
  ASSERT_NO_FATAL_FAILURE(Install());
  const ShellResult compile = CompileThePage("README.md", "layer");
  ASSERT_EQ(compile.status, 0) << compile.output;
  const std::string printed = "&& ./layer\n" + Run("layer").output + "```\n";
  EXPECT_NE(RunShell("cat '" + source_ + "/README.md'").output.find(printed), std::string::npos) << printed;
}

// As the strictest of both languages read it.
TEST_F(InstallTest, TheHeaderOfCIsOneOfCAndOfCPlusPlus) {
  ASSERT_NO_FATAL_FAILURE(Install());
  const std::string flags = " -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I'" + prefix_ + "/include' -";
  for (const std::string compiler :
       {"gcc -x c -std=c99", "gcc -x c -std=c11", "g++ -x c++ -std=c++98 -Wno-long-long"}) {
    const ShellResult compile =
        RunShell("printf '#include <crosstalk.h>\\nct_status status;\\n' | " + compiler + flags);
    EXPECT_EQ(compile.status, 0) << compiler << "\n" << compile.output;
  }
}

TEST_F(InstallTest, TheExampleInCNeedsNothingButWhatIsInstalled) {
  ASSERT_NO_FATAL_FAILURE(Install());
  const ShellResult compile =
      Compile("gcc -std=c11 -Wall -Wextra -Wpedantic -Werror", "examples/embed_c.c", "", "c", "crosstalk-c");
  ASSERT_EQ(compile.status, 0) << compile.output;
  const ShellResult run = Run("c");
  EXPECT_EQ(run.status, 0) << run.output;
}

TEST_F(InstallTest, AHostInCThatLoadsTheLibraryIsLeftAsItIs) {
  ASSERT_NO_FATAL_FAILURE(Install());
  const std::string program = "'" + (folder_ / "host_c").string() + "'";
  const ShellResult compile = RunShell("gcc -std=gnu11 -Wall -Wextra -Werror -fopenmp -I'" + prefix_ + "/include' '" +
                                       source_ + "/tests/install/host.c' -ldl -o " + program);
  ASSERT_EQ(compile.status, 0) << compile.output;
  const ShellResult run = RunShell(program + " '" + prefix_ + "/lib/libcrosstalk.so'");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(run.output, "the host is as it was\n");
}

// The programs of the page on C are the example's functions, in its words.
TEST_F(InstallTest, ThePageOnCQuotesTheExample) {
  const ShellResult example = RunShell("cat '" + source_ + "/examples/embed_c.c'");
  const ShellResult quoted =
      RunShell("sed -n '/^```c$/,/^```$/p' '" + source_ + "/docs/embedding_c.md' | sed 's/^```$/@/' | grep -v '^```c'");
  ASSERT_EQ(quoted.status, 0) << quoted.output;
  std::istringstream blocks(quoted.output);
  int count = 0;
  for (std::string block; std::getline(blocks, block, '@'); ++count) {
    block.erase(0, block.find_first_not_of('\n'));
    EXPECT_NE(example.output.find(block), std::string::npos) << block;
  }
  EXPECT_GE(count, 3);
}

TEST_F(InstallTest, OneVersionEverywhere) {
  ASSERT_NO_FATAL_FAILURE(Install());
  const ShellResult pkg_config =
      RunShell("PKG_CONFIG_PATH='" + prefix_ + "/lib/pkgconfig' pkg-config --modversion crosstalk");
  EXPECT_EQ("crosstalk " + pkg_config.output, RunShell("'" + prefix_ + "/bin/crosstalk' --version").output);
  EXPECT_EQ(pkg_config.output, RunShell("sed -n 's/^#define CROSSTALK_VERSION_[A-Z]* //p' '" + prefix_ +
                                        "/include/crosstalk/runtime/version.h' | paste -sd.")
                                   .output);
}

TEST_F(InstallTest, TheSharedLibraryExportsThePublicInterfaceAlone) {
  // Mangled: functions, vtables and type information, thunks, static variables of functions, guards of variables.
  const ShellResult symbols = RunShell("nm -D --defined-only '" + build_ + "/lib/libcrosstalk.so' | cut -d' ' -f2,3");
  ASSERT_EQ(symbols.status, 0) << symbols.output;
  const std::regex ours("_Z(T[VTIS]|Th.*_|Z|GV|GVZ)?NK?9crosstalk.*");
  const std::string c_functions =
      RunShell("grep -o '^CT_API .*(' '" + source_ + "/models/bindings/c/crosstalk.h'").output;
  int of_c = 0;
  std::istringstream lines(symbols.output);
  int count = 0;
  for (std::string kind, line; lines >> kind >> line;) {
    // How many instances of templates there are (weak, unique) is the compiler's choice.
    if (kind != "W" && kind != "V" && kind != "u") ++count;
    if (line.rfind("ct_", 0) == 0) {
      ++of_c;
      EXPECT_NE(c_functions.find(line + "("), std::string::npos) << line << " is not in crosstalk.h";
      continue;
    }
    EXPECT_TRUE(std::regex_match(line, ours)) << line;
    // The kernels of a SIMD target, and what no header declares that is installed.
    for (const char* internal :
         {"7kernels2N_", "7kernels3N_", "7kernels6N_", "nlohmann", "sentencepiece", "reference"}) {
      EXPECT_EQ(line.find(internal), std::string::npos) << line;
    }
  }
  EXPECT_EQ(of_c, std::count(c_functions.begin(), c_functions.end(), '\n')) << "all of crosstalk.h, once";
  EXPECT_GT(count, 300);
  EXPECT_LT(count, 900);
}

TEST_F(InstallTest, DestdirStagesWithoutAppearingInTheFiles) {
  const std::string stage = (folder_ / "stage").string();
  const ShellResult install = Make("install DESTDIR='" + stage + "' PREFIX=/opt/crosstalk");
  ASSERT_EQ(install.status, 0) << install.output;
  for (const char* path :
       {"bin/crosstalk", "lib/libcrosstalk.a", "lib/libcrosstalk.so", "include/crosstalk/crosstalk.h",
        "include/crosstalk.h", "lib/python3/dist-packages/crosstalk/__init__.py", "include/crosstalk/models/t5/t5.h",
        "lib/pkgconfig/crosstalk.pc", "lib/pkgconfig/crosstalk-c.pc", "lib/cmake/crosstalk/crosstalk-config.cmake",
        "share/doc/crosstalk/LICENSE", "share/man/man1/crosstalk.1", "share/man/man1/crosstalk-train.1",
        "share/bash-completion/completions/crosstalk", "share/zsh/site-functions/_crosstalk",
        "share/fish/vendor_completions.d/crosstalk.fish"}) {
    EXPECT_TRUE(fs::exists(fs::path(stage) / "opt/crosstalk" / path)) << path;
  }
  for (const char* path : {"models/crosstalk.h", "kernels/rows.h", "kernels/simd-inl.h", "autograd/einsum/order.h"}) {
    EXPECT_TRUE(fs::exists(source_ + "/" + path)) << path;
    EXPECT_FALSE(fs::exists(fs::path(stage) / "opt/crosstalk/include/crosstalk" / path)) << path;
  }
  EXPECT_NE(RunShell("grep -q stage '" + stage + "/opt/crosstalk/lib/pkgconfig/crosstalk.pc'").status, 0);
  ASSERT_EQ(Make("uninstall DESTDIR='" + stage + "' PREFIX=/opt/crosstalk").status, 0);
  EXPECT_EQ(RunShell("find '" + stage + "' -type f -o -type l").output, "");
}

TEST_F(InstallTest, ItSaysInOneLineWhyItCannot) {
  const ShellResult relative = Make("install PREFIX=here");
  EXPECT_NE(relative.status, 0);
  EXPECT_NE(relative.output.find("make install: PREFIX=FOLDER must begin with /"), std::string::npos)
      << relative.output;
  for (const char* folder : {"/lib64", "lib/../..", "'lib;x'", "''"}) {
    const ShellResult outside = Make("install DESTDIR='" + folder_.string() + "' LIBDIR=" + folder);
    EXPECT_NE(outside.status, 0) << folder;
    EXPECT_NE(outside.output.find("make install: LIBDIR must be a folder below PREFIX"), std::string::npos)
        << outside.output;
  }
  const ShellResult install = Make("install PREFIX=/dev/null/prefix");
  EXPECT_NE(install.status, 0);
  EXPECT_NE(install.output.find("make install: cannot write to /dev/null/prefix;"), std::string::npos)
      << install.output;
}

}  // namespace install_test
