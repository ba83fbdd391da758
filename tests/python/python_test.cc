// The Python package, on the library of this build: each file of tests/python in an interpreter of its own, the package
// of a prefix, and the program of the page on it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/shell.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::python_test {

class PythonTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a plain interpreter cannot load an instrumented library";
#endif
    const char* source = std::getenv("CROSSTALK_SOURCE");
    const char* build = std::getenv("CROSSTALK_BUILD");
    if (source == nullptr || build == nullptr) GTEST_SKIP() << "run by `make test`, which says where the build is";
    source_ = source;
    build_ = build;
    // Another interpreter may come before the system's, which has the system's numpy.
    for (const char* interpreter : {"python3", "/usr/bin/python3"}) {
      if (RunShell(std::string(interpreter) + " -c 'import numpy'").status == 0) python_ = interpreter;
      if (!python_.empty()) return;
    }
    FAIL() << "there is no python3 with numpy; packages.txt has them";
  }

  ShellResult Run(const std::string& arguments, const std::string& environment = "") {
    return RunShell("cd '" + folder_.path() + "' && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='" + source_ +
                    "/models/bindings/python' CROSSTALK_LIBRARY='" + build_ + "/lib/libcrosstalk.so' " + environment +
                    " " + python_ + " -X dev -W error::ResourceWarning " + arguments);
  }
  void RunFile(const std::string& name) {
    const ShellResult outcome = Run("'" + source_ + "/tests/python/" + name + "'");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(outcome.output.find("Traceback"), std::string::npos) << outcome.output;
    if (outcome.output.find("OK (skipped=") != std::string::npos) GTEST_SKIP() << outcome.output;
  }

  TempDir folder_;
  std::string source_, build_, python_;
};

TEST_F(PythonTest, Arrays) { RunFile("test_arrays.py"); }
TEST_F(PythonTest, Attention) { RunFile("test_attention.py"); }
TEST_F(PythonTest, Training) { RunFile("test_training.py"); }
TEST_F(PythonTest, Library) { RunFile("test_library.py"); }
TEST_F(PythonTest, Torch) { RunFile("test_torch.py"); }

TEST_F(PythonTest, AnInstalledPackageFindsTheLibraryOfItsPrefixAlsoWhereThatWasMoved) {
  const std::string make = "make --no-print-directory -C '" + source_ + "' BUILD='" + build_ + "' ";
  const std::string program =
      "-c 'import crosstalk, numpy\n"
      "print(crosstalk.__file__, crosstalk.Attention(d_model=8, heads=2)(numpy.ones((1, 2, 8), \"float32\")).shape)'";
  for (const std::string libraries : {"lib", "libraries/crosstalk"}) {
    SCOPED_TRACE(libraries);
    const std::string prefix = folder_ / "prefix", moved = folder_ / "moved prefix", at = " LIBDIR=" + libraries;
    const ShellResult install = RunShell(make + "install PREFIX='" + prefix + "'" + at);
    ASSERT_EQ(install.status, 0) << install.output;
    std::filesystem::rename(prefix, moved);
    const ShellResult outcome =
        RunShell("cd / && PYTHONPATH='" + moved + "/lib/python3/dist-packages' " + python_ + " " + program);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("moved prefix"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find("(1, 2, 8)"), std::string::npos) << outcome.output;
    const ShellResult uninstall = RunShell(make + "uninstall PREFIX='" + moved + "'" + at);
    ASSERT_EQ(uninstall.status, 0) << uninstall.output;
    EXPECT_FALSE(std::filesystem::exists(moved + "/lib/python3/dist-packages/crosstalk"));
    EXPECT_FALSE(std::filesystem::exists(moved + "/include/crosstalk.h"));
    std::filesystem::remove_all(moved);
  }
}

TEST_F(PythonTest, TheProgramsOfThePageAndOfTheFrontPageRun) {
  for (const std::string page : {"docs/embedding_python.md", "README.md"}) {
    SCOPED_TRACE(page);
    const ShellResult written = RunShell("sed -n '/^```python$/,/^```$/p' '" + source_ + "/" + page +
                                         "' | grep -v '^```' > '" + (folder_ / "page.py") + "'");
    ASSERT_EQ(written.status, 0);
    const ShellResult outcome = Run("page.py");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
  }
}

}  // namespace crosstalk::python_test
