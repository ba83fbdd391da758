// What a model makes of a text, and how its heads are mixed.
#include <tuple>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/inspection/attention_maps.h"
#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/nn/attention/projections.h"
#include "tests/support/family_cases.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::inspection_test {

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

// ---- How heads are mixed ----

Tensor Matrix(const Shape& shape, const std::vector<double>& values) {
  return Tensor::FromValues<double>(shape, values);
}

TEST(MixingTest, AMatrixHasItsNumbers) {
  const MatrixAnalysis diagonal = Analyse(Matrix({2, 2}, {3, 0, 0, -4}));
  EXPECT_EQ(diagonal.off_diagonal_share, 0);
  EXPECT_DOUBLE_EQ(diagonal.root_mean_square, 2.5);
  // The share off the diagonal is of squares.
  EXPECT_DOUBLE_EQ(*Analyse(Matrix({2, 2}, {3, 4, 0, 5})).off_diagonal_share, 16.0 / 50);
  EXPECT_DOUBLE_EQ(*Analyse(Matrix({2, 3}, {1, 0, 2, 0, 1, 0})).off_diagonal_share, 4.0 / 6);
  EXPECT_FALSE(Analyse(Matrix({2, 2}, {0, 0, 0, 0})).off_diagonal_share);
  const MatrixAnalysis rectangular = Analyse(Matrix({2, 3}, {3, 0, 0, 0, 0, 4}));
  EXPECT_FALSE(rectangular.determinant || rectangular.smallest_eigenvalue);
  EXPECT_EQ(rectangular.singular_values.size(), AnalysisUnavailable().empty() ? 2u : 0u);
  if (!AnalysisUnavailable().empty()) GTEST_SKIP() << AnalysisUnavailable();
  EXPECT_NEAR(*diagonal.determinant, 12, 1e-12);
  EXPECT_NEAR(*diagonal.smallest_eigenvalue, 3, 1e-12);
  ASSERT_EQ(diagonal.singular_values.size(), 2u);
  EXPECT_NEAR(diagonal.singular_values[0], 4, 1e-12);
}

TEST(MixingTest, EveryLayerOfAModelHasItsMatricesAndTheirProduct) {
  const T5 model(TinyT5("talking"), 3);
  const std::vector<LayerMixing> layers = MixingOf(model);
  ASSERT_EQ(layers.size(), 6u);
  EXPECT_EQ(layers[0].layer, "encoder.block_0.self_attention");
  EXPECT_EQ(layers[3].layer, "decoder.block_0.cross_attention");
  for (const LayerMixing& layer : layers) {
    ASSERT_EQ(layer.matrices.size(), 3u);
    const Tensor P_l = layer.Find("P_l")->values, P_w = layer.Find("P_w")->values;
    const Tensor product = layer.Find("P_l·P_w")->values;  // [2, 3] · [3, 5]
    ASSERT_EQ(product.shape(), (Shape{2, 5}));
    double sum = 0;
    for (int64_t h = 0; h < 3; ++h) sum += P_l.At({1, h}) * P_w.At({h, 4});
    EXPECT_NEAR(product.At({1, 4}), sum, 1e-14);
    EXPECT_TRUE(layer.dynamic.empty());
  }
  EXPECT_TRUE(MixingOf(T5(TinyT5("multihead"), 3)).empty());
}

// P_l[2, 3], P_w[3, 5] and their product [2, 5] have cubes of 27 + 125 + 125.
TEST(MixingTest, BeyondSoManyCubesLayersAreLeftOut) {
  const T5 model(TinyT5("talking"), 3);
  const std::vector<LayerMixing> layers = MixingOf(model, 2 * 277), all = MixingOf(model);
  for (size_t i = 0; i < layers.size(); ++i) {
    for (size_t j = 0; j < layers[i].matrices.size(); ++j) {
      const MatrixAnalysis &analysis = layers[i].matrices[j].analysis, &whole = all[i].matrices[j].analysis;
      EXPECT_EQ(analysis.left_out, i >= 2) << i;
      EXPECT_FALSE(whole.left_out);
      EXPECT_EQ(analysis.off_diagonal_share, whole.off_diagonal_share);
      EXPECT_EQ(analysis.singular_values, i < 2 ? whole.singular_values : std::vector<double>());
    }
  }
}

