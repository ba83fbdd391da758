// The table of projections, and the biases beside the four of every layer, which the plain loops have none of: a bias
// is a row of the projection for one more channel of X or M that is always 1.
#include "crosstalk/nn/attention/composed.h"

#include "crosstalk/autograd/ops.h"
#include "crosstalk/nn/attention/projections.h"
#include "tests/support/attention_cases.h"
#include "tests/support/family_cases.h"

namespace crosstalk::composed_test {

// Which implementation computes a layer is decided before there is a call, by what its calls will have.
TEST(AttentionShapeTest, AConfigurationHasTheMixingsAndConvolutionsOfItsCalls) {
  std::vector<AttentionConfig> configs;
  for (const AttentionCase& c : AttentionCases()) configs.push_back(c.config);
  for (const FamilyLayer& layer : FamilyLayers()) configs.push_back(layer.config);
  for (const FamilyLayer& layer : FamilyLayers()) {  // convolved beside each: with dynamic ones there is no kernel
    configs.push_back(layer.config);
    configs.back().c_qw = 2, configs.back().c_kw = 3;
  }
  int without_kernel = 0;
  for (AttentionConfig& config : configs) {
    SCOPED_TRACE(ToString(config));
    config.causality = Causality::kNone;
    config.window = 0;
    config.implementation = AttentionImplementation::kFused;
    const AttentionModule layer(config, Initializer(1));
    const Variable X(Tensor::Zeros({2, 3, config.d_X}, DType::kFloat32));
    const Variable M(Tensor::Zeros({2, 5, config.d_M}, DType::kFloat32));
    const AttentionCall call =
        ProjectQueries(config, layer.parameters(), X, ProjectMemory(config, layer.parameters(), M), {}, std::nullopt);
    const kernels::AttentionShape of_call = BindShape(call), shape = ShapeOf(config);
    for (const auto& side : kernels::kMixings) {
      for (const kernels::MixingRow& row : side) EXPECT_EQ(shape.*row.present, of_call.*row.present) << row.bracket;
    }
    const auto filters = [](const kernels::AttentionShape& s) { return std::array{s.c_ql, s.c_kl, s.c_qw, s.c_kw}; };
    EXPECT_EQ(filters(shape), filters(of_call));
    const bool fused = layer.implementation() == AttentionImplementation::kFused;
    EXPECT_EQ(fused, kernels::IsSupported(of_call));
    without_kernel += !fused;
  }
  EXPECT_EQ(without_kernel, 5);  // low_rank, low_rank_static, differential_v2, window_low_rank, window_differential
}

// The memory, which caches hold too, has the heads of P_k and P_v, and a call reads it in place.
TEST(AttentionMemoryTest, IsReadAsItIsByAllHeadsThatShareIt) {
  std::vector<FamilyLayer> layers = FamilyLayers();
  for (const FamilyLayer& layer : FamilyLayers()) {
    layers.push_back({layer.name + ", shared", layer.config});
    layers.back().config.g_k = layers.back().config.g_v = 1;
    layers.back().config.key_sharing = KeySharing::kConsecutive;
  }
  for (const auto& [name, config] : layers) {
    SCOPED_TRACE(name);
    const AttentionModule layer(config, Initializer(1));
    const Variable X(Tensor::Zeros({2, 5, config.d_X}, DType::kFloat32));
    const AttentionMemory memory = ProjectMemory(config, layer.parameters(), X);
    EXPECT_EQ(memory.K.size(2), config.g_k > 0 ? config.g_k : config.h_k);
    EXPECT_EQ(memory.V.size(2), config.g_v > 0 ? config.g_v : config.h_v);
    const AttentionCall call = ProjectQueries(config, layer.parameters(), X, memory, {}, std::nullopt);
    EXPECT_EQ(call.K.value().raw_data(), memory.K.value().raw_data());
    EXPECT_EQ(call.V.value().raw_data(), memory.V.value().raw_data());
    const kernels::AttentionShape shape = BindShape(call);
    EXPECT_EQ(shape.g_k, memory.K.size(2));
    EXPECT_EQ(shape.g_v, memory.V.size(2));
    EXPECT_EQ(shape.key_sharing, config.key_sharing);
  }
}

// A row that no layer can ask for, or that every layer has with an option none looks at. (No static_assert: addresses
// of functions are no constants to GCC's sanitizers.)
TEST(AttentionProjectionsTest, JustTheRowsOfAnOptionNameIt) {
  for (const AttentionProjection& projection : kAttentionProjections) {
    EXPECT_EQ(projection.condition == ProjectionCondition::kOption, projection.option != nullptr) << projection.bracket;
  }
}

TEST(AttentionProjectionsTest, StorageOrderIsThePapersPermuted) {
  for (const AttentionProjection& projection : kAttentionProjections) {
    const Bracket stored = ParseBracket(projection.bracket), paper = ParseBracket(projection.paper);
    EXPECT_EQ(stored.tensor, paper.tensor);
    const std::vector<int> order = PaperToStorage(projection);
    ASSERT_EQ(order.size(), stored.indices.size());
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(stored.indices[i], paper.indices[static_cast<size_t>(order[i])]) << projection.bracket;
    }
  }
}

