#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "crosstalk/models/inputs.h"
#include "crosstalk/models/inspection/attention_maps.h"
#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"
#include "tools/page/figure.h"
#include "tools/page/mixing.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

constexpr int64_t kSentenceTokens = 20;
constexpr double kSentenceMapPixels = 150;

std::string Percent(double share) { return FixedText(100 * share, share < 0.0995 ? 1 : 0) + "\u00A0%"; }

// The text's beginning, at word ends where it has any, in at most kSentenceTokens tokens.
std::string Beginning(const Tokenizer& tokenizer, std::string text) {
  for (auto tokens = std::ssize(tokenizer.Encode(text)); tokens > kSentenceTokens;
       tokens = std::ssize(tokenizer.Encode(text))) {
    size_t end = text.size() * static_cast<size_t>(kSentenceTokens) / static_cast<size_t>(tokens);
    if (const size_t space = text.find_last_of(" \n", end); space != std::string::npos && space > 0) end = space;
    while (end > 0 && IsUtf8Continuation(text[end])) --end;
    text.resize(end);
  }
  return text;
}

// values[n, m] of a head. To a softmax only differences between a query's logits count: `centred` takes off each row's
// mean. What is masked in `logits` is 0.
std::vector<float> ShownOf(const Tensor& tensor, int64_t head, const Tensor& logits, bool centred) {
  std::vector<float> values = tensor.Select(0, head).To(DType::kFloat32).Contiguous().ToVector<float>();
  // A mask hides a pair from all heads.
  const std::vector<float> mask = logits.Select(0, 0).To(DType::kFloat32).Contiguous().ToVector<float>();
  const auto columns = static_cast<size_t>(tensor.size(2));
  for (size_t row = 0; row < values.size(); row += columns) {
    float sum = 0, count = 0;
    for (size_t i = row; i < row + columns; ++i) {
      if (!std::isfinite(mask[i])) continue;
      sum += values[i];
      ++count;
    }
    for (size_t i = row; i < row + columns; ++i) {
      values[i] = !std::isfinite(mask[i]) ? 0 : centred ? values[i] - sum / count : values[i];
    }
  }
  return values;
}

// J of the head and of the one it hears most, L, W and U; with P_w alone W of both, and U.
std::string Maps(const MixedHead& mixed, const std::string& layer, const AttentionMaps& maps) {
  const auto map = std::find_if(maps.layers.begin(), maps.layers.end(),
                                [&](const LayerMap& one) { return one.module == layer && one.Find("L") != nullptr; });
  if (map == maps.layers.end()) return "";
  std::string html;
  const auto draw = [&](const std::string& arrow, const std::string& name, int64_t head) {
    const Tensor* const tensor = map->Find(name);
    if (tensor == nullptr || head >= tensor->size(0)) return;
    const int64_t n = tensor->size(1), m = tensor->size(2);
    html += Figure(HeatMap{.title = StrCat(arrow, name, " of head ", head + 1),
                           .row_labels = maps.tokens[map->queries].texts,
                           .column_labels = maps.tokens[map->memory].texts,
                           .diverging = name != "W",
                           .cell_pixels = kSentenceMapPixels / static_cast<double>(std::max(n, m)),
                           .most_exact = 0,
                           .rows = n,
                           .columns = m,
                           .values = ShownOf(*tensor, head, *map->Find("L"), name == "J" || name == "L")})
                .Html();
  };
  const std::string first = mixed.matrix == "P_l" ? "J" : "W";
  draw("", first, mixed.head);
  draw("", first, mixed.heard);
  if (first == "J") {
    draw("→ ", "L", mixed.head);
    draw("→ ", "W", mixed.head);
  }
  draw("→ ", "U", mixed.head);
  return StrCat("<div class=\"side-by-side\">\n", html, "</div>\n");
}

constexpr char kGuide[] =
    "Down are the tokens that ask, across the tokens that they look at. J are the dot products of a "
    "head's queries and keys. P_l mixes the J of all heads into L. The softmax makes the weights W of L, and P_w mixes "
    "the W of all heads into U, which weighs the values. Blue is above zero, orange below. J and L are shown less each "
    "row's mean, for to a softmax only differences count. Where L differs from the head's own J, it has learnt "
    "something from the others.";

}  // namespace

std::string CrossingText(const RunMixing& mixing) {
  const std::vector<LayerMixing>& layers = mixing.current.layers;
  const std::optional<Crossing> now = MeanCrossing(layers);
  if (!now) return "";
  const std::optional<Crossing> start =
      MeanCrossing(mixing.initial ? mixing.initial->layers : std::vector<LayerMixing>());
  std::string text =
      StrCat(Percent(now->share), " of the mixing of heads (P_l·P_w, by squared entries) lies off its diagonal, ",
             start ? StrCat(Percent(start->share), " at the start") : "mean over layers",
             ".\nAt 0\u00A0% each head uses only itself, at ", Percent(now->by_chance), " it uses all heads alike.");
  if (const std::optional<MixedHead> mixed = MostMixedHead(layers)) {
    text += StrCat(" The most mixed layer is ", layers[mixed->layer].layer, ", with ",
                   Percent(CrossingOf(layers[mixed->layer])->share), ": its head ", mixed->head + 1, " is ",
                   FixedText(mixed->own, 2), " × itself + ", FixedText(mixed->other, 2), " × head ", mixed->heard + 1,
                   " + smaller parts of others.");
  }
  return text;
}

std::string WhatMixingDoes(const RunMixing& mixing, const Model& model,
                           const std::shared_ptr<const Tokenizer>& tokenizer, const std::string& text) {
  const std::string sentences = CrossingText(mixing);
  if (sentences.empty()) return "";
  const std::string html = Paragraph(sentences);
  const std::optional<MixedHead> mixed = MostMixedHead(mixing.current.layers);
  if (!mixed || tokenizer == nullptr || text.empty()) return html;
  try {  // a model may have no room for so many tokens
    const Batch inputs = ReadText(model, tokenizer, {.text = Beginning(*tokenizer, text)});
    const std::string maps =
        Maps(*mixed, mixing.current.layers[mixed->layer].layer, MapAttention(model, *tokenizer, inputs));
    return maps.empty() ? html : html + Note(kGuide) + maps;
  } catch (const Error& error) {
    return html + Note(StrCat("No maps of a sentence: ", error.what()));
  }
}

}  // namespace crosstalk
