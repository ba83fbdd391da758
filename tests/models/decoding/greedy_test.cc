#include "crosstalk/models/decoding/greedy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "crosstalk/autograd/scopes.h"
#include "crosstalk/runtime/check.h"
#include "tests/support/messages.h"
#include "tests/support/t5_cases.h"

namespace crosstalk {
namespace {

// The next token of row `row` after `written`, by a whole forward pass.
int32_t NextToken(const T5& model, const Tensor& inputs, int64_t row, const std::vector<int32_t>& written) {
  const NoGradScope no_grad;
  const Tensor one = inputs.Slice(0, row, row + 1).Contiguous();
  std::vector<int32_t> decoder_inputs = {kPadId};
  decoder_inputs.insert(decoder_inputs.end(), written.begin(), written.end());
  const int64_t length = static_cast<int64_t>(decoder_inputs.size());
  const Tensor ids = Tensor::FromValues<int32_t>({1, length}, decoder_inputs);
  const Tensor logits = model.Logits(model.Decode(model.Encode(one, {}), NotPadding(one, kPadId), ids, {})).value();
  int32_t best = 1;
  for (int32_t id = 1; id < model.config().vocabulary; ++id) {
    if (logits.At({0, length - 1, id}) > logits.At({0, length - 1, best})) best = id;
  }
  return best;
}

TEST(GenerateGreedyTest, TakesTheMostProbableTokenOfTheWholePassEachTime) {
  const T5 model(TinyT5("dynamic"), 2, DType::kFloat64);
  const Tensor inputs = TinyIds(3, 9, 40, 1);
  const Tensor output = GenerateGreedy(model, inputs, {.max_length = 12});
  ASSERT_EQ(output.size(0), 3);
  ASSERT_LE(output.size(1), 12);
  for (int64_t row = 0; row < 3; ++row) {
    std::vector<int32_t> written;
    bool ended = false;
    for (int64_t i = 0; i < output.size(1); ++i) {
      const int32_t expected = ended ? kPadId : NextToken(model, inputs, row, written);
      ASSERT_EQ(output.At({row, i}), expected) << "row " << row << " position " << i;
      written.push_back(expected);
      ended = ended || expected == kEosId;
    }
  }
}

TEST(GenerateGreedyTest, StopsWhenEverySequenceHasEnded) {
  const T5 model(TinyT5("multihead"), 2, DType::kFloat64);
  // A final norm of zero makes all logits equal: the lowest id that may be written, which is the end, wins at once.
  for (const NamedParameter& parameter : model.Parameters()) {
    if (parameter.name == "decoder.final_norm.scale") parameter.value.value().Fill(0);
  }
  const Tensor output = GenerateGreedy(model, TinyIds(2, 9, 40, 1), {.max_length = 12});
  ASSERT_EQ(output.shape(), (Shape{2, 1}));
  EXPECT_EQ(output.At({0, 0}), kEosId);
  EXPECT_EQ(output.At({1, 0}), kEosId);
}

TEST(GenerateGreedyTest, NeverWritesPaddingOrIdsBeyondTheVocabulary) {
  const T5 model(TinyT5("multihead"), 2, DType::kFloat64);
  for (const NamedParameter& parameter : model.Parameters()) {
    if (parameter.name != "embedding.table") continue;
    // Rows of the padding ids, ten times as long: one of them has the largest logit wherever its sign allows.
    for (int64_t id = 40; id < 128; ++id) {
      for (int64_t k = 0; k < 10; ++k) parameter.value.value().data<double>()[id * 10 + k] *= 10;
    }
  }
  const Tensor output = GenerateGreedy(model, TinyIds(3, 9, 40, 1), {.max_length = 8});
  for (const int32_t id : output.ToVector<int32_t>()) EXPECT_LT(id, 40);
}

TEST(GenerateGreedyTest, ReportsLogitsThatAreNotNumbers) {
  const T5 model(TinyT5("multihead"), 2, DType::kFloat64);
  for (const NamedParameter& parameter : model.Parameters()) {
    if (parameter.name == "decoder.final_norm.scale") parameter.value.value().Fill(std::nan(""));
  }
  testing::MessageOf([&] { GenerateGreedy(model, TinyIds(2, 9, 40, 1)); }, ErrorKind::kNumerical);
}

}  // namespace
}  // namespace crosstalk
