// T5s of Mesh TensorFlow: what they compute, against values from a program that follows its code; their way out and in
// again; and checkpoints that are forged.
#include "crosstalk/models/t5/t5.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/interop/mesh/bundle.h"
#include "crosstalk/models/interop/mesh/folder.h"
#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/runtime/atomic_file.h"
#include "tests/support/bundles.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace t5_test {

using testing::ExpectError;

constexpr const char* kGolden = "t5_th_mesh";

// ---- What it computes ----------------------------------------------------------------------------------------------

// The largest magnitudes here are of the order of 10; the two programs differ by the order of their sums.
constexpr double kTolerance = 1e-12;

struct Golden {
  std::string folder = BundleFixture(kGolden);
  TensorFile inputs = ReadSafetensors(folder + "/inputs.safetensors");
  TensorFile expected = ReadSafetensors(folder + "/expected.safetensors");
};

// With all the values where they are at hand.
Golden WholeGolden() {
  Golden golden;
  const char* data = std::getenv("CROSSTALK_DATA");
  const std::string whole = StrCat(data == nullptr ? "" : data, "/parity/", kGolden, "/expected.safetensors");
  if (data != nullptr && std::filesystem::exists(whole)) golden.expected = ReadSafetensors(whole);
  return golden;
}

Tensor NotZero(const Tensor& ids) {
  const Tensor mask = Tensor::Zeros(ids.shape(), DType::kBool);
  for (int64_t i = 0; i < ids.num_elements(); ++i) mask.data<uint8_t>()[i] = ids.data<int64_t>()[i] != 0;
  return mask;
}

// Values[b, n, …] where ids[b, n] are not padding.
void ExpectEqual(const TensorFile& expected, const char* name, const Tensor& got, const Tensor& ids) {
  const Tensor* const wanted = expected.Find(name);
  if (wanted == nullptr) return;  // of the whole file alone
  const Tensor values = got.Contiguous();
  ASSERT_EQ(values.shape(), wanted->shape()) << name;
  const int64_t width = values.num_elements() / ids.num_elements();
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    if (ids.data<int64_t>()[i / width] == 0) continue;
    ASSERT_NEAR(values.data<double>()[i], wanted->data<double>()[i], kTolerance) << name << " at " << i;
  }
}

TEST(MeshT5Test, ComputesWhatItsAuthorsCodeDoes) {
  const Golden golden = WholeGolden();
  const Trained any = Open(golden.folder, {.tokenizer = TokenizerUse::kNone, .dtype = DType::kFloat64});
  const Tensor inputs = golden.inputs.At("inputs"), targets = golden.inputs.At("targets");
  const Tensor labels = targets.Clone();
  std::replace(labels.data<int64_t>(), labels.data<int64_t>() + labels.num_elements(), int64_t{0}, int64_t{-100});
  Batch batch;
  batch.Add("input_ids", inputs).Add("attention_mask", NotZero(inputs)).Add("labels", labels);
  batch.Add("decoder_input_ids", golden.expected.At("decoder_input_ids"));
  std::map<std::string, Variable> outputs;
  for (const NamedVariable& output : any.model->Outputs(batch, OutputDetail::kResults, ForwardContext())) {
    outputs[output.name] = output.value;
  }
  ExpectEqual(golden.expected, "encoder_output", outputs.at("encoder_last_hidden_state").value(), inputs);
  ExpectEqual(golden.expected, "decoder_output", outputs.at("decoder_last_hidden_state").value(), targets);
  ExpectEqual(golden.expected, "logits", outputs.at("logits").value(), targets);
  EXPECT_NEAR(outputs.at("loss").value().Item(), golden.expected.At("loss_mean_over_tokens").At({0}), kTolerance);

  Backward(outputs.at("loss"));
  const PublishedNames names(*FormOf(any), &any.model->config());
  std::map<std::string, NamedParameter> parameters;
  for (const NamedParameter& parameter : any.model->Parameters()) {
    parameters.emplace(names.UsualName(parameter.name).name, parameter);
  }
  int compared = 0;
  for (const NamedTensor& wanted : golden.expected.tensors) {
    if (!wanted.name.starts_with("grad.")) continue;
    const NamedParameter& parameter = parameters.at(names.Usual(wanted.name.substr(5), {}));
    const Tensor got = ToPublished(parameter.value.grad(), names.UsualName(parameter.name).layout, parameter, 128);
    const Tensor values = wanted.tensor.To(DType::kFloat64);
    ASSERT_EQ(got.shape(), values.shape()) << wanted.name;
    for (int64_t i = 0; i < got.num_elements(); ++i) {
      const double value = values.data<double>()[i];  // a float's
      ASSERT_NEAR(got.data<double>()[i], value, kTolerance + std::abs(value) * 0x1p-24) << wanted.name << " at " << i;
    }
    ++compared;
  }
  EXPECT_TRUE(compared == 0 || compared == 64) << compared;
}

