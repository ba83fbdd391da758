#include "crosstalk/runtime/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/decimal_comma.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace json_test {

using testing::FailEachAllocation;
using testing::MessageOf;

std::string Repeat(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

std::string ParseMessage(std::string_view text) {
  return MessageOf([&] { ParseJson(text, "file.json"); }, ErrorKind::kData);
}

TEST(JsonTest, ParsesEveryKindOfValueAndKeepsTheOrder) {
  const Json json = ParseJson(R"( {"z": null, "b": true, "c": -7, "d": 2.5e1, "e": "x\u00e9\n\ud83d\ude00",
                             "f": [1, [], {}], "a": {"h": false}} )",
                              "test");
  EXPECT_EQ(json.Dump(),
            "{\"z\": null, \"b\": true, \"c\": -7, \"d\": 25.0, \"e\": \"x\xc3\xa9\\n\xf0\x9f\x98\x80\", "
            "\"f\": [1, [], {}], \"a\": {\"h\": false}}");
  EXPECT_EQ(json.At("e").AsString(), "x\xc3\xa9\n\xf0\x9f\x98\x80");
  EXPECT_EQ(json.Find("y"), nullptr);
  EXPECT_EQ(Json().Set("z", 1).Set("a", 2).Set("z", 3).Dump(), R"({"z": 3, "a": 2})");
}

