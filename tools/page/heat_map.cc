#include "tools/page/heat_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/png.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"
#include "tools/page/axis.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

// Names beside a map are a line of text apart at least.
constexpr double kLabelPixels = 15;
constexpr double kMapPixels = 320, kLeastCell = 2, kMostCell = 22;

std::vector<std::string> Names(const std::vector<std::string>& given, const std::string& of, int64_t count) {
  std::vector<std::string> names = given;
  for (auto i = static_cast<int64_t>(names.size()); i < count; ++i) names.push_back(StrCat(of, " ", i + 1));
  return names;
}

using Palette = std::array<PaletteColour, 256>;

// Colours 0 to 254 of one sign, or -127 to 127 as 0 to 254.
Palette MakePalette(bool diverging) {
  constexpr PaletteColour kPositive = {26, 95, 180, 0}, kNegative = {200, 76, 12, 0};
  Palette palette{};
  for (int i = 0; i < 256; ++i) {
    const int level = std::min(i, 254);
    const bool negative = diverging && level < 127;
    PaletteColour colour = negative ? kNegative : kPositive;
    const double size = diverging ? std::abs(level - 127) / 127.0 : level / 254.0;
    colour.alpha = static_cast<uint8_t>(std::lround(255 * size));
    palette[static_cast<size_t>(i)] = colour;
  }
  return palette;
}

uint8_t LevelOf(double value, double most, bool diverging) {
  const double share = most > 0 && std::isfinite(value) ? std::clamp(value / most, diverging ? -1.0 : 0.0, 1.0) : 0;
  return static_cast<uint8_t>(std::lround(diverging ? 127 + 127 * share : 254 * share));
}

std::string PrecisePercent(double share) { return FixedText(100 * share, 3) + "%"; }

// Every so many-th label, so that each has room.
int64_t Every(double cell) { return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(kLabelPixels / cell))); }

std::string Labels(const std::vector<std::string>& names, const std::vector<std::string>& given, double cell,
                   bool rows) {
  const auto count = static_cast<int64_t>(names.size());
  const auto shown = [&](int64_t i) { return given.empty() ? StrCat(i + 1) : names[static_cast<size_t>(i)]; };
  std::string html, longest;
  for (int64_t i = 0; i < count; i += Every(cell)) {
    const std::string text = shown(i);
    if (text.size() > longest.size()) longest = text;
    html += StrCat("<span style=\"",
                   rows ? "top:" : "left:", PrecisePercent((static_cast<double>(i) + 0.5) / static_cast<double>(count)),
                   "\">", EscapeHtml(text), "</span>");
  }
  return html + StrCat("<span class=\"", rows ? "wide-tick" : "high-tick", "\">", EscapeHtml(longest), "</span>");
}

std::string JsonList(const std::vector<std::string>& names) {
  Json list = Json::MakeArray();
  for (const std::string& name : names) list.Append(name);
  return list.Dump();
}

std::string ExactTable(const HeatMapOptions& options, const std::vector<std::string>& rows,
                       const std::vector<std::string>& columns, std::span<const float> values) {
  std::vector<std::string> header = {""};
  header.insert(header.end(), columns.begin(), columns.end());
  std::vector<std::vector<TableCell>> cells;
  for (size_t row = 0; row < rows.size(); ++row) {
    std::vector<TableCell> line = {rows[row]};
    for (size_t column = 0; column < columns.size(); ++column) {
      line.push_back(FixedText(static_cast<double>(values[row * columns.size() + column]), 3));
    }
    cells.push_back(std::move(line));
  }
  return StrCat("<details><summary>Values as a table</summary>\n", HtmlTable(header, cells, {.caption = options.title}),
                "</details>\n");
}

}  // namespace

