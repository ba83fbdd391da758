#include "crosstalk/models/training/config.h"

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "tests/support/messages.h"

namespace crosstalk::config_test {

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
  config.model.attention.dynamic = "Xl,Mw";
  config.optimization.learning_rate = 0.1;
  const TrainingConfig back = TrainingConfigFromJson(ParseJson(ToJson(config).Dump(), "test"), "test");
  EXPECT_EQ(ToJson(back), ToJson(config));
  EXPECT_TRUE(Differences(config, back).empty());
}

TEST(TrainingConfigTest, AFileIsCheckedAsACommandLineIs) {
  testing::ExpectRefused<std::pair<const char*, Json>>(
      {{"unknown", {"stranger", 1}, {"stranger"}},
       {"a text", {"steps", "many"}, {"run.json: steps"}},
       {"a number", {"steps", 0}, {"run.json: steps"}},
       {"a name", {"optimizer", "sgd"}, {"run.json: optimizer"}},
       {"a share", {"dropout", 1.5}, {"run.json: dropout"}},
       {"a model", {"model", "gpt"}, {"run.json: model"}},
       {"null", {"layers", Json()}, {"run.json: layers"}}},
      [](const auto& member) {
        TrainingConfigFromJson(ToJson(Resolved()).Set(member.first, member.second), "run.json");
      },
      ErrorKind::kData);
  EXPECT_THROW(TrainingConfigFromJson(Json::MakeObject({{"steps", 3}}), "test"), Error);
}

TEST(TrainingConfigTest, OnlyWhatDecidesBitsIsADifference) {
  const TrainingConfig here = Resolved();
  TrainingConfig there = here;
  there.run.keep = 9;
  there.run.eval_every = 77;
  there.run.checkpoint_every = 78;
  there.optimization.activations = Activations::kRecompute;
  there.data.text = "elsewhere";
  EXPECT_TRUE(Differences(here, there).empty());
  there.optimization.clip = 1;
  there.optimization.seed = 2;
  EXPECT_EQ(Differences(here, there), (std::vector<std::string>{"clip: 0.0 here, 1.0 there", "seed: 1 here, 2 there"}));
}

TEST(TrainingConfigTest, MoreStepsAreNoDifferenceOnceTheyAreAContinuation) {
  TrainingConfig run;
  run.optimization.steps = 800;
  run = Resolved(run);
  TrainingConfig longer = run;
  longer.optimization.steps = 900;
  EXPECT_EQ(Differences(longer, run), (std::vector<std::string>{"steps: 900 here, 800 there"}));
  const TrainingConfig once = Continued(run, 900), twice = Continued(once, 1000);
  EXPECT_EQ(once.optimization.continued_at, "800");
  EXPECT_EQ(twice.optimization.continued_at, "800,900");
  EXPECT_TRUE(Differences(once, run).empty());
  EXPECT_TRUE(Differences(twice, run).empty());
  EXPECT_TRUE(Differences(twice, once).empty());
  EXPECT_EQ(Differences(run, once).size(), 2u);
  EXPECT_EQ(Differences(Continued(run, 1000), once).size(), 1u);
  EXPECT_EQ(Differences(Continued(run, 1000), twice).size(), 1u);
  TrainingConfig other = Continued(run, 1000);
  other.optimization.continued_at = "900";
  EXPECT_EQ(Differences(other, run).size(), 2u);
  other = once;
  other.optimization.seed = 7;
  EXPECT_EQ(Differences(other, run), (std::vector<std::string>{"seed: 7 here, 1 there"}));
}

TEST(TrainingConfigTest, ContinuingChangesNoDefault) {
  TrainingConfig config;
  config.optimization.steps = 4000;
  config.optimization.continued_at = "800,2000";
  const TrainingConfig continued = Resolved(config);
  config.optimization.steps = 800;
  config.optimization.continued_at = "";
  const TrainingConfig run = Resolved(config);
  EXPECT_EQ(continued.optimization.warmup, run.optimization.warmup);
  EXPECT_EQ(continued.run.eval_every, run.run.eval_every);
  EXPECT_EQ(continued.run.checkpoint_every, run.run.checkpoint_every);
  for (const auto& [step, end] :
       {std::pair{0, 800}, {800, 800}, {801, 2000}, {2000, 2000}, {2001, 4000}, {4000, 4000}}) {
    EXPECT_EQ(EndOfStage(continued.optimization, step), end) << step;
    EXPECT_EQ(EndOfStage(run.optimization, step), 800) << step;
  }
}

