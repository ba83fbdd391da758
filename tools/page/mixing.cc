#include "tools/page/mixing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

#include "crosstalk/models/inspection/attention_maps.h"
#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/runtime/check.h"
#include "tools/cli/output.h"
#include "tools/page/axis.h"
#include "tools/page/chart.h"
#include "tools/page/heat_map.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

// One layer, as it began (null: not known) and as it is.
struct LayerPair {
  const LayerMixing* before;
  const LayerMixing* now;
};

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

// HTML, or "" where no layer has any.
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

// The filters as they are: at most about 0.5 MB of pictures, of the first heads where there are more.
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
      "0) alone is a head that reads no neighbour, a row or a diagonal one that looks for several tokens together. "
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

// What a heat map costs a page (tools/page/heat_map.h), and what all of them may.
constexpr double kBytesOfMap = 3000, kBytesOfCell = 1.4, kBytesOfExactCell = 55;
constexpr double kMostExactBytes = 1.2e6, kMostMapBytes = 2.5e6;

constexpr const char* kMatrixNames[] = {"P_l", "P_w", "P_l·P_w"};

// A matrix that is drawn.
struct DrawnMatrix {
  std::string name;
  Tensor values;
  bool of_logits = false, of_weights = false;  // which heads it mixes; both: P_l·P_w
};

// The static matrices, and the means of what the dynamic projections generate.
std::vector<DrawnMatrix> DrawnOf(const LayerMixing& layer) {
  std::vector<DrawnMatrix> drawn;
  for (const MixingMatrix& one : layer.matrices) {
    drawn.push_back({one.name, one.values, one.name != "P_w", one.name != "P_l"});
  }
  for (const DynamicMixing& one : layer.dynamic) {
    const bool of_logits = one.name.ends_with('l');
    if (one.mean.defined()) drawn.push_back({"mean of R_" + one.name, one.mean, of_logits, !of_logits});
  }
  return drawn;
}

// How the maps of all layers are drawn.
struct Drawing {
  int64_t block = 1;  // values a side that become one cell
  bool exact = true;
};

Drawing DrawingOf(const std::vector<LayerPair>& pairs) {
  double maps = 0;
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const LayerPair& pair : pairs) {
    for (const LayerMixing* layer : {pair.before, pair.now}) {
      if (layer == nullptr) continue;
      for (const DrawnMatrix& matrix : DrawnOf(*layer))
        shapes.emplace_back(matrix.values.size(0), matrix.values.size(1));
    }
  }
  maps = static_cast<double>(shapes.size());
  const auto cells = [&](int64_t block) {
    double sum = 0;
    for (const auto& [rows, columns] : shapes) {
      sum += static_cast<double>((rows + block - 1) / block) * static_cast<double>((columns + block - 1) / block);
    }
    return sum;
  };
  Drawing drawing;
  drawing.exact = maps * kBytesOfMap + cells(1) * kBytesOfExactCell <= kMostExactBytes;
  while (maps * kBytesOfMap + cells(drawing.block) * kBytesOfCell > kMostMapBytes && cells(drawing.block) > maps) {
    ++drawing.block;
  }
  return drawing;
}

std::vector<std::string> BlockLabels(int64_t heads, int64_t block) {
  std::vector<std::string> labels;
  if (block == 1) return labels;
  for (int64_t first = 0; first < heads; first += block) {
    labels.push_back(StrCat(first + 1, "–", std::min(first + block, heads)));
  }
  return labels;
}

