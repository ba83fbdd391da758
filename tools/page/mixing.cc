#include "tools/page/mixing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "crosstalk/models/inspection/attention_maps.h"
#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/runtime/check.h"
#include "tools/cli/output.h"
#include "tools/page/axis.h"
#include "tools/page/figure.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

// One layer, as it began (null: not known) and as it is.
struct LayerPair {
  const LayerMixing* before;
  const LayerMixing* now;

  std::vector<const LayerMixing*> States() const {
    return before == nullptr ? std::vector{now} : std::vector{before, now};
  }
  const char* When(const LayerMixing* state, const char* start, const char* end) const {
    return before == nullptr ? "" : state == before ? start : end;
  }
};
using LayerPairs = std::vector<LayerPair>;

LayerPairs PairsOf(const RunMixing& mixing) {
  LayerPairs pairs;
  for (const LayerMixing& now : mixing.current.layers) {
    pairs.push_back({nullptr, &now});
    if (!mixing.initial) continue;
    for (const LayerMixing& one : mixing.initial->layers) {
      if (one.layer == now.layer) pairs.back().before = &one;
    }
  }
  return pairs;
}

// ---- Maps of matrices ----------------------------------------------------------------------------------------------

// What a heat map costs a page (tools/page/figure.h), and what all of them may.
constexpr double kBytesOfMap = 3000, kBytesOfCell = 1.4, kBytesOfExactCell = 55;
constexpr double kMostExactBytes = 1.2e6, kMostMapBytes = 2.5e6;

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

Drawing DrawingOf(const LayerPairs& pairs) {
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const LayerPair& pair : pairs) {
    for (const LayerMixing* state : pair.States()) {
      for (const DrawnMatrix& one : DrawnOf(*state)) shapes.emplace_back(one.values.size(0), one.values.size(1));
    }
  }
  const auto maps = static_cast<double>(shapes.size());
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
  for (int64_t first = 0; first < heads && block > 1; first += block) {
    labels.push_back(StrCat(first + 1, "–", std::min(first + block, heads)));
  }
  return labels;
}

HeatMap MapOf(const DrawnMatrix& matrix, const char* when, const Drawing& drawing) {
  const Tensor shown = BlockMeans(matrix.values, drawing.block).To(DType::kFloat32);
  const int64_t rows = shown.size(0), columns = shown.size(1);
  return {.title = matrix.name + when,
          .row_labels = BlockLabels(matrix.values.size(0), drawing.block),
          .column_labels = BlockLabels(matrix.values.size(1), drawing.block),
          .row_name = matrix.of_logits ? "key head" : "softmax head",
          .column_name = matrix.of_weights ? "value head" : "softmax head",
          .diverging = true,
          .cell_pixels = std::clamp(210 / static_cast<double>(std::max(rows, columns)), 1.5, 32.0),
          .most_exact = drawing.exact ? 1024 : 0,
          .rows = rows,
          .columns = columns,
          .values = shown.ToVector<float>()};
}

std::string SingularValues(const LayerPair& pair) {
  LineChart chart = {.title = "Singular values", .x_label = "number", .y_from_zero = true, .most_points = 300};
  bool drawn = false;
  for (const char* name : {"P_l", "P_w", "P_l·P_w"}) {
    for (const LayerMixing* state : pair.States()) {
      const MixingMatrix* const matrix = state->Find(name);
      if (matrix == nullptr || matrix->analysis.singular_values.empty()) continue;
      Series one = {StrCat(name, pair.When(state, ", start", ", end")), {}, matrix->analysis.singular_values};
      for (size_t i = 0; i < one.y.size(); ++i) one.x.push_back(static_cast<double>(i + 1));
      drawn = drawn || one.y.size() > 1;
      chart.series.push_back(std::move(one));
    }
  }
  return drawn ? Figure(chart).Html() : "";
}

std::string LayerMaps(const LayerPair& pair, const Drawing& drawing) {
  std::vector<std::vector<HeatMap>> maps;
  for (const LayerMixing* state : pair.States()) {
    maps.emplace_back();
    for (const DrawnMatrix& one : DrawnOf(*state)) {
      maps.back().push_back(MapOf(one, pair.When(state, " at the start", " at the end"), drawing));
    }
  }
  std::string html;
  for (std::vector<HeatMap>& row : maps) {
    html += "<div>";
    for (size_t i = 0; i < row.size(); ++i) {
      // Start and end of a matrix have one scale.
      for (const std::vector<HeatMap>& other : maps) {
        for (const float value : i < other.size() ? other[i].values : std::vector<float>()) {
          if (std::isfinite(value)) row[i].most = std::max<double>(row[i].most, std::abs(value));
        }
      }
      html += Figure(row[i]).Html();
    }
    html += "</div>\n";
  }
  return html + SingularValues(pair);
}

