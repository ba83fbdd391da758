// The main of every test program. As build/tests/kernels/softmax_test, a link to the program of its folder, it runs the
// tests of softmax_test.cc alone; as all_tests all of them. As build/tests/sessions/train those of train.session.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

std::string_view AfterLastSlash(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// A filter of the tests of a source, "softmax_test"; empty if there are none.
std::string TestsOf(const std::string& name) {
  std::string filter;
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *program.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::string_view source = AfterLastSlash(test.file());
      if (source == name + ".cc" || source == name + ".session")
        filter += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name(AfterLastSlash(argv[0]));
  testing::InitGoogleTest(&argc, argv);
  if (name != "all_tests" && GTEST_FLAG_GET(filter) == "*") {
    const std::string filter = TestsOf(name);
    if (filter.empty()) {
      std::fprintf(stderr, "%s: this program has no tests of %s\n", argv[0], name.c_str());
      return 1;
    }
    GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