// Greedy, argmax over all rows of the embedding; nothing is compared after a row's end.
TEST(MeshT5Test, WritesWhatItsAuthorsCodeDoes) {
  const Golden golden;
  const Trained any = Open(golden.folder, {.tokenizer = TokenizerUse::kNone, .dtype = DType::kFloat64});
  const T5& model = dynamic_cast<const T5&>(*any.model);
  const Tensor inputs = golden.inputs.At("inputs"), expected = golden.expected.At("greedy_ids");
  const int64_t rows = expected.size(0), steps = expected.size(1);
  TransformerCache cache = model.StartDecoding(inputs.To(DType::kInt32), NotZero(inputs));
  Tensor tokens = Tensor::Zeros({rows}, DType::kInt32);
  std::vector<bool> ended(static_cast<size_t>(rows), false);
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor logits = model.DecodeStep(tokens, cache).Contiguous();
    tokens = Tensor::Zeros({rows}, DType::kInt32);
    for (int64_t row = 0; row < rows; ++row) {
      const double* const first = logits.data<double>() + row * logits.size(1);
      const int64_t best = std::max_element(first, first + logits.size(1)) - first;
      tokens.data<int32_t>()[row] = static_cast<int32_t>(best);
      if (ended[static_cast<size_t>(row)]) continue;
      EXPECT_EQ(best, expected.data<int64_t>()[row * steps + step]) << row << ", " << step;
      ended[static_cast<size_t>(row)] = best == 1;
    }
  }
}

// ---- Out and in again ----------------------------------------------------------------------------------------------

std::map<std::string, Tensor> TensorsIn(const MeshFolder& folder) {
  std::map<std::string, Tensor> tensors;
  for (const NamedTensor& tensor : folder.ReadTensors()) tensors[tensor.name] = tensor.tensor;
  return tensors;
}

void ExpectSameTensors(const MeshFolder& a, const MeshFolder& b) {
  const std::map<std::string, Tensor> before = TensorsIn(a), after = TensorsIn(b);
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    ASSERT_EQ(after.count(name), 1u) << name;
    EXPECT_EQ(a.tensors().at(name).dtype, b.tensors().at(name).dtype) << name;
    EXPECT_EQ(tensor.shape(), after.at(name).shape()) << name;
    EXPECT_EQ(tensor.ToVector<float>(), after.at(name).ToVector<float>()) << name;
  }
}

TEST(MeshT5Test, AnImportIsWrittenAsItCame) {
  const TempDir dir;
  ImportModel(BundleFixture(kGolden), dir / "model", {});
  const ExportResult result = ExportModel(Open(dir / "model", {.tokenizer = TokenizerUse::kNone}), dir / "out",
                                          {.format = PublishedFormat::kMesh});
  EXPECT_EQ(result.tensors, 65);
  EXPECT_EQ(ReadFile(dir / "out/checkpoint"), ReadFile(BundleFixture(kGolden) + "/checkpoint"));
  const MeshFolder written(dir / "out", {});
  ExpectSameTensors(MeshFolder(BundleFixture(kGolden), {}), written);
  const BundleEntry& step = *written.bundle().index().Find("global_step");
  EXPECT_EQ(written.bundle().Read(step).data<int64_t>()[0], 1'000'000);
}

// Our own models, of every attention that the format can say, with and without what is optional in it.
struct Variant {
  const char* name;
  std::function<void(ModelConfig&)> change;
  const char* first;  // a tensor that there must be
};

ModelConfig SmallConfig() {
  ModelConfig config = BaseT5();
  config.vocabulary = 37;
  config.d_model = 12;
  config.d_ff = 20;
  config.layers = 2;
  config.decoder_layers = 3;
  config.relative_buckets = 8;
  config.SetAttention(AttentionConfig::MultiHead(12, 3, 5));
  return config;
}