std::string HeatMap(const HeatMapOptions& options, int64_t rows, int64_t columns, std::span<const float> values) {
  CROSSTALK_CHECK(rows > 0 && columns > 0 && static_cast<size_t>(rows * columns) == values.size(),
                  "heat map: ", values.size(), " values are not ", rows, " by ", columns);
  double most = options.most;
  int64_t not_finite = 0;
  float least = values[0], largest = values[0];
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++not_finite;
      continue;
    }
    if (options.most == 0) most = std::max(most, std::abs(static_cast<double>(value)));
    least = std::isfinite(least) ? std::min(least, value) : value;
    largest = std::isfinite(largest) ? std::max(largest, value) : value;
  }
  std::string pixels;
  for (const float value : values) {
    pixels += static_cast<char>(LevelOf(static_cast<double>(value), most, options.diverging));
  }
  const std::string image = EncodePng(columns, rows, {reinterpret_cast<const uint8_t*>(pixels.data()), pixels.size()},
                                      MakePalette(options.diverging));
  const std::vector<std::string> row_names = Names(options.row_labels, options.row_name, rows);
  const std::vector<std::string> column_names = Names(options.column_labels, options.column_name, columns);
  const double cell = options.cell_pixels > 0 ? options.cell_pixels
                                              : std::clamp(kMapPixels / static_cast<double>(std::max(rows, columns)),
                                                           kLeastCell, kMostCell);
  const bool exact = rows * columns <= options.most_exact;
  std::string list;
  if (exact) {
    for (const float value : values) list += (list.empty() ? "" : " ") + ShortNumber(static_cast<double>(value));
  }
  const std::string range =
      StrCat(ShortNumber(static_cast<double>(least)), " to ", ShortNumber(static_cast<double>(largest)),
             not_finite > 0 ? StrCat(", ", not_finite, " not finite") : "");
  const bool upright = !options.column_labels.empty() || columns > 99;
  return StrCat(
      "<figure class=\"heat\">\n<figcaption>", EscapeHtml(options.title), "</figcaption>\n<p class=\"readout\">",
      EscapeHtml(range), "</p>\n<div class=\"frame\">\n<div class=\"rows\" aria-hidden=\"true\">",
      Labels(row_names, options.row_labels, cell, true),
      "</div>\n<div class=\"cells\" tabindex=\"0\" role=\"group\" style=\"--w:",
      FixedText(cell * static_cast<double>(columns), 1), "px;--ratio:", columns, "/", rows, "\" data-rows=\"", rows,
      "\" data-columns=\"", columns, "\" data-most=\"", ShortNumber(most), "\" data-row-names=\"",
      EscapeHtml(JsonList(row_names)), "\" data-column-names=\"", EscapeHtml(JsonList(column_names)), "\"",
      exact ? StrCat(" data-values=\"", list, "\"") : "", " aria-label=\"", EscapeHtml(options.title), "\"><img alt=\"",
      EscapeHtml(StrCat("Heat map of ", options.title, ", ", rows, " by ", columns, ", from ", range)),
      "\" src=\"data:image/png;base64,", EncodeBase64(image), "\"></div>\n<div class=\"columns",
      upright ? " upright" : "", "\" aria-hidden=\"true\">", Labels(column_names, options.column_labels, cell, false),
      "</div>\n</div>\n", exact ? ExactTable(options, row_names, column_names, values) : "", "</figure>\n");
}

