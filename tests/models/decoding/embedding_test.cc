// Vectors of texts: what is pooled, and that a text's bits are its own.
#include "crosstalk/models/decoding/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk {
namespace embedding_test {

using Texts = std::vector<std::vector<int32_t>>;

std::vector<std::unique_ptr<Model>> Models(DType dtype = DType::kFloat32) {
  std::vector<std::unique_ptr<Model>> models;
  for (const ModelConfig& config : {TinyT5("talking"), TinyLm("talking"), TinyBert(), TinyAlbert()}) {
    models.push_back(config.Make(Initializer(3, dtype)));
  }
  return models;
}

// Ids 5 and more, of lengths 1 to 29.
Texts TextsOf(const Model& model, size_t count) {
  const int64_t most = std::min<int64_t>(29, model.config().longest_text().value_or(29));
  Texts texts(count);
  for (size_t i = 0; i < count; ++i) {
    texts[i].resize(1 + (i * 7) % static_cast<size_t>(most));
    for (size_t j = 0; j < texts[i].size(); ++j) {
      texts[i][j] = static_cast<int32_t>(5 + (i * 13 + j * 5) % static_cast<size_t>(model.config().vocabulary - 5));
    }
  }
  return texts;
}

TEST(EmbeddingTest, BitsAreTheSameInAnyBatch) {
  for (const auto& model : Models()) {
    SCOPED_TRACE(model->Describe());
    const Texts texts = TextsOf(*model, 64);
    for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kLast, Pooling::kMax}) {
      EmbedOptions options = {.pooling = pooling, .normalize = pooling == Pooling::kLast, .batch = 64};
      const std::vector<float> together = EmbedIds(*model, texts, options).ToVector<float>();
      for (const int threads : {1, 3}) {
        const ThreadsScope scope(threads);
        options.batch = threads == 1 ? 1 : 5;
        EXPECT_EQ(EmbedIds(*model, texts, options).ToVector<float>(), together);
        std::vector<float> alone;
        for (const std::vector<int32_t>& text : texts) {
          const std::vector<float> one = EmbedIds(*model, Texts{text}, options).ToVector<float>();
          alone.insert(alone.end(), one.begin(), one.end());
        }
        EXPECT_EQ(alone, together);
      }
    }
  }
}

// x[n, d], without padding, by the definitions.
TEST(EmbeddingTest, PoolsTheStatesOfATextsOwnTokens) {
  for (const auto& model : Models(DType::kFloat64)) {
    SCOPED_TRACE(model->Describe());
    const int64_t d = model->config().d_model;
    for (const std::vector<int32_t>& text : TextsOf(*model, 6)) {
      const int64_t n = std::ssize(text);
      const Tensor states =
          model->ReadStates(Tensor::FromValues<int32_t>({1, n}, text), Tensor::Full({1, n}, 1, DType::kBool)).value();
      for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kLast, Pooling::kMax}) {
        const Tensor plain = EmbedIds(*model, Texts{text}, {.pooling = pooling});
        const Tensor normal = EmbedIds(*model, Texts{text}, {.pooling = pooling, .normalize = true});
        double square = 0;
        for (int64_t j = 0; j < d; ++j) {
          double sum = 0, largest = -INFINITY;
          for (int64_t i = 0; i < n; ++i) {
            sum += states.At({0, i, j});
            largest = std::max(largest, states.At({0, i, j}));
          }
          const double expected = pooling == Pooling::kMean   ? sum / static_cast<double>(n)
                                  : pooling == Pooling::kCls  ? states.At({0, 0, j})
                                  : pooling == Pooling::kLast ? states.At({0, n - 1, j})
                                                              : largest;
          ASSERT_NEAR(plain.At({0, j}), expected, 1e-13) << Name(pooling);
          square += expected * expected;
        }
        for (int64_t j = 0; j < d; ++j) {
          ASSERT_NEAR(normal.At({0, j}), plain.At({0, j}) / std::sqrt(square), 1e-13) << Name(pooling);
        }
      }
    }
  }
}

