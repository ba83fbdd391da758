// A language model measured in windows over a text, against each token by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::windows_test {

// 61 bytes, each a token, and 12 words: a run of white space, of any kind, parts two.
constexpr char kText[] = "It was a bright Saturday.\nEdwin\u00a0was  a miller\t from Lund. ok";

class WindowsTest : public ::testing::Test {
 protected:
  WindowsTest() { dir_.Put("text.txt", kText); }

  std::unique_ptr<HeldOut> Windows(const Model& model, int64_t length, int64_t stride) const {
    return MakeHeldOutWindows(model.config(), *OpenTextSource(dir_ / "text.txt"), *tokenizer_,
                              {.length = length, .stride = stride});
  }

  TempDir dir_;
  std::shared_ptr<const Tokenizer> tokenizer_ = MakeByteTokenizer(0);
};

// -ln p of the last of the ids after those before it, by a pass over these alone.
double NatsOfLast(const Lm& model, const std::vector<int32_t>& ids) {
  const ContextScope no_grad = NoGrad();
  const auto n = std::ssize(ids) - 1;
  const Tensor before = Tensor::FromValues<int32_t>({1, n}, std::vector<int32_t>(ids.begin(), ids.end() - 1));
  const Tensor logits = model.Logits(model.Forward(before, {})).value();
  double z = 0;
  for (int64_t id = 0; id < logits.size(2); ++id) z += std::exp(logits.At({0, n - 1, id}));
  return std::log(z) - logits.At({0, n - 1, ids.back()});
}

// Each token's context begins where the first window that has the token begins.
TEST_F(WindowsTest, EachTokenIsScoredOnceWithTheContextOfItsWindow) {
  const Lm model(For(*tokenizer_, TinyLm("talking", 0, 16)), 3, DType::kFloat64);
  const std::vector<int32_t> ids = tokenizer_->Encode(kText);
  const auto bytes = std::ssize(std::string(kText));
  ASSERT_EQ(std::ssize(ids), bytes);
  // The text as one window, windows that end with it, and such that do not.
  for (const auto& [length, stride] :
       std::vector<std::pair<int64_t, int64_t>>{{16, 5}, {16, 7}, {7, 6}, {10, 4}, {9, 1}, {2, 1}}) {
    SCOPED_TRACE(StrCat(length, " ", stride));
    double nats = 0;
    for (int64_t t = 1; t < bytes; ++t) {
      int64_t first = 0;
      while (first + length <= t) first += stride;
      EXPECT_TRUE(first == 0 || t - first >= length - stride);
      nats += NatsOfLast(model, {ids.begin() + first, ids.begin() + t + 1});
    }
    const EvaluationResult result = Windows(model, length, stride)->Evaluate(model, {});
    EXPECT_EQ(result.tokens, bytes - 1);
    const double of[] = {static_cast<double>(bytes - 1), static_cast<double>(bytes), 12};
    for (int i = 0; i < 3; ++i) {
      // Sums of 60 numbers of order 3 that are themselves a few hundred roundings exact.
      EXPECT_NEAR(result.metrics[i].value, nats / of[i], 1e-12 * nats / of[i]) << result.metrics[i].name;
      EXPECT_NEAR(result.metrics[i + 3].value, std::exp(nats / of[i]), 1e-10 * std::exp(nats / of[i]));
    }
  }
}

TEST_F(WindowsTest, AWholeTextOfOneWindowIsOnePass) {
  const Lm model(For(*tokenizer_, TinyLm("multihead", 0, 100)), 3, DType::kFloat64);
  const EvaluationResult result = Windows(model, 100, 99)->Evaluate(model, {});
  EXPECT_EQ(result.examples, 1);
  const std::vector<int32_t> ids = tokenizer_->Encode(kText);
  double nats = 0;
  for (size_t t = 1; t < ids.size(); ++t) nats += NatsOfLast(model, {ids.begin(), ids.begin() + t + 1});
  EXPECT_NEAR(result.metrics[0].value, nats / 60, 1e-12 * nats / 60);
}

TEST_F(WindowsTest, ThreadsChangeNoBit) {
  const Lm model(For(*tokenizer_, TinyLm("talking", 0, 16)), 3);
  std::vector<std::vector<double>> all;
  for (const int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    std::vector<double>& values = all.emplace_back();
    for (const Metric& metric : Windows(model, 16, 5)->Evaluate(model, {}).metrics) values.push_back(metric.value);
  }
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

TEST_F(WindowsTest, WindowsThatCannotBeAreRefused) {
  const Lm model(For(*tokenizer_, TinyLm("talking", 0, 16)), 3);
  const Bert bert(TinyBert(), 3);
  dir_.Put("one.txt", "a");
  testing::ExpectRefused(
      {{"beyond the context", [&] { Windows(model, 17, 5); }, {"length: 17 tokens are not between 2 and the 16"}},
       {"as far apart as long", [&] { Windows(model, 8, 8); }, {"stride: 8 tokens are not between 1 and 7"}},
       {"an encoder", [&] { Windows(bert, 8, 4); }, {"length: is for a language model, which bert is not"}}});
  EXPECT_THROW(MakeHeldOutWindows(model.config(), *OpenTextSource(dir_ / "one.txt"), *tokenizer_, {8, 4}), Error);
  EXPECT_THROW(MakeHeldOutWindows(model.config(), *MakeIdCorpus({1, 2, 3}).training, *tokenizer_, {8, 4}), Error);
  EXPECT_THROW(Windows(model, 8, 4)->Evaluate(model, {.stop = [] { return true; }, .progress = {}}), Interrupted);
}

}  // namespace crosstalk::windows_test
