#include "crosstalk/models/training/config.h"

#include <gtest/gtest.h>

#include <set>

#include "crosstalk/models/objectives/objective.h"
#include "crosstalk/models/registry.h"

namespace crosstalk {
namespace {

TrainingConfig Resolved(const TrainingConfig& config = {}) { return *ResolvedConfig(config); }

std::string FieldOf(const TrainingConfig& config) {
  try {
    ResolvedConfig resolved(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_TRUE(std::string(error.what()).starts_with(error.field() + ": ")) << error.what();
    return error.field();
  }
  return "";
}

TEST(TrainingConfigTest, JsonAndBackIsTheSame) {
  TrainingConfig config = Resolved();
  config.attention.dynamic = "Xl,Mw";
  config.learning_rate = 0.1;
  const TrainingConfig back = TrainingConfigFromJson(ParseJson(ToJson(config).Dump(), "test"), "test");
  EXPECT_EQ(ToJson(back), ToJson(config));
  EXPECT_TRUE(Differences(config, back).empty());
}

TEST(TrainingConfigTest, MissingAndUnknownKeysAreErrors) {
  const TrainingConfig config = Resolved();
  Json more = ToJson(config);
  more.Set("stranger", 1);
  EXPECT_THROW(TrainingConfigFromJson(more, "test"), Error);
  EXPECT_THROW(TrainingConfigFromJson(Json::MakeObject({{"steps", 3}}), "test"), Error);
  Json wrong = ToJson(config);
  wrong.Set("steps", "many");
  EXPECT_THROW(TrainingConfigFromJson(wrong, "test"), Error);
}

TEST(TrainingConfigTest, AFileIsCheckedAsACommandLineIs) {
  for (const auto& [key, value] : {std::pair<const char*, Json>{"steps", 0},
                                   {"optimizer", "sgd"},
                                   {"dropout", 1.5},
                                   {"model", "gpt"},
                                   {"layers", Json()}}) {
    Json json = ToJson(Resolved());
    json.Set(key, value);
    try {
      TrainingConfigFromJson(json, "run.json");
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_TRUE(std::string(error.what()).starts_with(std::string("run.json: ") + key)) << error.what();
    }
  }
}

TEST(TrainingConfigTest, OnlyWhatDecidesBitsIsADifference) {
  const TrainingConfig here = Resolved();
  TrainingConfig there = here;
  there.keep = 9;
  there.eval_every = 77;
  there.checkpoint_every = 78;
  there.activations = Activations::kRecompute;
  there.data = "elsewhere";
  EXPECT_TRUE(Differences(here, there).empty());
  there.clip = 1;
  there.seed = 2;
  EXPECT_EQ(Differences(here, there), (std::vector<std::string>{"clip: 0.0 here, 1.0 there", "seed: 1 here, 2 there"}));
}

TEST(TrainingConfigTest, AFaultNamesItsField) {
  TrainingConfig config;
  EXPECT_EQ(FieldOf(config), "");
  config.d_model = 0;
  EXPECT_EQ(FieldOf(config), "d_model");
  config = {};
  config.batch = 5;
  config.accumulate = 2;
  EXPECT_EQ(FieldOf(config), "accumulate");
  config = {};
  config.objective = "span-curruption";
  EXPECT_EQ(FieldOf(config), "objective");
  config = {};
  config.clip = -1;
  EXPECT_EQ(FieldOf(config), "clip");
}

TEST(TrainingConfigTest, EveryFieldOfAModelsOwnIsThere) {
  std::set<std::string> keys;
  for (const Field<TrainingConfig>& field : TrainingFields()) keys.insert(field.key);
  for (const ModelType& type : ModelTypes()) {
    for (const char* own : type.own_fields) EXPECT_TRUE(keys.count(own)) << type.name << ": " << own;
    for (const char* objective : type.objectives) EXPECT_NO_THROW(FindObjective(objective)) << type.name;
  }
}

TEST(TrainingConfigTest, EveryFieldHasAKeyAGroupAndAHelpOfItsOwn) {
  std::set<std::string> keys, helps;
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    EXPECT_TRUE(helps.insert(field.options.help).second) << field.key;
    EXPECT_FALSE(field.group.empty()) << field.key;
  }
}

TEST(TrainingConfigTest, EveryChoiceSurvivesAFile) {
  TrainingConfig config = Resolved();
  for (const Field<TrainingConfig>& field : TrainingFields()) {
    if (field.type != FieldType::kChoice) continue;
    for (const std::string& choice : field.choices) {
      field.set(config, Json(choice));
      EXPECT_EQ(field.get(config), Json(choice)) << field.key;
    }
  }
  EXPECT_EQ(ToJson(FieldsFromJson(TrainingFields(), ToJson(config), "test")), ToJson(config));
}

}  // namespace
}  // namespace crosstalk