AttentionConfig Talking(const HeadMixing& mixing) {
  AttentionConfig layer = AttentionConfig::TalkingHeads(12, mixing.P_l ? 4 : 3, 3, mixing.P_w ? 2 : 3, 5, 7);
  layer.mixing = mixing;
  return layer;
}

std::vector<Variant> Variants() {
  const auto talking = [](const HeadMixing& mixing) {
    return [mixing](ModelConfig& config) { config.SetAttention(Talking(mixing)); };
  };
  return {
      {"plain", [](ModelConfig&) {}, "encoder/block_001/layer_000/SelfAttention/q"},
      {"sizes", talking({}), "encoder/block_001/layer_000/TalkingHeadsSelfAttention/q/kernel"},
      {"talking", talking({.P_l = true, .P_w = true}),
       "encoder/block_001/layer_000/TalkingHeadsSelfAttention/logits/kernel"},
      {"logits", talking({.P_l = true}), "decoder/block_002/layer_001/TalkingHeadsEncDecAttention/logits/kernel"},
      {"weights", talking({.P_w = true}), "decoder/block_002/layer_000/TalkingHeadsSelfAttention/weights/kernel"},
      {"dynamic", talking({true, true, true, true, true, true}),
       "encoder/block_001/layer_000/TalkingHeadsSelfAttention/weights/weights_dynamic_1/kernel"},
      {"x alone", talking({.P_l = true, .P_w = true, .P_Xl = true}),
       "encoder/block_001/layer_000/TalkingHeadsSelfAttention/logits/logits_dynamic_0/kernel"},
      {"m alone", talking({.P_l = true, .P_w = true, .P_Ml = true, .P_Mw = true}),
       "encoder/block_001/layer_000/TalkingHeadsSelfAttention/weights/weights_dynamic_0/kernel"},
      {"mixed",
       [](ModelConfig& config) {
         config.SetAttention(AttentionConfig::MultiHead(12, 3, 5), Talking({.P_l = true, .P_w = true}),
                             AttentionConfig::MultiHead(12, 2, 5));
       },
       "decoder/block_000/layer_001/EncDecAttention/q"},
      {"1.1",
       [](ModelConfig& config) {
         config.feed_forward = FeedForwardKind::kGatedGelu;
         config.classifier = ClassifierKind::kUntied;
         config.vocabulary = 128;
       },
       "decoder/logits/kernel"},
      {"gelu, another epsilon",
       [](ModelConfig& config) {
         config.feed_forward = FeedForwardKind::kGeluTanh;
         config.norm_epsilon = 1e-5;
       },
       "encoder/block_000/layer_001/DenseReluDense/wi/kernel"},
  };
}

Trained Made(const ModelConfig& config) {
  Trained any;
  any.model = MakeModel(config, 7);
  any.checkpoint = "a test's model";
  any.step = 12;
  return any;
}

std::map<std::string, std::vector<float>> Values(const Model& model) {
  std::map<std::string, std::vector<float>> values;
  for (const NamedParameter& parameter : model.Parameters()) {
    values[parameter.name] = parameter.value.value().ToVector<float>();
  }
  return values;
}

TEST(MeshT5Test, EveryAttentionOfTheFormatComesBack) {
  for (const Variant& variant : Variants()) {
    SCOPED_TRACE(variant.name);
    ModelConfig config = SmallConfig();
    variant.change(config);
    const Trained any = Made(config);
    const TempDir dir;
    ExportModel(any, dir / "out", {.format = PublishedFormat::kMesh});
    EXPECT_TRUE(std::filesystem::exists(dir / "out/model.ckpt-12.index"));
    const MeshFolder folder(dir / "out", {});
    EXPECT_EQ(folder.tensors().count(variant.first), 1u) << variant.first;
    const Trained again = Open(dir / "out", {.tokenizer = TokenizerUse::kNone});
    EXPECT_EQ(again.model->config().ToJson(), config.ToJson());
    // Rows that pad the vocabulary are no ids, and are not written.
    std::map<std::string, std::vector<float>> ours = Values(*any.model), theirs = Values(*again.model);
    for (const char* table : {"embedding.table", "classifier.table"}) {
      for (auto* values : {&ours, &theirs}) {
        if (values->count(table) > 0) (*values)[table].resize(static_cast<size_t>(config.vocabulary * config.d_model));
      }
    }
    EXPECT_EQ(ours, theirs);
    ExportModel(any, dir / "half", {.format = PublishedFormat::kMesh, .dtype = ExportDType::kBFloat16});
    const MeshFolder half(dir / "half", {});
    for (const auto& [name, entry] : half.tensors()) EXPECT_EQ(entry.dtype, "BF16") << name;
  }
}

