// What BERT and ALBERT do beside what the published models are compared by: the pretraining loss is that of the
// outputs, heads have their names, shared parameters are one, bad inputs are named.
#include "crosstalk/models/bert/bert.h"

#include <tuple>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/config.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::bert_test {

using testing::MessageOf;

constexpr int64_t kVocabulary = 37, kD = 12, kLength = 9, kPad = 0;

// Two rows, the second of six tokens; three masked tokens in the first, one in the second.
struct Example {
  Tensor ids = Tensor::FromValues<int32_t>({2, kLength}, {2, 11, 4, 13, 4, 3, 16, 4, 3,  //
                                                          2, 21, 4, 3, 24, 3, 0, 0, 0});
  Tensor segments = Tensor::FromValues<int32_t>({2, kLength}, {0, 0, 0, 0, 0, 0, 1, 1, 1,  //
                                                               0, 0, 0, 0, 1, 1, 0, 0, 0});
  Tensor labels = Tensor::FromValues<int32_t>({2, kLength}, {-100, -100, 12, -100, 14, -100, -100, 17, -100,  //
                                                             -100, -100, 22, -100, -100, -100, -100, -100, -100});
  Tensor sentence_labels = Tensor::FromValues<int32_t>({2}, {1, 0});

  Batch Pretraining() const {
    Batch batch;
    batch.Add("inputs", ids).Add("segments", segments);
    batch.Add("masked_positions", Tensor::FromValues<int32_t>({2, 4}, {2, 4, 7, 0, 2, 0, 0, 0}));
    batch.Add("masked_targets", Tensor::FromValues<int32_t>({2, 4}, {12, 14, 17, 0, 22, 0, 0, 0}));
    batch.Add("sentence_labels", sentence_labels);
    return batch;
  }
  Batch Published(const char* sentence_label) const {
    Batch batch;
    batch.Add("input_ids", ids).Add("token_type_ids", segments).Add("labels", labels);
    batch.Add("attention_mask", NotPadding(ids, kPad)).Add(sentence_label, sentence_labels);
    return batch;
  }
};

std::map<std::string, Variable> Outputs(const Bert& model, const Batch& inputs) {
  std::map<std::string, Variable> outputs;
  for (const NamedVariable& one : model.Outputs(inputs, OutputDetail::kAll, {})) {
    EXPECT_TRUE(outputs.emplace(one.name, one.value).second) << one.name << " twice";
  }
  return outputs;
}

TEST(BertTest, ThePretrainingLossIsThatOfTheOutputs) {
  const Example example;
  for (const std::string kind : {"multihead", "talking", "dynamic", "bilinear"}) {
    for (const ModelConfig& config : {TinyBert(kind), TinyAlbert(kind)}) {
      const Bert model(config, 3, DType::kFloat64);
      const LossResult loss = model.Loss(example.Pretraining(), {}, {});
      const auto outputs =
          Outputs(model, example.Published(config.is_albert() ? "sentence_order_label" : "next_sentence_label"));
      const double expected = outputs.at("loss").value().Item();
      EXPECT_NEAR(loss.ScaledValue({1.0 / 4, 1.0 / 2}), expected, 1e-12) << kind;
      EXPECT_EQ(loss.Scaled({1.0 / 4, 1.0 / 2}).value().Item(), loss.ScaledValue({1.0 / 4, 1.0 / 2}));
      ASSERT_EQ(loss.sums.size(), 3u);
      EXPECT_EQ(loss.sums[0].count, 4);
      EXPECT_EQ(loss.sums[2].count, 2);
      // How many are right, counted from the logits.
      const Tensor logits = outputs.at("prediction_logits").value();
      double right = 0;
      for (int64_t b = 0; b < 2; ++b) {
        for (int64_t i = 0; i < kLength; ++i) {
          const int32_t label = example.labels.data<int32_t>()[b * kLength + i];
          if (label < 0) continue;
          bool largest = true;
          for (int64_t c = 0; c < kVocabulary; ++c) largest &= logits.At({b, i, c}) <= logits.At({b, i, label});
          right += largest;
        }
      }
      EXPECT_EQ(loss.sums[1].sum, right) << kind;
    }
  }
}