TEST(EmbeddingTest, EqualsTheReference) {
  const char* data = std::getenv("CROSSTALK_DATA");
  const std::string folder = std::string(data == nullptr ? "" : data) + "/parity5/t5_encoder_only/";
  if (data == nullptr || !std::filesystem::exists(folder)) GTEST_SKIP() << "there is no $CROSSTALK_DATA/parity5";
  const TensorFile inputs = ReadSafetensors(folder + "inputs.safetensors");
  const TensorFile expected = ReadSafetensors(folder + "expected.safetensors");
  const Tensor ids = inputs.At("input_ids").To(DType::kInt32), mask = inputs.At("attention_mask").To(DType::kInt32);
  Texts texts(static_cast<size_t>(ids.size(0)));
  for (int64_t i = 0; i < ids.size(0); ++i) {
    for (int64_t j = 0; j < ids.size(1) && mask.data<int32_t>()[i * ids.size(1) + j] != 0; ++j) {
      texts[static_cast<size_t>(i)].push_back(ids.data<int32_t>()[i * ids.size(1) + j]);
    }
  }
  for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
    const std::unique_ptr<Model> model = Open(folder, {.tokenizer = TokenizerUse::kNone, .dtype = dtype}).model;
    for (const bool normalize : {false, true}) {
      const Tensor found = EmbedIds(*model, texts, {.normalize = normalize}).To(DType::kFloat64);
      const Tensor wanted = expected.At(normalize ? "mean_pooled_normalized" : "mean_pooled").To(DType::kFloat64);
      ASSERT_EQ(found.shape(), wanted.shape());
      double largest = 0;
      for (const double value : wanted.ToVector<double>()) largest = std::max(largest, std::abs(value));
      const double allowed = largest * (dtype == DType::kFloat64 ? 1e-10 : 2e-5);
      for (int64_t i = 0; i < wanted.num_elements(); ++i) {
        ASSERT_NEAR(found.data<double>()[i], wanted.data<double>()[i], allowed) << i;
      }
    }
  }
}

TEST(EmbeddingTest, LongTextsAreCutAndCounted) {
  const std::shared_ptr<const Tokenizer> tokenizer = EncoderBytes();
  const std::unique_ptr<Model> model = For(*tokenizer, TinyBert()).Make(Initializer(3));
  const int64_t longest = *model->config().longest_text();
  const std::string text(static_cast<size_t>(longest) + 9, 'x');
  const std::vector<std::string> texts = {text, text.substr(0, 3), ""};
  const Embeddings found = Embed(*model, *tokenizer, texts, {});
  EXPECT_EQ(found.cut, 1);
  EXPECT_EQ(found.vectors.shape(), Shape({3, model->config().d_model}));
  // [CLS] and [SEP] count.
  const std::vector<std::string> cut = {text.substr(0, static_cast<size_t>(longest) - 2)};
  const Embeddings same = Embed(*model, *tokenizer, cut, {});
  EXPECT_EQ(same.cut, 0);
  EXPECT_EQ(same.vectors.Select(0, 0).ToVector<float>(), found.vectors.Select(0, 0).ToVector<float>());
  EXPECT_EQ(Embed(*model, *tokenizer, texts, {.max_length = 4}).cut, 2);
  testing::ExpectError([&] { Embed(*model, *tokenizer, texts, {.max_length = longest + 1}); }, ErrorKind::kUsage,
                       {"max_length"});
}

TEST(EmbeddingTest, WhatCannotBeIsAnError) {
  const std::unique_ptr<Model> model = TinyBert().Make(Initializer(3));
  const auto embed = [&](const Texts& texts, const EmbedOptions& options) { EmbedIds(*model, texts, options); };
  testing::ExpectError([&] { embed({{5}, {}}, {}); }, ErrorKind::kUsage, {"texts", "number 1", "no token"});
  testing::ExpectError([&] { embed({{5, 4000}}, {}); }, ErrorKind::kUsage, {"texts", "4000"});
  testing::ExpectError([&] { embed({std::vector<int32_t>(999, 5)}, {}); }, ErrorKind::kUsage, {"texts", "999"});
  testing::ExpectError([&] { embed({{5}}, {.batch = 0}); }, ErrorKind::kUsage, {"batch"});
  EXPECT_THROW(embed({{5}}, {.stop = [] { return true; }}), Interrupted);
  for (const NamedParameter& parameter : model->Parameters()) {
    if (parameter.name == "embedding_norm.bias") parameter.value.value().Fill(std::nan(""));
  }
  testing::MessageOf([&] { embed({{5}}, {}); }, ErrorKind::kNumerical);
}

}  // namespace embedding_test
}  // namespace crosstalk