TEST(MeshT5Test, WhatTheFormatCannotSayIsRefusedByName) {
  const auto refused = [](const std::function<void(ModelConfig&)>& change, const std::vector<std::string>& says) {
    ModelConfig config = SmallConfig();
    change(config);
    const TempDir dir;
    ExpectError([&] { ExportModel(Made(config), dir / "out", {.format = PublishedFormat::kMesh}); }, ErrorKind::kUsage,
                says);
    EXPECT_TRUE(ListDirectory(dir.path()).empty());
  };
  refused([](ModelConfig& config) { config.SetAttention(AttentionConfig::Bilinear(12, 3)); }, {"P[12, 3, 12]"});
  refused([](ModelConfig& config) { config.SetAttention(Talking({.P_Xl = true})); }, {"logits/kernel"});
  refused([](ModelConfig& config) { config.relative_attention_max_distance = 64; },
          {"relative_attention_max_distance"});
  refused([](ModelConfig& config) { config.feed_forward = FeedForwardKind::kGelu; }, {"gelu-by-erf"});
  refused([](ModelConfig& config) { config.tokens.end = 3; }, {"tokens.end"});
  refused(
      [](ModelConfig& config) {
        AttentionConfig layer = AttentionConfig::MultiHead(12, 3, 5);
        layer.scale = 0.5;
        config.SetAttention(layer);
      },
      {"encoder_self.scale"});
  refused(
      [](ModelConfig& config) {
        AttentionConfig layer = AttentionConfig::MultiHead(12, 3, 5);
        layer.key_value = KeyValueProjection::kTied;
        config.SetAttention(layer);
      },
      {"EncDecAttention/v"});
  const TempDir dir;
  ExpectError(
      [&] {
        ExportModel(Made(SmallConfig()), dir / "out",
                    {.format = PublishedFormat::kMesh, .extensions = Extensions::kWrite});
      },
      ErrorKind::kUsage, {"with_extensions"});
  ExpectError(
      [&] {
        ExportModel(Made(SmallConfig()), dir / "out",
                    {.format = PublishedFormat::kMesh, .dtype = ExportDType::kFloat16});
      },
      ErrorKind::kUsage, {"dtype", "float16"});
}

TEST(MeshT5Test, AnExportThatIsInterruptedLeavesNothing) {
  const Trained any = Made(SmallConfig());
  for (int calls = 1;; ++calls) {
    const TempDir dir;
    int left = calls;
    try {
      ExportModel(any, dir / "out", {.format = PublishedFormat::kMesh, .stop = [&] { return --left == 0; }});
    } catch (const Interrupted&) {
      EXPECT_TRUE(ListDirectory(dir.path()).empty()) << calls;
      continue;
    }
    EXPECT_GT(calls, 2);
    return;
  }
}

// ---- Forged and odd checkpoints ------------------------------------------------------------------------------------

// A checkpoint to be changed: the export of a model, without its configuration or with it.
class ForgedMeshTest : public ::testing::Test {
 protected:
  void Begin(const ModelConfig& config) {
    std::filesystem::remove_all(In());
    ExportModel(Made(config), In(), {.format = PublishedFormat::kMesh});
    tensors_ = TensorsIn(MeshFolder(In(), {}));
  }
  void Store() {
    std::vector<BundleTensor> list;
    for (const auto& [name, tensor] : tensors_) {
      list.push_back({name, tensor.dtype() == DType::kInt64 ? kBundleInt64 : kBundleFloat32, tensor});
    }
    WriteTensorBundle(In() + "/model.ckpt-12", "x", list);
  }
  void Refused(const std::vector<std::string>& says, const MeshOptions& options = {}) {
    ExpectError([&] { ImportModel(In(), dir_ / "model", {.mesh = options}); }, ErrorKind::kData, says);
    EXPECT_FALSE(std::filesystem::exists(dir_ / "model"));
  }
  // With one line of its configuration changed; "": left out.
  void Configure(const std::string& name, const std::string& value) {
    std::string text = ReadFile(In() + "/operative_config.gin");
    const size_t begin = text.find(name + " = ");
    if (begin != std::string::npos) text.erase(begin, text.find('\n', begin) + 1 - begin);
    if (!value.empty()) text += name + " = " + value + "\n";
    WriteFileBytes(In() + "/operative_config.gin", text);
  }
  std::string In() const { return dir_ / "in"; }

