// `crosstalk inspect`: the pages and tensors of every model of the registry. tests/sessions/inspect.session has the
// rest.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "crosstalk/models/inspection/attention_maps.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"
#include "tools/page/maps.h"
#include "tools/page/mixing.h"

namespace crosstalk {
namespace inspect_test {

using testing::Contains;

constexpr char kText[] = "a cat <b>sat</b> & ___";
// A page, with scripts and styles, in which all values stand.
constexpr size_t kMostBytes = 5'000'000;

class InspectModelTest : public ::testing::TestWithParam<std::string> {};

// The weights of the page's tensors are those that `forward --all` computes of the same ids.
TEST_P(InspectModelTest, MapsOfATextAreWrittenWithTheModelsOwnWeights) {
  const TempDir dir;
  const bool decodes = GetParam() == "t5";
  Succeeded(RunCommand(TinyTrain(
      {"--model", GetParam(), "--out", dir / "run", "--steps", "2", "--layers", "2", "--input-length", "40"})));
  Succeeded(RunCommand(
      {"inspect", dir / "run", "--text", kText, "--out", dir / "maps.html", "--tensors", dir / "maps.safetensors"}));
  const std::string page = ReadBytes(dir / "maps.html");
  EXPECT_LT(page.size(), kMostBytes);
  EXPECT_TRUE(Contains(page, "id=\"map-values\""));
  EXPECT_TRUE(Contains(page, "P_l·P_w"));

  const TensorFile maps = ReadSafetensors(dir / "maps.safetensors");
  std::vector<NamedTensor> inputs;
  for (const char* name : {"input_ids", "decoder_input_ids"}) {
    const Tensor* const ids = maps.Find(name);
    if (ids != nullptr) inputs.push_back({name, ids->Reshape({1, ids->num_elements()})});
  }
  ASSERT_EQ(inputs.size(), decodes ? 2u : 1u);
  WriteSafetensors(dir / "inputs.safetensors", inputs);
  Succeeded(RunCommand(
      {"forward", dir / "run", "--inputs", dir / "inputs.safetensors", "--output", dir / "outputs", "--all"}));
  const TensorFile outputs = ReadSafetensors(dir / "outputs");
  const std::string stack = maps.Find("encoder.block_1.self_attention.W") != nullptr ? "encoder" : "decoder";
  std::vector<std::pair<std::string, std::string>> same = {
      {stack + ".block_1.self_attention.W", decodes ? "encoder_attentions.1" : "attentions.1"}};
  if (decodes) {
    same.emplace_back("decoder.block_1.self_attention.W", "decoder_attentions.1");
    same.emplace_back("decoder.block_0.cross_attention.W", "cross_attentions.0");
  }
  for (const auto& [ours, published] : same) {
    const Tensor expected = outputs.At(published).Select(0, 0);
    ASSERT_EQ(maps.At(ours).shape(), expected.shape()) << ours;
    EXPECT_EQ(maps.At(ours).ToVector<float>(), expected.ToVector<float>()) << ours;
  }
  EXPECT_NE(maps.Find(stack + ".block_0.self_attention.J"), nullptr);
  EXPECT_NE(maps.Find(stack + ".block_0.self_attention.U"), nullptr);

  // Without a text there are the projections, at the start and at the end.
  const CommandResult done = Succeeded(RunCommand({"inspect", dir / "run", "--out", dir / "page.html", "--json"}));
  const Json json = ParseJson(done.output, "inspect");
  EXPECT_EQ(json.At("projections").AsArray().size(), decodes                  ? 6u
                                                     : GetParam() == "albert" ? 1u
                                                                              : 2u);  // an ALBERT's layers share theirs
  EXPECT_EQ(json.At("initial_projections").AsArray().size(), json.At("projections").AsArray().size());
  EXPECT_TRUE(Contains(ReadBytes(dir / "page.html"), "initial values, seed 1"));
  EXPECT_FALSE(Contains(ReadBytes(dir / "page.html"), "id=\"map-values\""));
  EXPECT_TRUE(Contains(ReadBytes(dir / "run/report.html"), "initial values, seed 1"));
}

std::vector<std::string> Models() {
  std::vector<std::string> names;
  for (const ModelType& type : ModelTypes()) names.emplace_back(type.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Models, InspectModelTest, ::testing::ValuesIn(Models()),
                         [](const auto& one) { return one.param; });

// ---- What stands in the page --------------------------------------------------------------------------------------

AttentionMaps Maps(int64_t layers, int64_t heads, int64_t n) {
  AttentionMaps maps;
  InspectedTokens tokens = {"input_ids", std::vector<int32_t>(static_cast<size_t>(n), 5), {}};
  tokens.texts.assign(static_cast<size_t>(n), "</script><img src=x onerror=alert(1)>");
  maps.tokens = {tokens};
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string name = "encoder.block_" + std::to_string(layer) + ".self_attention";
    LayerMap map = {.layer = name, .module = name, .queries = 0, .memory = 0};
    for (const char* tensor : {"J", "L", "W", "U"}) {
      map.tensors.push_back({tensor, Tensor::Full({heads, n, n}, 0.5, DType::kFloat32)});
    }
    maps.layers.push_back(std::move(map));
  }
  return maps;
}

std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t at = text.find(begin);
  EXPECT_NE(at, std::string::npos);
  return text.substr(at + begin.size(), text.find(end, at) - at - begin.size());
}

Json ValuesOf(const MapsSection& section) {
  return ParseJson(Between(section.html, "id=\"map-values\">", "</script>"), "values");
}

TEST(MapsSectionTest, TokensCannotEndTheScriptNorBecomeElements) {
  const AttentionMaps maps = Maps(1, 2, 3);
  const MapsSection section = DrawMaps(maps, {});
  EXPECT_FALSE(Contains(section.html, "<img"));
  EXPECT_EQ(ValuesOf(section).At("tokens").AsArray()[0].AsArray()[0].AsString(),
            "</script><img␣src=x␣onerror=alert(1)>");
  EXPECT_FALSE(Contains(TokenLists(maps), "<img"));
}

TEST(MapsSectionTest, ValuesAreWithinAHalfOfA254thOfTheirRangeAndMaskedOnesAreMarked) {
  AttentionMaps maps = Maps(1, 2, 3);
  // The last memory position is masked; -infinity in one head alone is no number of it.
  const std::vector<float> logits = {-3, 1,         -INFINITY, 0.25f, 0.5f, -INFINITY, 7, 2, -INFINITY,  //
                                     1,  -INFINITY, -INFINITY, 1,     1,    -INFINITY, 1, 1, -INFINITY};
  maps.layers[0].tensors[1].tensor = Tensor::FromValues<float>({2, 3, 3}, logits);
  const Json layer = ValuesOf(DrawMaps(maps, {})).At("layers").AsArray()[0];
  const std::string bits = *DecodeBase64(layer.At("masked").AsString());
  ASSERT_EQ(bits.size(), 2u);
  const Json& L = layer.At("tensors").At("L");
  const std::string bytes = *DecodeBase64(L.At("data").AsString());
  size_t at = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const size_t pair = i % 9;
    const bool masked = static_cast<unsigned char>(bits[pair / 8]) >> pair % 8 & 1;
    ASSERT_EQ(masked, pair % 3 == 2) << i;
    if (masked) continue;
    ASSERT_LT(at, bytes.size());
    const auto level = static_cast<unsigned char>(bytes[at++]);
    ASSERT_EQ(level == 255, std::isinf(logits[i])) << i;
    if (level == 255) continue;
    const double low = L.At("low").AsArray()[i / 9].AsDouble(), high = L.At("high").AsArray()[i / 9].AsDouble();
    EXPECT_NEAR(low + level / 254.0 * (high - low), logits[i], (high - low) / 254 / 2 + 1e-6) << i;
  }
  EXPECT_EQ(at, bytes.size());
  EXPECT_EQ(DecodeBase64(layer.At("tensors").At("W").At("data").AsString())->size(), bytes.size());
}