// ---- Numbers -------------------------------------------------------------------------------------------------------

std::string StartToEnd(const std::string& start, const std::string& end) {
  return start.empty() ? end : StrCat(start, "\u00A0→ ", end);
}

std::string OptionalText(const std::optional<double>& value) { return value ? ShortNumber(*value) : ""; }

// |det|, also where a double cannot hold it.
std::string DeterminantText(const MatrixAnalysis& analysis) {
  if (!analysis.determinant) return "";
  const bool held = *analysis.determinant > 0 && std::isfinite(*analysis.determinant);
  if (held || !std::isfinite(*analysis.log_determinant)) return ShortNumber(*analysis.determinant);
  return StrCat("10^", std::llround(*analysis.log_determinant / std::log(10.0)));
}

std::string ShareText(const std::optional<double>& share) { return share ? FixedText(100 * *share, 1) + " %" : ""; }

struct MatrixPair {
  std::string layer;
  const MixingMatrix* before;  // null: not known
  const MixingMatrix* now;
};

// Quantities that some matrix has: at the end, or from the start to the end.
std::string NumbersTable(const LayerPairs& pairs, const char* when) {
  std::vector<MatrixPair> rows;
  for (const LayerPair& pair : pairs) {
    for (const MixingMatrix& now : pair.now->matrices) {
      rows.push_back({pair.now->layer, pair.before == nullptr ? nullptr : pair.before->Find(now.name), &now});
    }
  }
  using M = const MatrixPair&;
  using A = const MatrixAnalysis&;
  Columns<MatrixPair> columns = {
      {"", "layer", &MatrixPair::layer},
      {"", "matrix", [](M one) { return one.now->name; }},
      {"", "size", [](M one) { return StrCat(one.now->analysis.rows, "\u00A0×\u00A0", one.now->analysis.columns); }},
      {"", "share by chance",
       [](M one) { return ShareText(ShareByChance(one.now->analysis.rows, one.now->analysis.columns)); }}};
  const auto largest = [](A a) { return a.singular_values.empty() ? "" : ShortNumber(a.singular_values.front()); };
  const auto smallest = [](A a) { return a.singular_values.empty() ? "" : ShortNumber(a.singular_values.back()); };
  const std::pair<const char*, std::function<std::string(A)>> quantities[] = {
      {"|det|", DeterminantText},
      {"smallest |λ|", [](A a) { return OptionalText(a.smallest_eigenvalue); }},
      {"off-diagonal share", [](A a) { return ShareText(a.off_diagonal_share); }},
      {"largest σ", largest},
      {"smallest σ", smallest}};
  for (const auto& [name, text] : quantities) {
    const auto has = [&text = text](M one) { return !text(one.now->analysis).empty(); };
    if (std::none_of(rows.begin(), rows.end(), has)) continue;
    columns.push_back({"", StrCat(name, when), [text = text](M one) {
                         return StartToEnd(one.before == nullptr ? "" : text(one.before->analysis),
                                           text(one.now->analysis));
                       }});
  }
  return HtmlTable(columns, rows, "The static projections in numbers");
}

std::string DynamicTable(const LayerPairs& pairs, const char* when, Precision measured_in) {
  TextTable table{{"layer", "projection", "parameters", StrCat("generated", when), StrCat("spread over tokens", when),
                   "static one beside it"},
                  {}};
  for (const LayerPair& pair : pairs) {
    for (size_t i = 0; i < pair.now->dynamic.size(); ++i) {
      const DynamicMixing& now = pair.now->dynamic[i];
      const DynamicMixing* const before =
          pair.before == nullptr || i >= pair.before->dynamic.size() ? nullptr : &pair.before->dynamic[i];
      const auto text = [&](const std::optional<double> DynamicMixing::*number) {
        return StartToEnd(before == nullptr ? "" : OptionalText(before->*number), OptionalText(now.*number));
      };
      const MixingMatrix* const beside = pair.now->Find(now.beside);
      table.rows.push_back({pair.now->layer, "R_" + now.name, ShortNumber(now.parameters),
                            text(&DynamicMixing::generated), text(&DynamicMixing::spread),
                            now.beside == "I"   ? "I"
                            : beside == nullptr ? ""
                                                : ShortNumber(beside->analysis.root_mean_square)});
    }
  }
  if (table.rows.empty()) return "";
  return Subheading("Dynamic projections") +
         Paragraph(StrCat("Root mean squares: of the parameters that generate R_Xl and its like, of these matrices for "
                          "each token, in ",
                          Name(measured_in),
                          ", of their differences from their mean over all tokens, and of the static matrix that they "
                          "are added to (I where J or W itself is). A spread as large as what is generated: each token "
                          "mixes the heads in its own way; a small one: the mean, which is drawn above, could be "
                          "learnt as a static matrix.")) +
         HtmlTable(table, "Sizes of the dynamic projections");
}