// The array with one more row along its first dimension (or, of X[b, n, d], along its last).
Array<double> WithRow(const Array<double>& P, const Array<double>& row) {
  std::vector<int64_t> sizes = P.sizes();
  ++sizes[0];
  Array<double> wider(sizes, 0);
  std::copy(P.values().begin(), P.values().end(), wider.values().begin());
  if (row.present()) std::copy(row.values().begin(), row.values().end(), wider.values().begin() + P.values().size());
  return wider;
}

Array<double> WithOnes(const Array<double>& X) {
  const std::vector<int64_t>& s = X.sizes();
  Array<double> wider({s[0], s[1], s[2] + 1}, 1);
  for (int64_t b = 0; b < s[0]; ++b)
    for (int64_t i = 0; i < s[1]; ++i)
      for (int64_t k = 0; k < s[2]; ++k) wider(b, i, k) = X(b, i, k);
  return wider;
}

std::vector<double> LastRow(const Array<double>& dP) {
  const size_t row = dP.values().size() / static_cast<size_t>(dP.sizes()[0]);
  return {dP.values().end() - static_cast<std::ptrdiff_t>(row), dP.values().end()};
}

void ExpectBiases(const AttentionConfig& config, DType dtype, double tolerance) {
  AttentionCase c{.name = "biases", .config = config, .pairs = true};
  SCOPED_TRACE(::testing::Message() << c);
  const AttentionInputs<double> in = MakeInputs(c);
  const auto bias = [&](const std::vector<int64_t>& sizes, uint32_t stream) {
    return RandomArray(sizes, 0.5, {.seed = 8, .stream = stream});
  };
  const Array<double> b_q = bias({config.d_k, config.h_k}, 1), b_k = bias({config.d_k, config.h_k}, 2);
  const Array<double> b_v = config.tied() ? Array<double>() : bias({config.d_v, config.h_v}, 3);
  const Array<double> b_o = bias({config.d_Y}, 4);

  AttentionInputs<double> wider = in;
  wider.X = WithOnes(in.X);
  wider.M = WithOnes(in.M);
  wider.P_q = WithRow(in.P_q, b_q);
  wider.P_k = WithRow(in.P_k, b_k);
  if (b_v.present()) wider.P_v = WithRow(in.P_v, b_v);
  for (Array<double>* P : {&wider.P_Xl, &wider.P_Ml, &wider.P_Xw, &wider.P_Mw}) {
    if (P->present()) *P = WithRow(*P, {});
  }
  AttentionValues<double> values = kernels::reference::AttentionForward(wider);
  const Array<double> dY = MakeOutputGradient(c);
  const AttentionInputs<double> d = kernels::reference::AttentionBackward(wider, values, dY);
  Array<double> db_o({config.d_Y}, 0);
  for (int64_t b = 0; b < c.b; ++b)
    for (int64_t i = 0; i < c.n; ++i)
      for (int64_t k = 0; k < config.d_Y; ++k) {
        values.Y(b, i, k) += b_o(k);
        db_o(k) += dY(b, i, k);
      }

  LayerLeaves leaves(c, in, dtype);
  const auto leaf = [&](const Array<double>& array) {
    return array.present() ? Variable(ToTensor(array, dtype), Variable::RequiresGrad::kYes) : Variable();
  };
  leaves.parameters.b_q = leaf(b_q);
  leaves.parameters.b_k = leaf(b_k);
  leaves.parameters.b_v = leaf(b_v);
  leaves.parameters.b_o = leaf(b_o);
  AttentionConfig with_biases = config;
  with_biases.projection_biases = true;
  const AttentionResult result =
      ComputeAttention(with_biases, leaves.Parameters(), leaves.X, leaves.M, ExtrasOf(c, in, Variable()));
  EXPECT_EQ(result.implementation, config.implementation);
  EXPECT_TRUE(CloseTo(ToArray(result.Y.value()), values.Y, tolerance));
  Backward(result.Y, ToTensor(dY, dtype));
  EXPECT_TRUE(CloseTo(ToArray(leaves.parameters.b_o.grad()), db_o, tolerance));
  const auto expect_row = [&](const Variable& actual, const Array<double>& dP, double scale_of) {
    if (!actual.defined()) return;
    const std::vector<double> expected = LastRow(dP), got = ToArray(actual.grad()).values();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance * scale_of) << i;
  };
  // Sums of some 50 rows, of numbers up to 10 that may cancel: so does all of b_k's in multi-head attention.
  expect_row(leaves.parameters.b_q, d.P_q, 500);
  expect_row(leaves.parameters.b_k, d.P_k, 500);
  expect_row(leaves.parameters.b_v, d.P_v, 500);
}

