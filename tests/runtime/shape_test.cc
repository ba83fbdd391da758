#include "crosstalk/runtime/shape.h"

#include <gtest/gtest.h>

#include "crosstalk/runtime/check.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace shape_test {

using testing::MessageOf;

TEST(ShapeTest, SizesWhoseProductOverflowsAreRefusedWhereverAZeroStands) {
  constexpr int64_t kLarge = int64_t{1} << 40, kHalf = int64_t{1} << 32;  // kHalf³ would wrap round to 0
  for (const Shape& shape :
       {Shape{kLarge, kLarge}, Shape{kHalf, kHalf, 4}, Shape{kLarge, kLarge, 0}, Shape{0, kLarge, kLarge},
        Shape{kLarge, 0, kLarge}, Shape{INT64_MAX}, Shape{1, INT64_MAX, INT64_MAX}}) {
    EXPECT_EQ(MessageOf([&] { shape.NumElements(); }),
              StrCat("shape ", shape, " has more elements than memory can address"));
  }
  EXPECT_EQ(MessageOf([] { (Shape{2, -3}).NumElements(); }), "negative size in shape [2, -3]");
  EXPECT_EQ((Shape{kLarge, 0, 4}).NumElements(), 0);
  EXPECT_EQ((Shape{kLarge, 1 << 15}).NumElements(), kLarge << 15);
}

TEST(ShapeTest, HoldsUpToEightSizes) {
  const Shape shape = {2, 3, 5};
  EXPECT_EQ(shape.at(-1), 5);
  EXPECT_EQ(shape.at(-3), 2);
  EXPECT_EQ(Shape().NumElements(), 1);
  EXPECT_EQ((Shape{4, 0, 7}).NumElements(), 0);
  EXPECT_EQ(Shape(std::vector<int64_t>{2, 3, 5}), shape);
  EXPECT_NE((Shape{2, 3}), shape);
  EXPECT_NE((Shape{2, 3, 6}), shape);
  EXPECT_EQ(ToString(shape) + ToString(Shape()), "[2, 3, 5][]");
  const std::vector<int64_t> eight(8, 1), nine(9, 1);
  EXPECT_EQ(Shape(eight).ToVector(), eight);
  testing::ExpectRefused({{"nine", [&] { Shape{nine}; }, {"a tensor has at most 8 dimensions"}},
                          {"3", [&] { shape.at(3); }, {"dimension 3 of a shape of rank 3, [2, 3, 5]"}},
                          {"-4", [&] { shape.at(-4); }, {"dimension -4 of a shape of rank 3, [2, 3, 5]"}}});
}

TEST(ShapeTest, ContiguousStridesAreRowMajor) {
  EXPECT_EQ(ContiguousStrides({2, 3, 5}), (Strides{15, 5, 1}));
  EXPECT_EQ(ContiguousStrides({}), Strides());
  EXPECT_EQ(ContiguousStrides({7}), (Strides{1}));
  EXPECT_EQ(ContiguousStrides({2, 0, 5}), (Strides{5, 5, 1}));
}