namespace {

constexpr char kStyle[] =
#include "embedded/tools/page/maps.css.inc"
    ;
constexpr char kMapsScript[] =
#include "embedded/tools/page/maps.js.inc"
    ;

constexpr const char* kTensors[] = {"J", "L", "W", "U"};
// In the order in which they are given up.
constexpr size_t kLeastWanted = 2;
// Then heads of a layer are, down to so many; what is larger even then is a large page.
constexpr int64_t kLeastHeads = 16;

// A value becomes a byte: 0 … 254 from the least to the largest value of its head, 255 where it is no number. Pairs
// that are masked have none.
constexpr int kImageLevels = 254;
constexpr uint8_t kNoNumber = 255;

// Of each pair of L[h, n, m], whether it is masked, to which all heads agree.
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
    double least = 0, largest = 0;
    bool any = false;
    for (size_t i = 0; i < masked.size(); ++i) {
      if (masked[i] || !std::isfinite(own[i])) continue;
      least = any ? std::min(least, own[i]) : own[i];
      largest = any ? std::max(largest, own[i]) : own[i];
      any = true;
    }
    const double range = largest > least ? largest - least : 1;
    for (size_t i = 0; i < masked.size(); ++i) {
      if (masked[i]) continue;
      const uint8_t level = std::isfinite(own[i])
                                ? static_cast<uint8_t>(std::lround((own[i] - least) / range * kImageLevels))
                                : kNoNumber;
      bytes += static_cast<char>(level);
    }
    low.Append(static_cast<double>(static_cast<float>(least)));
    high.Append(static_cast<double>(static_cast<float>(largest)));
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

int64_t BytesOf(const AttentionMaps& maps, int64_t most_heads, const std::string& tensor) {
  int64_t bytes = 0;
  for (const LayerMap& map : maps.layers) {
    const Tensor* const values = map.Find(tensor);
    const Tensor* const logits = map.Find("L");
    if (values == nullptr || logits == nullptr) continue;
    const std::vector<bool> masked = MaskOf(*logits);
    const int64_t pairs = std::count(masked.begin(), masked.end(), false);
    bytes += (std::min(values->size(0), most_heads) * pairs + 2) / 3 * 4;
  }
  return bytes;
}

// The place of the first layer with these parameters; 0 where there is none.
int64_t FirstShown(const AttentionMaps& maps, const std::string& module) {
  const auto found =
      std::find_if(maps.layers.begin(), maps.layers.end(), [&](const LayerMap& map) { return map.module == module; });
  return found == maps.layers.end() ? 0 : found - maps.layers.begin();
}

constexpr char kMapsGuide[] =
    "<h3>How to read the maps</h3>\n<ul class=\"note\">\n"
    "<li>Rows are the tokens that ask, columns the tokens that they look at. Each row of W sums to 1.</li>\n"
    "<li>J against L: a head of L that resembles no head of J has been put together from several.</li>\n"
    "<li>W against U: U may be negative, and its rows need not sum to 1. Where P_w is close to a diagonal matrix, U "
    "looks as W does. A head of U that is dark where no head of W is has been made by subtraction.</li>\n"
    "<li>The colour is the sign, blue above zero and orange below; how strong it is, the size. L is coloured around "
    "the middle of its range, for to a softmax only differences count. Grey pairs are masked.</li>\n</ul>\n";

// Inside a script element nothing may look like its end.
std::string ScriptJson(const Json& json) {
  std::string text;
  for (const char c : json.Dump()) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

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

const char* TitleOf(const InspectedTokens& tokens) {
  return tokens.name == "decoder_input_ids" ? "What the decoder reads" : "What the model reads";
}

}  // namespace

MapsSection DrawMaps(const AttentionMaps& maps, const MapsOptions& options) {
  MapsSection section;
  int64_t most_heads = options.most_heads;
  std::vector<std::string> shown(std::begin(kTensors), std::end(kTensors));
  int64_t bytes = 0;
  for (const std::string& tensor : shown) bytes += BytesOf(maps, most_heads, tensor);
  while (bytes > options.most_bytes && shown.size() > kLeastWanted) {
    const int64_t own = BytesOf(maps, most_heads, shown.front());
    bytes -= own;
    if (own > 0) {
      section.left_out.push_back(StrCat(shown.front(), " is left out of the page, which has room for ",
                                        BytesText(options.most_bytes), " of maps: a shorter text leaves room for it"));
    }
    shown.erase(shown.begin());
  }
  while (bytes > options.most_bytes && most_heads > kLeastHeads) {
    --most_heads;
    bytes = 0;
    for (const std::string& tensor : shown) bytes += BytesOf(maps, most_heads, tensor);
  }
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
  int64_t most = 0;
  for (const LayerMap& map : maps.layers) {
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
  section.html = StrCat("<style>\n", kStyle, "</style>\n");
  for (const std::string& sentence : section.left_out) {
    section.html += StrCat("<p class=\"note\">", EscapeHtml(sentence), ".</p>\n");
  }
  section.html += StrCat(
      "<noscript><p class=\"notice\">The maps are drawn by this page's script, which is switched off.</p></noscript>\n"
      "<div id=\"map-view\" class=\"maps\"></div>\n<script type=\"application/json\" id=\"map-values\">",
      ScriptJson(Json::MakeObject({{"tokens", std::move(tokens)},
                                   {"layers", std::move(layers)},
                                   {"first", FirstShown(maps, options.first_module)},
                                   {"head", options.first_head}})),
      "</script>\n<script>\n", kMapsScript, "</script>\n", kMapsGuide);
  return section;
}

std::string TokenLists(const AttentionMaps& maps) {
  std::string html;
  for (const InspectedTokens& tokens : maps.tokens) {
    html += StrCat("<h3>", TitleOf(tokens), "</h3>\n<ol class=\"map-tokens\">");
    for (const std::string& text : tokens.texts) html += StrCat("<li>", EscapeHtml(Shown(text)), "</li>");
    html += "</ol>\n";
    if (tokens.name == "decoder_input_ids") {
      html +=
          "<p class=\"note\">At each position the decoder writes the next token: a row of its maps is the position "
          "at which it reads the token beside it.</p>\n";
    }
  }
  return html;
}

}  // namespace crosstalk
