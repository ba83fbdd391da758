#include "tools/page/mixing_family.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "crosstalk/runtime/check.h"
#include "tools/cli/format.h"
#include "tools/page/axis.h"
#include "tools/page/heat_map.h"
#include "tools/page/page.h"
#include "tools/page/table.h"

namespace crosstalk {
namespace {

// A picture of a filter takes some 2 kB of the page, a cell of the table of λ some 40 bytes.
constexpr int64_t kMostPictures = 250, kMostLambdas = 64;

// "0.42, 0.51 ± 0.03": λ of each head, and of tokens its standard deviation.
std::string LambdaText(const LayerMixing* layer) {
  if (layer == nullptr || !layer->differential) return "";
  const DifferentialMixing& differential = *layer->differential;
  const size_t shown = std::min(differential.lambda.size(), static_cast<size_t>(kMostLambdas));
  std::string text;
  for (size_t head = 0; head < shown; ++head) {
    text += StrCat(head == 0 ? "" : ", ", FixedText(differential.lambda[head], 3));
    if (head < differential.spread.size()) text += StrCat("\u00A0±\u00A0", FixedText(differential.spread[head], 3));
  }
  return text + (shown < differential.lambda.size() ? ", …" : "");
}

// filter[c_q, c_k] of a head. Rows and columns are numbered from the own query and key.
std::string Picture(const HeadFilter& filter, int64_t head) {
  const int64_t queries = filter.values.size(0), keys = filter.values.size(1);
  HeatMapOptions options;
  options.title = StrCat(filter.name, ", head ", head + 1);
  options.row_name = "query";
  options.column_name = "key";
  for (int64_t a = 0; a < queries; ++a) options.row_labels.push_back(StrCat(a - (queries - 1)));
  for (int64_t k = 0; k < keys; ++k) options.column_labels.push_back(StrCat(k - filter.own_key));
  options.diverging = true;
  options.cell_pixels = std::clamp(120.0 / static_cast<double>(std::max(queries, keys)), 1.5, 16.0);
  options.most_exact = 0;
  const Tensor values = filter.values.Select(2, head).To(DType::kFloat32).Contiguous();
  return HeatMap(options, queries, keys, values.ToVector<float>());
}

}  // namespace

std::string DifferentialTable(const std::vector<LayerPair>& pairs, Precision measured_in) {
  std::vector<std::vector<TableCell>> rows;
  bool has_start = false, of_tokens = false;
  for (const LayerPair& pair : pairs) {
    if (!pair.now->differential) continue;
    const std::string start = LambdaText(pair.before), end = LambdaText(pair.now);
    has_start = has_start || !start.empty();
    of_tokens = of_tokens || pair.now->differential->of_tokens;
    rows.push_back({pair.now->layer, end});
    if (!start.empty()) rows.back().insert(rows.back().begin() + 1, TableCell(start));
  }
  if (rows.empty()) return "";
  const std::vector<std::string> header =
      has_start ? std::vector<std::string>{"layer", "λ, start", "λ, end"} : std::vector<std::string>{"layer", "λ"};
  return StrCat(
      "<h3>λ of differential attention</h3>\n<p>A head's weights are those of its first softmax minus λ times "
      "those of its second: near 0 the second one is not heard, near 1 what both attend to is cancelled.",
      of_tokens ? StrCat(" λ is a function of the query: its mean over tokens ± its standard deviation, in ",
                         Name(measured_in), ", head by head.")
                : " All heads of a layer share one.",
      "</p>\n", HtmlTable(header, rows, {.caption = "λ of each layer"}));
}

std::string FilterPictures(const std::vector<LayerPair>& pairs) {
  int64_t filters = 0, most_heads = 0;
  for (const LayerPair& pair : pairs) {
    for (const HeadFilter& filter : pair.now->filters) {
      ++filters;
      most_heads = std::max(most_heads, filter.values.size(2));
    }
  }
  if (filters == 0) return "";
  const int64_t shown = std::clamp<int64_t>(kMostPictures / filters, 1, most_heads);
  std::string html =
      "<h3>Filters over queries and keys</h3>\n<p>θ[query, key] of each head, counted from the own ones: a dot at (0, "
      "0) "
      "alone is a head that reads no neighbour, a row or a diagonal one that looks for several tokens together. "
      "Elsewhere: the share of Σ θ² that is not at (0, 0).</p>\n";
  if (shown < most_heads)
    html += StrCat("<p class=\"note\">Of each filter the first ", shown, " heads are drawn.</p>\n");
  std::vector<std::vector<TableCell>> rows;
  bool open = true;
  for (const LayerPair& pair : pairs) {
    if (pair.now->filters.empty()) continue;
    html += StrCat("<details class=\"mixing\"", open ? " open" : "", "><summary>", EscapeHtml(pair.now->layer),
                   "</summary>\n");
    for (const HeadFilter& filter : pair.now->filters) {
      html += "<div>";
      for (int64_t head = 0; head < std::min(shown, filter.values.size(2)); ++head) html += Picture(filter, head);
      html += "</div>\n";
      const auto [least, most] = std::minmax_element(filter.elsewhere.begin(), filter.elsewhere.end());
      const auto percent = [](double share) { return FixedText(100 * share, 1) + " %"; };
      rows.push_back({pair.now->layer, filter.name, percent(*least), percent(*most)});
    }
    html += "</details>\n";
    open = false;
  }
  return html + HtmlTable({"layer", "filter", "elsewhere, least of the heads", "most"}, rows,
                          {.caption = "How far the filters read beside their own query and key"});
}

}  // namespace crosstalk