// ---- Differential attention and filters ----------------------------------------------------------------------------

// A picture of a filter takes some 2 kB of the page, a cell of the table of λ some 40 bytes.
constexpr int64_t kMostPictures = 250;
constexpr size_t kMostLambdas = 64;

// "0.42, 0.51 ± 0.03": λ of each head; ± its standard deviation over tokens.
std::string LambdaText(const LayerMixing* layer) {
  if (layer == nullptr || !layer->differential) return "";
  const DifferentialMixing& differential = *layer->differential;
  std::string text;
  for (size_t head = 0; head < std::min(differential.lambda.size(), kMostLambdas); ++head) {
    text += StrCat(head == 0 ? "" : ", ", FixedText(differential.lambda[head], 3));
    if (head < differential.spread.size()) text += StrCat("\u00A0±\u00A0", FixedText(differential.spread[head], 3));
  }
  return text + (kMostLambdas < differential.lambda.size() ? ", …" : "");
}

std::string DifferentialTable(const LayerPairs& pairs, Precision measured_in) {
  TextTable table{{"layer", "λ"}, {}};
  bool of_tokens = false;
  for (const LayerPair& pair : pairs) {
    if (!pair.now->differential) continue;
    of_tokens = of_tokens || pair.now->differential->of_tokens;
    std::vector<std::string>& row = table.rows.emplace_back(1, pair.now->layer);
    if (const std::string start = LambdaText(pair.before); !start.empty()) {
      row.push_back(start);
      table.header = {"layer", "λ, start", "λ, end"};
    }
    row.push_back(LambdaText(pair.now));
  }
  if (table.rows.empty()) return "";
  return Subheading("λ of differential attention") +
         Paragraph(StrCat("A head's weights are those of its first softmax minus λ times those of its second: near 0 "
                          "the second one is not heard, near 1 what both attend to is cancelled. ",
                          of_tokens ? StrCat("λ is a function of the query: its mean over tokens ± its standard "
                                             "deviation, in ",
                                             Name(measured_in), ", head by head.")
                                    : "All heads of a layer share one.")) +
         HtmlTable(table, "λ of each layer");
}

// filter[c_q, c_k] of a head. Rows and columns are numbered from the own query and key.
HeatMap Picture(const HeadFilter& filter, int64_t head) {
  HeatMap map = {.title = StrCat(filter.name, ", head ", head + 1),
                 .diverging = true,
                 .most_exact = 0,
                 .rows = filter.values.size(0),
                 .columns = filter.values.size(1)};
  for (int64_t a = 0; a < map.rows; ++a) map.row_labels.push_back(StrCat(a - (map.rows - 1)));
  for (int64_t k = 0; k < map.columns; ++k) map.column_labels.push_back(StrCat(k - filter.own_key));
  map.cell_pixels = std::clamp(120.0 / static_cast<double>(std::max(map.rows, map.columns)), 1.5, 16.0);
  map.values = filter.values.Select(2, head).To(DType::kFloat32).Contiguous().ToVector<float>();
  return map;
}