// T5 of three stacks of 6 layers with 24 heads, as far as a text may be long by default; and many heads.
TEST(MapsSectionTest, ALargeModelStaysWithinThePageAndSaysWhatIsLeftOut) {
  AttentionMaps maps = Maps(18, 24, 64);
  Tensor causal = Tensor::Full({24, 64, 64}, 0.5, DType::kFloat32);
  for (int64_t i = 0; i < 24 * 64 * 64; ++i) {
    if (i % 64 > i / 64 % 64) causal.data<float>()[i] = -INFINITY;
  }
  for (size_t layer = 12; layer < 18; ++layer) maps.layers[layer].tensors[1].tensor = causal;
  const MapsSection section = DrawMaps(maps, {}), cut = DrawMaps(Maps(12, 100, 64), {});
  EXPECT_LT(section.html.size(), kMostBytes);
  EXPECT_EQ(section.left_out.size(), 2u);  // J and L, of all heads
  const Json tensors = ValuesOf(section).At("layers").AsArray()[17].At("tensors");
  EXPECT_EQ(tensors.Find("J"), nullptr);
  EXPECT_NE(tensors.Find("W"), nullptr);
  EXPECT_NE(tensors.Find("U"), nullptr);
  EXPECT_TRUE(DrawMaps(Maps(6, 24, 40), {}).left_out.empty());
  EXPECT_LT(cut.html.size(), kMostBytes);
  EXPECT_EQ(cut.left_out.size(), 3u);
  const MapsSection first = DrawMaps(Maps(1, 768, 4), {});  // of many heads the first are shown
  ASSERT_EQ(first.left_out.size(), 1u);
  EXPECT_TRUE(Contains(first.left_out[0], "768"));
  const Json W = ValuesOf(first).At("layers").AsArray()[0].At("tensors").At("W");
  EXPECT_EQ(W.At("heads").AsInt(), 768);
  EXPECT_EQ(W.At("low").AsArray().size(), 64u);
}

