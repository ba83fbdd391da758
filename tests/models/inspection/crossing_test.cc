#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "crosstalk/models/inspection/mixing.h"

namespace crosstalk {
namespace crossing_test {

MixingMatrix Matrix(const std::string& name, const Shape& shape, const std::vector<double>& values) {
  const Tensor tensor = Tensor::FromValues<double>(shape, values);
  return {name, tensor, Analyse(tensor)};
}

LayerMixing Layer(const std::string& name, std::vector<MixingMatrix> matrices) {
  return {name, std::move(matrices), {}, {}, {}};
}

TEST(CrossingTest, ALayerCountsTheProductWhereItHasBoth) {
  const MixingMatrix P_l = Matrix("P_l", {2, 2}, {1, 1, 0, 1}), P_w = Matrix("P_w", {2, 2}, {1, -1, 0, 1});
  const MixingMatrix product = Matrix("P_l·P_w", {2, 2}, {1, 0, 0, 1});
  EXPECT_EQ(CrossingOf(Layer("a", {P_l, P_w, product}))->share, 0);
  EXPECT_DOUBLE_EQ(CrossingOf(Layer("a", {P_w}))->share, 1.0 / 3);
  EXPECT_FALSE(CrossingOf(Layer("a", {})));
  EXPECT_FALSE(CrossingOf(Layer("a", {Matrix("P_l", {2, 2}, {0, 0, 0, 0})})));
}

TEST(CrossingTest, ByChanceIsTheShareOfEqualEntries) {
  const std::vector<double> ones(15, 1.0);
  EXPECT_DOUBLE_EQ(ShareByChance(3, 5), *Analyse(Tensor::FromValues<double>({3, 5}, ones)).off_diagonal_share);
  EXPECT_DOUBLE_EQ(ShareByChance(5, 3), *Analyse(Tensor::FromValues<double>({5, 3}, ones)).off_diagonal_share);
  EXPECT_EQ(ShareByChance(8, 8), 0.875);
}

TEST(CrossingTest, TheMeanIsOfLayersThatMix) {
  const std::vector<LayerMixing> layers = {Layer("a", {Matrix("P_l", {2, 2}, {1, 1, 0, 1})}), Layer("b", {}),
                                           Layer("c", {Matrix("P_w", {2, 2}, {1, 0, 0, 1})})};
  EXPECT_DOUBLE_EQ(MeanCrossing(layers)->share, 1.0 / 6);
  EXPECT_EQ(MeanCrossing(layers)->by_chance, 0.5);
  EXPECT_FALSE(MeanCrossing({layers[1]}));
}

TEST(CrossingTest, TheMostMixedHeadIsInTheMostMixedLayer) {
  const LayerMixing little = Layer("little", {Matrix("P_l", {2, 2}, {9, 1, 0, 0.1})});
  const LayerMixing much = Layer("much", {Matrix("P_l", {3, 5},
                                                 {1, 0, 0.5, 0.1, 0,    //
                                                  0, 1, -2, 0.2, 0,     //
                                                  0, 0, 1, 0.1, 0})});  // columns 3 and 4 have no row
  const std::optional<MixedHead> found = MostMixedHead({little, much});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->layer, 1u);
  EXPECT_EQ(found->matrix, "P_l");
  EXPECT_EQ(found->head, 3);  // all of it is of others
  EXPECT_EQ(found->heard, 1);
  EXPECT_EQ(found->own, 0);
  EXPECT_EQ(found->other, 0.2);
  const std::optional<MixedHead> other = MostMixedHead({Layer("square", {Matrix("P_w", {3, 3},
                                                                                {1, 0.1, 0.5,  //
                                                                                 0, 1, -2,     //
                                                                                 0, 0.3, 1})})});
  EXPECT_EQ(other->head, 2);
  EXPECT_EQ(other->heard, 1);
  EXPECT_EQ(other->own, 1);
  EXPECT_EQ(other->other, -2);
}

TEST(CrossingTest, WhereNothingCanMixThereIsNoMostMixedHead) {
  EXPECT_FALSE(MostMixedHead({}));
  EXPECT_FALSE(MostMixedHead({Layer("one head", {Matrix("P_l", {1, 1}, {2})})}));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(MostMixedHead({Layer("diverged", {Matrix("P_l", {2, 2}, {infinity, 0, 0, 1})})}));
}

}  // namespace crossing_test
}  // namespace crosstalk