// The filters as they are: at most about 0.5 MB of pictures, of the first heads if there are more.
std::string FilterPictures(const LayerPairs& pairs) {
  int64_t filters = 0, most_heads = 0;
  for (const LayerPair& pair : pairs) {
    filters += std::ssize(pair.now->filters);
    for (const HeadFilter& filter : pair.now->filters) most_heads = std::max(most_heads, filter.values.size(2));
  }
  if (filters == 0) return "";
  const int64_t shown = std::clamp<int64_t>(kMostPictures / filters, 1, most_heads);
  std::string html =
      Subheading("Filters over queries and keys") +
      Paragraph(
          "θ[query, key] of each head, counted from the own ones: a dot at (0, 0) alone is a head that reads no "
          "neighbour, a row or a diagonal one that looks for several tokens together. Elsewhere: the share of Σ θ² "
          "that is not at (0, 0).");
  if (shown < most_heads) html += Note(StrCat("Of each filter the first ", shown, " heads are drawn."));
  TextTable table{{"layer", "filter", "elsewhere, least of the heads", "most"}, {}};
  for (const LayerPair& pair : pairs) {
    std::string pictures;
    const Unfolded unfolded = table.rows.empty() ? Unfolded::kYes : Unfolded::kNo;
    for (const HeadFilter& filter : pair.now->filters) {
      pictures += "<div>";
      for (int64_t head = 0; head < std::min(shown, filter.values.size(2)); ++head) {
        pictures += Figure(Picture(filter, head)).Html();
      }
      pictures += "</div>\n";
      const auto [least, most] = std::minmax_element(filter.elsewhere.begin(), filter.elsewhere.end());
      table.rows.push_back({pair.now->layer, filter.name, ShareText(*least), ShareText(*most)});
    }
    if (!pictures.empty()) html += Details(pair.now->layer, pictures, unfolded);
  }
  return html + HtmlTable(table, "How far the filters read beside their own query and key");
}

}  // namespace

std::string MixingSection(const RunMixing& mixing) {
  if (mixing.current.layers.empty()) return "";
  const LayerPairs pairs = PairsOf(mixing);
  const Drawing drawing = DrawingOf(pairs);
  const char* const when = mixing.initial ? ", start → end" : "";
  const std::string& now = mixing.current.label;
  std::string html =
      Paragraph(mixing.initial              ? StrCat("Start: ", mixing.initial->label, ". End: ", now, ".")
                : mixing.no_initial.empty() ? now + "."
                                            : StrCat(now, ". The start is not shown: ", mixing.no_initial, "."));
  const auto is_static = [](const LayerPair& pair) { return !pair.now->matrices.empty(); };
  if (std::any_of(pairs.begin(), pairs.end(), is_static)) {
    html += Paragraph(
        "P_l[key head, softmax head] mixes the logits of the heads before the softmax, P_w[softmax head, value head] "
        "the weights after it; P_l·P_w is their product without it. Heads that do not talk have a diagonal matrix. "
        "The off-diagonal share is 1 − Σ aᵢᵢ² / Σ aᵢⱼ², beside that of a matrix whose entries are all of one size; "
        "λ are eigenvalues, σ singular values. A matrix that is not square has no determinant and no eigenvalue.");
    if (const std::string reason = AnalysisUnavailable(); !reason.empty()) {
      html += Note(StrCat("Determinants, eigenvalues and singular values are unavailable here: ", reason, "."));
    }
    const auto left_out = std::count_if(pairs.begin(), pairs.end(), [](const LayerPair& pair) {
      const std::vector<MixingMatrix>& all = pair.now->matrices;
      return std::any_of(all.begin(), all.end(), [](const MixingMatrix& one) { return one.analysis.left_out; });
    });
    if (left_out > 0) {
      html += Note(StrCat("Of ", left_out, " of ", pairs.size(),
                          " layers there are no determinants, eigenvalues and singular values: of matrices of so many "
                          "heads they take long. crosstalk inspect computes those of up to 2,048 heads."));
    }
  }
  std::string maps;
  for (const LayerPair& pair : pairs) {
    if (DrawnOf(*pair.now).empty()) continue;
    maps += Details(pair.now->layer, LayerMaps(pair, drawing), maps.empty() ? Unfolded::kYes : Unfolded::kNo);
  }
  if (!maps.empty()) {
    if (drawing.block > 1) {
      html += Note(StrCat("The matrices are large: each cell is the mean of a block of ", drawing.block, " × ",
                          drawing.block, " values. The numbers are of the whole matrices."));
    }
    html += Note("Blue is above zero, orange below; both maps of a matrix have one scale.") + maps;
  }
  html += NumbersTable(pairs, when) + DynamicTable(pairs, when, mixing.measured_in) +
          DifferentialTable(pairs, mixing.measured_in) + FilterPictures(pairs);
  if (mixing.not_measured.empty()) return html;
  return html + Note(StrCat("What depends on tokens was not measured: ", mixing.not_measured, "."));
}

}  // namespace crosstalk