TEST(AttentionProjectionsTest, BiasesEqualAChannelThatIsAlwaysOne) {
  AttentionConfig tied = MixingConfig({});
  tied.key_value = KeyValueProjection::kTied;
  tied.h_v = tied.h_k;
  tied.d_v = tied.d_k;
  const HeadMixing all = {.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true};
  for (AttentionConfig config : {MixingConfig({}), MixingConfig({.P_l = true, .P_w = true}), MixingConfig(all), tied}) {
    config.scale = 0.5;
    ExpectBiases(config, DType::kFloat64, 1e-12);
    config.implementation = AttentionImplementation::kFused;
    ExpectBiases(config, DType::kFloat32, 2e-5);
  }
}

TEST(AttentionProjectionsTest, BiasesStartAtZeroAndNoOptimizerFactorsThem) {
  AttentionConfig config = MixingConfig({.P_l = true});
  config.projection_biases = true;
  const AttentionModule layer(config, Initializer(3).At("layer"));
  int biases = 0;
  for (const NamedParameter& parameter : layer.Parameters()) {
    if (parameter.name[0] != 'b') continue;
    ++biases;
    EXPECT_EQ(parameter.matrix_shape.rank(), 0);
    for (const float value : parameter.value.value().ToVector<float>()) EXPECT_EQ(value, 0);
  }
  EXPECT_EQ(biases, 4);
  EXPECT_EQ(layer.NumParameters(), CostOf(config, 5, 7).parameters);
  AttentionConfig bilinear = BilinearConfig();
  bilinear.projection_biases = true;
  EXPECT_THROW(bilinear.Validate(), Error);
}

// Values and gradients of every case against the plain loops.
void CompareWithReference(DType dtype, double tolerance) {
  for (const AttentionCase& c : AttentionCases()) {
    SCOPED_TRACE(::testing::Message() << c);
    const AttentionInputs<double> in = MakeInputs(c);
    const std::vector<NamedArray> expected = ReferenceResults(c, in);
    const std::vector<NamedArray> actual = LayerResults(c, in, dtype);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i].name, expected[i].name);
      EXPECT_TRUE(CloseTo(actual[i].array, expected[i].array, tolerance)) << expected[i].name;
    }
  }
}

// The longest chains of sums have about 1000 terms: their error in double is below 1e-13 of the largest magnitude, in
// float below 1e-5.
TEST(AttentionComposedTest, EqualsThePlainLoopsInDouble) { CompareWithReference(DType::kFloat64, 1e-12); }
TEST(AttentionComposedTest, EqualsThePlainLoopsInFloat) { CompareWithReference(DType::kFloat32, 1e-5); }

// ---- A capture of what it computes ----

// [b, h, n, m] → the references' [b, n, m, h].
Array<double> InPaperOrder(const Tensor& tensor) {
  return tensor.defined() ? ToArray(tensor.Permute({0, 2, 3, 1})) : Array<double>();
}

using TakeCapture = std::function<void(const AttentionCapture&)>;

struct Captured {
  std::vector<AttentionCapture> all;
  AttentionResult result;
};

Captured CaptureCase(const AttentionCase& c, const AttentionInputs<double>& in, DType dtype) {
  const LayerLeaves leaves(c, in, dtype);
  std::optional<RandomKey> dropout_key;
  if (c.dropout) dropout_key = RandomKey{.seed = 5, .stream = 6};
  Captured captured;
  const TakeCapture take = [&](const AttentionCapture& one) { captured.all.push_back(one); };
  const ContextScope scope(&OpContext::capture, &take);
  captured.result =
      ComputeAttention(c.config, leaves.Parameters(), leaves.X, leaves.M, ExtrasOf(c, in, leaves.bias), dropout_key);
  return captured;
}

