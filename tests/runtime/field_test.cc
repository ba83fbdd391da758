#include "crosstalk/runtime/field.h"

#include <gtest/gtest.h>

namespace crosstalk {
namespace {

enum class Colour { kRed, kBlue };

}  // namespace

template <>
struct EnumNames<Colour> {
  static constexpr EnumName<Colour> kTable[] = {{Colour::kRed, "red"}, {Colour::kBlue, "blue"}};
};

namespace {

struct Part {
  std::optional<int64_t> depth;
};
struct Config {
  int64_t width = 3;
  double rate = 0.5;
  bool loud = false;
  std::string name = "x";
  std::string size = "small";
  Colour colour = Colour::kRed;
  std::optional<double> scale;
  Part part;
  std::vector<int64_t> shades = {1, 2};
  int64_t extra = 5;  // in no row of Fields()
};

const FieldTable<Config>& Fields() {
  static const FieldTable<Config> table = [] {
    const FieldTable<Part> inner = {MakeField("depth", &Part::depth, "N", "Depth.", {.range = {1, 8}})};
    FieldTable<Config> all = {MakeField("width", &Config::width, "N", "Width.", {.range = AtLeast(1)}),
                              MakeField("rate", &Config::rate, "X", "Rate.", {.range = {0, 1}}),
                              MakeField("loud", &Config::loud, "", "Loud.", {.affects_result = AffectsResult::kNo}),
                              MakeField("name", &Config::name, "TEXT", "Name."),
                              MakeField("size", &Config::size, "", "Size.", {.choices = {"small", "large"}}),
                              MakeField("colour", &Config::colour, "", "Colour."),
                              MakeField("shades", &Config::shades, "LIST", "Shades.", {.range = {0, 9}}),
                              MakeField("scale", &Config::scale, "X", "Scale.")};
    for (Field<Config>& field : FieldsOfPart(inner, &Config::part)) all.push_back(field);
    return all;
  }();
  return table;
}

// The error thrown by f() is one of this field, says so first, and is short.
template <typename F>
std::string ExpectErrorOf(const std::string& field, const F& f, ErrorKind kind = ErrorKind::kUsage) {
  try {
    f();
    ADD_FAILURE() << field << ": nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_EQ(error.field(), field);
    EXPECT_TRUE(std::string(error.what()).starts_with(field + ": ")) << error.what();
    EXPECT_LT(std::string(error.what()).size(), 500u);
    return error.what();
  }
  return "";
}

struct Fruit {
  const char* name;
  int seeds;
};

TEST(NamesTest, FindTheirValuesAndAnUnknownOneIsAnErrorOfItsFieldWithTheNearest) {
  for (const std::string& name : NamesOf<Colour>()) EXPECT_EQ(Name(ParseName<Colour>("colour", name)), name);
  EXPECT_STREQ(Name(Colour::kBlue), "blue");
  EXPECT_EQ(ExpectErrorOf(
                "colour", [] { ParseName<Colour>("colour", "rde", ErrorKind::kData); }, ErrorKind::kData),
            "colour: \"rde\" is none of red, blue; did you mean \"red\"?");
  const std::vector<Fruit> fruits = {{"apple", 5}, {"peach", 1}};
  EXPECT_EQ(NamesIn(fruits), (std::vector<std::string>{"apple", "peach"}));
  EXPECT_EQ(&FindNamed("fruit", "peach", fruits), &fruits[1]);
  EXPECT_EQ(ExpectErrorOf("fruit", [&] { FindNamed("fruit", "appel", fruits); }),
            "fruit: \"appel\" is none of apple, peach; did you mean \"apple\"?");
}

TEST(FieldTest, AConfigurationSurvivesJson) {
  Config config;
  config.width = 7;
  config.colour = Colour::kBlue;
  config.part.depth = 4;
  const Json json = FieldsToJson(Fields(), config);
  EXPECT_EQ(json.Dump(), R"({"width": 7, "rate": 0.5, "loud": false, "name": "x", "size": "small", "colour": "blue", )"
                         R"("shades": [1, 2], "scale": null, "depth": 4})");
  EXPECT_EQ(FieldsToJson(Fields(), FieldsFromJson(Fields(), json, "test")), json);
  Fields().back().set(config, Json());
  EXPECT_FALSE(config.part.depth.has_value()) << "none resets it";
}

TEST(FieldTest, ValuesOfAnotherTypeOutOfRangeOrNoChoiceAreErrorsOfTheirField) {
  const std::vector<std::pair<const char*, Json>> faults = {
      {"width", 0},       {"width", 2.5},
      {"width", "7"},     {"width", Json()},
      {"rate", 1.5},      {"rate", -0.1},
      {"loud", 1},        {"name", 3},
      {"size", "medium"}, {"colour", std::string(1'000'000, 'x')},
      {"colour", "rde"},  {"depth", 9},
      {"scale", "x"},     {"width", std::numeric_limits<int64_t>::max()},
      {"shades", 1},      {"shades", Json::MakeArray({2, -1})}};
  for (const auto& [key, value] : faults) {
    for (const Field<Config>& field : Fields()) {
      Config config;
      if (field.key == key) ExpectErrorOf(key, [&, value = value] { field.set(config, value); });
    }
  }
  // In a configuration that is made in code, too, where a text may be one that a file cannot keep.
  EXPECT_NO_THROW(CheckFields(Fields(), Config()));
  ExpectErrorOf("depth", [] { CheckFields(Fields(), {.part = {100}}); });
  for (const std::string& text : {std::string(5000, 'x'), std::string("caf\xE9")}) {
    ExpectErrorOf("name", [&] { CheckFields(Fields(), {.name = text}); });
  }
}

TEST(FieldTest, ARowAddedLaterReadsOlderFilesWithItsDefault) {
  FieldTable<Config> table = Fields();
  Json older = FieldsToJson(table, Config());
  table.push_back(MakeField("extra", &Config::extra, "N", "Extra.", {.may_be_missing = true}));
  EXPECT_EQ(FieldsFromJson(table, older, "test").extra, 5);
  EXPECT_EQ(FieldsFromJson(table, older.Set("extra", 6), "test").extra, 6);
  table.back().options.may_be_missing = false;
  EXPECT_THROW(FieldsFromJson(table, FieldsToJson(Fields(), Config()), "test"), Error);
}

TEST(FieldTest, AFieldThatNobodyReadsMustBeAsTheDefaultsHaveItOnceTheChoiceIsMade) {
  struct Later {
    std::optional<Colour> colour;
    int64_t shade = 2;
  };
  const FieldTable<Later> table = {MakeField("colour", &Later::colour, "", "Colour."),
                                   MakeField("shade", &Later::shade, "", "Shade.", {.read_by = {"colour", {"blue"}}})};
  CheckFieldsAreRead(table, {.colour = std::nullopt, .shade = 3});
  CheckFieldsAreRead(table, {.colour = Colour::kBlue, .shade = 3});
  CheckFieldsAreRead(table, {.colour = Colour::kRed, .shade = 2});
  EXPECT_EQ(ExpectErrorOf("shade", [&] { CheckFieldsAreRead(table, {.colour = Colour::kRed, .shade = 3}); }),
            "shade: colour red has no use for it; it is for blue");
}

TEST(FieldTest, DifferencesAreOfWhatAffectsTheResult) {
  Config here, there;
  there.loud = true;
  EXPECT_TRUE(FieldDifferences(Fields(), here, there).empty());
  there.colour = Colour::kBlue;
  there.part.depth = 2;
  const std::vector<Message> differences = FieldDifferences(Fields(), here, there);
  ASSERT_EQ(differences.size(), size_t{2});
  EXPECT_EQ(differences[0].text(), "colour: \"red\" here, \"blue\" there");
  EXPECT_EQ(differences[1].text(), "depth: null here, 2 there");
}

}  // namespace
}  // namespace crosstalk
