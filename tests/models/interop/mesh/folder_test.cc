// Checkpoints of Mesh TensorFlow that are forged, old or odd, and which one of a folder is read.
#include "crosstalk/models/interop/mesh/folder.h"

#include "tests/support/bundles.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::folder_test {

using testing::ExpectError;

// A checkpoint to be changed: the export of a model, without its configuration or with it.
class ForgedMeshTest : public ::testing::Test {
 protected:
  void Begin(const ModelConfig& config = SmallConfig()) {
    std::filesystem::remove_all(In());
    std::filesystem::remove_all(dir_ / "model");
    ExportMesh(Made(config), In());
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
    ExpectError([&] { Import(options); }, ErrorKind::kData, says);
    EXPECT_FALSE(std::filesystem::exists(dir_ / "model"));
  }
  ImportResult Import(const MeshOptions& options = {}) { return ImportModel(In(), dir_ / "model", {.mesh = options}); }
  ModelConfig Imported() { return OpenModel(dir_ / "model").model->config(); }
  // With one line of its configuration changed; "": left out.
  void Configure(const std::string& name, const std::string& value) {
    std::string text = ReadFile(In() + "/operative_config.gin");
    const size_t begin = text.find(name + " = ");
    if (begin != std::string::npos) text.erase(begin, text.find('\n', begin) + 1 - begin);
    if (!value.empty()) text += name + " = " + value + "\n";
    PutFile(In() + "/operative_config.gin", text);
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
    Shape shape;  // without dimensions: it is left out
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
      {"shared/embedding", {}, {"shared/embedding"}},
      {block + "v/kernel", {}, {block + "v/kernel"}},
      {block + "weights/kernel", {}, {block + "weights/kernel"}},
      {"decoder/rms_norm/scale", {}, {"decoder/rms_norm/scale"}},
      {block + "relative_attention_bias", {}, {block + "relative_attention_bias"}},
  };
  for (const auto& [name, shape, says] : cases) {
    SCOPED_TRACE(name);
    Begin(TalkingConfig());
    tensors_[name] = Tensor::Full(shape, 0.5, DType::kFloat32);
    if (shape.rank() == 0) tensors_.erase(name);
    Store();
    Refused(says);
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
  for (const auto& [name, value, says] : cases) {
    SCOPED_TRACE(name);
    Begin();
    Configure(name, value);
    Refused(says);
  }
  Begin();
  for (const char* stack : {"encoder", "decoder"}) Configure(StrCat(stack, "/DenseReluDense.activation"), "'swish'");
  Refused({"DenseReluDense.activation", "swish", "gelu"});
}

// Where neither shapes nor a configuration say it, the option does; and it must agree where one does.
TEST_F(ForgedMeshTest, OptionsSayWhatNothingElseDoes) {
  Begin();
  Refused({"feed_forward", "operative_config.gin"}, {.feed_forward = FeedForwardKind::kGeluTanh});
  std::filesystem::remove(In() + "/operative_config.gin");
  Refused({"feed_forward: is needed", "relu in T5 1.0"});
  Refused({"feed_forward", "wi"}, {.feed_forward = FeedForwardKind::kGatedGelu});
  Refused({"feed_forward", "gelu-tanh"}, {.feed_forward = FeedForwardKind::kGelu});
  Refused({"vocabulary", "38", "37"}, {.feed_forward = FeedForwardKind::kRelu, .vocabulary = 38});
  Import({.feed_forward = FeedForwardKind::kRelu, .vocabulary = 33});
  EXPECT_EQ(Imported().vocabulary, 33);
  EXPECT_EQ(FormOf(OpenModel(dir_ / "model")), &kPublishedMeshT5);

  ModelConfig config = SmallConfig();
  config.SetAttention(Talking({.P_l = true, .P_w = true, .P_Ml = true}));
  Begin(config);
  std::filesystem::remove(In() + "/operative_config.gin");
  const auto relu = FeedForwardKind::kRelu;
  Refused({"dynamic: is needed", "logits_dynamic_0"}, {.feed_forward = relu});
  Refused({"dynamic", "Xl and Ml"}, {.feed_forward = relu, .dynamic = "Xl and Ml"});
  Refused({"dynamic: is needed"}, {.feed_forward = relu, .dynamic = "Xl,Ml"});
  Import({.feed_forward = relu, .dynamic = "Ml"});
  EXPECT_TRUE(Imported().encoder_self.mixing.P_Ml);
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
  EXPECT_TRUE(OpenModel(dir_ / "other").model->AttentionPlaces()[2].config.mixing.P_Xl);
  Configure(own, "");
  for (const char* stack : {"encoder/", "decoder/"}) {
    Configure(StrCat(stack, "TalkingHeadsSelfAttention.dynamic_projections"), "");
  }
  Configure("TalkingHeadsSelfAttention.dynamic_projections", "['m2l']");
  Import();
  EXPECT_EQ(Imported().ToJson(), config.ToJson());

  Begin();
  Configure("SelfAttention.fold_scaling_into_initializer", "False");
  for (const char* stack : {"encoder/", "decoder/"}) {
    Configure(StrCat(stack, "SelfAttention.fold_scaling_into_initializer"), "True");
  }
  Configure("decoder/EncDecAttention.fold_scaling_into_initializer", "False");
  Refused({"decoder/EncDecAttention.fold_scaling_into_initializer"});
  Configure("decoder/EncDecAttention.fold_scaling_into_initializer", "");
  Import();
}

// Heads that talk as the identity, added to a T5 without, are written as talking heads.
TEST_F(ForgedMeshTest, AnImportWithAddedHeadsIsWrittenUnderTheirNames) {
  Begin();
  ImportModel(In(), dir_ / "model", {.attention = {AttentionKind::kTalking}});
  ExportMesh(OpenModel(dir_ / "model"), dir_ / "out");
  const std::map<std::string, Tensor> tensors = TensorsIn(MeshFolder(dir_ / "out", {}));
  EXPECT_EQ(tensors.at("encoder/block_000/layer_000/TalkingHeadsSelfAttention/logits/kernel").ToVector<float>(),
            (std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(tensors.at("encoder/block_000/layer_000/TalkingHeadsSelfAttention/q/kernel").ToVector<float>(),
            tensors_.at("encoder/block_000/layer_000/SelfAttention/q").ToVector<float>());
}

// T5 1.0 has a bias that nothing reads: it is kept and written again. Its norms have the older names.
TEST_F(ForgedMeshTest, OlderNamesAndAnUnusedBiasComeBack) {
  Begin();
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
  const ImportResult result = Import();
  EXPECT_NE(result.remarks[0].find("1 tensors of its optimizer"), std::string::npos) << result.remarks[0];
  ExportMesh(OpenModel(dir_ / "model"), dir_ / "out");
  ExpectSameTensors(MeshFolder(In(), {}), MeshFolder(dir_ / "out", {}));
}

TEST_F(ForgedMeshTest, TheCheckpointIsFoundInItsFolderAlone) {
  Begin();
  for (const std::string& path : {In(), In() + "/", In() + "/model.ckpt-12", In() + "/model.ckpt-12.index"}) {
    EXPECT_TRUE(IsMeshCheckpoint(path)) << path;
    EXPECT_EQ(MeshFolder(path, {}).path(), In()) << path;
  }
  EXPECT_FALSE(IsMeshCheckpoint(In() + "/model.ckpt-13"));
  EXPECT_FALSE(IsMeshCheckpoint(dir_.path()));
  const auto named = [&](const std::string& line) { PutFile(In() + "/checkpoint", line); };
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

}  // namespace crosstalk::folder_test
