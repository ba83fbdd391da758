#include "crosstalk/models/training/config.h"

#include "crosstalk/models/registry.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::config_test {

ModelConfig Read(const Json& json) { return ReadModelConfig(json, "test"); }

TEST(T5ConfigTest, RejectsJsonThatIsNotUnderstood) {
  const Json good = TinyT5("talking").ToJson();
  Json mixing = good.At("encoder_self"), values = mixing;
  mixing.Set("mixing", Json::MakeArray({"P_z"}));
  values.Set("h_v", 0);
  const std::pair<const char*, Json> kForged[] = {{"layers", 3},
                                                  {"model", "gpt"},
                                                  {"d_model", "10"},
                                                  {"d_model", 11},
                                                  {"encoder_layers", 0},
                                                  {"dropout_rate", 1.0},
                                                  {"relative_buckets", 3},
                                                  {"encoder_self", Json::MakeObject()},
                                                  {"encoder_self", mixing},
                                                  {"encoder_self", values}};
  for (const auto& [key, value] : kForged) {
    Json json = good;
    json.Set(key, value);
    testing::ExpectError([&] { ReadModelConfig(json, "config.json"); }, ErrorKind::kData, {"config.json", key});
  }
}

TEST(T5ConfigTest, ValidateNamesTheFieldAtFault) {
  using Change = void (*)(ModelConfig&);
  testing::ExpectRefused<Change>(
      {{"another width", [](auto& c) { c.d_model = 12; }, {"d_model = 12"}},
       {"a decoder that looks ahead", [](auto& c) { c.decoder_self.causality = Causality::kNone; }, {"causal"}},
       {"an encoder that does not", [](auto& c) { c.encoder_self.causality = Causality::kCausal; }, {"causal"}},
       {"one token", [](auto& c) { c.vocabulary = 1, c.tokens.unknown = 0; }, {"vocabulary"}},
       {"exact distances that are not there",
        [](auto& c) { c.relative_buckets = 256; },
        {"relative_attention_max_distance"}}},
      [](Change change) {
        ModelConfig config = TinyT5("talking");
        change(config);
        config.Validate();
      });
}

TEST(T5ConfigTest, WhatValidatesCanBeBuilt) {
  for (const auto& [buckets, distance] : {std::pair(4, 128), {9, 128}, {32, 128}, {128, 128}, {256, 1024}}) {
    ModelConfig config = TinyT5("talking");
    config.relative_buckets = buckets;
    config.relative_attention_max_distance = distance;
    config.Validate();
    EXPECT_NO_THROW(T5(config, 1)) << buckets;
  }
  ModelConfig config = TinyT5("talking");
  config.tokens.unknown = 1;
  config.vocabulary = 2;
  EXPECT_NO_THROW(config.Validate());
}

TEST(T5ConfigTest, ReadsFilesWithoutDistanceAndTokens) {
  ModelConfig config = TinyT5("talking");
  config.relative_attention_max_distance = 256;
  config.tokens.decoder_start = 7;
  const Json written = config.ToJson();
  const ModelConfig back = Read(written);
  EXPECT_EQ(back.relative_attention_max_distance, 256);
  EXPECT_EQ(back.tokens, config.tokens);
  Json old = Json::MakeObject();
  for (const auto& [key, value] : written.AsObject()) {
    if (key != "relative_attention_max_distance" && key != "tokens") old.Set(key, value);
  }
  EXPECT_EQ(Read(old).relative_attention_max_distance, 128);
  EXPECT_EQ(Read(old).tokens, SpecialTokens());
}