TEST(MixingTest, DynamicProjectionsAreMeasuredOverWhatTheyGenerate) {
  const T5 model(TinyT5("dynamic"), 3);
  std::vector<LayerMixing> layers = MixingOf(model);
  ASSERT_EQ(layers[0].dynamic.size(), 4u);
  EXPECT_EQ(layers[0].dynamic[0].name, "Xl");
  EXPECT_EQ(layers[0].dynamic[0].beside, "P_l");
  EXPECT_FALSE(layers[0].dynamic[0].generated);
  const auto forward = [&] {  // over two batches
    for (const uint32_t stream : {1u, 3u}) {
      model.Loss(TinyIds(2, 7, 40, stream), TinyIds(2, 5, 40, stream + 1), {}, ForwardContext());
    }
  };
  MeasureDynamicMixing(
      [&](const StopRequest& done) {
        EXPECT_FALSE(done());
        forward();
        EXPECT_TRUE(done());
      },
      &layers);
  double squares = 0;
  int64_t count = 0;
  {
    const ContextScope no_grad = NoGrad();
    const std::function<void(const AttentionCapture&)> take = [&](const AttentionCapture& capture) {
      if (capture.module != "decoder.block_1.cross_attention") return;
      ASSERT_EQ(capture.dynamic.at(3).name, "R_Mw");
      const Tensor& R_Mw = capture.dynamic[3].tensor;
      for (const float x : R_Mw.ToVector<float>()) squares += static_cast<double>(x) * static_cast<double>(x);
      count += R_Mw.num_elements();
    };
    const ContextScope captured(&OpContext::capture, &take);
    forward();
  }
  ASSERT_EQ(count, 2 * 2 * 7 * 3 * 5);  // of each memory position, [h, h_v]
  EXPECT_EQ(layers[5].layer, "decoder.block_1.cross_attention");
  EXPECT_EQ(layers[5].dynamic[3].name, "Mw");
  EXPECT_EQ(layers[5].dynamic[3].beside, "P_w");
  EXPECT_NEAR(*layers[5].dynamic[3].generated, std::sqrt(squares / static_cast<double>(count)), 1e-12);
}

// ---- What came after the paper, on a layer alone: its parameters, and X that it is applied to -----------------------

AttentionConfig FamilyLayer(const std::string& name) {
  for (const crosstalk::FamilyLayer& one : FamilyLayers()) {
    if (one.name == name) return one.config;
  }
  ADD_FAILURE() << name;
  return {};
}

Tensor RandomInput(const AttentionConfig& config, uint32_t stream) {
  Tensor X = Tensor::Zeros({2, 5, config.d_X}, DType::kFloat64);
  FillNormal(X, {.seed = 5, .stream = stream}, 0, 1);
  return X;
}

std::vector<LayerMixing> Measured(const AttentionModule& layer, const Tensor& X) {
  std::vector<LayerMixing> layers = MixingOf(layer);
  const auto forward = [&](const StopRequest&) { layer.Forward(Variable(X), Variable(X), {}, ForwardContext()); };
  MeasureDynamicMixing(forward, &layers);
  return layers;
}

// R_c[s, t] of docs/family.md at one position x[d_X].
std::vector<double> GeneratedAt(const AttentionModule& layer, const Tensor& x, int64_t c) {
  const AttentionParameters& p = layer.parameters();
  const Tensor &dw1 = p.dw1.value(), &qkw = p.qkw.value(), &dd = p.dd.value();
  const int64_t d = x.size(0), d_g = dw1.size(2), h = dd.size(2);
  std::vector<double> H, A(static_cast<size_t>(4 * h), 0);
  for (int64_t g = 0; g < d_g; ++g) {
    double z = 0;
    for (int64_t i = 0; i < d; ++i) z += x.At({i}) * dw1.At({i, c, g});
    H.push_back(z * 0.5 * (1 + std::erf(z / std::sqrt(2.0))));
  }
  const auto at = [&](int64_t i, int64_t s) -> double& { return A[static_cast<size_t>(i * h + s)]; };
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t s = 0; s < h; ++s) {
      for (int64_t g = 0; g < d_g; ++g) at(i, s) += H[static_cast<size_t>(g)] * qkw.At({c, g, i, s});
    }
  }
  std::vector<double> R(static_cast<size_t>(h * h), 0);
  for (int64_t i = 0; i < 2; ++i) {
    double squares = 0;
    for (int64_t s = 0; s < h; ++s) squares += at(i, s) * at(i, s);
    const double rms = std::sqrt(squares / static_cast<double>(h) + 1e-6);
    for (int64_t s = 0; s < h; ++s) {
      for (int64_t t = 0; t < h; ++t) R[static_cast<size_t>(s * h + t)] += at(i, s) / rms * at(2 + i, t);
    }
  }
  for (int64_t s = 0; s < h; ++s) {
    double z = 0;
    for (int64_t i = 0; i < d; ++i) z += x.At({i}) * dd.At({i, c, s});
    R[static_cast<size_t>(s * h + s)] += std::tanh(z);
  }
  return R;
}

