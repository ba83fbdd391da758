// T5s of Mesh TensorFlow: what they compute, against values from a program that follows its code; their way out and in
// again.
#include "crosstalk/models/t5/t5.h"

#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/interop/names.h"
#include "tests/support/bundles.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::t5_test {

constexpr const char* kGolden = "t5_th_mesh";

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
  const Trained any = OpenModel(golden.folder, DType::kFloat64);
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

TEST(MeshT5Test, AnImportIsWrittenAsItCame) {
  const TempDir dir;
  ImportModel(BundleFixture(kGolden), dir / "model", {});
  const ExportResult result = ExportMesh(OpenModel(dir / "model"), dir / "out");
  EXPECT_EQ(result.tensors, 65);
  EXPECT_EQ(ReadFile(dir / "out/checkpoint"), ReadFile(BundleFixture(kGolden) + "/checkpoint"));
  const MeshFolder written(dir / "out", {});
  ExpectSameTensors(MeshFolder(BundleFixture(kGolden), {}), written);
  const BundleEntry& step = *written.bundle().index().Find("global_step");
  EXPECT_EQ(written.bundle().Read(step).data<int64_t>()[0], 1'000'000);
}

using Change = std::function<void(ModelConfig&)>;

Change TalkingChange(const HeadMixing& mixing) {
  return [mixing](ModelConfig& config) { config.SetAttention(Talking(mixing)); };
}
Change WithLayer(void (*change)(AttentionConfig&)) {
  return [change](ModelConfig& config) {
    AttentionConfig layer = AttentionConfig::MultiHead(12, 3, 5);
    change(layer);
    config.SetAttention(layer);
  };
}

// Our own models, of every attention that the format can say, with and without what is optional in it: how the
// configuration differs, and a tensor that there must be.
const std::pair<Change, const char*> kVariants[] = {
    {[](ModelConfig&) {}, "encoder/block_001/layer_000/SelfAttention/q"},
    {TalkingChange({}), "encoder/block_001/layer_000/TalkingHeadsSelfAttention/q/kernel"},
    {TalkingChange({.P_l = true, .P_w = true}), "encoder/block_001/layer_000/TalkingHeadsSelfAttention/logits/kernel"},
    {TalkingChange({.P_l = true}), "decoder/block_002/layer_001/TalkingHeadsEncDecAttention/logits/kernel"},
    {TalkingChange({.P_w = true}), "decoder/block_002/layer_000/TalkingHeadsSelfAttention/weights/kernel"},
    {TalkingChange({true, true, true, true, true, true}),
     "encoder/block_001/layer_000/TalkingHeadsSelfAttention/weights/weights_dynamic_1/kernel"},
    {TalkingChange({.P_l = true, .P_w = true, .P_Xl = true}),
     "encoder/block_001/layer_000/TalkingHeadsSelfAttention/logits/logits_dynamic_0/kernel"},
    {TalkingChange({.P_l = true, .P_w = true, .P_Ml = true, .P_Mw = true}),
     "encoder/block_001/layer_000/TalkingHeadsSelfAttention/weights/weights_dynamic_0/kernel"},
    {[](ModelConfig& config) {
       config.SetAttention(AttentionConfig::MultiHead(12, 3, 5), Talking({.P_l = true, .P_w = true}),
                           AttentionConfig::MultiHead(12, 2, 5));
     },
     "decoder/block_000/layer_001/EncDecAttention/q"},
    {[](ModelConfig& config) {
       config.feed_forward = FeedForwardKind::kGatedGelu;
       config.classifier = ClassifierKind::kUntied;
       config.vocabulary = 128;
     },
     "decoder/logits/kernel"},
    {[](ModelConfig& config) {
       config.feed_forward = FeedForwardKind::kGeluTanh;
       config.norm_epsilon = 1e-5;
     },
     "encoder/block_000/layer_001/DenseReluDense/wi/kernel"},
};

std::map<std::string, std::vector<float>> Values(const Model& model) {
  std::map<std::string, std::vector<float>> values;
  for (const NamedParameter& parameter : model.Parameters()) {
    values[parameter.name] = parameter.value.value().ToVector<float>();
  }
  return values;
}

TEST(MeshT5Test, EveryAttentionOfTheFormatComesBack) {
  for (const auto& [change, tensor] : kVariants) {
    SCOPED_TRACE(tensor);
    ModelConfig config = SmallConfig();
    change(config);
    const Trained any = Made(config);
    const TempDir dir;
    ExportMesh(any, dir / "out");
    EXPECT_TRUE(std::filesystem::exists(dir / "out/model.ckpt-12.index"));
    const MeshFolder folder(dir / "out", {});
    EXPECT_EQ(folder.tensors().count(tensor), 1u);
    const Trained again = OpenModel(dir / "out");
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
  const TempDir dir;
  const auto write = [&](const Change& change, const ExportOptions& options = {.format = PublishedFormat::kMesh}) {
    ModelConfig config = SmallConfig();
    change(config);
    ExportModel(Made(config), dir / "out", options);
  };
  testing::ExpectRefused<Change>(
      {{"bilinear", [](auto& c) { c.SetAttention(AttentionConfig::Bilinear(12, 3)); }, {"P[12, 3, 12]"}},
       {"dynamic alone", TalkingChange({.P_Xl = true}), {"logits/kernel"}},
       {"distance", [](auto& c) { c.relative_attention_max_distance = 64; }, {"relative_attention_max_distance"}},
       {"gelu", [](auto& c) { c.feed_forward = FeedForwardKind::kGelu; }, {"gelu-by-erf"}},
       {"end", [](auto& c) { c.tokens.end = 3; }, {"tokens.end"}},
       {"scale", WithLayer([](auto& layer) { layer.scale = 0.5; }), {"encoder_self.scale"}},
       {"tied",
        WithLayer([](auto& layer) { layer.key_value = KeyValueProjection::kTied; }),
        {"encoder/block_000/layer_000/SelfAttention/v"}}},
      write);
  testing::ExpectRefused<ExportOptions>(
      {{"extensions", {.format = PublishedFormat::kMesh, .extensions = Extensions::kWrite}, {"with_extensions"}},
       {"F16", {.format = PublishedFormat::kMesh, .dtype = ExportDType::kFloat16}, {"dtype", "float16"}}},
      [&](const ExportOptions& options) { write([](auto&) {}, options); });
  EXPECT_TRUE(ListDirectory(dir.path()).empty());
}

}  // namespace crosstalk::t5_test
