

#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/attention_cases.h"

namespace crosstalk::fused_test {

// All that have a kernel.
std::vector<AttentionCase> FusedCases() {
  std::vector<AttentionCase> cases = AttentionCases();
  for (AttentionCase& c : cases) c.config.implementation = AttentionImplementation::kFused;
  std::erase_if(cases, [](const AttentionCase& c) {
    return ImplementationFor(c.config, DType::kFloat32, AttentionOutputs::kOutputOnly) !=
           AttentionImplementation::kFused;
  });
  return cases;
}

// The same bound as for the composed path in float: sums of at most some 1000 terms.
constexpr double kTolerance = 1e-5;

TEST(AttentionFusedTest, EqualsThePlainLoopsInValuesAndGradients) {
  for (const AttentionCase& c : FusedCases()) {
    SCOPED_TRACE(::testing::Message() << c);
    const AttentionInputs<double> in = MakeInputs(c);
    const std::vector<NamedArray> expected = ReferenceResults(c, in);
    const std::vector<NamedArray> actual = LayerResults(c, in, DType::kFloat32);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i].name, expected[i].name);
      if (actual[i].name == "W" || actual[i].name == "U") {
        EXPECT_FALSE(actual[i].array.present()) << "the fused implementation ran if there is no " << actual[i].name;
        continue;
      }
      EXPECT_TRUE(CloseOrCancelled(actual[i].array, expected[i].array, kTolerance)) << expected[i].name;
    }
  }
}

// Float is computed by the fused implementation, double by the composed one, from the same table.
TEST(AttentionFusedTest, ABiasByDistanceEqualsTheComposedPathInValuesAndGradients) {
  for (const AttentionCase& c : FusedCases()) {
    if (c.name != "everything" && c.name != "causal with bias and padding" && c.name != "one query") continue;
    SCOPED_TRACE(::testing::Message() << c);
    const AttentionInputs<double> in = MakeInputs(c);
    constexpr int64_t kBuckets = 6;
    std::vector<int32_t> buckets;
    for (int64_t i = 0; i < c.n + c.m - 1; ++i) {  // no two neighbours alike, and no symmetry about distance 0
      buckets.push_back(static_cast<int32_t>((i * i + i / 3) % kBuckets));
    }
    const Tensor distance_bucket = Tensor::FromValues<int32_t>({c.n + c.m - 1}, buckets);
    const Array<double> table = RandomArray({c.config.h, kBuckets}, 1, {.seed = 4, .stream = 4});
    const auto run = [&](DType dtype) {
      const LayerLeaves leaves(c, in, dtype);
      const Variable values(ToTensor(table, dtype), Variable::RequiresGrad::kYes);
      AttentionCallOptions options = ExtrasOf(c, in, Variable());
      options.bias = LogitsBias(values, distance_bucket);
      const AttentionResult result = ComputeAttention(c.config, leaves.Parameters(), leaves.X, leaves.M, options);
      EXPECT_EQ(result.implementation,
                dtype == DType::kFloat32 ? AttentionImplementation::kFused : AttentionImplementation::kComposed);
      Backward(result.Y, ToTensor(MakeOutputGradient(c), dtype));
      return std::vector<Array<double>>{ToArray(result.Y.value()), ToArray(leaves.X.grad()), ToArray(leaves.M.grad()),
                                        ToArray(values.grad())};
    };
    const std::vector<Array<double>> fused = run(DType::kFloat32), composed = run(DType::kFloat64);
    for (size_t i = 0; i < composed.size(); ++i) EXPECT_TRUE(CloseOrCancelled(fused[i], composed[i], kTolerance)) << i;
  }
}

// Heads as small as one number and keys larger than d_model / h: the paper's Table 7 goes up to 768 heads of size 1.
// The fused attention in float beside the composed one in double, in values and all gradients.

constexpr int64_t kBatch = 2;

struct Named {
  std::string name;
  std::vector<double> values;
};

Tensor Random(const Shape& shape, const char* purpose) {
  const Tensor values = Tensor::Empty(shape, DType::kFloat32);
  FillNormal(values, {.seed = 5, .stream = StreamId(purpose)}, 0.0, 1.0);
  return values;
}