TEST(AttentionCaptureTest, GivesWhatThePlainLoopsComputeForEveryCase) {
  for (const AttentionCase& c : AttentionCases()) {
    SCOPED_TRACE(::testing::Message() << c);
    AttentionInputs<double> in = MakeInputs(c);
    in.multiplier = {};  // a capture is before dropout
    const AttentionValues<double> expected = kernels::reference::AttentionForward(in);
    const std::vector<AttentionCapture> all = CaptureCase(c, in, DType::kFloat64).all;
    ASSERT_EQ(all.size(), 1u);
    const AttentionCapture& capture = all[0];
    const HeadMixing& mixing = c.config.mixing;

    ASSERT_EQ(capture.J.defined(), c.config.form == AttentionForm::kProjected);
    if (capture.J.defined()) {
      EXPECT_TRUE(CloseTo(InPaperOrder(capture.J), expected.J, 1e-12)) << "J";
    }
    EXPECT_TRUE(CloseTo(InPaperOrder(capture.W), expected.W, 1e-12)) << "W";
    ASSERT_EQ(capture.U.defined(), mixing.MixesWeights());
    if (capture.U.defined()) {
      EXPECT_TRUE(CloseTo(InPaperOrder(capture.U), expected.U, 1e-12)) << "U";
    }

    // The references keep the mask out of L.
    Array<double> L = InPaperOrder(capture.L);
    for (size_t i = 0; i < L.values().size(); ++i) {
      const size_t pair = i / static_cast<size_t>(c.config.h);
      const bool attend = !in.mask.present() || in.mask.values()[pair] != 0;
      ASSERT_EQ(std::isfinite(L.values()[i]), attend) << i;
      if (!attend) L.values()[i] = expected.L.values()[i];
    }
    EXPECT_TRUE(CloseTo(L, expected.L, 1e-12)) << "L";

    std::vector<std::pair<const char*, const Array<double>*>> dynamic = {{"R_Xl", &expected.core.R_Xl},
                                                                         {"R_Ml", &expected.core.R_Ml},
                                                                         {"R_Xw", &expected.core.R_Xw},
                                                                         {"R_Mw", &expected.core.R_Mw}};
    std::erase_if(dynamic, [](const auto& one) { return !one.second->present(); });
    ASSERT_EQ(capture.dynamic.size(), dynamic.size());
    for (size_t i = 0; i < dynamic.size(); ++i) {
      EXPECT_EQ(capture.dynamic[i].name, dynamic[i].first);
      EXPECT_TRUE(CloseTo(ToArray(capture.dynamic[i].tensor), *dynamic[i].second, 1e-12)) << dynamic[i].first;
    }
  }
}

TEST(AttentionCaptureTest, TheScopeMakesTheComposedPathCompute) {
  AttentionCase c = {.name = "fused", .config = MixingConfig({.P_l = true, .P_w = true})};
  c.config.implementation = AttentionImplementation::kFused;
  const Captured captured = CaptureCase(c, MakeInputs(c), DType::kFloat32);
  EXPECT_EQ(captured.result.implementation, AttentionImplementation::kComposed);
  ASSERT_EQ(captured.all.size(), 1u);
  EXPECT_EQ(CurrentContext().capture, nullptr);
}

TEST(AttentionCaptureTest, NamesTheModuleAndThePlaceThatAppliesIt) {
  AttentionConfig config = SelfConfig(MixingConfig({}));
  config.d_Y = config.d_X;
  const AttentionModule layer(config, Initializer(1).At("shared"));
  const Variable X(Tensor::Zeros({1, 3, config.d_X}, DType::kFloat32));
  std::vector<AttentionCapture> all;
  const TakeCapture fail = [](const AttentionCapture&) { FAIL() << "the inner scope takes"; };
  const TakeCapture take = [&](const AttentionCapture& one) { all.push_back(one); };
  const ContextScope outer(&OpContext::capture, &fail);
  const ContextScope inner(&OpContext::capture, &take);
  for (const char* place : {"block_0", "block_1"}) {
    const ContextScope scope = InLayer(place);
    layer.Forward(X, X, {}, ForwardContext());
  }
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].layer, "block_0");
  EXPECT_EQ(all[1].layer, "block_1");
  EXPECT_EQ(all[0].module, "shared");
  EXPECT_EQ(all[1].module, "shared");
}

}  // namespace crosstalk::composed_test