// Of what is drawn of it.
double Largest(const DrawnMatrix& matrix, int64_t block) {
  double largest = 0;
  for (const double value : BlockMeans(matrix.values, block).ToVector<double>()) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

std::string Map(const DrawnMatrix& matrix, const std::string& when, double most, const Drawing& drawing) {
  HeatMapOptions options;
  options.title = matrix.name + when;
  options.row_name = matrix.of_logits ? "key head" : "softmax head";
  options.column_name = matrix.of_weights ? "value head" : "softmax head";
  options.row_labels = BlockLabels(matrix.values.size(0), drawing.block);
  options.column_labels = BlockLabels(matrix.values.size(1), drawing.block);
  options.diverging = true;
  options.most = most;
  options.most_exact = drawing.exact ? 1024 : 0;
  const Tensor shown = BlockMeans(matrix.values, drawing.block).To(DType::kFloat32);
  const auto side = static_cast<double>(std::max(shown.size(0), shown.size(1)));
  options.cell_pixels = std::clamp(210 / side, 1.5, 32.0);
  return HeatMap(options, shown.size(0), shown.size(1), shown.ToVector<float>());
}

std::string Number(const std::optional<double>& value) { return value ? ShortNumber(*value) : ""; }

// |det|, also where a double cannot hold it.
std::string DeterminantText(const MatrixAnalysis& analysis) {
  if (!analysis.determinant) return "";
  const bool held = *analysis.determinant > 0 && std::isfinite(*analysis.determinant);
  if (held || !std::isfinite(*analysis.log_determinant)) return ShortNumber(*analysis.determinant);
  return StrCat("10^", std::llround(*analysis.log_determinant / std::log(10.0)));
}

std::string ShareText(const std::optional<double>& share) { return share ? FixedText(100 * *share, 1) + " %" : ""; }

std::string LargestSingular(const MatrixAnalysis& analysis) {
  return analysis.singular_values.empty() ? "" : ShortNumber(analysis.singular_values.front());
}
std::string SmallestSingular(const MatrixAnalysis& analysis) {
  return analysis.singular_values.empty() ? "" : ShortNumber(analysis.singular_values.back());
}

struct Quantity {
  const char* name;
  std::string (*text)(const MatrixAnalysis&);
};
constexpr Quantity kQuantities[] = {
    {"|det|", DeterminantText},
    {"smallest |λ|", [](const MatrixAnalysis& a) { return Number(a.smallest_eigenvalue); }},
    {"off-diagonal share", [](const MatrixAnalysis& a) { return ShareText(a.off_diagonal_share); }},
    {"largest σ", LargestSingular},
    {"smallest σ", SmallestSingular},
};

// Of quantities that some matrix has: at the end, or from the start to the end.
std::string NumbersTable(const std::vector<LayerPair>& pairs, bool has_initial) {
  std::vector<std::string> header = {"layer", "matrix", "size", "share by chance"};
  std::vector<std::vector<TableCell>> rows;
  for (const LayerPair& pair : pairs) {
    for (const MixingMatrix& now : pair.now->matrices) {
      rows.push_back({pair.now->layer, now.name, StrCat(now.analysis.rows, "\u00A0×\u00A0", now.analysis.columns),
                      ShareText(ShareByChance(now.analysis.rows, now.analysis.columns))});
    }
  }
  for (const Quantity& quantity : kQuantities) {
    std::vector<std::string> column;
    bool any = false;
    for (const LayerPair& pair : pairs) {
      for (const MixingMatrix& now : pair.now->matrices) {
        const MixingMatrix* const before = pair.before == nullptr ? nullptr : pair.before->Find(now.name);
        const std::string start = before == nullptr ? "" : quantity.text(before->analysis);
        const std::string end = quantity.text(now.analysis);
        any = any || !end.empty();
        column.push_back(start.empty() ? end : StrCat(start, "\u00A0→ ", end));
      }
    }
    if (!any) continue;
    header.push_back(has_initial ? StrCat(quantity.name, ", start → end") : quantity.name);
    for (size_t row = 0; row < rows.size(); ++row) {
      // May break after the arrow: five such columns are wider than a page.
      rows[row].push_back(HtmlCell("<span class=\"pair\">" + EscapeHtml(column[row]) + "</span>"));
      rows[row].back().number = true;
    }
  }
  return HtmlTable(header, rows, {.caption = "The static projections in numbers"});
}

// A number of each dynamic projection: at the end, or from the start to the end.
std::string StartToEnd(const LayerPair& pair, size_t i, const std::optional<double> DynamicMixing::*number) {
  const std::string end = Number(pair.now->dynamic[i].*number);
  if (pair.before == nullptr || i >= pair.before->dynamic.size()) return end;
  const std::string start = Number(pair.before->dynamic[i].*number);
  return start.empty() ? end : StrCat(start, "\u00A0→ ", end);
}

std::string DynamicTable(const std::vector<LayerPair>& pairs, bool has_initial, Precision measured_in) {
  const char* const when = has_initial ? ", start → end" : "";
  const std::vector<std::string> header = {"layer",
                                           "projection",
                                           "parameters",
                                           StrCat("generated", when),
                                           StrCat("spread over tokens", when),
                                           "static one beside it"};
  std::vector<std::vector<TableCell>> rows;
  for (const LayerPair& pair : pairs) {
    for (size_t i = 0; i < pair.now->dynamic.size(); ++i) {
      const DynamicMixing& now = pair.now->dynamic[i];
      const MixingMatrix* const beside = pair.now->Find(now.beside);
      std::vector<TableCell> row = {pair.now->layer, "R_" + now.name, ShortNumber(now.parameters)};
      row.emplace_back(StartToEnd(pair, i, &DynamicMixing::generated));
      row.emplace_back(StartToEnd(pair, i, &DynamicMixing::spread));
      row.emplace_back(now.beside == "I"   ? "I"
                       : beside == nullptr ? ""
                                           : ShortNumber(beside->analysis.root_mean_square));
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty()) return "";
  return StrCat(
      "<h3>Dynamic projections</h3>\n<p>Root mean squares: of the parameters that generate R_Xl and its like, of these "
      "matrices for each token, in ",
      Name(measured_in),
      ", of their differences from their mean over all tokens, and of the static matrix that they are added to (I "
      "where J or W itself is). A spread as large as what is generated: each token mixes the heads in its own way; a "
      "small "
      "one: the mean, which is drawn above, could be learnt as a static matrix.</p>\n",
      HtmlTable(header, rows, {.caption = "Sizes of the dynamic projections"}));
}

std::string SingularValues(const LayerPair& pair) {
  std::vector<Series> series;
  for (const char* name : kMatrixNames) {
    for (const LayerMixing* layer : {pair.before, pair.now}) {
      const MixingMatrix* const matrix = layer == nullptr ? nullptr : layer->Find(name);
      if (matrix == nullptr || matrix->analysis.singular_values.empty()) continue;
      Series one;
      one.name = StrCat(name, pair.before == nullptr ? "" : layer == pair.before ? ", start" : ", end");
      one.y = matrix->analysis.singular_values;
      for (size_t i = 0; i < one.y.size(); ++i) one.x.push_back(static_cast<double>(i + 1));
      series.push_back(std::move(one));
    }
  }
  const bool drawn = std::any_of(series.begin(), series.end(), [](const Series& one) { return one.y.size() > 1; });
  if (!drawn) return "";
  return LineChart({.title = "Singular values", .x_label = "number", .y_from_zero = true, .most_points = 300}, series);
}

// The layers without numbers of LAPACK's are the last ones.
std::string LeftOutNote(const std::vector<LayerPair>& pairs) {
  const auto left_out = [](const LayerPair& pair) {
    return std::any_of(pair.now->matrices.begin(), pair.now->matrices.end(),
                       [](const MixingMatrix& matrix) { return matrix.analysis.left_out; });
  };
  const auto count = std::count_if(pairs.begin(), pairs.end(), left_out);
  if (count == 0) return "";
  return StrCat(
      "<p class=\"note\">Of ", count, " of ", pairs.size(), " layers there are no determinants, eigenvalues ",
      "and singular values: of matrices of so many heads they take long. crosstalk inspect computes those of ",
      "up to 2,048 heads.</p>\n");
}

std::string LayerDetails(const LayerPair& pair, const Drawing& drawing, bool open) {
  std::string html = StrCat("<details class=\"mixing\"", open ? " open" : "", "><summary>", EscapeHtml(pair.now->layer),
                            "</summary>\n");
  for (const LayerMixing* layer : {pair.before, pair.now}) {
    if (layer == nullptr) continue;
    html += "<div>";
    for (const DrawnMatrix& matrix : DrawnOf(*layer)) {
      double most = 0;
      for (const LayerMixing* other : {pair.before, pair.now}) {
        if (other == nullptr) continue;
        for (const DrawnMatrix& same : DrawnOf(*other)) {
          if (same.name == matrix.name) most = std::max(most, Largest(same, drawing.block));
        }
      }
      const char* const when = pair.before == nullptr ? "" : layer == pair.before ? " at the start" : " at the end";
      html += Map(matrix, when, most, drawing);
    }
    html += "</div>\n";
  }
  return html + SingularValues(pair) + "</details>\n";
}

std::vector<LayerPair> PairsOf(const RunMixing& mixing) {
  std::vector<LayerPair> pairs;
  for (const LayerMixing& now : mixing.current.layers) {
    const LayerMixing* before = nullptr;
    if (mixing.initial) {
      for (const LayerMixing& one : mixing.initial->layers) {
        if (one.layer == now.layer) before = &one;
      }
    }
    pairs.push_back({before, &now});
  }
  return pairs;
}

}  // namespace

std::string MixingSection(const RunMixing& mixing) {
  if (mixing.current.layers.empty()) return "";
  const std::vector<LayerPair> pairs = PairsOf(mixing);
  const Drawing drawing = DrawingOf(pairs);
  const bool has_static =
      std::any_of(pairs.begin(), pairs.end(), [](const LayerPair& pair) { return !pair.now->matrices.empty(); });
  const bool draws =
      std::any_of(pairs.begin(), pairs.end(), [](const LayerPair& pair) { return !DrawnOf(*pair.now).empty(); });
  std::string html;
  if (mixing.initial) {
    html +=
        StrCat("<p>Start: ", EscapeHtml(mixing.initial->label), ". End: ", EscapeHtml(mixing.current.label), ".</p>\n");
  } else {
    html += StrCat("<p>", EscapeHtml(mixing.current.label), ".",
                   mixing.no_initial.empty() ? "" : " The start is not shown: " + EscapeHtml(mixing.no_initial) + ".",
                   "</p>\n");
  }
  if (has_static) {
    html +=
        "<p>P_l[key head, softmax head] mixes the logits of the heads before the softmax, P_w[softmax head, value "
        "head] the weights after it; P_l·P_w is their product without it. Heads that do not talk have a diagonal "
        "matrix. The off-diagonal share is 1 − Σ a<sub>ii</sub>² / Σ a<sub>ij</sub>², beside that of a matrix whose "
        "entries are all of one size; λ are eigenvalues, σ singular values. A matrix that is not square has no "
        "determinant and no eigenvalue.</p>\n";
    if (const std::string reason = AnalysisUnavailable(); !reason.empty()) {
      html += StrCat("<p class=\"note\">Determinants, eigenvalues and singular values are unavailable here: ",
                     EscapeHtml(reason), ".</p>\n");
    }
    html += LeftOutNote(pairs);
  }
  if (draws) {
    if (drawing.block > 1) {
      html += StrCat("<p class=\"note\">The matrices are large: each cell is the mean of a block of ", drawing.block,
                     " × ", drawing.block, " values. The numbers are of the whole matrices.</p>\n");
    }
    html += "<p class=\"note\">Blue is above zero, orange below; both maps of a matrix have one scale.</p>\n";
    bool open = true;
    for (const LayerPair& pair : pairs) {
      if (DrawnOf(*pair.now).empty()) continue;
      html += LayerDetails(pair, drawing, open);
      open = false;
    }
  }
  if (has_static) html += NumbersTable(pairs, mixing.initial.has_value());
  html += DynamicTable(pairs, mixing.initial.has_value(), mixing.measured_in);
  html += DifferentialTable(pairs, mixing.measured_in);
  html += FilterPictures(pairs);
  if (!mixing.not_measured.empty()) {
    html += StrCat("<p class=\"note\">What depends on tokens was not measured: ", EscapeHtml(mixing.not_measured),
                   ".</p>\n");
  }
  return html;
}

}  // namespace crosstalk