TEST(TrainingConfigTest, ADefaultWarmUpFitsAnyNumberOfStepsAndOneThatIsGivenMust) {
  for (const char* model : {"t5", "bert", "albert", "lm"}) {
    for (const int64_t steps : {1, 2, 3}) {
      TrainingConfig config;
      config.model.name = model;
      config.optimization.steps = steps;
      const TrainingConfig resolved = Resolved(config);
      EXPECT_EQ(resolved.optimization.warmup, steps / 2) << model;
      EXPECT_EQ(Resolved(resolved).optimization.warmup, resolved.optimization.warmup) << model;  // as run.json is read
    }
  }
  TrainingConfig config;
  config.model.name = "bert";
  config.optimization.steps = 1;
  config.optimization.warmup = 1;
  testing::ExpectError([&] { Resolved(config); }, ErrorKind::kUsage, {"nothing for the decay"});
}

// With its field; "" is no fault. A field of another objective is one.
TEST(TrainingConfigTest, AFaultNamesItsField) {
  using Change = void (*)(TrainingConfig&);
  const std::pair<Change, const char*> kCases[] = {
      {[](auto&) {}, ""},
      {[](auto& c) { c.model.d_model = 0; }, "d_model"},
      {[](auto& c) { c.optimization.batch = 5, c.optimization.shards = 6; }, "shards"},
      {[](auto& c) { c.objective.name = "span-curruption"; }, "objective"},
      {[](auto& c) { c.optimization.clip = -1; }, "clip"},
      {[](auto& c) { c.objective.noise_density = 0.2; }, "noise_density"},
      {[](auto& c) { c.objective.noise_density = 0.2, c.model.name = "t5"; }, ""},
      {[](auto& c) { c.objective.masking = Masking::kNgrams, c.model.name = "t5"; }, "masking"},
      {[](auto& c) { c.objective.short_share = 0.5; }, "short_share"}};
  for (const auto& [change, field] : kCases) {
    TrainingConfig config;
    change(config);
    EXPECT_EQ(FieldOf(config), field);
  }
  TrainingConfig config;
  for (const char* continued_at :  // stages ascend to the last step
       {"2000", "3000", "0", "-1", "x", "10,", ",10", "10,10", "20,10", "10 20", "1e3", "99999999999999999999"}) {
    config.optimization.continued_at = continued_at;
    EXPECT_EQ(FieldOf(config), "continued_at") << continued_at;
  }
}

// An option that a model neither reads nor refuses would be dropped without a word. One that a new model does not read
// belongs in `own` of each model that does.
TEST(TrainingConfigTest, AModelReadsOrRefusesEachOption) {
  const auto configured = [](const TrainingConfig& config) {
    const ResolvedConfig resolved(config);
    return ConfigureModel(*resolved, VocabularyOf(*resolved, nullptr)).ToJson();
  };
  for (const std::string& model : ModelNames()) {
    TrainingConfig plain;
    plain.model.name = model;
    for (const Field<ModelConfig>& field : ModelFields()) {
      if (field.key == "model") continue;
      std::vector<Json> values = {3, 12, 0.25, "Xl", true, Json::MakeArray({"mta"})};
      values.insert(values.end(), field.choices.begin(), field.choices.end());
      const bool matters = std::any_of(values.begin(), values.end(), [&](const Json& value) {
        TrainingConfig other = plain;
        try {
          field.set(other.model, value);
        } catch (const Error&) {
          return false;  // not of this field
        }
        try {
          return configured(other) != configured(plain);
        } catch (const Error&) {
          return true;
        }
      });
      EXPECT_TRUE(matters) << model << " has no use for " << field.key;
    }
  }
}