TEST(ShapeTest, BroadcastingAlignsTheLastDimension) {
  EXPECT_EQ(BroadcastShapes("add", {4, 1, 3}, {5, 1}), (Shape{4, 5, 3}));
  EXPECT_EQ(BroadcastShapes("add", {}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(BroadcastShapes("add", {1}, {0}), (Shape{0}));
  EXPECT_EQ(MessageOf([] {
              BroadcastShapes("add", {4, 2, 3}, {5, 3});
            }),
            "add: shapes [4, 2, 3] and [5, 3] do not broadcast: 2 against 5 in dimension -2");
}

TEST(ShapeTest, BracketsAreParsed) {
  const Bracket bracket = ParseBracket(" P_q [ d_X,d_k , h_k,32 ] ");
  EXPECT_EQ(bracket.tensor, "P_q");
  EXPECT_EQ(bracket.indices, (std::vector<std::string>{"d_X", "d_k", "h_k", "32"}));
  EXPECT_TRUE(ParseBracket("s[]").indices.empty());
  EXPECT_TRUE(ParseBracket("s[ ]").indices.empty());
}

TEST(ShapeTest, WhatIsNotABracketIsQuoted) {
  testing::ExpectRefused<std::string>({{"a name", "Q", {"'Q' is not of the form NAME[dim, dim, …]"}},
                                       {"nothing", "", {"'' is not of the form NAME[dim, dim, …]"}},
                                       {"open", "Q[a", {"'Q[a' is not of the form NAME[dim, dim, …]"}},
                                       {"no name", "[a]", {"'[a]' does not begin with a tensor's name"}},
                                       {"a number", "1Q[a]", {"'1Q[a]' does not begin with a tensor's name"}},
                                       {"a comma", "Q[a,]", {"'' in 'Q[a,]' is not a dimension's name"}},
                                       {"a blank", "Q[a b]", {"'a b' in 'Q[a b]' is not a dimension's name"}},
                                       {"a minus", "Q[-1]", {"'-1' in 'Q[-1]' is not a dimension's name"}},
                                       {"nested", "Q[a[b]]", {"'a[b]' in 'Q[a[b]]' is not a dimension's name"}}},
                                      [](const std::string& text) { ParseBracket(text); });
}

TEST(DimsTest, WhatDoesNotFitShowsBothSizesAndWhereTheyAreFrom) {
  struct Bindings {
    std::vector<std::pair<const char*, Shape>> all;  // the last is refused
  };
  testing::ExpectRefused<Bindings>(
      {{"two tensors",
        {{{"Q[b, n, d_k, h_k]", {2, 5, 64, 8}}, {"K[b, m, d_k, h_k]", {2, 96, 32, 8}}}},
        {"op: K[b, m, d_k, h_k] = [2, 96, 32, 8] has d_k=32, but d_k=64 in Q[b, n, d_k, h_k] = [2, 5, 64, 8]"}},
       {"no square", {{{"P[h, h]", {3, 4}}}}, {"op: P[h, h] = [3, 4] has h=4, but h=3 in P[h, h] = [3, 4]"}},
       {"rank", {{{"X[n, d]", {2, 3, 4}}}}, {"op: X[n, d] has 2 dimensions, but the tensor given is [2, 3, 4]"}},
       {"fixed", {{{"T[h, 32]", {8, 31}}}}, {"op: T[h, 32] = [8, 31] has 31 where 32 is fixed"}}},
      [](const Bindings& bindings) {
        Dims dims("op");
        for (const auto& [bracket, shape] : bindings.all) dims.Bind(bracket, shape);
      });
  Dims fits("op");
  fits.Bind("P[h, d_k]", {3, 7}).Bind("T[h, 32, h, n]", {3, 32, 3, 5});
  EXPECT_EQ(fits["d_k"], 7);
  EXPECT_EQ(fits["n"], 5);
  EXPECT_TRUE(fits.Has("h"));
  EXPECT_FALSE(fits.Has("32"));
  EXPECT_THROW(fits["d_v"], std::logic_error);
}

TEST(DimsTest, ASizeByDecreeIsNamedByItsSource) {
  Dims dims("linear");
  dims.Set("d_model", 512, "the configuration");
  dims.Set("d_model", 512, "again");
  EXPECT_EQ(dims["d_model"], 512);
  const Shape wide{4, 256};
  const std::string error = "d_model=512 in the configuration";
  testing::ExpectRefused(
      {{"a tensor",
        [&] { dims.Bind("X[n, d_model]", wide); },
        {"linear: X[n, d_model] = [4, 256] has d_model=256, but " + error}},
       {"an option", [&] { dims.Set("d_model", 256, "it"); }, {"linear: d_model=256 from it, but " + error}}});
}

TEST(DimsTest, KeepsTheTextsItWasGivenHoweverMany) {
  constexpr int kTensors = 100;
  Dims dims(std::string("a rather long name of an operation"));
  for (int i = 0; i < kTensors; ++i) {
    dims.Bind(StrCat("a_tensor_", i, "[the_rows_of_", i, ", d]"), {i, 7});
    dims.Set(StrCat("size_", i), i, StrCat("the configuration's line ", i));
  }
  for (int i = 0; i < kTensors; ++i) {
    EXPECT_EQ(dims[StrCat("the_rows_of_", i)], i);
    EXPECT_EQ(dims[StrCat("size_", i)], i);
  }
  testing::ExpectRefused(
      {{"a tensor",
        [&] { dims.Bind("X[the_rows_of_60]", {5}); },
        {"a rather long name of an operation: X[the_rows_of_60] = [5] has the_rows_of_60=5, but the_rows_of_60=60 in "
         "a_tensor_60[the_rows_of_60, d] = [60, 7]"}},
       {"a size", [&] { dims.Set("size_60", 5, "it"); }, {"size_60=60 in the configuration's line 60"}},
       {"nine",
        [&] {
          dims.Bind("X[a, b, c, e, f, g, h, i, j]", {1, 2});
        },
        {"X[a, b, c, e, f, g, h, i, j] has 9"}}});
}

}  // namespace shape_test
}  // namespace crosstalk
