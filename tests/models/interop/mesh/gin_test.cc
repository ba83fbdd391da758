#include "crosstalk/models/interop/mesh/gin.h"

#include "crosstalk/runtime/measure.h"
#include "tests/support/decimal_comma.h"
#include "tests/support/messages.h"

namespace crosstalk::gin_test {

using testing::ExpectError;

TEST(GinTest, LiteralsAreReadAndTheRestIsLeftOut) {
  const Json read = ReadGin(
      "# Macros:\n"
      "d_model = 24  # width\n"
      "rate = 0.1\n"
      "import mesh_tensorflow.optimize\n"
      "include 'other.gin'\n"
      "\n"
      "encoder/DenseReluDense.activation = ['gelu', \"linear\"]\n"
      "DenseReluDense.hidden_size = %d_model\n"
      "twice = %DenseReluDense.hidden_size\n"
      "heads = [('key_heads', 6),\n"
      "         ('heads', -4)]\n"
      "long = \\\n"
      "    'a # that is no comment'\n"
      "flags = (True, False, None, 1e-06)\n"
      "layers = [@A, @b/C]\n"
      "empty = []\n"
      "called = @A()\n"
      "mapped = {'a': 1}\n"
      "unbound = %nothing\n"
      "itself = %itself\n"
      "quoted = '@A'\n"
      "list = [%d_model]\n"
      "infinite = inf\n"
      "sum = 1 + 2\n"
      "= 3\n"
      "a b = 3\n"
      "d_model2 = 3 4\n",
      "x.gin");
  EXPECT_EQ(read, Json::MakeObject(
                      {{"d_model", 24},
                       {"rate", 0.1},
                       {"encoder/DenseReluDense.activation", Json::MakeArray({"gelu", "linear"})},
                       {"DenseReluDense.hidden_size", 24},
                       {"twice", 24},
                       {"heads", Json::MakeArray({Json::MakeArray({"key_heads", 6}), Json::MakeArray({"heads", -4})})},
                       {"long", "a # that is no comment"},
                       {"flags", Json::MakeArray({true, false, Json(), 1e-06})},
                       {"layers", Json::MakeArray({"@A", "@b/C"})},
                       {"empty", Json::MakeArray()}}))
      << read.Dump();
  EXPECT_EQ(ReadGin("", "x"), Json::MakeObject());
  EXPECT_EQ(ReadGin("a = 1\na = 2", "x"), Json::MakeObject({{"a", 2}}));
}

TEST(GinTest, WhatIsWrittenIsReadAgain) {
  const testing::DecimalCommaScope comma;  // and not what the host's country writes
  const Json bindings =
      Json::MakeObject({{"d_model", 24},
                        {"rate", 0.5},
                        {"steps", 1234567},
                        {"tied", false},
                        {"text", "it's"},
                        {"none", Json()},
                        {"A.layers", Json::MakeArray({"@A", "@B"})},
                        {"A.heads", Json::MakeArray({Json::MakeArray({"heads", 4}), Json::MakeArray({"x"})})},
                        {"A.activation", Json::MakeArray({"gelu", "linear"})}});
  const std::string text = WriteGin(bindings);
  EXPECT_NE(text.find("A.heads = [('heads', 4), ('x',)]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("A.layers = [@A, @B]\n"), std::string::npos) << text;
  EXPECT_EQ(ReadGin(text, "x"), bindings);
}

TEST(GinTest, TextWithoutItsEndIsRefusedWithItsLine) {
  const auto refused = [](const std::string& text, const std::string& says) {
    ExpectError([&] { ReadGin(text, "x.gin"); }, ErrorKind::kData, {"x.gin", says});
  };
  refused("a = 1\nb = 'c\nd = 2", "line 2: a string");
  refused("a = \"c\\", "line 1: a string");
  refused("a = [1,\n2\n", "line 3: a bracket that nothing closes");
  refused("a = 1]\n", "line 1: a bracket that nothing opens");
  refused("a = " + std::string(100000, '[') + std::string(100000, ']'), "deeper than 16");
  std::string many;
  for (int i = 0; i < 10001; ++i) many += "a" + std::to_string(i) + " = 1\n";
  refused(many, "more than 10000 bindings");
}

// 4 MB, as long as a file may be: a statement costs no walk over the others, and a macro no copies without end.
TEST(GinTest, NamesAreFoundWithoutAWalkOverTheOthers) {
  std::string many;
  for (int i = 0; i < 9'999; ++i) many += "a" + std::to_string(i) + " = 1\n";
  while (many.size() < 4'000'000) many += "a9998 = 2\n";
  const Stopwatch watch;
  const Json read = ReadGin(many, "x");
  EXPECT_LT(watch.seconds(), 5) << "a walk over 10,000 names for each of 400,000 statements takes 25";
  EXPECT_EQ(read.AsObject().size(), 9'999u);
  EXPECT_EQ(read.AsObject().back().second, Json(2));

  std::string copies = "list = [";
  for (int i = 0; i < 2'500; ++i) copies += "1, ";
  copies += "2]\nshort = [1, 2]\n";
  for (int i = 0; i < 9'000; ++i) copies += "a" + std::to_string(i) + (i % 2 == 0 ? " = %short\n" : " = %long\n");
  copies += "long = [" + std::string(10'000, ' ') + "1]\nused = %list\n";
  const Json resolved = ReadGin(copies, "x");
  EXPECT_EQ(resolved.At("a0"), Json::MakeArray({1, 2}));
  EXPECT_EQ(resolved.Find("a1"), nullptr);
  EXPECT_EQ(resolved.At("used").AsArray().size(), 2'501u);
}

}  // namespace crosstalk::gin_test