// What the chosen optimizer or schedule has no use for is not dropped without a word.
TEST(TrainingConfigTest, AnOptionThatNothingReadsIsAFault) {
  using enum OptimizerKind;
  const std::optional<ScheduleKind> by_default;
  struct Case {
    OptimizerKind optimizer;
    std::optional<ScheduleKind> schedule;
    std::string key;
    Json value;
    bool is_read;
  };
  std::vector<Case> cases = {{kAdafactor, by_default, "bias_correction", "no", false},
                             {kLamb, by_default, "bias_correction", "no", true},
                             {kAdamW, by_default, "decay_power", 2.0, false},
                             {kLamb, by_default, "decay_power", 2.0, true},
                             {kAdamW, by_default, "final_learning_rate", 1e-9, false},
                             {kAdamW, ScheduleKind::kCosine, "final_learning_rate", 1e-9, true},
                             {kAdamW, ScheduleKind::kPolynomial, "final_learning_rate", 1e-9, true},
                             {kAdamW, ScheduleKind::kConstant, "decay", 0.5, false},
                             {kAdafactor, by_default, "decay", 0.5, true}};
  for (const char* key : {"weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"}) {
    for (const OptimizerKind kind : {kAdafactor, kAdamW, kLamb}) {
      cases.push_back({kind, by_default, key, 0.25, kind != kAdafactor});
    }
  }
  for (const auto& [optimizer, schedule, key, value, is_read] : cases) {
    TrainingConfig config;
    config.optimization.optimizer = optimizer;
    config.optimization.schedule = schedule;
    for (const Field<TrainingConfig>& field : TrainingFields()) {
      if (field.key == key) field.set(config, value);
    }
    EXPECT_EQ(FieldOf(config), is_read ? "" : key) << Name(optimizer);
  }
}

// A configuration that a run has written, with its defaults filled in, is taken whatever reads what.
TEST(TrainingConfigTest, AResolvedConfigurationIsTakenAgain) {
  for (const std::string& model : ModelNames()) {
    for (const std::string& optimizer : NamesOf<OptimizerKind>()) {
      for (const std::string& schedule : NamesOf<ScheduleKind>()) {
        TrainingConfig config;
        config.model.name = model;
        config.optimization.optimizer = ParseName<OptimizerKind>("optimizer", optimizer);
        config.optimization.schedule = ParseName<ScheduleKind>("schedule", schedule);
        const Json written = ToJson(*ResolvedConfig(config));
        EXPECT_EQ(ToJson(*ResolvedConfig(TrainingConfigFromJson(written, "run.json"))), written)
            << model << ", " << optimizer << ", " << schedule;
      }
    }
  }
}

// Values that nothing reads may stand in the file of a run.
TEST(TrainingConfigTest, WhatARunKeptOfFieldsThatNothingReadsIsForgotten) {
  Json written = ToJson(*ResolvedConfig(TrainingConfig()));
  const Json plain = written;
  written.Set("weight_decay", 0.25).Set("final_learning_rate", 1e-5);  // adafactor, inverse-square-root
  written.Set("short_share", 0.5);                                     // span-corruption
  EXPECT_EQ(ToJson(TrainingConfigFromJson(written, "run.json")), plain);
  written.Set("optimizer", "adamw");
  EXPECT_EQ(TrainingConfigFromJson(written, "run.json").optimization.weight_decay, 0.25);
}

TEST(TrainingConfigTest, OptimizersHaveSchedulesAndLearningRatesOfTheirOwn) {
  const auto defaults = [](OptimizerKind optimizer, const char* init_from = "") {
    TrainingConfig config;
    config.optimization.optimizer = optimizer;
    config.optimization.init_from = init_from;
    const ResolvedConfig resolved(config);
    return std::pair(*resolved->optimization.schedule, *resolved->optimization.learning_rate);
  };
  EXPECT_EQ(defaults(OptimizerKind::kAdafactor), std::pair(ScheduleKind::kInverseSquareRoot, 0.3));
  EXPECT_EQ(defaults(OptimizerKind::kAdafactor, "origin"), std::pair(ScheduleKind::kConstant, 1e-3));
  EXPECT_EQ(defaults(OptimizerKind::kAdamW), std::pair(ScheduleKind::kLinear, 1e-3));
  EXPECT_EQ(defaults(OptimizerKind::kAdamW, "origin"), std::pair(ScheduleKind::kLinear, 1e-3));
  EXPECT_EQ(defaults(OptimizerKind::kLamb), std::pair(ScheduleKind::kPolynomial, 1e-2));
}

}  // namespace crosstalk::config_test
