#include "crosstalk/models/inspection/mixing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "crosstalk/models/inspection/heat_image.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/nn/attention/capture.h"
#include "crosstalk/runtime/op_context.h"
#include "tests/support/t5_cases.h"

namespace crosstalk {
namespace mixing_test {

Tensor Matrix(const Shape& shape, const std::vector<double>& values) {
  return Tensor::FromValues<double>(shape, values);
}

TEST(MixingTest, ADiagonalMatrixIsAllOnItsDiagonal) {
  const MatrixAnalysis analysis = Analyse(Matrix({2, 2}, {3, 0, 0, -4}));
  EXPECT_EQ(analysis.off_diagonal_share, 0);
  EXPECT_DOUBLE_EQ(analysis.root_mean_square, 2.5);
  if (!AnalysisUnavailable().empty()) GTEST_SKIP() << AnalysisUnavailable();
  EXPECT_NEAR(*analysis.determinant, 12, 1e-12);
  EXPECT_NEAR(*analysis.smallest_eigenvalue, 3, 1e-12);
  ASSERT_EQ(analysis.singular_values.size(), 2u);
  EXPECT_NEAR(analysis.singular_values[0], 4, 1e-12);
}

TEST(MixingTest, TheOffDiagonalShareIsOfSquares) {
  EXPECT_DOUBLE_EQ(*Analyse(Matrix({2, 2}, {3, 4, 0, 5})).off_diagonal_share, 16.0 / 50);
  EXPECT_DOUBLE_EQ(*Analyse(Matrix({2, 3}, {1, 0, 2, 0, 1, 0})).off_diagonal_share, 4.0 / 6);
  EXPECT_FALSE(Analyse(Matrix({2, 2}, {0, 0, 0, 0})).off_diagonal_share);
}

TEST(MixingTest, ARectangularMatrixHasSingularValuesAlone) {
  const MatrixAnalysis analysis = Analyse(Matrix({2, 3}, {3, 0, 0, 0, 0, 4}));
  EXPECT_FALSE(analysis.determinant);
  EXPECT_FALSE(analysis.smallest_eigenvalue);
  EXPECT_EQ(analysis.singular_values.size(), AnalysisUnavailable().empty() ? 2u : 0u);
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

TEST(HeatImageTest, BlocksAreMeansAndTheLastMayBeSmaller) {
  const Tensor means = BlockMeans(Matrix({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), 2);
  ASSERT_EQ(means.shape(), (Shape{2, 2}));
  EXPECT_EQ(means.ToVector<double>(), (std::vector<double>{3, 4.5, 7.5, 9}));
}

TEST(HeatImageTest, AMatrixOf768HeadsIsDrawnOfBlocks) {
  const HeatImage image = DrawHeatImage(Tensor::Zeros({768, 768}, DType::kFloat32));
  EXPECT_EQ(image.width, 256);
  EXPECT_EQ(image.height, 256);
  EXPECT_EQ(DrawHeatImage(Tensor::Zeros({8, 4}, DType::kFloat32)).width, 4 * 24);
}

}  // namespace mixing_test
}  // namespace crosstalk
