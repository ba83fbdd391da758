#include "crosstalk/nn/attention/config.h"

#include "tests/support/messages.h"

namespace crosstalk::config_test {

struct Row {
  AttentionOptions options;
  int64_t parameters;
  int64_t multiplications;
};

AttentionOptions Options(AttentionKind kind, int64_t heads) { return {.kind = kind, .heads = heads}; }

AttentionOptions Heads(AttentionKind kind, int64_t h_k, int64_t h, int64_t h_v) {
  return {.kind = kind, .heads = h, .key_heads = h_k, .value_heads = h_v};
}

AttentionOptions OneDynamic(const std::string& name) {
  return {.kind = AttentionKind::kDynamic, .heads = 12, .dynamic = name};
}

// The paper's tables 1, 2, 3, 8 and 9 (parameters) and its pseudocode's cost comments (multiplications), d = 768,
// n = m = 512.
TEST(AttentionConfigTest, CostsWhatThePaperPrints) {
  AttentionOptions large = Options(AttentionKind::kMultihead, 24);
  large.key_size = large.value_size = 64;
  const std::vector<Row> rows = {
      {Options(AttentionKind::kMultihead, 6), 2359296, 1610612736},
      {Options(AttentionKind::kMultihead, 12), 2359296, 1610612736},
      {Options(AttentionKind::kMultihead, 24), 2359296, 1610612736},
      {Options(AttentionKind::kMultihead, 48), 2359296, 1610612736},
      {large, 4718592, 3221225472},
      {Options(AttentionKind::kTalking, 6), 2359368, 1629487104},
      {Options(AttentionKind::kTalking, 12), 2359584, 1686110208},
      {Options(AttentionKind::kTalking, 24), 2360448, 1912602624},
      {Options(AttentionKind::kTalking, 48), 2363904, 2818572288},
      {Heads(AttentionKind::kTalking, 6, 24, 6), 2359584, 1686110208},
      {Heads(AttentionKind::kTalking, 24, 6, 24), 2359584, 1686110208},
      {Heads(AttentionKind::kTalking, 6, 24, 24), 2360016, 1799356416},
      {Heads(AttentionKind::kTalking, 24, 24, 6), 2360016, 1799356416},
      {Options(AttentionKind::kLogits, 24), 2359872, 1761607680},
      {Options(AttentionKind::kWeights, 24), 2359872, 1761607680},
      {Options(AttentionKind::kBilinear, 12), 14155776, 12079595520},
      {Options(AttentionKind::kDynamic, 12), 2801952, 2063597568},
      {Options(AttentionKind::kDynamic, 24), 4129920, 3422552064},
      {OneDynamic("Xl"), 2470176, 1780482048},
      {OneDynamic("Ml"), 2470176, 1780482048},
      {OneDynamic("Xw"), 2470176, 1780482048},
      {OneDynamic("Mw"), 2470176, 1780482048},
  };
  for (const Row& row : rows) {
    const AttentionConfig config = MakeAttentionConfig(row.options, 768);
    const AttentionCost cost = CostOf(config, 512, 512);
    EXPECT_EQ(cost.parameters, row.parameters) << ToString(config);
    EXPECT_EQ(cost.multiplications, row.multiplications) << ToString(config);
  }
}

// Every dimension a different prime: the terms written out from the comments of the pseudocode.
TEST(AttentionConfigTest, CostKeepsTheDimensionsApart) {
  const int64_t n = 2, m = 3, d_X = 5, d_M = 7, d_Y = 11, d_k = 13, d_v = 17, h_k = 19, h = 23, h_v = 29;
  AttentionConfig config;
  config.d_X = d_X, config.d_M = d_M, config.d_Y = d_Y, config.d_k = d_k, config.d_v = d_v;
  config.h_k = h_k, config.h = h, config.h_v = h_v;
  config.mixing = {.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true};
  const AttentionCost cost = CostOf(config, n, m);
  EXPECT_EQ(cost.parameters, d_X * d_k * h_k + d_M * d_k * h_k + d_M * d_v * h_v + d_Y * d_v * h_v + h_k * h + h * h_v +
                                 d_X * h_k * h + d_M * h_k * h + d_X * h * h_v + d_M * h * h_v);
  EXPECT_EQ(cost.multiplications, n * d_X * d_k * h_k + m * d_M * d_k * h_k + m * d_M * d_v * h_v + n * m * d_k * h_k +
                                      3 * n * m * h_k * h + 3 * n * m * h * h_v + n * m * d_v * h_v +
                                      n * d_Y * d_v * h_v + n * d_X * h_k * h + m * d_M * h_k * h + n * d_X * h * h_v +
                                      m * d_M * h * h_v);

  AttentionConfig bilinear;
  bilinear.form = AttentionForm::kBilinear;
  bilinear.d_X = d_X, bilinear.d_M = d_M, bilinear.d_Y = d_Y, bilinear.h = h;
  EXPECT_EQ(CostOf(bilinear, n, m).parameters, d_X * d_M * h + d_M * d_Y * h);
  EXPECT_EQ(CostOf(bilinear, n, m).multiplications, n * d_X * d_M * h + 2 * n * m * d_M * h + n * d_M * d_Y * h);

  const AttentionConfig plain = AttentionConfig::DotProduct(d_X);
  EXPECT_EQ(CostOf(plain, n, m).parameters, 0);
  EXPECT_EQ(CostOf(plain, n, m).multiplications, 2 * n * m * d_X);
}

TEST(AttentionConfigTest, TiedKeysAndValuesSaveOneProjection) {
  AttentionConfig config = AttentionConfig::MultiHead(768, 12, 64);
  config.key_value = KeyValueProjection::kTied;
  EXPECT_EQ(CostOf(config, 512, 512).parameters, 3 * 768 * 768);
  EXPECT_EQ(CostOf(config, 512, 512).multiplications, 1610612736 - 512 * 768 * 768);
}

TEST(AttentionConfigTest, ImpossibleDimensionsAreNamed) {
  using C = AttentionConfig;
  testing::ExpectRefused<void (*)(C&)>(
      {{"logits", [](C& c) { c.mixing.P_l = false; }, {"h_k=4 and h=8", "no projection (P_l, P_Xl or P_Ml)"}},
       {"weights", [](C& c) { c.mixing.P_w = false; }, {"h=8 and h_v=2", "no projection (P_w, P_Xw or P_Mw)"}},
       {"no size", [](C& c) { c.d_v = 0; }, {"d_v=0"}},
       {"tied", [](C& c) { c.key_value = KeyValueProjection::kTied, c.h_v = 4; }, {"d_k=16 and d_v=32"}},
       {"identity", [](C& c) { c.mixing_init = MixingInit::kIdentity; }, {"P_l[h_k, h] = [4, 8]", "identity"}},
       {"two widths", [](C& c) { c = C::DotProduct(64), c.d_M = 32; }, {"d_X=64, d_M=32 and d_Y=64"}},
       {"values", [](C& c) { c = C::Bilinear(64, 4), c.h_v = 4; }, {"bilinear attention has no h_v"}},
       {"mixing", [](C& c) { c = C::Bilinear(64, 4), c.mixing.P_w = true; }, {"no head projections"}},
       {"dropout", [](C& c) { c.dropout_rate = 1; }, {"dropout rate 1"}},
       {"huge", [](C& c) { c = C::MultiHead(int64_t{1} << 31, int64_t{1} << 31, 16); }, {"63 bits"}}},
      [](const auto& change) {
        C config = C::TalkingHeads(64, 4, 8, 2, 16, 32);
        change(config);
        config.Validate();
        CostOf(config, 512, 512);
      });
}

TEST(AttentionConfigTest, KindsSayWhichProjectionsAreThere) {
  using enum AttentionKind;
  AttentionOptions without_static = OneDynamic("Xl");
  without_static.kind = kMultihead;
  const std::pair<AttentionOptions, HeadMixing> kCases[] = {
      {Options(kMultihead, 4), {}},
      {Options(kTalking, 4), {.P_l = true, .P_w = true}},
      {Options(kLogits, 4), {.P_l = true}},
      {Options(kWeights, 4), {.P_w = true}},
      {Options(kDynamic, 4), {.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true}},
      {OneDynamic("Ml, Xw"), {.P_l = true, .P_w = true, .P_Ml = true, .P_Xw = true}},
      {without_static, {.P_Xl = true}}};
  for (const auto& [options, mixing] : kCases) EXPECT_EQ(MakeAttentionConfig(options, 768).mixing, mixing);
}

TEST(AttentionConfigTest, SizesFollowFromTheWidthUnlessGiven) {
  const auto sizes = [](const AttentionOptions& options) {
    const AttentionConfig config = MakeAttentionConfig(options, 768);
    return std::vector<int64_t>{config.d_k, config.d_v, config.h};
  };
  AttentionOptions given = Options(AttentionKind::kTalking, 7);
  given.key_size = 5;
  given.value_size = 3;
  EXPECT_EQ(sizes(Heads(AttentionKind::kTalking, 6, 24, 8)), (std::vector<int64_t>{128, 96, 24}));
  EXPECT_EQ(sizes(given), (std::vector<int64_t>{5, 3, 7}));
}

TEST(AttentionConfigTest, OptionsThatCannotBeHonouredAreRefused) {
  using enum AttentionKind;
  testing::ExpectRefused<AttentionOptions>(
      {{"no heads", Options(kTalking, 0), {"heads: 0"}},
       {"no size", Options(kTalking, 7), {"key_size: must be given where d_model=768 does not divide into h_k=7"}},
       {"unequal heads", Heads(kMultihead, 4, 8, 8), {"h_k=4 and h=8"}},
       {"key heads", Heads(kBilinear, 4, 8, 8), {"key_heads: "}},
       {"an unknown projection", OneDynamic("Xl,Yl"), {"dynamic: unknown projection \"Yl\""}},
       {"one twice", OneDynamic("Xl,Xl"), {"dynamic: Xl stands there twice"}},
       {"none", OneDynamic(""), {"dynamic: unknown projection \"\""}}},
      [](const AttentionOptions& options) { MakeAttentionConfig(options, 768); });
  testing::ExpectError([] { ParseName<AttentionKind>("attention", "taking"); }, ErrorKind::kUsage,
                       {"did you mean \"talking\""});
  testing::ExpectError([] { ParseName<AttentionImplementation>("implementation", "magic"); }, ErrorKind::kUsage,
                       {"none of composed, fused"});
}

}  // namespace crosstalk::config_test