TEST(BertTest, EachHeadHasItsOutputsAndItsLoss) {
  const Example example;
  const auto names = [&](const EncoderHeads& heads, Batch inputs) {
    ModelConfig config = TinyBert();
    config.heads = heads;
    std::string text;
    for (const auto& [name, value] : Outputs(Bert(config, 5), inputs)) {
      if (name.find("hidden_states") == 0 || name.find("attentions") == 0) continue;
      text += (text.empty() ? "" : " ") + name + StrCat(value.shape());
    }
    return text;
  };
  const std::string hidden = "last_hidden_state[2, 9, 12] ", pooled = "pooler_output[2, 12]";
  const EncoderHeads sentence = {.pooler = true, .sentence = true};
  const auto with = [&](const std::vector<NamedTensor>& more, const Tensor& input_ids) {
    Batch batch;
    batch.Add("input_ids", input_ids);
    for (const NamedTensor& one : more) batch.Add(one.name, one.tensor);
    return batch;
  };
  const auto ints = [](const std::vector<int32_t>& values) {
    return Tensor::FromValues<int32_t>({std::ssize(values)}, values);
  };
  const auto expect = [&](const EncoderHeads& heads, const std::vector<NamedTensor>& more, const std::string& outputs) {
    const Tensor pairs = example.ids.Reshape({1, 2, kLength});
    EXPECT_EQ(names(heads, with(more, heads.multiple_choice ? pairs : example.ids)), outputs);
  };
  expect({}, {}, "last_hidden_state[2, 9, 12]");
  expect({.masked_lm = true}, {}, hidden + "logits[2, 9, 37]");
  expect(sentence, {}, hidden + "logits[2, 2] " + pooled);
  expect(sentence, {{"labels", example.sentence_labels}}, hidden + "logits[2, 2] loss[] " + pooled);
  expect(sentence, {{"next_sentence_label", example.sentence_labels}}, hidden + "logits[2, 2] loss[] " + pooled);
  expect({.pooler = true, .classes = 5}, {{"labels", ints({4, 0})}}, hidden + "logits[2, 5] loss[] " + pooled);
  expect({.pooler = true, .classes = 1}, {{"labels", Tensor::FromValues<float>({2}, {0.5f, -1.5f})}},
         hidden + "logits[2, 1] loss[] " + pooled);
  expect({.pooler = true, .multiple_choice = true}, {{"labels", ints({1})}}, hidden + "logits[1, 2] loss[] " + pooled);
  // A place beyond the text counts nothing.
  expect({.span = true}, {{"start_positions", ints({3, 0})}, {"end_positions", ints({5, 100})}},
         "end_logits[2, 9] last_hidden_state[2, 9, 12] loss[] start_logits[2, 9]");
  const Batch beyond = with({{"start_positions", ints({9, 12})}, {"end_positions", ints({5, 8})}}, example.ids);
  EXPECT_EQ(MessageOf([&] { names({.span = true}, beyond); }),
            "start_positions: all of them are beyond the 9 tokens, so that there is no loss");
}

TEST(BertTest, PaddingOnEitherSideChangesNoOtherToken) {
  ModelConfig config = TinyBert("talking");
  config.positions = PositionScheme::kRelativeBias;  // learned positions count padding on the left
  config.max_positions.reset();
  const Bert model(config, 5, DType::kFloat64);
  const auto hidden = [&](const std::vector<int32_t>& ids, const std::vector<int32_t>& mask, int64_t first) {
    const auto n = static_cast<int64_t>(ids.size());
    Batch batch;
    batch.Add("input_ids", Tensor::FromValues<int32_t>({1, n}, ids));
    batch.Add("attention_mask", Tensor::FromValues<int32_t>({1, n}, mask));
    return Outputs(model, batch).at("last_hidden_state").value().Slice(1, first, first + 3).ToVector<double>();
  };
  const std::vector<double> alone = hidden({2, 11, 3}, {1, 1, 1}, 0);
  const std::vector<double> after = hidden({2, 11, 3, 0, 0}, {1, 1, 1, 0, 0}, 0);
  const std::vector<double> before = hidden({0, 0, 2, 11, 3}, {0, 0, 1, 1, 1}, 2);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(after[i], alone[i], 1e-13);
    EXPECT_NEAR(before[i], alone[i], 1e-13);
  }
}