TEST(JsonTest, IntegersStayIntegersAndDoublesDoubles) {
  const Json json = ParseJson("[3, 3.0, 9223372036854775807, -9223372036854775808, 1e2, -0.0]", "test");
  EXPECT_TRUE(json.AsArray()[0].is_int());
  EXPECT_TRUE(json.AsArray()[1].is_double());
  EXPECT_EQ(json.AsArray()[2].AsInt(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(json.AsArray()[3].AsInt(), std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(json.AsArray()[4].is_double());
  EXPECT_EQ(json.Dump(), "[3, 3.0, 9223372036854775807, -9223372036854775808, 100.0, -0.0]");
}

TEST(JsonTest, AnIntegerBeyond64BitsKeepsItsDigitsAndIsNoInt) {
  const std::string text = R"({"n": [1000000000000000019884624838656, 9223372036854775808, -9223372036854775809]})";
  const Json json = ParseJson(text, "test");
  EXPECT_EQ(json.Dump(), text);
  const std::string error = "must be an integer, but is an integer beyond 64 bits";
  for (const Json& one : json.At("n").AsArray()) {
    EXPECT_TRUE(one.is_number() && !one.is_int() && !one.is_double());
    EXPECT_EQ(MessageOf([&] { one.AsInt(); }, ErrorKind::kData), "JSON: " + error);
  }
  EXPECT_EQ(json.At("n").AsArray()[0].AsDouble(), 1e30);
  EXPECT_EQ(json.At("n").AsArray()[2].AsDouble(), -9223372036854775808.0);
  const Json object = ParseJson(R"({"n": 18446744073709551616})", "test");
  const JsonReader reader(object, "that.json");
  EXPECT_EQ(reader.Double("n"), 18446744073709551616.0);
  EXPECT_EQ(MessageOf([&] { reader.Int("n"); }, ErrorKind::kData), "that.json: n: " + error);
}

TEST(JsonTest, FiniteDoublesReadBackToTheSameBits) {
  for (double value : {0.1, 1.0 / 3, 1e-300, 1.7976931348623157e308, 5e-324, 123456789012345680.0, -2.5, 1e22}) {
    const std::string text = Json(value).Dump();
    const Json back = ParseJson(text, "test");
    ASSERT_TRUE(back.is_double()) << text;
    EXPECT_EQ(back.AsDouble(), value) << text;
  }
  EXPECT_EQ(Json::MakeArray({std::nan(""), HUGE_VAL, -HUGE_VAL}).Dump(), "[null, null, null]");
}

TEST(JsonTest, NumbersHavePointsWhateverTheLocale) {
  const testing::DecimalCommaScope comma;
  const std::string text = "[0.5, -2.25e-3, 1234567, 1234567.5, 1e22]";
  const Json read = ParseJson(text, "x");
  EXPECT_EQ(read, Json::MakeArray({0.5, -2.25e-3, 1234567, 1234567.5, 1e22}));
  EXPECT_EQ(read.Dump(), "[0.5, -0.00225, 1234567, 1234567.5, 1e+22]");
  EXPECT_EQ(ParseMessage("[0,5 1]"),
            "file.json: byte 6: syntax error while parsing array - unexpected number literal; "
            "expected ']'");
  if (!comma.of_c()) GTEST_SKIP() << "no localedef here: only C++'s locale was tried";
  EXPECT_EQ(*localeconv()->decimal_point, ',') << "it is the host's again";
}

TEST(JsonTest, StringsAreEscapedAndAlwaysUtf8) {
  EXPECT_EQ(Json("a\"b\\c\n\t\r\x01\x7f/é").Dump(), "\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u007f/é\"");
  const std::string replacement = "\xef\xbf\xbd";
  EXPECT_EQ(Json("a\xff z").Dump(), "\"a" + replacement + " z\"");
  EXPECT_EQ(Json("\xc0\xaf").Dump(), "\"" + replacement + replacement + "\"");
  EXPECT_EQ(Json("cut \xe2\x82").Dump(), "\"cut " + replacement + replacement + "\"");
}

TEST(JsonTest, PrettyTextReadsBack) {
  const Json json = Json::MakeObject({{"a", Json::MakeArray({1, 2})}, {"b", Json::MakeObject()}, {"c", "x"}});
  EXPECT_EQ(json.DumpPretty(), "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {},\n  \"c\": \"x\"\n}\n");
  EXPECT_EQ(ParseJson(json.DumpPretty(), "test"), json);
}

// Text that is no JSON, and words of the error, which names a byte.
TEST(JsonTest, RefusesWhatIsNotJsonWithTheByte) {
  const std::pair<std::string, const char*> kCases[] = {
      {"", "byte"},
      {"  ", "unexpected end of input"},
      {"{", "unexpected end of input"},
      {"[1, 2", "unexpected end of input"},
      {"[1,]", "byte 4"},
      {"{\"a\": 1,}", "byte 9"},
      {"{'a': 1}", "byte 2"},
      {"{\"a\" 1}", "byte 6"},
      {"{1: 2}", "byte 2"},
      {"// c\n1", "byte 1"},
      {"01", "byte 2"},
      {"+1", "byte 1"},
      {"1.", "byte 2"},
      {".5", "byte 1"},
      {"1e", "byte 2"},
      {"- 1", "byte 2"},
      {"NaN", "byte 1"},
      {"Infinity", "byte 1"},
      {"nul", "byte 3"},
      {"True", "byte 1"},
      {"1 2", "byte 3"},
      {"{} x", "byte 4"},
      {"\"a", "byte 2"},
      {"\"a\nb\"", "byte 3"},
      {"\"\\x41\"", "byte 3"},
      {"\"\\ud800\"", "byte"},
      {"\"\\udc00\"", "byte"},
      {"\"\\u12g4\"", "byte"},
      {"\"a\xff\"", "byte 3"},
      {"\"\xc0\xaf\"", "byte 2"},
      {"\"\xed\xa0\x80\"", "byte 3"},
      {"\xef\xbb\xbf{}", "byte 0: begins with a byte-order mark"},
      {std::string("{}\0", 3), "byte 2: a NUL byte"},
      {std::string("{\"a\0\": 1}", 10), "byte 3: a NUL byte"},
      {R"({"a": 1, "b": 2, "a": 3})", "byte 20: duplicate key \"a\""},
      {R"({"x": {"k": 1, "k": 1}})", "duplicate key \"k\""},
      {R"({"a": 1, "\u0061": 3})", "duplicate key \"a\""},
      {"1e999", "byte 5"},
      {Repeat("[", 65) + Repeat("]", 65), "byte 65: nested deeper than 64"},
      {Repeat("{\"a\":", 65) + "1" + Repeat("}", 65), "nested deeper than 64"},
  };
  for (const auto& [text, words] : kCases) {
    const std::string message = ParseMessage(text);
    EXPECT_TRUE(testing::Contains(message, "file.json: byte ") && testing::Contains(message, words)) << message;
    EXPECT_FALSE(testing::Contains(message, "json.exception")) << message;
    EXPECT_EQ(FindInvalidUtf8(message), std::string::npos) << message;
  }
  const std::string deepest = Repeat("[", 64) + Repeat("]", 64);
  EXPECT_EQ(ParseJson(deepest, "test").Dump(), deepest);
}

TEST(JsonTest, EveryTruncationIsRefused) {
  const std::string text = R"({"a": [1, -2.5e3, "x\u00e9y"], "b": {"c": true, "d": null}})";
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(ParseJson(text.substr(0, size), "test"), Error) << text.substr(0, size);
  }
  EXPECT_NO_THROW(ParseJson(text, "test"));
}

TEST(JsonTest, ReadsAFileAndNamesIt) {
  const TempDir dir;
  EXPECT_EQ(ReadJsonFile(dir.Put("good.json", "{\"a\": 1}\n")).At("a").AsInt(), 1);
  testing::ExpectError([&] { ReadJsonFile(dir.Put("bad.json", "{\"a\": }")); }, ErrorKind::kData, {"bad.json: byte 7"});
}

TEST(JsonTest, AnUnsignedIntegerThatDoesNotFitIsRefused) {
  EXPECT_EQ(Json(uint64_t{5}).AsInt(), 5);
  MessageOf([] { Json json(std::numeric_limits<uint64_t>::max()); }, ErrorKind::kUsage);
}

TEST(JsonReaderTest, ErrorsNameTheWholePathAndBothTypes) {
  const Json json = ParseJson(R"({"optimizer": {"beta": "high", "steps": 5, "on": 1}, "list": 3})", "run.json");
  const JsonReader reader(json, "run.json");
  const JsonReader optimizer = reader.Object("optimizer");
  const std::string path = "run.json: optimizer.";
  testing::ExpectRefused(
      {{"a string", [] { Json("x").AsInt(); }, {"JSON: must be an integer, but is a string"}},
       {"a fraction", [] { Json(2.5).AsInt(); }, {"JSON: must be an integer, but is a number"}},
       {"no object", [] { Json(1).AsObject(); }, {"JSON: must be an object, but is an integer"}},
       {"no member", [] { Json::MakeObject().At("k"); }, {"JSON: there is no \"k\""}},
       {"beta", [&] { optimizer.Double("beta"); }, {path + "beta: must be a number, but is a string"}},
       {"on", [&] { optimizer.Bool("on"); }, {path + "on: must be true or false, but is an integer"}},
       {"gamma", [&] { optimizer.Int("gamma"); }, {path + "gamma: is missing"}},
       {"steps", [&] { optimizer.Int("steps", 6, 9); }, {path + "steps: must be 6 … 9, but is 5"}},
       {"list", [&] { reader.Object("list"); }, {"run.json: list: must be an object, but is an integer"}},
       {"as array", [&] { reader.Array("list"); }, {"run.json: list: must be an array, but is an integer"}},
       {"the root", [&] { JsonReader(json.At("list"), "run.json"); }, {"run.json: must be an object, but is an"}}},
      ErrorKind::kData);
  EXPECT_EQ(optimizer.Int("steps", 5, 5), 5);
  EXPECT_EQ(optimizer.Double("steps"), 5.0);
}

TEST(JsonReaderTest, AKeyThatNobodyReadIsAnError) {
  const Json json = ParseJson(R"({"a": 1, "b": {"c": 2}, "typo": 3})", "test");
  const JsonReader reader(json, "run.json", ErrorKind::kUsage);
  EXPECT_EQ(reader.Int("a"), 1);
  reader.Object("b");
  EXPECT_EQ(MessageOf([&] { reader.RejectUnread(); }, ErrorKind::kUsage),
            "run.json: typo: is not a key that is known here");
  EXPECT_EQ(reader.Int("typo"), 3);
  EXPECT_NO_THROW(reader.RejectUnread());
}

// libstdc++ 12's variant would destroy what a failed copy never made.
TEST(JsonTest, ACopyThatFindsNoMemoryLeavesBothValuesAsTheyWere) {
  const char* const text =
      R"({"a key that needs memory": ["a string that needs memory", {"b": [1, 2.5, null, true]}]})";
  const Json json = ParseJson(text, "test");
  EXPECT_GT(FailEachAllocation([&] { const Json copy(json); }, [&] { EXPECT_EQ(json.Dump(), text); }), 4);
  Json other = Json::MakeArray({"what was there before, and is longer than a string without memory"});
  const std::string before = other.Dump();
  EXPECT_GT(FailEachAllocation([&] { other = json; }, [&] { EXPECT_EQ(other.Dump(), before); }), 4);
  EXPECT_EQ(other, json);
}

}  // namespace json_test
}  // namespace crosstalk
