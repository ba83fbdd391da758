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
#include "tools/page/heat_map.h"
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
std::vector<float> MapOf(const Tensor& tensor, int64_t head, const Tensor& logits, bool centred) {
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

std::string Figure(const std::string& title, const LayerMap& map, const AttentionMaps& maps, const std::string& name,
                   int64_t head) {
  const Tensor* const tensor = map.Find(name);
  if (tensor == nullptr || head >= tensor->size(0)) return "";
  const bool logits = name == "J" || name == "L";
  HeatMapOptions options;
  options.title = title;
  options.row_labels = maps.tokens[map.queries].texts;
  options.column_labels = maps.tokens[map.memory].texts;
  options.diverging = name != "W";
  options.cell_pixels = kSentenceMapPixels / static_cast<double>(std::max(tensor->size(1), tensor->size(2)));
  options.most_exact = 0;
  return HeatMap(options, tensor->size(1), tensor->size(2), MapOf(*tensor, head, *map.Find("L"), logits));
}

// J of the head and of the one it hears most, L, W and U.
std::string Maps(const MixedHead& mixed, const std::string& layer, const AttentionMaps& maps) {
  const auto map = std::find_if(maps.layers.begin(), maps.layers.end(),
                                [&](const LayerMap& one) { return one.module == layer && one.Find("L") != nullptr; });
  if (map == maps.layers.end()) return "";
  const std::string own = StrCat(mixed.head + 1), heard = StrCat(mixed.heard + 1);
  const auto figure = [&](const std::string& title, const char* name, int64_t head) {
    return Figure(title, *map, maps, name, head);
  };
  std::string html = "<div class=\"side-by-side\">\n";
  if (mixed.matrix == "P_l") {
    html += figure("J of head " + own, "J", mixed.head) + figure("J of head " + heard, "J", mixed.heard) +
            figure("→ L of head " + own, "L", mixed.head) + figure("→ W of head " + own, "W", mixed.head);
  } else {
    html += figure("W of head " + own, "W", mixed.head) + figure("W of head " + heard, "W", mixed.heard);
  }
  return html + figure("→ U of head " + own, "U", mixed.head) + "</div>\n";
}

constexpr char kGuide[] =
    "<p class=\"note\">Down are the tokens that ask, across the tokens that they look at. J are the dot products of a "
    "head's queries and keys. P_l mixes the J of all heads into L. The softmax makes the weights W of L, and P_w mixes "
    "the W of all heads into U, which weighs the values. Blue is above zero, orange below. J and L are shown less each "
    "row's mean, for to a softmax only differences count. Where L differs from the head's own J, it has learnt "
    "something from the others.</p>\n";

}  // namespace

std::string CrossingText(const RunMixing& mixing) {
  const std::vector<LayerMixing>& layers = mixing.current.layers;
  const std::optional<Crossing> now = MeanCrossing(layers);
  if (!now) return "";
  const std::string share = Percent(now->share), chance = Percent(now->by_chance);
  const std::optional<Crossing> start =
      MeanCrossing(mixing.initial ? mixing.initial->layers : std::vector<LayerMixing>());
  const double began = start.value_or(Crossing{-1, 0}).share;  // -1: not known
  std::string text = began == 0 ? StrCat("The heads began separate; now ", share, " of what they say crosses to others")
                                : StrCat(share, " of what the heads say crosses to others");
  if (began > 0) text += StrCat(", and ", Percent(began), " did at the start");
  text += StrCat(". Matrices of equal entries would have ", chance, ".");
  if (const std::optional<MixedHead> mixed = MostMixedHead(layers)) {
    text += StrCat(" The most mixed layer is ", layers[mixed->layer].layer, ", with ",
                   Percent(CrossingOf(layers[mixed->layer])->share), ". There head ", mixed->head + 1, " takes ",
                   FixedText(mixed->own, 2), " of itself and ", FixedText(mixed->other, 2), " of head ",
                   mixed->heard + 1, ", which it hears most.");
  }
  return text;
}

std::string WhatMixingDoes(const RunMixing& mixing, const Model& model,
                           const std::shared_ptr<const Tokenizer>& tokenizer, const std::string& text) {
  const std::string sentences = CrossingText(mixing);
  if (sentences.empty()) return "";
  std::string html = StrCat("<p>", EscapeHtml(sentences), "</p>\n");
  const std::optional<MixedHead> mixed = MostMixedHead(mixing.current.layers);
  if (!mixed || tokenizer == nullptr || text.empty()) return html;
  try {  // a model may have no room for so many tokens
    const Batch inputs = ReadText(model, tokenizer, {.text = Beginning(*tokenizer, text)});
    const std::string maps =
        Maps(*mixed, mixing.current.layers[mixed->layer].layer, MapAttention(model, *tokenizer, inputs));
    return maps.empty() ? html : html + kGuide + maps;
  } catch (const Error& error) {
    return html + StrCat("<p class=\"note\">No maps of a sentence: ", EscapeHtml(error.what()), "</p>\n");
  }
}

}  // namespace crosstalk