TEST(BertTest, BadInputsAreNamed) {
  ModelConfig config = TinyBert();
  config.max_positions = 11;
  const Bert model(config, 5);
  const Example example;
  const auto full = [](double value, const Shape& shape = {2, 9}) { return Tensor::Full(shape, value, DType::kInt32); };
  const std::tuple<const char*, Tensor, const char*> kCases[] = {
      {"input_ids", Tensor::FromValues<int64_t>({1, 2}, {3, 37}),
       "input_ids: 37 at place 1 of [1, 2] is not between 0 and 36"},
      {"input_ids", full(0, {1, 12}), "input_ids: [1, 12] are 12 tokens, more than the model's 11 positions"},
      {"input_ids", Tensor::Zeros({2, 9}, DType::kFloat32), "input_ids: must be int32 or int64, but is float32"},
      {"attention_mask", full(2), "attention_mask: 2 at place 0 of [2, 9] is neither 0 nor 1"},
      {"token_type_ids", full(2), "token_type_ids: 2 at place 0 of [2, 9] is not between 0 and 1"},
      {"labels", full(-1), "labels: -1 at place 0 is neither a class nor -100"},
      {"labels", full(-100), "labels: all of them are -100, so that there is no loss"},
      {"start_positions", full(0, {2}), "start_positions: this model has no such"}};
  for (const auto& [name, tensor, says] : kCases) {
    Batch batch;
    if (std::string(name) != "input_ids") batch.Add("input_ids", example.ids);
    batch.Add(name, tensor);
    testing::ExpectError([&] { model.Outputs(batch, OutputDetail::kResults, {}); }, ErrorKind::kUsage, {says});
  }
  testing::ExpectError([&] { model.Encode(full(37), {}, {}, {}); }, ErrorKind::kUsage,
                       {"embedding: index 37 at position 0 of ids[2, 9] is not in [0, 37)"});
}

// Blocks of different kinds have the parameters of these, and the output is that of each block after the other.
TEST(BertTest, EachBlockHasTheAttentionOfItsOwn) {
  ModelConfig config = TinyBert();
  config.encoder_self_layers = {EvenAttention("talking", kD), EvenAttention("dcmha", kD)};
  const Bert model(config, 3, DType::kFloat64);
  std::map<std::string, Tensor> parameters;
  for (const NamedParameter& one : model.Parameters()) parameters.emplace(one.name, one.value.value());
  EXPECT_TRUE(parameters.contains("encoder.block_0.self_attention.P_l"));
  EXPECT_TRUE(parameters.contains("encoder.block_1.self_attention.dw1"));
  EXPECT_FALSE(parameters.contains("encoder.block_1.self_attention.P_l"));
  ASSERT_EQ(model.AttentionPlaces().size(), 2u);
  EXPECT_EQ(model.AttentionPlaces()[1].config.dynamic_form, DynamicForm::kLowRank);
  EXPECT_EQ(ReadModelConfig(config.ToJson(), "config.json").ToJson(), config.ToJson());
  const auto hidden = [&] { return model.Encode(Example().ids, {}, {}, {}).sequence.value().ToVector<double>(); };
  const std::vector<double> before = hidden();
  for (const char* name : {"encoder.block_0.self_attention.P_w", "encoder.block_1.self_attention.dd"}) {
    Tensor& parameter = parameters.at(name);
    const Tensor kept = parameter.Clone();
    parameter.Fill(0.5);
    EXPECT_NE(hidden(), before) << name;
    parameter.CopyFrom(kept);
  }
}

// Two blocks of each of an ALBERT's three layers: the two are all its parameters.
TEST(BertTest, AnAlbertsBlocksHaveKindsAndItsLayersShareThem) {
  ModelConfig config = TinyAlbert();
  config.inner_layers = 2;
  config.encoder_self_layers = {EvenAttention("multihead", kD), EvenAttention("talking", kD)};
  const Bert model(config, 3);
  int64_t projections = 0;
  for (const NamedParameter& one : model.Parameters()) projections += one.name.ends_with(".P_l") ? 1 : 0;
  EXPECT_EQ(projections, 1);
  config.inner_layers = 1;
  EXPECT_NE(MessageOf([&] { config.Validate(); }, ErrorKind::kUsage).find("2 are not one for each of the 1 layers"),
            std::string::npos);
}