TEST(MixingTest, WhatALowRankGeneratorMakesIsItsEquationsWithAndWithoutAStaticMatrix) {
  for (const char* name : {"low_rank", "low_rank_static"}) {
    const AttentionModule layer(FamilyLayer(name), Initializer(3, DType::kFloat64));
    const Tensor X = RandomInput(layer.config(), 1);
    const LayerMixing mixing = Measured(layer, X).at(0);
    ASSERT_EQ(mixing.dynamic.size(), 4u);
    for (int64_t c = 0; c < 4; ++c) {
      const DynamicMixing& one = mixing.dynamic[static_cast<size_t>(c)];
      EXPECT_EQ(one.name, DynamicNames()[static_cast<size_t>(c)]);
      EXPECT_EQ(one.beside, std::string(name) == "low_rank" ? "I" : c < 2 ? "P_l" : "P_w");
      const int64_t h = layer.config().h, positions = X.size(0) * X.size(1);
      std::vector<double> mean(static_cast<size_t>(h * h), 0);
      double squares = 0, of_mean = 0;
      for (int64_t i = 0; i < positions; ++i) {
        const std::vector<double> R = GeneratedAt(layer, X.Select(0, i / X.size(1)).Select(0, i % X.size(1)), c);
        for (size_t e = 0; e < R.size(); ++e) {
          mean[e] += R[e] / static_cast<double>(positions);
          squares += R[e] * R[e] / static_cast<double>(positions * h * h);
        }
      }
      for (size_t e = 0; e < mean.size(); ++e) {
        of_mean += mean[e] * mean[e] / static_cast<double>(h * h);
        EXPECT_NEAR(one.mean.At({static_cast<int64_t>(e) / h, static_cast<int64_t>(e) % h}), mean[e], 1e-12) << name;
      }
      EXPECT_NEAR(*one.generated, std::sqrt(squares), 1e-12) << name << c;
      EXPECT_NEAR(*one.spread, std::sqrt(squares - of_mean), 1e-10) << name << c;  // the root of a difference
      EXPECT_GT(one.parameters, 0);
    }
  }
}

double Dot(const Variable& a, const Variable& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(0); ++i) sum += a.value().At({i}) * b.value().At({i});
  return sum;
}

// The first version's λ is that of its vectors, the second one's are means over tokens.
TEST(MixingTest, LambdasAreThoseOfTheirEquations) {
  const AttentionModule first(FamilyLayer("differential_v1_pairs"), Initializer(3, DType::kFloat64));
  const LayerMixing of_first = MixingOf(first).at(0);
  const AttentionParameters& p = first.parameters();
  ASSERT_TRUE(of_first.differential);
  ASSERT_EQ(of_first.differential->lambda.size(), 1u);
  EXPECT_FALSE(of_first.DependsOnTokens());
  EXPECT_NEAR(of_first.differential->lambda[0],
              std::exp(Dot(p.lambda_q1, p.lambda_k1)) - std::exp(Dot(p.lambda_q2, p.lambda_k2)) + 0.2, 1e-14);

  const AttentionModule layer(FamilyLayer("differential_v2"), Initializer(3, DType::kFloat64));
  EXPECT_TRUE(MixingOf(layer).at(0).DependsOnTokens());
  EXPECT_TRUE(MixingOf(layer).at(0).differential->lambda.empty());
  const Tensor X = RandomInput(layer.config(), 2);
  const LayerMixing mixing = Measured(layer, X).at(0);
  const Tensor& P = layer.parameters().P_lambda.value();
  ASSERT_EQ(mixing.differential->lambda.size(), 3u);
  for (int64_t g = 0; g < 3; ++g) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < 10; ++i) {
      double z = 0;
      for (int64_t d = 0; d < X.size(2); ++d) z += X.At({i / 5, i % 5, d}) * P.At({d, g});
      const double sigma = 1 / (1 + std::exp(-z));
      sum += sigma / 10;
      squares += sigma * sigma / 10;
    }
    EXPECT_NEAR(mixing.differential->lambda[static_cast<size_t>(g)], sum, 1e-14);
    EXPECT_NEAR(mixing.differential->spread[static_cast<size_t>(g)], std::sqrt(squares - sum * sum), 1e-10);
  }
}

TEST(MixingTest, FiltersSayHowFarTheyReadAndGroupsOfHeadsHaveZerosBetween) {
  const AttentionModule layer(FamilyLayer("convolved"), Initializer(3, DType::kFloat64));
  Tensor conv_l = layer.parameters().conv_l.value(), P_l = layer.parameters().P_l.value();
  const LayerMixing start = MixingOf(layer).at(0);
  ASSERT_EQ(start.filters.size(), 2u);
  EXPECT_EQ(start.filters[0].name, "conv_l");
  EXPECT_EQ(start.filters[0].own_key, 2);
  EXPECT_EQ(start.filters[1].values.shape(), (Shape{2, 3, 6}));
  EXPECT_EQ(start.filters[1].elsewhere, std::vector<double>(6, 0.0));
  conv_l.Select(0, 0).Select(0, 1).Slice(0, 4, 5).Fill(3);  // of head 4, beside the 1 at its own place
  P_l.Fill(1);
  const LayerMixing mixing = MixingOf(layer).at(0);
  EXPECT_EQ(mixing.filters[0].elsewhere, (std::vector<double>{0, 0, 0, 0, 0.9, 0}));
  for (int64_t s = 0; s < 6; ++s) {
    for (int64_t t = 0; t < 6; ++t) EXPECT_EQ(mixing.Find("P_l")->values.At({s, t}), s / 3 == t / 3 ? 1 : 0);
  }
}