  TempDir dir_;
  std::map<std::string, Tensor> tensors_;
};

ModelConfig TalkingConfig() {
  ModelConfig config = SmallConfig();
  config.SetAttention(Talking({.P_l = true, .P_w = true}));
  return config;
}

TEST_F(ForgedMeshTest, TensorsThatDoNotFitAreRefusedByName) {
  const std::string block = "encoder/block_000/layer_000/TalkingHeadsSelfAttention/";
  const struct {
    std::string name;
    Shape shape;
    std::vector<std::string> says;
  } cases[] = {
      {"shared/embedding", {2, 37, 12}, {"shared/embedding", "ensemble"}},
      {"shared/embedding", {444}, {"shared/embedding"}},
      {block + "logits/kernel", {2, 4, 3}, {"logits/kernel", "2 dimensions"}},
      {block + "logits/kernel", {5, 3}, {"logits/kernel"}},
      {block + "weights/kernel", {4, 2}, {"weights/kernel"}},
      {block + "q/kernel", {12, 20}, {"q/kernel", "3 dimensions"}},
      {block + "k/kernel", {12, 4, 6}, {"k/kernel"}},
      {block + "y/kernel", {2, 7, 13}, {"y/kernel"}},
      {block + "relative_attention_bias", {8, 3}, {"relative_attention_bias", "buckets"}},
      {block + "relative_attention_bias", {3, 0}, {"relative_attention_bias"}},
      {block + "logits/logits_dynamic_0/kernel", {12, 4, 3}, {"dynamic", "logits_dynamic_0"}},
      {"encoder/block_000/layer_001/DenseReluDense/wo/kernel", {12, 20}, {"wo/kernel"}},
      {"encoder/block_001/layer_000/rms_norm/scale", {13}, {"block_001/layer_000/rms_norm"}},
      {"encoder/block_007/layer_000/rms_norm/scale", {12}, {"block_007", "no parameter"}},
      {"encoder/block_7/layer_000/rms_norm/scale", {12}, {"block_7", "no parameter"}},
      {"decoder/final_layer_norm/scale", {12}, {"final_layer_norm", "rms_norm", "two names"}},
      {"something/else", {3}, {"something/else"}},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    Begin(TalkingConfig());
    tensors_[one.name] = Tensor::Full(one.shape, 0.5, DType::kFloat32);
    Store();
    Refused(one.says);
  }
  for (const std::string& name : {std::string("shared/embedding"), block + "v/kernel", block + "weights/kernel",
                                  std::string("decoder/rms_norm/scale"), block + "relative_attention_bias"}) {
    SCOPED_TRACE(name);
    Begin(TalkingConfig());
    tensors_.erase(name);
    Store();
    Refused({name});
  }
  Begin(TalkingConfig());
  tensors_["rounds"] = Tensor::Full({2}, 3, DType::kInt64);
  Store();
  Refused({"\"rounds\"", "int64"});
}

TEST_F(ForgedMeshTest, TheConfigurationMustFitTheTensors) {
  const struct {
    const char* name;
    const char* value;
    std::vector<std::string> says;
  } cases[] = {
      {"encoder/DenseReluDense.activation", "['gelu', 'linear']", {"DenseReluDense.activation", "encoder"}},
      {"decoder/Unitransformer.shared_embedding_and_softmax_weights", "False", {"shared_embedding", "decoder/logits"}},
      {"encoder/SelfAttention.num_heads", "5", {"SelfAttention.num_heads", "5 heads", "3"}},
      {"encoder/SelfAttention.num_heads", "'3'", {"SelfAttention.num_heads", "integer"}},
      {"encoder/SelfAttention.key_value_size", "6", {"SelfAttention.key_value_size"}},
      {"decoder/EncDecAttention.num_heads", "4", {"EncDecAttention.num_heads", "15"}},
      {"SelfAttention.fold_scaling_into_initializer", "False", {"fold_scaling_into_initializer"}},
      {"encoder/LayerStack.norm_epsilon", "0.1", {"norm_epsilon"}},
      {"decoder/LayerStack.norm_epsilon", "'x'", {"norm_epsilon"}},
      {"dropout_rate", "2", {"dropout_rate"}},
      {"broken", "[", {"operative_config.gin", "line"}},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    Begin(SmallConfig());
    Configure(one.name, one.value);
    Refused(one.says);
  }
  Begin(SmallConfig());
  for (const char* stack : {"encoder", "decoder"}) Configure(StrCat(stack, "/DenseReluDense.activation"), "'swish'");
  Refused({"DenseReluDense.activation", "swish", "gelu"});
}

