#include "tests/mutants/mutation.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace crosstalk {
namespace mutation_test {

// "<→<=" of each mutation, in the order of the source.
std::vector<std::string> Exchanges(const std::string& source) {
  std::vector<std::string> exchanges;
  for (const Mutation& mutation : FindMutations("f.cc", source)) {
    std::string text = mutation.before + "→" + mutation.after;
    text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
    exchanges.push_back(text);
  }
  return exchanges;
}

using Texts = std::vector<std::string>;

TEST(Mutation, FindsOperatorsBoundsSignsIndicesAndConstantsInCodeAlone) {
  const std::pair<const char*, Texts> rows[] = {
      {"a = b + c;", {"+→-"}},
      {"for (; i < n;) s += x[i];", {"<→<=", "+=→-=", "[i]→[i+1]"}},
      {"return -x && y(-z) == 0;", {"return-→return", "&&→||", "(-→(", "==→!=", "0→1"}},
      {"f(0.044715f, 1e-9, 1'000);", {"0.044715f→0.054715f", "1e-9→2e-9", "1'000→2'000"}},
      {"v = hn::MulAdd(a, hn::Max(b, c), true);", {"hn::MulAdd→hn::MulSub", "hn::Max→hn::Min", "true→false"}},
      {"// a + b\n/* a < b */ x;", {}},
      {"s = \"a + b\\\" < c\"; c = '<'; r = R\"x(1 + 2)\" + 3)x\";", {}},
      {"#define A \\\n  1 + 2\nx;", {}},
      {"CROSSTALK_DCHECK(a < (b + 1));\nstatic_assert(n == 2);", {}},
      {"std::vector<int> v8; float* p; x_1; 0xff;", {}}};
  for (const auto& [source, exchanges] : rows) EXPECT_EQ(Exchanges(source), exchanges) << source;
}

TEST(Mutation, IsAppliedWhereItWasFound) {
  const std::string source = "int f(int a) {\n  // a < b\n  return a < 2 ? a : g[a];\n}\n";
  const std::vector<Mutation> mutations = FindMutations("f.cc", source);
  ASSERT_EQ(mutations.size(), 3u);
  EXPECT_EQ(Apply(mutations[0], source), "int f(int a) {\n  // a < b\n  return a <= 2 ? a : g[a];\n}\n");
  EXPECT_EQ(ToString(mutations[2]), "f.cc:3: `[a]` becomes `[a + 1]` in: return a < 2 ? a : g[a];");
}

TEST(Mutation, OrderDependsOnTheSeedAndNotOnOtherLines) {
  const std::string source = "a = b + c;\nd = e * f;\ng = h < i;\nj = k == l;\nm = n - o;\n";
  const auto order = [](const std::string& text, uint64_t seed) {
    std::vector<Mutation> mutations = FindMutations("f.cc", text);
    Shuffle(seed, &mutations);
    Texts contexts;
    for (const Mutation& mutation : mutations) contexts.push_back(mutation.context);
    return contexts;
  };
  EXPECT_EQ(order(source, 1), order("\n\n" + source, 1));
  EXPECT_NE(order(source, 1), order(source, 2));
}

}  // namespace mutation_test
}  // namespace crosstalk