TEST(HeatImageTest, BlocksAreMeansAndTheLastMayBeSmaller) {
  const Tensor means = BlockMeans(Matrix({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), 2);
  ASSERT_EQ(means.shape(), (Shape{2, 2}));
  EXPECT_EQ(means.ToVector<double>(), (std::vector<double>{3, 4.5, 7.5, 9}));
}

MixingMatrix Matrix(const std::string& name, const Shape& shape, const std::vector<double>& values) {
  const Tensor tensor = Tensor::FromValues<double>(shape, values);
  return {name, tensor, Analyse(tensor)};
}

LayerMixing Layer(const std::string& name, std::vector<MixingMatrix> matrices) {
  return {name, std::move(matrices), {}, {}, {}};
}

TEST(CrossingTest, ALayerCountsTheProductWhereItHasBothAndTheMeanIsOfLayersThatMix) {
  const MixingMatrix P_l = Matrix("P_l", {2, 2}, {1, 1, 0, 1}), P_w = Matrix("P_w", {2, 2}, {1, -1, 0, 1});
  const MixingMatrix product = Matrix("P_l·P_w", {2, 2}, {1, 0, 0, 1});
  const LayerMixing none = Layer("b", {}), identity = Layer("c", {Matrix("P_w", {2, 2}, {1, 0, 0, 1})});
  EXPECT_EQ(CrossingOf(Layer("a", {P_l, P_w, product}))->share, 0);
  EXPECT_DOUBLE_EQ(CrossingOf(Layer("a", {P_w}))->share, 1.0 / 3);
  EXPECT_FALSE(CrossingOf(none));
  EXPECT_FALSE(CrossingOf(Layer("a", {Matrix("P_l", {2, 2}, {0, 0, 0, 0})})));
  EXPECT_DOUBLE_EQ(MeanCrossing({Layer("a", {P_l}), none, identity})->share, 1.0 / 6);
  EXPECT_EQ(MeanCrossing({Layer("a", {P_l}), none, identity})->by_chance, 0.5);
  EXPECT_FALSE(MeanCrossing({none}));
  // By chance it is the share of equal entries.
  for (const auto& [rows, columns] : {std::pair(3, 5), {5, 3}, {8, 8}}) {
    const Tensor ones = Tensor::Full({rows, columns}, 1, DType::kFloat64);
    EXPECT_DOUBLE_EQ(ShareByChance(rows, columns), *Analyse(ones).off_diagonal_share);
  }
}

TEST(CrossingTest, TheMostMixedHeadIsInTheMostMixedLayer) {
  const LayerMixing little = Layer("little", {Matrix("P_l", {2, 2}, {9, 1, 0, 0.1})});
  // Columns 3 and 4 have no row: all of head 3 is of others.
  const LayerMixing much =
      Layer("much", {Matrix("P_l", {3, 5}, {1, 0, 0.5, 0.1, 0, 0, 1, -2, 0.2, 0, 0, 0, 1, 0.1, 0})});
  const LayerMixing square = Layer("square", {Matrix("P_w", {3, 3}, {1, 0.1, 0.5, 0, 1, -2, 0, 0.3, 1})});
  const std::vector<double> heard = {3, 1, 0, 0.2}, of_square = {2, 1, 1, -2};
  const auto numbers = [](const MixedHead& one) {
    return std::vector<double>{static_cast<double>(one.head), static_cast<double>(one.heard), one.own, one.other};
  };
  const std::optional<MixedHead> found = MostMixedHead({little, much});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->layer, 1u);
  EXPECT_EQ(found->matrix, "P_l");
  EXPECT_EQ(numbers(*found), heard);
  EXPECT_EQ(numbers(*MostMixedHead({square})), of_square);
  // Where nothing can mix there is none.
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(MostMixedHead({}));
  EXPECT_FALSE(MostMixedHead({Layer("one head", {Matrix("P_l", {1, 1}, {2})})}));
  EXPECT_FALSE(MostMixedHead({Layer("diverged", {Matrix("P_l", {2, 2}, {infinity, 0, 0, 1})})}));
}

}  // namespace crosstalk::inspection_test