TEST(MapsSectionTest, OpensOnTheHeadThatIsAskedForAndHasItsReadingGuide) {
  const AttentionMaps maps = Maps(3, 4, 5);
  const MapsSection section = DrawMaps(maps, {.first_module = "encoder.block_2.self_attention", .first_head = 3});
  EXPECT_EQ(ValuesOf(section).At("first").AsInt(), 2);
  EXPECT_EQ(ValuesOf(section).At("head").AsInt(), 3);
  EXPECT_EQ(ValuesOf(DrawMaps(maps, {.first_module = "elsewhere"})).At("first").AsInt(), 0);
  EXPECT_TRUE(Contains(section.html, "How to read the maps"));
}

// Table 7's largest: 768 heads in 12 layers.
TEST(MixingSectionTest, MatricesOf768HeadsAreDrawnOfBlocksWithinThePage) {
  RunMixing mixing;
  mixing.current.label = "step 7";
  for (int64_t layer = 0; layer < 12; ++layer) {
    LayerMixing one = {"encoder.block_" + std::to_string(layer) + ".self_attention", {}, {}, {}, {}};
    for (const char* name : {"P_l", "P_w", "P_l·P_w"}) {
      one.matrices.push_back({name, Tensor::Full({768, 768}, 0.5, DType::kFloat64), {.rows = 768, .columns = 768}});
    }
    mixing.current.layers.push_back(std::move(one));
  }
  for (MixingMatrix& matrix : mixing.current.layers[11].matrices) matrix.analysis.left_out = true;
  mixing.initial = mixing.current;
  const std::string html = MixingSection(mixing);
  EXPECT_LT(html.size(), 3'500'000u);
  EXPECT_TRUE(Contains(html, "Of 1 of 12 layers there are no determinants"));
  EXPECT_TRUE(Contains(html, "the mean of a block of"));
}

// 24 heads in each of 24 layers.
TEST(MixingSectionTest, OfManyFiltersThoseOfTheFirstHeadsAreDrawn) {
  RunMixing mixing;
  for (int64_t layer = 0; layer < 24; ++layer) {
    LayerMixing one = {"decoder.block_" + std::to_string(layer) + ".self_attention", {}, {}, {}, {}};
    for (const char* name : {"conv_l", "conv_w"}) {
      one.filters.push_back({name, Tensor::Zeros({6, 11, 24}, DType::kFloat64), 5, std::vector<double>(24, 0.25)});
    }
    mixing.current.layers.push_back(std::move(one));
  }
  const std::string html = MixingSection(mixing);
  EXPECT_LT(html.size(), 1'000'000u);
  EXPECT_TRUE(Contains(html, "Of each filter the first 5 heads are drawn."));
  EXPECT_TRUE(Contains(html, "25.0 %"));
}

TEST(MixingSectionTest, SaysWhyThereIsNoStartAndWhatWasNotMeasured) {
  RunMixing mixing;
  mixing.current = {"step <7>", {{"encoder.block_0.self_attention", {}, {{"Xl", "P_l", 0.125}}, {}, {}}}};
  mixing.no_initial = "the origin & its weights are gone";
  mixing.not_measured = "the text is lost";
  const std::string html = MixingSection(mixing);
  for (const char* part : {"step &lt;7&gt;", "the origin &amp; its weights are gone", "the text is lost", "0.125"}) {
    EXPECT_TRUE(Contains(html, part)) << part;
  }
  EXPECT_EQ(MixingSection({}), "");
}

TEST(MixingSectionTest, ADeterminantThatADoubleCannotHoldIsAPowerOfTen) {
  RunMixing mixing;
  MixingMatrix matrix = {"P_l", Tensor::Full({2, 2}, 0.5, DType::kFloat64), {.rows = 2, .columns = 2}};
  matrix.analysis.determinant = 0;
  matrix.analysis.log_determinant = -400 * std::log(10.0);
  mixing.current.layers = {{"encoder", {matrix}, {}, {}, {}}};
  EXPECT_TRUE(Contains(MixingSection(mixing), "10^-400"));
}

}  // namespace inspect_test
}  // namespace crosstalk
