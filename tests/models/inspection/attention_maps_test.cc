#include "crosstalk/models/inspection/attention_maps.h"

#include <tuple>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/lm/lm.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::attention_maps_test {

constexpr int kSentinels = 7;

std::shared_ptr<const Tokenizer> Bytes(MaskTokens mask_tokens = MaskTokens::kNo) {
  return MakeByteTokenizer(kSentinels, mask_tokens);
}

T5 MakeT5Model(const Tokenizer& tokenizer, const std::string& kind = "talking") {
  return T5(For(tokenizer, TinyT5(kind)), 5);
}

Lm MakeLmModel(const Tokenizer& tokenizer) { return Lm(For(tokenizer, TinyLm("multihead", 0, 11)), 5); }

Bert MakeAlbertModel(const Tokenizer& tokenizer) {
  return Bert(For(tokenizer, TinyAlbert("talking", {.pooler = true, .masked_lm = true})), 5);
}

std::vector<int32_t> IdsOf(const Batch& batch, const char* name) { return batch.Get(name).ToVector<int32_t>(); }

// The bytes of a text as ids.
std::vector<int32_t> ByteIds(const std::string& text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c) + 3);
  return ids;
}

std::vector<int32_t> Joined(const std::vector<std::vector<int32_t>>& parts) {
  std::vector<int32_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(TextInputsTest, AT5ReadsBlanksAsSentinelsAndItsTargetToo) {
  const auto tokenizer = Bytes();
  const T5 model = MakeT5Model(*tokenizer);
  const Batch batch = ReadText(model, tokenizer, {.text = "ab ___ cd", .target = "___x ___ yz"});
  const int32_t s0 = tokenizer->Sentinel(0), s1 = tokenizer->Sentinel(1), end = tokenizer->special_tokens().end;
  EXPECT_EQ(IdsOf(batch, "input_ids"), Joined({ByteIds("ab"), {s0}, ByteIds(" cd"), {end}}));
  const int32_t start = model.config().tokens.decoder_start;
  EXPECT_EQ(IdsOf(batch, "decoder_input_ids"), Joined({{start, s0}, ByteIds("x"), {s1}, ByteIds(" yz")}));
}

TEST(TextInputsTest, WithoutATargetAT5WritesItsOwn) {
  const auto tokenizer = Bytes();
  const T5 model = MakeT5Model(*tokenizer);
  const InspectedText text = {.text = "ab ___", .max_tokens = 9};
  const std::vector<int32_t> ids = IdsOf(ReadText(model, tokenizer, text), "decoder_input_ids");
  ASSERT_GE(ids.size(), 2u);
  EXPECT_LE(ids.size(), 9u);
  EXPECT_EQ(ids[0], model.config().tokens.decoder_start);
  EXPECT_EQ(ids[1], tokenizer->Sentinel(0));  // an answer to a blank begins with it
}

TEST(TextInputsTest, ABertReadsBlanksAsMasksAndTwoSegments) {
  const auto tokenizer = Bytes(MaskTokens::kYes);
  const Bert model = MakeAlbertModel(*tokenizer);
  const SpecialTokens& special = tokenizer->special_tokens();
  const Batch batch = ReadText(model, tokenizer, {.text = "a___b", .second = "cd"});
  EXPECT_EQ(IdsOf(batch, "input_ids"), Joined({{special.begin},
                                               ByteIds("a"),
                                               {special.mask},
                                               ByteIds("b"),
                                               {special.separator},
                                               ByteIds("cd"),
                                               {special.separator}}));
  EXPECT_EQ(IdsOf(batch, "token_type_ids"), (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, 1}));
}

TEST(TextInputsTest, WhatAModelHasNoUseForIsNamed) {
  const auto tokenizer = Bytes(MaskTokens::kYes);
  const T5 t5 = MakeT5Model(*tokenizer);
  const Lm lm = MakeLmModel(*tokenizer);
  const Bert bert = MakeAlbertModel(*tokenizer);
  const auto read = [&](const Model& model, const InspectedText& text) {
    return [&model, &tokenizer, text] { ReadText(model, tokenizer, text); };
  };
  testing::ExpectRefused({{"a T5's second", read(t5, {.text = "a", .second = "b"}), {"second"}},
                          {"an LM's target", read(lm, {.text = "a", .target = "b"}), {"target"}},
                          {"a BERT's target", read(bert, {.text = "a", .target = "b"}), {"target"}},
                          {"no tokenizer", [&] { ReadText(lm, nullptr, {.text = "a"}); }, {"tokenizer"}},
                          {"a long text", read(lm, {.text = "abcdef", .max_tokens = 5}), {"6 tokens", "max_tokens"}},
                          {"a long target", read(t5, {.text = "a", .target = "abcdef", .max_tokens = 5}), {"target"}}});
}

