#include "crosstalk/models/batch.h"

#include "crosstalk/models/metrics.h"
#include "tests/support/messages.h"

namespace crosstalk::batch_test {

TEST(BatchTest, WhatIsNotThereIsAnErrorThatListsWhatIs) {
  Batch batch;
  batch.Add("inputs", Tensor::Zeros({3, 2}, DType::kInt32));
  EXPECT_EQ(testing::MessageOf([&] { batch.Get("segments"); }), "batch: there is no \"segments\"; it has inputs");
  EXPECT_THROW(batch.Add("inputs", Tensor::Zeros({3, 2}, DType::kInt32)), Error);
  EXPECT_THROW(batch.Add("targets", Tensor::Zeros({4, 2}, DType::kInt32)), Error);
}

TEST(BatchTest, CountsWhatIsNotPadding) {
  EXPECT_EQ(CountNot(Tensor::FromValues<int32_t>({2, 3}, {0, 1, 0, 2, 3, 0}), 0), 3);
}

TEST(MetricsTest, SumsOfSeveralBatchesAreMeansOverAll) {
  std::vector<MetricSum> sums;
  AddSums(sums, {{"ln_ppl", 6, 2}, {"accuracy", 1, 4}});
  AddSums(sums, {{"accuracy", 2, 4}, {"ln_ppl", 4, 3}});
  const std::vector<Metric> means = Means(sums);
  ASSERT_EQ(means.size(), 2u);
  EXPECT_EQ(means[0].name, "ln_ppl");
  EXPECT_EQ(means[0].value, 2);
  EXPECT_EQ(means[1].value, 0.375);
  EXPECT_TRUE(std::isnan(Means({{"ln_ppl", 0, 0}})[0].value));
  EXPECT_THROW(Means({{"step", 1, 1}}), std::logic_error) << "a line of metrics has its step there";
}

TEST(MetricsTest, TheScoreIsLowerWhereTheModelIsBetter) {
  EXPECT_EQ(Score({"ln_ppl", 2}), 2);
  EXPECT_STREQ(DisplayOf({"ln_ppl", 2}).label, "ln(PPL)");
  EXPECT_EQ(Score({"masked_accuracy", 0.25}), -0.25);
  EXPECT_TRUE(DisplayOf({"sentence_accuracy", 0.5}).is_share);
}

}  // namespace crosstalk::batch_test
