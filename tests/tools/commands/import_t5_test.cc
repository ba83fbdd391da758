// T5's relatives as published folders: mT5, UMT5, MADLAD's names, other feed-forward layers.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/interop/import.h"
#include "crosstalk/nn/attention/bias.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/command_checks.h"
#include "tests/support/parity.h"
#include "tests/support/published_folder.h"

namespace crosstalk {
namespace import_t5_test {

constexpr char kBias[] = ".layer.0.SelfAttention.relative_attention_bias.weight";

class ImportT5Test : public PublishedFolderTest {
 protected:
  TensorFile ForwardOf(const Folder& folder) {
    std::filesystem::remove_all(In());
    Store(folder, In());
    return Forward(In(), ParityFolder("t5_relu_tied") + "/inputs.safetensors", {"--all", "--gradients"});
  }

  // The T5 as a UMT5 whose blocks have equal tables.
  static Folder Umt5() {
    Folder folder = Load("t5_relu_tied");
    folder.config.Set("model_type", "umt5").Set("architectures", Json::MakeArray({"UMT5ForConditionalGeneration"}));
    for (const std::string stack : {"encoder.block.", "decoder.block."}) {
      const Tensor table = folder.tensors.at(stack + "0" + kBias);
      for (int block = 1; folder.tensors.contains(stack + std::to_string(block) + ".layer.0.layer_norm.weight");
           ++block) {
        folder.tensors[stack + std::to_string(block) + kBias] = table.Clone();
      }
    }
    return folder;
  }
};

void ExpectNear(const Tensor& a, const Tensor& b, double allowed) {
  ASSERT_EQ(a.shape(), b.shape());
  for (int64_t i = 0; i < a.num_elements(); ++i) ASSERT_NEAR(a.data<double>()[i], b.data<double>()[i], allowed) << i;
}

TEST_F(ImportT5Test, AUmt5WithEqualTablesIsAT5) {
  const Folder t5 = Load("t5_relu_tied"), umt5 = Umt5();
  const TensorFile expected = ForwardOf(t5), got = ForwardOf(umt5);
  ExpectRoundTrip();
  for (const NamedTensor& one : expected.tensors) {
    SCOPED_TRACE(one.name);
    if (!one.name.ends_with(kBias)) {
      ASSERT_NO_FATAL_FAILURE(ExpectNear(got.At(one.name), one.tensor, 1e-12));
      continue;
    }
    // A shared table's gradient is the sum of those of its uses.
    Tensor sum = Tensor::Zeros(one.tensor.shape(), DType::kFloat64);
    const std::string begin = one.name.substr(0, one.name.find(".block.") + 7);
    int blocks = 0;
    while (const Tensor* part = got.Find(begin + std::to_string(blocks) + kBias)) {
      for (int64_t i = 0; i < sum.num_elements(); ++i) sum.data<double>()[i] += part->data<double>()[i];
      ++blocks;
    }
    EXPECT_GE(blocks, 2);
    ASSERT_NO_FATAL_FAILURE(ExpectNear(sum, one.tensor, 1e-12));
  }
}

// Where only block 1's table differs, by D, ln W of that block differs by D[bucket(j - i)] and what the softmax takes
// off a row, and nothing differs before it.
TEST_F(ImportT5Test, EachBlockOfAUmt5ReadsItsOwnTable) {
  const Folder before = Umt5();
  for (const std::string stack : {"encoder", "decoder"}) {
    SCOPED_TRACE(stack);
    Folder after = before;
    Tensor table = before.tensors.at(stack + ".block.1" + kBias).Clone();  // [buckets, h]
    for (int64_t i = 0; i < table.num_elements(); ++i) {
      table.data<float>()[i] += static_cast<float>(std::sin(static_cast<double>(i)));
    }
    after.tensors[stack + ".block.1" + kBias] = table;
    const TensorFile a = ForwardOf(before), b = ForwardOf(after);
    ExpectNear(a.At(stack + "_attentions.0"), b.At(stack + "_attentions.0"), 0);
    const Tensor &Wa = a.At(stack + "_attentions.1"), &Wb = b.At(stack + "_attentions.1");  // [b, h, n, n]
    const bool causal = stack == "decoder";
    const int64_t h = Wa.size(1), n = Wa.size(2), buckets = table.size(0);
    const RelativeBuckets bucket({.buckets = buckets, .max_distance = 128},
                                 causal ? RelativeDirection::kUnidirectional : RelativeDirection::kBidirectional);
    const Tensor& old = before.tensors.at(stack + ".block.1" + kBias);
    int compared = 0;
    for (int64_t head = 0; head < h; ++head) {
      for (int64_t i = 0; i < n; ++i) {
        const auto difference = [&](int64_t j) {
          return std::log(Wb.At({0, head, i, j}) / Wa.At({0, head, i, j})) -
                 (table.At({bucket.Of(j - i), head}) - old.At({bucket.Of(j - i), head}));
        };
        for (int64_t j = 1; j < n && (!causal || j <= i); ++j) {
          if (Wa.At({0, head, i, j}) == 0) continue;  // padding
          ASSERT_NEAR(difference(j), difference(0), 1e-6) << head << " " << i << " " << j;
          ++compared;
        }
      }
    }
    EXPECT_GT(compared, 20);
  }
}

// What a step-by-step search writes is the likeliest of a pass over all of it, of which no logit reads a later id.
TEST_F(ImportT5Test, AUmt5WritesStepByStepAndCausally) {
  Folder folder = Umt5();
  for (auto& [name, tensor] : folder.tensors) {
    if (!name.ends_with(kBias)) continue;
    tensor = tensor.Clone();
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.data<float>()[i] += static_cast<float>(std::sin(static_cast<double>(i) + name[14]));
    }
  }
  Store(folder, In());
  const Trained trained = Open(In(), {.tokenizer = TokenizerUse::kNone, .dtype = DType::kFloat64});
  const std::vector<int32_t> input = {9, 30, 12, 44, 7, 1};
  std::vector<int32_t> written = Search(*trained.model, {{.ids = input}}, {.max_length = 8}).at(0).at(0).ids;
  ASSERT_GE(written.size(), 3u);
  const auto logits_of = [&](std::vector<int32_t> decoder_ids) {
    Batch batch;
    const auto row = [](const std::vector<int32_t>& ids) {
      return Tensor::FromValues<int32_t>({1, static_cast<int64_t>(ids.size())}, ids);
    };
    batch.Add("input_ids", row(input));
    batch.Add("decoder_input_ids", row(decoder_ids));
    return trained.model->Outputs(batch, OutputDetail::kResults, ForwardContext()).at(0).value.value();
  };
  std::vector<int32_t> read = {trained.model->config().tokens.decoder_start};
  read.insert(read.end(), written.begin(), written.end() - 1);
  const Tensor logits = logits_of(read);  // [1, m, vocabulary]
  const auto m = static_cast<int64_t>(read.size());
  for (int64_t i = 0; i < m; ++i) {
    const double* const row = logits.data<double>() + i * logits.size(2);
    int32_t best = trained.model->config().tokens.pad == 0 ? 1 : 0;
    for (int32_t id = best; id < logits.size(2); ++id) {
      if (row[id] > row[best]) best = id;
    }
    EXPECT_EQ(best, written[static_cast<size_t>(i)]) << i;
  }
  read.back() = read.back() == 5 ? 6 : 5;
  const Tensor changed = logits_of(read);
  ExpectNear(changed.Slice(1, 0, m - 1).Contiguous(), logits.Slice(1, 0, m - 1).Contiguous(), 1e-13);
}

// As mT5 and UMT5 are published, with an output of their own, and as other files may have them.
TEST_F(ImportT5Test, LogitsAreScaledByTheRulesOfEachKind) {
  const Folder usual = Load("t5_relu_tied");
  const double root = std::sqrt(static_cast<double>(usual.config.At("d_model").AsInt()));
  const Tensor logits = ForwardOf(usual).At("logits");
  const Json none;
  const struct {
    const char* kind;
    Json version, tie;
    bool own;
    double factor;
  } cases[] = {{"mt5", "4.23.1", false, true, root},   {"mt5", "5.16.0.dev0", true, true, root},
               {"mt5", "4.23.1", true, false, 1},      {"mt5", "5.16.0.dev0", true, false, root},
               {"mt5", none, none, false, 1},          {"umt5", "4.31.0.dev0", false, true, root},
               {"umt5", "5.16.0.dev0", true, true, 1}, {"umt5", "5.16.0.dev0", true, false, 1},
               {"umt5", "4.31.0", true, false, 1},     {"umt5", none, false, true, root}};
  for (const auto& test : cases) {
    SCOPED_TRACE(test.kind + test.version.Dump() + test.tie.Dump() + (test.own ? " own" : ""));
    const bool umt5 = test.kind == std::string("umt5");
    Folder folder = umt5 ? Umt5() : usual;
    folder.config.Set("model_type", test.kind)
        .Set("architectures", Json::MakeArray({umt5 ? "UMT5ForConditionalGeneration" : "MT5ForConditionalGeneration"}))
        .Set("transformers_version", test.version)
        .Set("tie_word_embeddings", test.tie);
    if (test.own) {
      Tensor own = folder.tensors.at("shared.weight").Clone();
      own.data<float>()[0] += 1;  // of the padding's logits alone
      folder.tensors["lm_head.weight"] = own;
    }
    const Tensor changed = ForwardOf(folder).At("logits");
    for (int64_t i = 0; i < logits.num_elements(); ++i) {
      if (i % logits.size(2) == 0) continue;
      ASSERT_NEAR(changed.data<double>()[i], test.factor * logits.data<double>()[i], 1e-12 * root) << i;
    }
    ExpectRoundTrip();
    // Without the published files it is written in a form that says it again.
    Trained any = Open(Model(), {.tokenizer = TokenizerUse::kNone});
    any.imported.reset();
    std::filesystem::remove_all(Out());
    ExportModel(any, Out(), {});
    EXPECT_EQ(ReadJsonFile(Out() + "/config.json").At("model_type"), Json(umt5 ? "umt5" : "t5"));
    const Tensor again =
        Forward(Out(), ParityFolder("t5_relu_tied") + "/inputs.safetensors", {"--all", "--gradients"}).At("logits");
    EXPECT_EQ(again.ToVector<double>(), changed.ToVector<double>());
  }
}

// MADLAD's folders have no shared.weight, but the decoder's embedding and an output of its own.
TEST_F(ImportT5Test, TheEmbeddingMayHaveTheDecodersNameAlone) {
  Folder folder = Load("t5_relu_tied");
  Tensor own = folder.tensors.at("shared.weight").Clone();
  for (int64_t i = 0; i < own.num_elements(); ++i) own.data<float>()[i] *= -2;
  folder.tensors["lm_head.weight"] = own;
  folder.config.Set("tie_word_embeddings", false);
  const TensorFile expected = ForwardOf(folder);
  folder.tensors["decoder.embed_tokens.weight"] = folder.tensors.at("shared.weight");
  folder.tensors.erase("shared.weight");
  EXPECT_EQ(ForwardOf(folder).At("logits").ToVector<double>(), expected.At("logits").ToVector<double>());
  ExpectRoundTrip();
}

TEST_F(ImportT5Test, FeedForwardLayersHaveTheirPublishedNames) {
  const auto expect = [&](const char* name, const char* activation, FeedForwardKind kind) {
    SCOPED_TRACE(name);
    Folder folder = Load("t5_relu_tied");
    folder.config.Set("feed_forward_proj", name).Set("dense_act_fn", activation).Set("is_gated_act", IsGated(kind));
    if (IsGated(kind)) {
      const Tensors tensors = folder.tensors;
      for (const auto& [wi, tensor] : tensors) {
        if (!wi.ends_with(".wi.weight")) continue;
        folder.tensors.erase(wi);
        const std::string begin = wi.substr(0, wi.size() - 7);
        folder.tensors[begin + "_0.weight"] = folder.tensors[begin + "_1.weight"] = tensor;
      }
    }
    std::filesystem::remove_all(In());
    Store(folder, In());
    ExpectRoundTrip();
    Trained any = Open(Model(), {.tokenizer = TokenizerUse::kNone});
    EXPECT_EQ(any.model->config().activation(), kind);
    any.imported.reset();
    std::filesystem::remove_all(Out());
    ExportModel(any, Out(), {});
    const Json config = ReadJsonFile(Out() + "/config.json");
    EXPECT_EQ(config.At("feed_forward_proj"), Json(name));
    EXPECT_EQ(config.At("dense_act_fn"), Json(activation));
  };
  expect("gated-silu", "silu", FeedForwardKind::kSwiGlu);
  expect("gated-gelu", "gelu_new", FeedForwardKind::kGatedGelu);
  expect("gelu", "gelu", FeedForwardKind::kGelu);
  expect("gelu_new", "gelu_new", FeedForwardKind::kGeluTanh);
}

TEST_F(ImportT5Test, OtherKindsAndClassesAreRefusedByName) {
  Folder folder = Load("t5_relu_tied");
  folder.config.Set("model_type", "mt5").Set("architectures", Json::MakeArray({"MT5ForQuestionAnswering"}));
  Store(folder, In());
  ExpectRefused({"architectures", "MT5ForQuestionAnswering", "MT5ForConditionalGeneration"});
  folder.config.Set("model_type", "umt5").Set("architectures", Json::MakeArray({"UMT5ForConditionalGeneration"}));
  Store(folder, In());
  ExpectRefused({"has no tensor", "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"});
  // A T5 has one table a stack.
  folder = Umt5();
  folder.config.Set("model_type", "t5").Set("architectures", Json());
  Store(folder, In());
  ExpectRefused({"decoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight", "belongs to no parameter"});
}

}  // namespace import_t5_test
}  // namespace crosstalk
