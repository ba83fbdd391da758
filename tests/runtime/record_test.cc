#include "crosstalk/runtime/record.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/messages.h"

namespace crosstalk {
namespace {

struct Place {
  std::string host = "here";
  uint8_t threads = 1;
  static FieldTable<Place> Fields() { return {{"host", &Place::host}, {"threads", &Place::threads}}; }
  static constexpr UnknownKeys kUnknownKeys = UnknownKeys::kPassedOver;
};

struct Outcome {
  int64_t step = 0;
  std::map<std::string, double> measures;
  std::optional<Place> place;
  std::optional<double> bound;
  std::vector<Place> sessions;
  std::set<std::string> versions;
  void Validate() const { CROSSTALK_CHECK_FIELD(step < 100, "step", step, " is beyond the end"); }

  static FieldTable<Outcome> Fields() {
    return {MakeConstantField<Outcome>("format", 1),
            {"step", &Outcome::step, {.range = AtLeast(0)}},
            MakeComputedField<Outcome>("next", [](const Outcome& run) { return run.step + 1; }),
            {"measures", &Outcome::measures},
            {"place", &Outcome::place, {.only_if_set = true}},
            {"bound", &Outcome::bound},
            {"sessions", &Outcome::sessions},
            {"versions", &Outcome::versions, {.may_be_missing = true}}};
  }
};

TEST(RecordTest, IsWrittenAndReadByTheTableOfItsType) {
  Outcome run = {.step = 3, .measures = {{"ln_ppl", 1.5}}, .sessions = {{"a", 2}, {}}, .versions = {"0.1", "0.2"}};
  EXPECT_EQ(ToJson(run).Dump(),
            R"({"format": 1, "step": 3, "next": 4, "measures": {"ln_ppl": 1.5}, "bound": null, "sessions": )"
            R"([{"host": "a", "threads": 2}, {"host": "here", "threads": 1}], "versions": ["0.1", "0.2"]})");
  run.place = Place{"b", 9};
  run.bound = 0.25;
  EXPECT_EQ(ToJson(FromJson<Outcome>(ToJson(run), "run.json")), ToJson(run));
  EXPECT_EQ(ToJson(std::vector<Place>(1)).Dump(), R"([{"host": "here", "threads": 1}])");
  EXPECT_EQ(ToJson(std::optional<Place>()), Json());
}

TEST(RecordTest, ErrorsNameTheFileAndThePathOfTheField) {
  const std::vector<std::pair<const char*, const char*>> faults = {
      {R"([])", "run.json: must be an object, but is an array"},
      {R"({"step": 1})", "run.json: format: is missing"},
      {R"({"format": 2})", "run.json: format: is 2, not 1: written by another version"},
      {R"({"format": 1, "step": "x"})", "run.json: step: must be an integer, but is a string"},
      {R"({"format": 1, "step": 1, "measures": {"a": "b"}})",
       "run.json: measures.a: must be a number, but is a string"},
      {R"({"format": 1, "step": 1, "measures": {}, "bound": 1, "sessions": [{"host": "a"}]})",
       "run.json: sessions[0].threads: is missing"},
      {R"({"format": 1, "step": 1, "measures": {}, "bound": 1, "sessions": [{"host": "a", "threads": 300}]})",
       "run.json: sessions[0].threads: 300 is out of range"},
      {R"({"format": 1, "step": 1, "measures": {}, "bound": 1, "sessions": [], "more": 1})",
       "run.json: more: is not a key that is known here"},
      {R"({"format": 1, "step": 100, "measures": {}, "bound": 1, "sessions": []})",
       "run.json: step: 100 is beyond the end"}};
  for (const auto& [text, words] : faults) {
    testing::ExpectError([&, text = text] { FromJson<Outcome>(ParseJson(text, "test"), "run.json"); }, ErrorKind::kData,
                         {words});
  }
  const Json more = ParseJson(R"({"host": "a", "threads": 2, "more": 1})", "test");
  EXPECT_EQ(FromJson<Place>(more, "place").threads, 2);
}

TEST(RecordTest, TheMembersOfADamagedOneThatFitAreTaken) {
  const Place place = WhatFits<Place>(ParseJson(R"({"host": "a", "threads": "many", "more": 1})", "test"));
  EXPECT_EQ(place.host, "a");
  EXPECT_EQ(place.threads, 1);
  EXPECT_EQ(WhatFits<Place>(Json()).host, "here");
}

TEST(RecordTest, OnlyTextsThatMayHaveANulHaveOne) {
  const std::string nul("a\0b", 3);
  const Json json = Json::MakeObject({{"host", nul}, {"threads", 1}});
  testing::ExpectError([&] { FromJson<Place>(json, "place"); }, ErrorKind::kData, {"place: host: ", "NUL"});
  const FieldTable<Place> table = {{"host", &Place::host, {.may_have_nul = true}}, {"threads", &Place::threads}};
  EXPECT_EQ(FieldsFromJson(table, json, "place").host, nul);
}

TEST(RecordTest, MembersThatAreSpreadStandAmongTheOthers) {
  struct Event {
    int64_t step = 1;
    std::map<std::string, double> measures = {{"a", 0.5}, {"b", std::numeric_limits<double>::quiet_NaN()}};
  };
  const FieldTable<Event> table = {{"step", &Event::step}, {"measures", &Event::measures, {.spread = true}}};
  EXPECT_EQ(FieldsToJson(table, Event()).Dump(), R"({"step": 1, "a": 0.5, "b": null})");
}

}  // namespace
}  // namespace crosstalk