TEST(BertConfigTest, ItsJsonMakesItAgain) {
  ModelConfig config = TinyAlbert("dynamic");
  config.layer_groups = 2;
  config.inner_layers = 2;
  config.heads = {.pooler = true, .classes = 3, .masked_lm = true, .span = true};
  config.classifier = ClassifierKind::kUntied;
  Json json = config.ToJson();
  EXPECT_EQ(ReadModelConfig(json, "config.json").ToJson(), json);
  json.Set("layer_groups", 7);
  EXPECT_EQ(MessageOf([&] { ReadModelConfig(json, "config.json"); }, ErrorKind::kData),
            "config.json: layer_groups: 7 is not between 1 and the 3 layers");
}

// What a training configuration that says nothing makes of BERT and ALBERT, and what it can say.

ModelConfig Built(TrainingConfig config) {
  config.model.attention.kind = AttentionKind::kMultihead;
  const ResolvedConfig resolved(config);
  return ConfigureModel(*resolved, {.size = 300, .tokens = {.begin = 3, .separator = 4, .mask = 5}});
}

TrainingConfig Of(const char* model, int64_t d_model = 768) {
  TrainingConfig config;
  config.model.name = model;
  config.model.d_model = d_model;
  config.model.attention.heads = 12;
  return config;
}

TEST(BertBuildTest, TheDefaultsAreThePublishedForms) {
  const ModelConfig bert = Built(Of("bert"));
  EXPECT_EQ(bert.feed_forward, FeedForwardKind::kGelu);
  EXPECT_EQ(bert.encoder_self.scale, 0.125);
  EXPECT_TRUE(bert.encoder_self.projection_biases);
  EXPECT_TRUE(bert.heads.pooler && bert.heads.sentence && bert.heads.masked_lm);
  EXPECT_EQ(bert.norm_epsilon, 1e-12);
  EXPECT_FALSE(bert.is_albert());
  const ModelConfig albert = Built(Of("albert"));
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
  EXPECT_EQ(Built(Of("bert")).stddev(), 0.02);
  EXPECT_EQ(Built(Of("bert", 1536)).stddev(), 0.02);
  EXPECT_NEAR(Built(Of("albert", 192)).stddev(), 0.04, 1e-15);
  TrainingConfig config = Of("bert", 192);
  config.model.initial_stddev = 0.3;
  EXPECT_EQ(Built(config).stddev(), 0.3);
  EXPECT_EQ(Built(config).encoder_self.projection_stddev, 0.3);
}

// Layers have their kinds in turn, in BERT's form; an ALBERT has kinds for the blocks that its layers share.
TEST(BertBuildTest, LayersHaveTheirKindsInTurnInBertsForm) {
  TrainingConfig config = Of("bert", 192);
  config.model.layers = 3;
  config.model.layer_kinds = {AttentionKind::kTalking, AttentionKind::kMultihead};
  const ModelConfig bert = Built(config);
  ASSERT_EQ(bert.encoder_self_layers.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const AttentionConfig& layer = bert.encoder_self_layers[i];
    EXPECT_EQ(layer.mixing.P_l, i != 1);
    EXPECT_TRUE(layer.projection_biases);
    EXPECT_EQ(layer.projection_stddev, bert.stddev());
    EXPECT_EQ(layer.scale, 0.25);
  }
  config.model.name = "albert";
  config.model.layers = 4;
  testing::ExpectError([&] { Built(config); }, ErrorKind::kUsage,
                       {"layer_kinds", "2 kinds, but the layers of an ALBERT share 1 block"});
  config.model.inner_layers = 2;
  EXPECT_EQ(Built(config).encoder_self_layers.size(), 2u);
  config.model.inner_layers = 1;
  config.model.layer_groups = 4;
  EXPECT_EQ(Built(config).encoder_self_layers.size(), 4u);
}

TEST(BertBuildTest, PoolersAndPositionsAreThereWhereTheyAreUsed) {
  TrainingConfig config = Of("bert");
  config.objective.sentence_task = SentenceTask::kNone;
  const EncoderHeads heads = Built(config).heads;
  EXPECT_TRUE(heads.masked_lm && !heads.pooler && !heads.sentence);
  // Learned positions are as many as tokens unless told.
  config.model.positions = PositionScheme::kLearned;
  EXPECT_EQ(Built(config).max_positions, config.objective.input_length);
  config.model.max_positions = 512;
  EXPECT_EQ(Built(config).max_positions, 512);
  config.model.max_positions = 4;
  EXPECT_THROW(Built(config), Error);
}

}  // namespace crosstalk::bert_test