// Where neither shapes nor a configuration say it, the option does; and it must agree where one does.
TEST_F(ForgedMeshTest, OptionsSayWhatNothingElseDoes) {
  Begin(SmallConfig());
  Refused({"feed_forward", "operative_config.gin"}, {.feed_forward = FeedForwardKind::kGeluTanh});
  std::filesystem::remove(In() + "/operative_config.gin");
  Refused({"feed_forward: is needed", "relu in T5 1.0"});
  Refused({"feed_forward", "wi"}, {.feed_forward = FeedForwardKind::kGatedGelu});
  Refused({"feed_forward", "gelu-tanh"}, {.feed_forward = FeedForwardKind::kGelu});
  Refused({"vocabulary", "38", "37"}, {.feed_forward = FeedForwardKind::kRelu, .vocabulary = 38});
  ImportModel(In(), dir_ / "model", {.mesh = {.feed_forward = FeedForwardKind::kRelu, .vocabulary = 33}});
  const Trained any = Open(dir_ / "model", {.tokenizer = TokenizerUse::kNone});
  EXPECT_EQ(any.model->config().vocabulary, 33);
  EXPECT_EQ(FormOf(any), &kPublishedMeshT5);

  ModelConfig config = SmallConfig();
  config.SetAttention(Talking({.P_l = true, .P_w = true, .P_Ml = true}));
  Begin(config);
  std::filesystem::remove(In() + "/operative_config.gin");
  const auto relu = FeedForwardKind::kRelu;
  std::filesystem::remove_all(dir_ / "model");
  Refused({"dynamic: is needed", "logits_dynamic_0"}, {.feed_forward = relu});
  Refused({"dynamic", "Xl and Ml"}, {.feed_forward = relu, .dynamic = "Xl and Ml"});
  Refused({"dynamic: is needed"}, {.feed_forward = relu, .dynamic = "Xl,Ml"});
  ImportModel(In(), dir_ / "model", {.mesh = {.feed_forward = relu, .dynamic = "Ml"}});
  EXPECT_TRUE(Open(dir_ / "model", {.tokenizer = TokenizerUse::kNone}).model->config().encoder_self.mixing.P_Ml);
}

// The layer over the encoder's output takes what is said of the self-attention, its parent, unless its own line
// differs.
TEST_F(ForgedMeshTest, ALayerInheritsWhatIsSaidOfItsParent) {
  ModelConfig config = SmallConfig();
  config.SetAttention(Talking({.P_l = true, .P_w = true, .P_Ml = true}));
  Begin(config);
  const std::string own = "decoder/TalkingHeadsEncDecAttention.dynamic_projections";
  Configure(own, "None");
  Refused({"dynamic: is needed", "layer_001/TalkingHeadsEncDecAttention/logits/logits_dynamic_0"});
  Configure(own, "['x2l']");
  ImportModel(In(), dir_ / "other", {});
  EXPECT_TRUE(Open(dir_ / "other", {.tokenizer = TokenizerUse::kNone}).model->AttentionPlaces()[2].config.mixing.P_Xl);
  Configure(own, "");
  for (const char* stack : {"encoder/", "decoder/"}) {
    Configure(StrCat(stack, "TalkingHeadsSelfAttention.dynamic_projections"), "");
  }
  Configure("TalkingHeadsSelfAttention.dynamic_projections", "['m2l']");
  ImportModel(In(), dir_ / "model", {});
  EXPECT_EQ(Open(dir_ / "model", {.tokenizer = TokenizerUse::kNone}).model->config().ToJson(), config.ToJson());

  Begin(SmallConfig());
  std::filesystem::remove_all(dir_ / "model");
  Configure("SelfAttention.fold_scaling_into_initializer", "False");
  for (const char* stack : {"encoder/", "decoder/"}) {
    Configure(StrCat(stack, "SelfAttention.fold_scaling_into_initializer"), "True");
  }
  Configure("decoder/EncDecAttention.fold_scaling_into_initializer", "False");
  Refused({"decoder/EncDecAttention.fold_scaling_into_initializer"});
  Configure("decoder/EncDecAttention.fold_scaling_into_initializer", "");
  ImportModel(In(), dir_ / "model", {});
}