TEST(T5ConfigTest, ListsOfLayersAreInFilesWhereThereAreSomeAndFitTheirStack) {
  ModelConfig config = TinyT5("talking");
  EXPECT_EQ(config.ToJson().Dump().find("_layers\": ["), std::string::npos);
  config.decoder_self_layers = {config.decoder_self, config.decoder_self};
  const Json json = config.ToJson();
  EXPECT_EQ(Read(json).decoder_self_layers.size(), 2u);
  const auto rejected = [&](Json list, const std::vector<std::string>& parts) {
    Json forged = json;
    forged.Set("decoder_self_layers", std::move(list));
    testing::ExpectError([&] { ReadModelConfig(forged, "config.json"); }, ErrorKind::kData, parts);
  };
  const Json layer = json.At("decoder_self_layers").AsArray()[0];
  rejected(Json(3), {"decoder_self_layers", "must be an array"});
  rejected(Json::MakeArray({layer}), {"decoder_self_layers", "1 are not one for each of the 2 layers"});
  rejected(Json::MakeArray({layer, Json::MakeObject({{"h", 3}})}), {"decoder_self_layers[1]", "missing"});
  Json not_causal = layer;
  not_causal.Set("causality", "none");
  rejected(Json::MakeArray({layer, not_causal}), {"decoder_self_layers", "must be causal"});
}

// What no option says stays as an origin has it, in each layer of a list too.
TEST(T5ConfigTest, AnOriginsLayersKeepTheirDropout) {
  TrainingConfig training;
  training.model.name = "t5";
  training.model.dropout_rate = 0.5;
  training.model.layer_kinds = {AttentionKind::kTalking, AttentionKind::kMultihead};
  ModelConfig origin = ConfigureModel(training, {.size = 500, .tokens = {}});
  origin.norm_epsilon = 1e-5;
  origin.encoder_self_layers[1].dropout_rate = 0.25;
  const ModelConfig kept = ConfigureModel(training, origin, training);
  EXPECT_EQ(kept.norm_epsilon, 1e-5);
  EXPECT_EQ(kept.encoder_self_layers[0].dropout_rate, 0.5);
  EXPECT_EQ(kept.encoder_self_layers[1].dropout_rate, 0.25);
  TrainingConfig other = training;
  other.model.dropout_rate = 0.125;
  EXPECT_EQ(ConfigureModel(other, origin, training).encoder_self_layers[1].dropout_rate, 0.125);
}

TEST(T5ConfigTest, TheRelativeBiasIsAnOptionOfTraining) {
  TrainingConfig training;
  training.model.name = "t5";
  training.model.relative_buckets = 64;
  training.model.relative_attention_max_distance = 300;
  const Json json = ConfigureModel(*ResolvedConfig(training), {.size = 500, .tokens = {}}).ToJson();
  EXPECT_EQ(json.At("relative_buckets").AsInt(), 64);
  EXPECT_EQ(json.At("relative_attention_max_distance").AsInt(), 300);
  training.model.relative_attention_max_distance = 8;  // a direction's exact buckets reach further
  testing::ExpectError([&] { ResolvedConfig{training}; }, ErrorKind::kUsage, {"relative_attention_max_distance: "});
}

// A decoder asks with one query at a time, and beams are queries of one row of the encoder's output.
TEST(T5ConfigTest, ADecoderConvolvesOverKeysAloneTowardsTheEncoder) {
  TrainingConfig training;
  training.model.name = "t5";
  training.model.attention.kind = AttentionKind::kMta;
  const auto configured = [&training] {
    return ConfigureModel(*ResolvedConfig(training), {.size = 500, .tokens = {}}).ToJson();
  };
  const auto convolution = [](const Json& attention) {
    return std::vector<int64_t>{attention.At("c_ql").AsInt(), attention.At("c_kl").AsInt(),
                                attention.At("c_qw").AsInt(), attention.At("c_kw").AsInt()};
  };
  EXPECT_EQ(convolution(configured().At("encoder_self")), (std::vector<int64_t>{6, 11, 6, 11}));
  EXPECT_EQ(convolution(configured().At("encoder_decoder")), (std::vector<int64_t>{1, 11, 1, 11}));
  training.model.attention.kind = AttentionKind::kTalking;
  training.model.layer_kinds = {AttentionKind::kTalking, AttentionKind::kMta};
  EXPECT_EQ(convolution(configured().At("encoder_decoder_layers").AsArray()[1]), (std::vector<int64_t>{1, 11, 1, 11}));
}

}  // namespace crosstalk::config_test
