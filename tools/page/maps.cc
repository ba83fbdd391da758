#include "tools/page/maps.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"
#include "tools/page/figure.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

// In the order in which they are given up, except the last two; then heads of a layer are, down to kLeastHeads. What is
// larger even then is a large page.
constexpr const char* kTensors[] = {"J", "L", "W", "U"};
constexpr size_t kLeastWanted = 2;
constexpr int64_t kLeastHeads = 16;

// A value becomes a byte: 0 … 254 from the least to the largest value of its head, 255 where it is no number. Masked
// pairs have none.
constexpr int kImageLevels = 254;
constexpr uint8_t kNoNumber = 255;

// Whether each pair of L[h, n, m] is masked: to that all heads agree.
std::vector<bool> MaskOf(const Tensor& logits) {
  const int64_t heads = logits.size(0), pairs = logits.size(1) * logits.size(2);
  const std::vector<double> values = logits.To(DType::kFloat64).Contiguous().ToVector<double>();
  std::vector<bool> masked(static_cast<size_t>(pairs), true);
  for (int64_t i = 0; i < heads * pairs; ++i) {
    if (std::isfinite(values[static_cast<size_t>(i)])) masked[static_cast<size_t>(i % pairs)] = false;
  }
  return masked;
}

// A bit a pair, the lowest of a byte first; "" where nothing is masked.
std::string EncodedMask(const std::vector<bool>& masked) {
  if (std::find(masked.begin(), masked.end(), true) == masked.end()) return "";
  std::string bytes((masked.size() + 7) / 8, '\0');
  for (size_t i = 0; i < masked.size(); ++i) {
    if (masked[i]) bytes[i / 8] = static_cast<char>(bytes[i / 8] | 1 << i % 8);
  }
  return EncodeBase64(bytes);
}

// {"heads", "shown", "low": […], "high": […], "data"} of [heads, n, m].
Json Encoded(const Tensor& values, const std::vector<bool>& masked, int64_t most_heads) {
  const int64_t heads = values.size(0), shown = std::min(heads, most_heads);
  const Tensor numbers = values.To(DType::kFloat64).Contiguous();
  Json low = Json::MakeArray(), high = Json::MakeArray();
  std::string bytes;
  for (int64_t head = 0; head < shown; ++head) {
    const double* const own = numbers.data<double>() + head * static_cast<int64_t>(masked.size());
    Range range;
    for (size_t i = 0; i < masked.size(); ++i) {
      if (!masked[i]) range.Take(own[i]);
    }
    if (range.empty()) range.low = range.high = 0;
    const double length = range.high > range.low ? range.high - range.low : 1;
    for (size_t i = 0; i < masked.size(); ++i) {
      if (masked[i]) continue;
      bytes += static_cast<char>(std::isfinite(own[i]) ? std::lround((own[i] - range.low) / length * kImageLevels)
                                                       : kNoNumber);
    }
    low.Append(static_cast<double>(static_cast<float>(range.low)));
    high.Append(static_cast<double>(static_cast<float>(range.high)));
  }
  return Json::MakeObject({{"heads", heads},
                           {"shown", shown},
                           {"low", std::move(low)},
                           {"high", std::move(high)},
                           {"data", EncodeBase64(bytes)}});
}

// "encoder.block_2.self_attention" is the third layer of "Encoder self-attention"; of a model with one stack that is
// "Self-attention".
std::string GroupOf(const std::string& layer, bool one_stack) {
  const std::string stack = layer.substr(0, layer.find('.'));
  if (layer.ends_with("cross_attention")) return "Encoder-decoder attention";
  if (one_stack || stack == layer) return "Self-attention";
  return stack == "encoder" ? "Encoder self-attention" : "Decoder self-attention";
}

std::string NumberOf(const std::string& layer) {
  constexpr std::string_view kBlock = "block_";
  const size_t at = layer.find(kBlock);
  if (at == std::string::npos) return layer;
  return StrCat(std::strtol(layer.c_str() + at + kBlock.size(), nullptr, 10) + 1);
}

int64_t BytesOf(const AttentionMaps& maps, int64_t most_heads, const std::vector<std::string>& tensors) {
  int64_t bytes = 0;
  for (const LayerMap& map : maps.layers) {
    const Tensor* const logits = map.Find("L");
    if (logits == nullptr) continue;
    const std::vector<bool> masked = MaskOf(*logits);
    const int64_t pairs = std::count(masked.begin(), masked.end(), false);
    for (const std::string& tensor : tensors) {
      const Tensor* const values = map.Find(tensor);
      if (values != nullptr) bytes += (std::min(values->size(0), most_heads) * pairs + 2) / 3 * 4;
    }
  }
  return bytes;
}