TEST(AttentionMapsTest, EveryPlaceOfAT5HasItsMapsWithTheTokensOfBothSides) {
  const auto tokenizer = Bytes();
  const T5 model = MakeT5Model(*tokenizer);
  const Batch batch = ReadText(model, tokenizer, {.text = "abc ___ de", .target = "___fg"});  // 8 and 4 tokens
  const AttentionMaps maps = MapAttention(model, *tokenizer, batch);
  ASSERT_EQ(maps.tokens.size(), 2u);
  EXPECT_EQ(maps.tokens[0].texts[0], "a");
  EXPECT_EQ(maps.tokens[0].texts.back(), "</s>");
  EXPECT_EQ(maps.tokens[1].texts[1], "<extra_id_0>");
  std::vector<std::string> layers;
  for (const LayerMap& map : maps.layers) layers.push_back(map.layer);
  EXPECT_EQ(layers, (std::vector<std::string>{"encoder.block_0.self_attention", "encoder.block_1.self_attention",
                                              "decoder.block_0.self_attention", "decoder.block_0.cross_attention",
                                              "decoder.block_1.self_attention", "decoder.block_1.cross_attention"}));
  const int64_t n = 8, m = 4;
  for (const auto& [layer, rows, columns] : {std::tuple(0, n, n), {2, m, m}, {3, m, n}}) {
    const LayerMap& map = maps.layers[static_cast<size_t>(layer)];
    for (const auto& [name, heads] : {std::pair("J", 2), {"L", 3}, {"W", 3}, {"U", 5}}) {
      EXPECT_EQ(map.Find(name)->shape(), (Shape{heads, rows, columns})) << name;
    }
    EXPECT_EQ(static_cast<int64_t>(maps.tokens[map.queries].ids.size()), rows);
    EXPECT_EQ(static_cast<int64_t>(maps.tokens[map.memory].ids.size()), columns);
  }
  EXPECT_EQ(maps.layers[2].Find("L")->At({0, 0, 1}), -INFINITY);  // causal
  EXPECT_EQ(maps.layers[2].Find("W")->At({0, 0, 0}), 1);
  for (int64_t row = 0; row < m; ++row) {
    double sum = 0;
    for (int64_t column = 0; column < n; ++column) sum += maps.layers[3].Find("W")->At({1, row, column});
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(AttentionMapsTest, LayersThatShareParametersHaveAMapEach) {
  const auto tokenizer = Bytes(MaskTokens::kYes);
  const Bert model = MakeAlbertModel(*tokenizer);
  const AttentionMaps maps = MapAttention(model, *tokenizer, ReadText(model, tokenizer, {.text = "abc"}));
  ASSERT_EQ(maps.layers.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(maps.layers[i].layer, "encoder.block_" + std::to_string(i) + ".self_attention");
    EXPECT_EQ(maps.layers[i].module, "encoder.block_0.self_attention");
  }
  EXPECT_NE(maps.layers[0].Find("W")->ToVector<float>(), maps.layers[1].Find("W")->ToVector<float>());
}

TEST(AttentionMapsTest, WhatALayerDoesNotHaveIsAbsent) {
  const auto tokenizer = Bytes();
  const Lm lm = MakeLmModel(*tokenizer);
  const AttentionMaps maps = MapAttention(lm, *tokenizer, ReadText(lm, tokenizer, {.text = "abc"}));
  ASSERT_EQ(maps.layers.size(), 2u);
  EXPECT_EQ(maps.layers[0].layer, "decoder.block_0.self_attention");
  EXPECT_NE(maps.layers[0].Find("J"), nullptr);
  EXPECT_EQ(maps.layers[0].Find("U"), nullptr);
  const T5 bilinear = MakeT5Model(*tokenizer, "bilinear");
  const AttentionMaps others =
      MapAttention(bilinear, *tokenizer, ReadText(bilinear, tokenizer, {.text = "abc", .target = "d"}));
  EXPECT_EQ(others.layers[0].Find("J"), nullptr);
  EXPECT_NE(others.layers[0].Find("L"), nullptr);
}

TEST(AttentionMapsTest, TensorsHaveTheLayersNames) {
  const auto tokenizer = Bytes();
  const T5 model = MakeT5Model(*tokenizer, "dynamic");
  const AttentionMaps maps =
      MapAttention(model, *tokenizer, ReadText(model, tokenizer, {.text = "abcd", .target = "ef"}));
  const std::vector<NamedTensor> tensors = TensorsOf(maps);
  const auto find = [&](const std::string& name) {
    return std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& one) { return one.name == name; });
  };
  ASSERT_NE(find("decoder.block_1.cross_attention.R_Ml"), tensors.end());
  EXPECT_EQ(find("decoder.block_1.cross_attention.R_Ml")->tensor.shape(), (Shape{5, 2, 3}));  // [m, h_k, h]
  EXPECT_EQ(find("decoder.block_1.cross_attention.R_Xw")->tensor.shape(), (Shape{3, 3, 5}));  // [n, h, h_v]
  EXPECT_EQ(find("input_ids")->tensor.num_elements(), 5);
  EXPECT_EQ(find("decoder_input_ids")->tensor.num_elements(), 3);
}

}  // namespace crosstalk::attention_maps_test