// Y and the gradients of X, the bias's table and every parameter, of a layer with BERT's biases whose parameters are
// those of float.
std::vector<Named> Results(AttentionConfig config, int64_t n, DType dtype) {
  config.implementation = AttentionImplementation::kFused;
  const AttentionModule of_float(config, Initializer(3));
  AttentionModule layer(config, Initializer(3, dtype));
  const std::vector<NamedParameter> from = of_float.Parameters(), to = layer.Parameters();
  for (size_t i = 0; i < to.size(); ++i) {
    // Biases begin as zeros, whose part in a product would not show.
    const bool vector = from[i].matrix_shape.rank() == 0;
    const Tensor value = vector ? Random(from[i].value.shape(), from[i].name.c_str()) : from[i].value.value();
    to[i].value.SetValue(value.To(dtype).Clone());
  }
  const Variable X(Random({kBatch, n, config.d_X}, "X").To(dtype), Variable::RequiresGrad::kYes);
  constexpr int64_t kBuckets = 5;
  const Variable table(Random({config.h, kBuckets}, "table").To(dtype), Variable::RequiresGrad::kYes);
  std::vector<int32_t> buckets;
  for (int64_t i = 0; i < 2 * n - 1; ++i) buckets.push_back(static_cast<int32_t>(i * i % kBuckets));
  AttentionCallOptions options;
  options.bias = LogitsBias(table, Tensor::FromValues<int32_t>({2 * n - 1}, buckets));
  options.key_padding_mask = Tensor::Full({kBatch, n}, 1, DType::kBool);
  options.key_padding_mask.Slice(1, n - 2, n).Fill(0);
  const AttentionResult result = layer.Forward(X, X, options, ForwardContext());
  EXPECT_EQ(result.implementation,
            dtype == DType::kFloat32 ? AttentionImplementation::kFused : AttentionImplementation::kComposed);
  Backward(result.Y, Random({kBatch, n, config.d_Y}, "dY").To(dtype));
  const auto numbers = [](const Tensor& tensor) { return tensor.To(DType::kFloat64).Contiguous().ToVector<double>(); };
  std::vector<Named> results = {
      {"Y", numbers(result.Y.value())}, {"dX", numbers(X.grad())}, {"dtable", numbers(table.grad())}};
  for (const NamedParameter& parameter : to) results.push_back({parameter.name, numbers(parameter.value.grad())});
  return results;
}

void ExpectFusedEqualsComposed(const AttentionOptions& options, int64_t d_model, int64_t n) {
  AttentionConfig config = MakeAttentionConfig(options, d_model);
  config.projection_biases = true;
  config.scale = 1 / std::sqrt(static_cast<double>(config.d_k));
  const std::vector<Named> fused = Results(config, n, DType::kFloat32), composed = Results(config, n, DType::kFloat64);
  ASSERT_EQ(fused.size(), composed.size());
  for (size_t i = 0; i < composed.size(); ++i) {
    double largest = 0, worst = 0;
    for (size_t k = 0; k < composed[i].values.size(); ++k) {
      largest = std::max(largest, std::abs(composed[i].values[k]));
      worst = std::max(worst, std::abs(fused[i].values[k] - composed[i].values[k]));
    }
    // A softmax does not see what all logits of a query have in common, so the gradient of the key's bias is the rest
    // of cancelling sums, unless a mixing follows.
    const double size = fused[i].name == "b_k" ? std::max(largest, 1.0) : largest;
    EXPECT_LE(worst, 2e-5 * size) << ToString(config) << ": " << composed[i].name;
  }
}

// Heads of one, two and four numbers, the largest of the paper's Table 7, and keys larger than the model over the
// heads.
TEST(ManyHeadsTest, FusedEqualsComposed) {
  for (const AttentionKind kind : {AttentionKind::kMultihead, AttentionKind::kTalking}) {
    for (const int64_t heads : {96, 48, 24}) ExpectFusedEqualsComposed({.kind = kind, .heads = heads}, 96, 37);
    ExpectFusedEqualsComposed({.kind = kind, .heads = 12, .key_size = 128}, 96, 37);
    ExpectFusedEqualsComposed({.kind = kind, .heads = 768}, 768, 5);
  }
}

}  // namespace crosstalk::fused_test
