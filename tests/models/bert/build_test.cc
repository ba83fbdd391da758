// What a training configuration that says nothing makes of BERT and ALBERT, and what it can say.
#include <gtest/gtest.h>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/training/config.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace build_test {

BertConfig Built(TrainingConfig config) {
  config.model.attention.kind = AttentionKind::kMultihead;
  const ResolvedConfig resolved(config);
  return static_cast<const BertConfig&>(
      *ConfigureModel(*resolved, {.size = 300, .tokens = {.begin = 3, .separator = 4, .mask = 5}}));
}

TrainingConfig Of(const char* model, int64_t d_model = 768) {
  TrainingConfig config;
  config.model.name = model;
  config.model.d_model = d_model;
  config.model.attention.heads = 12;
  return config;
}

TEST(BertBuildTest, TheDefaultsAreThePublishedForms) {
  const BertConfig bert = Built(Of("bert"));
  EXPECT_EQ(bert.feed_forward, FeedForwardKind::kGelu);
  EXPECT_EQ(bert.attention.scale, 0.125);
  EXPECT_TRUE(bert.attention.projection_biases);
  EXPECT_TRUE(bert.heads.pooler && bert.heads.sentence && bert.heads.masked_lm);
  EXPECT_EQ(bert.norm_epsilon, 1e-12);
  EXPECT_FALSE(bert.is_albert());
  const BertConfig albert = Built(Of("albert"));
  EXPECT_EQ(albert.feed_forward, FeedForwardKind::kGeluTanh);
  EXPECT_EQ(albert.embedding_size, 768);
  EXPECT_EQ(albert.layer_groups, 1);
  const ResolvedConfig trained(Of("bert")), shared(Of("albert"));
  EXPECT_EQ(trained->optimization.optimizer, OptimizerKind::kAdamW);
  EXPECT_EQ(shared->optimization.optimizer, OptimizerKind::kLamb);
  EXPECT_EQ(trained->optimization.clip, 1);
  EXPECT_EQ(trained->optimization.z_loss, 0);
}

TEST(BertBuildTest, InitialWeightsAreThePublishedOnesAtThePublishedWidth) {
  EXPECT_EQ(Built(Of("bert")).stddev, 0.02);
  EXPECT_EQ(Built(Of("bert", 1536)).stddev, 0.02);
  EXPECT_NEAR(Built(Of("albert", 192)).stddev, 0.04, 1e-15);
  TrainingConfig config = Of("bert", 192);
  config.model.initial_stddev = 0.3;
  const BertConfig told = Built(config);
  EXPECT_EQ(told.stddev, 0.3);
  EXPECT_EQ(told.attention.projection_stddev, 0.3);
}

TEST(BertBuildTest, LayersHaveTheirKindsInTurnInBertsForm) {
  TrainingConfig config = Of("bert", 192);
  config.model.layers = 3;
  config.model.layer_kinds = {AttentionKind::kTalking, AttentionKind::kMultihead};
  const BertConfig bert = Built(config);
  ASSERT_EQ(bert.layer_attention.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const AttentionConfig& layer = bert.layer_attention[i];
    EXPECT_EQ(layer.mixing.P_l, i != 1);
    EXPECT_TRUE(layer.projection_biases);
    EXPECT_EQ(layer.projection_stddev, bert.stddev);
    EXPECT_EQ(layer.scale, 0.25);
  }
}

// An ALBERT has kinds for the blocks that its layers share.
TEST(BertBuildTest, AnAlbertHasNoMoreKindsThanBlocks) {
  TrainingConfig config = Of("albert", 192);
  config.model.layers = 4;
  config.model.layer_kinds = {AttentionKind::kTalking, AttentionKind::kMultihead};
  testing::ExpectError([&] { Built(config); }, ErrorKind::kUsage,
                       {"layer_kinds", "2 kinds, but the layers of an ALBERT share 1 block"});
  config.model.inner_layers = 2;
  EXPECT_EQ(Built(config).layer_attention.size(), 2u);
  config.model.inner_layers = 1;
  config.model.layer_groups = 4;
  EXPECT_EQ(Built(config).layer_attention.size(), 4u);
}

TEST(BertBuildTest, WithoutASentenceTaskThereIsNoPooler) {
  TrainingConfig config = Of("bert");
  config.objective.sentence_task = SentenceTask::kNone;
  const EncoderHeads heads = Built(config).heads;
  EXPECT_TRUE(heads.masked_lm && !heads.pooler && !heads.sentence);
}

TEST(BertBuildTest, LearnedPositionsAreAsManyAsTokensUnlessTold) {
  TrainingConfig config = Of("bert");
  config.model.positions = PositionScheme::kLearned;
  EXPECT_EQ(Built(config).max_positions, config.objective.input_length);
  config.model.max_positions = 512;
  EXPECT_EQ(Built(config).max_positions, 512);
  config.model.max_positions = 4;
  EXPECT_THROW(Built(config), Error);
}

}  // namespace build_test
}  // namespace crosstalk