// Heads that talk as the identity, added to a T5 without, are written as talking heads.
TEST_F(ForgedMeshTest, AnImportWithAddedHeadsIsWrittenUnderTheirNames) {
  Begin(SmallConfig());
  ImportModel(In(), dir_ / "model", {.attention = AttentionKind::kTalking});
  ExportModel(Open(dir_ / "model", {.tokenizer = TokenizerUse::kNone}), dir_ / "out",
              {.format = PublishedFormat::kMesh});
  const std::map<std::string, Tensor> tensors = TensorsIn(MeshFolder(dir_ / "out", {}));
  EXPECT_EQ(tensors.at("encoder/block_000/layer_000/TalkingHeadsSelfAttention/logits/kernel").ToVector<float>(),
            (std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(tensors.at("encoder/block_000/layer_000/TalkingHeadsSelfAttention/q/kernel").ToVector<float>(),
            tensors_.at("encoder/block_000/layer_000/SelfAttention/q").ToVector<float>());
}

// T5 1.0 has a bias that nothing reads: it is kept and written again. Its norms have the older names.
TEST_F(ForgedMeshTest, OlderNamesAndAnUnusedBiasComeBack) {
  Begin(SmallConfig());
  std::map<std::string, Tensor> older;
  for (const auto& [name, tensor] : tensors_) {
    const size_t at = name.find("rms_norm");
    const bool final_norm = name == "encoder/rms_norm/scale" || name == "decoder/rms_norm/scale";
    older[at == std::string::npos
              ? name
              : name.substr(0, at) + (final_norm ? "final_layer_norm" : "layer_norm") + name.substr(at + 8)] = tensor;
  }
  older["decoder/block_000/layer_001/EncDecAttention/relative_attention_bias"] =
      Tensor::Full({3, 8}, 0.25, DType::kFloat32);
  tensors_ = older;
  tensors_["decoder/rms_norm/scale_slot_v"] = Tensor::Full({12}, 1, DType::kFloat32);
  Store();
  const ImportResult result = ImportModel(In(), dir_ / "model", {});
  EXPECT_NE(result.remarks[0].find("1 tensors of its optimizer"), std::string::npos) << result.remarks[0];
  ExportModel(Open(dir_ / "model", {.tokenizer = TokenizerUse::kNone}), dir_ / "out",
              {.format = PublishedFormat::kMesh});
  ExpectSameTensors(MeshFolder(In(), {}), MeshFolder(dir_ / "out", {}));
}

// ---- Which checkpoint of a folder ----------------------------------------------------------------------------------

TEST_F(ForgedMeshTest, TheCheckpointIsFoundInItsFolderAlone) {
  Begin(SmallConfig());
  for (const std::string& path : {In(), In() + "/", In() + "/model.ckpt-12", In() + "/model.ckpt-12.index"}) {
    EXPECT_TRUE(IsMeshCheckpoint(path)) << path;
    EXPECT_EQ(MeshFolder(path, {}).path(), In()) << path;
  }
  EXPECT_FALSE(IsMeshCheckpoint(In() + "/model.ckpt-13"));
  EXPECT_FALSE(IsMeshCheckpoint(dir_.path()));
  const auto named = [&](const std::string& line) { WriteFileBytes(In() + "/checkpoint", line); };
  named("model_checkpoint_path: \"gs://bucket/elsewhere/model.ckpt-12\"\n");
  EXPECT_NO_THROW(MeshFolder(In(), {}));
  for (const char* bad : {"../in/model.ckpt-12", "..", "a/../model.ckpt-12", "", "/", ".hidden", "in\\\\..\\\\x"}) {
    named(std::string("model_checkpoint_path: \"") + bad + "\"\n");
    Refused({"checkpoint", "model_checkpoint_path"});
  }
  named("nothing");
  Refused({"checkpoint", "model_checkpoint_path"});
  named("model_checkpoint_path: \"model.ckpt-13\"\n");
  Refused({"model.ckpt-13.index"});
  std::filesystem::remove(In() + "/checkpoint");
  EXPECT_NO_THROW(MeshFolder(In(), {}));
  std::filesystem::copy_file(In() + "/model.ckpt-12.index", In() + "/model.ckpt-13.index");
  Refused({"2 checkpoints", "name one"});
}

}  // namespace t5_test
}  // namespace crosstalk