constexpr char kMapsGuide[] =
    "<h3>How to read the maps</h3>\n<ul class=\"note\">\n"
    "<li>Rows are the tokens that ask, columns the tokens that they look at. Each row of W sums to 1.</li>\n"
    "<li>J against L: a head of L that resembles no head of J has been put together from several.</li>\n"
    "<li>W against U: U may be negative, and its rows need not sum to 1. Where P_w is close to a diagonal matrix, U "
    "looks as W does. A head of U that is dark where no head of W is has been made by subtraction.</li>\n"
    "<li>The colour is the sign, blue above zero and orange below; how strong it is, the size. L is coloured around "
    "the middle of its range, for to a softmax only differences count. Grey pairs are masked.</li>\n</ul>\n";

// As it is shown: text that is not UTF-8 or would control a page's layout made visible.
std::string Shown(const std::string& token) {
  std::string text;
  for (const char c : ReplaceInvalidUtf8(token)) {
    if (c == '\n') {
      text += "↵";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      text += "\uFFFD";
    } else {
      text += c == ' ' ? "␣" : std::string(1, c);
    }
  }
  return text.empty() ? "∅" : text;
}

}  // namespace

MapsSection DrawMaps(const AttentionMaps& maps, const MapsOptions& options) {
  MapsSection section;
  int64_t most_heads = options.most_heads;
  std::vector<std::string> shown(std::begin(kTensors), std::end(kTensors));
  int64_t bytes = BytesOf(maps, most_heads, shown);
  while (bytes > options.most_bytes && shown.size() > kLeastWanted) {
    const std::string tensor = shown.front();
    shown.erase(shown.begin());
    const int64_t rest = BytesOf(maps, most_heads, shown);
    if (rest < bytes) {
      section.left_out.push_back(StrCat(tensor, " is left out of the page, which has room for ",
                                        BytesText(options.most_bytes), " of maps: a shorter text leaves room for it"));
    }
    bytes = rest;
  }
  while (bytes > options.most_bytes && most_heads > kLeastHeads) bytes = BytesOf(maps, --most_heads, shown);
  if (bytes > options.most_bytes) {
    section.left_out.push_back(
        StrCat("the maps take ", BytesText(bytes), ", which may be slow to open: a shorter text takes less"));
  }

  const bool one_stack = maps.tokens.size() == 1;
  Json tokens = Json::MakeArray(), layers = Json::MakeArray();
  for (const InspectedTokens& one : maps.tokens) {
    Json texts = Json::MakeArray();
    for (const std::string& text : one.texts) texts.Append(Shown(text));
    tokens.Append(std::move(texts));
  }
  int64_t most = 0, first = -1;
  for (size_t i = 0; i < maps.layers.size(); ++i) {
    const LayerMap& map = maps.layers[i];
    if (first < 0 && map.module == options.first_module) first = static_cast<int64_t>(i);
    Json tensors = Json::MakeObject();
    const Tensor* const logits = map.Find("L");
    const std::vector<bool> masked = logits == nullptr ? std::vector<bool>() : MaskOf(*logits);
    for (const std::string& name : shown) {
      const Tensor* const values = map.Find(name);
      if (values == nullptr || logits == nullptr) continue;
      most = std::max(most, values->size(0));
      tensors.Set(name, Encoded(*values, masked, most_heads));
    }
    layers.Append(Json::MakeObject({{"group", GroupOf(map.layer, one_stack)},
                                    {"number", NumberOf(map.layer)},
                                    {"layer", map.layer},
                                    {"module", map.module},
                                    {"queries", static_cast<int64_t>(map.queries)},
                                    {"memory", static_cast<int64_t>(map.memory)},
                                    {"masked", EncodedMask(masked)},
                                    {"tensors", std::move(tensors)}}));
  }
  if (most > most_heads) {
    section.left_out.push_back(
        StrCat("of up to ", most, " heads of a layer the first ", most_heads, " are in the page"));
  }
  for (const std::string& sentence : section.left_out) section.html += Note(sentence + ".");
  section.html += StrCat(
      "<noscript><p class=\"notice\">The maps are drawn by this page's script, which is switched off.</p>"
      "</noscript>\n<div id=\"map-view\" class=\"maps\"></div>\n",
      RecordScript(Json::MakeObject({{"tokens", std::move(tokens)},
                                     {"layers", std::move(layers)},
                                     {"first", std::max<int64_t>(0, first)},
                                     {"head", options.first_head}}),
                   "map-values"),
      kMapsGuide);
  return section;
}

std::string TokenLists(const AttentionMaps& maps) {
  std::string html;
  for (const InspectedTokens& tokens : maps.tokens) {
    const bool written = tokens.name == "decoder_input_ids";
    html += Subheading(written ? "What the decoder reads" : "What the model reads") + "<ol class=\"map-tokens\">";
    for (const std::string& text : tokens.texts) html += StrCat("<li>", EscapeHtml(Shown(text)), "</li>");
    html += "</ol>\n";
    if (!written) continue;
    html += Note(
        "At each position the decoder writes the next token: a row of its maps is the position at which it reads the "
        "token beside it.");
  }
  return html;
}

}  // namespace crosstalk
