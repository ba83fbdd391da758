// The main of every test program. As build/tests/kernels/softmax_test, a link to the program of its folder, it runs the
// tests of softmax_test.cc alone; as all_tests all of them.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

std::string_view AfterLastSlash(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// A filter of the tests of `source`, "softmax_test.cc"; empty if there are none.
std::string TestsOf(std::string_view source) {
  std::string filter;
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *program.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (AfterLastSlash(test.file()) == source) filter += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name(AfterLastSlash(argv[0]));
  testing::InitGoogleTest(&argc, argv);
  if (name != "all_tests" && GTEST_FLAG_GET(filter) == "*") {
    const std::string filter = TestsOf(name + ".cc");
    if (filter.empty()) {
      std::fprintf(stderr, "%s: this program has no tests of %s.cc\n", argv[0], name.c_str());
      return 1;
    }
    GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
