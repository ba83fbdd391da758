// What pages are made of: text that is escaped, curves that are thinned, axes, charts, tables, colours.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/messages.h"
#include "tests/support/png_reader.h"
#include "tools/page/axis.h"
#include "tools/page/figure.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace report_page_test {

using testing::Contains;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

TEST(EscapeHtmlTest, LeavesNothingThatHtmlWouldRead) {
  EXPECT_EQ(EscapeHtml("<a href=\"x\" id='y'>&amp;"), "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;");
  EXPECT_EQ(EscapeHtml("\u2581Tür\n\t"), "\u2581Tür\n\t");
  EXPECT_EQ(EscapeHtml(std::string("a\0b\x1b\x7f", 5)), "a\uFFFDb\uFFFD\uFFFD");
  EXPECT_EQ(EscapeHtml("\xff\xc3(\xc2\x85"), "\uFFFD\uFFFD(\uFFFD");
}

TEST(PageTest, EachSectionHasALineInTheContentsAndAnIdOfItsOwn) {
  Page page("a <b>");
  page.AddSection("Same name", "<p>1</p>");
  page.AddSection("Same name", "<p>2</p>");
  page.AddSection("…", "<p>3</p>");
  const std::string html = page.Html();
  EXPECT_TRUE(Contains(html, "<title>a &lt;b&gt;</title>"));
  for (const char* id : {"same-name", "same-name-2", "section"}) {
    EXPECT_EQ(Count(html, StrCat("<section id=\"", id, "\"")), 1U) << id;
    EXPECT_EQ(Count(html, StrCat("<a href=\"#", id, "\">")), 1U) << id;
  }
  EXPECT_EQ(html, page.Html());
}

TEST(ThinnedTest, FewPointsStayAndManyKeepTheirRangeAndMean) {
  const Curve few = Thinned({"", {3, 1, 2}, {30, 10, 20}}, 2);
  ASSERT_EQ(few.points.size(), 3U);
  EXPECT_FALSE(few.has_band);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(few.points[i].y, 10.0 * static_cast<double>(i + 1));
  // Values that are not finite are gaps.
  const Curve gaps = Thinned({"", {1, 2, 3, 4, 5}, {1, kNaN, 3, std::numeric_limits<double>::infinity(), 5}}, 100);
  ASSERT_EQ(gaps.points.size(), 3U);
  for (const CurvePoint& point : gaps.points) EXPECT_TRUE(point.begins);
  Series series;
  for (int i = 0; i < 100'000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i == 77'777 ? 1000 : i == 5 ? -1000 : i % 2);
  }
  const Curve curve = Thinned(series, 100);
  EXPECT_TRUE(curve.has_band);
  ASSERT_EQ(curve.points.size(), 100U);
  const auto low = [](const CurvePoint& a, const CurvePoint& b) { return a.low < b.low; };
  const auto high = [](const CurvePoint& a, const CurvePoint& b) { return a.high < b.high; };
  EXPECT_EQ(std::min_element(curve.points.begin(), curve.points.end(), low)->low, -1000);
  EXPECT_EQ(std::max_element(curve.points.begin(), curve.points.end(), high)->high, 1000);
  EXPECT_NEAR(curve.points[50].y, 0.5, 0.01);
  EXPECT_EQ(curve.points.back().x, 99'999);
}

TEST(AxisTest, TicksAreRoundAndTellEachOtherApart) {
  const std::pair<double, double> ranges[] = {{0, 1}, {4.19, 4.23}, {1, 500'000},  {-3, 7},      {0.00012, 0.055},
                                              {5, 5}, {0, 0},       {-1e-9, 1e-9}, {1e11, 3e11}, {1e17, 1e17 + 16}};
  for (const auto& [low, high] : ranges) {
    for (const AxisScale scale : {AxisScale::kLinear, AxisScale::kLog}) {
      const Axis axis(low, high, scale, 5);
      ASSERT_GE(axis.ticks().size(), 2U) << low << " to " << high;
      EXPECT_LE(axis.ticks().size(), 12U) << low << " to " << high;
      for (size_t i = 0; i < axis.ticks().size(); ++i) {
        EXPECT_GE(axis.ticks()[i].place, -1e-6);
        EXPECT_LE(axis.ticks()[i].place, 1 + 1e-6);
        if (i == 0) continue;
        EXPECT_NE(axis.ticks()[i].label, axis.ticks()[i - 1].label) << low << " to " << high;
      }
    }
  }
  EXPECT_EQ(Axis(0, 3000, AxisScale::kLinear, 5).ticks()[1].label, "1,000");
}

TEST(AxisTest, BetweenWholeNumbersThereAreNone) {
  const std::pair<std::pair<double, double>, std::vector<std::string>> axes[] = {
      {{1, 1}, {"0", "1", "2"}}, {{21, 22}, {"21", "22"}}, {{1, 4}, {"1", "2", "3", "4"}}};
  for (const auto& [range, expected] : axes) {
    std::vector<std::string> labels;
    const Axis axis(range.first, range.second, AxisScale::kWhole, 5);
    for (const Tick& tick : axis.ticks()) labels.push_back(tick.label);
    EXPECT_EQ(labels, expected);
  }
}

TEST(AxisTest, DoublingStepsStandAtEvenDistances) {
  const Axis axis(4, 64, AxisScale::kDoubling, 5);
  ASSERT_EQ(axis.ticks().size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(axis.ticks()[i].label, std::to_string(4 << i));
    EXPECT_NEAR(axis.ticks()[i].place, 0.25 * static_cast<double>(i), 1e-12);
  }
  for (const auto& [low, high] : {std::pair{5.0, 7.0}, {8.0, 8.0}, {3.0, 5.0}, {1.0, 1e6}, {0.25, 0.5}}) {
    const Axis whole(low, high, AxisScale::kDoubling, 5);
    ASSERT_GE(whole.ticks().size(), 2U) << low;
    EXPECT_LE(whole.ticks().size(), 11U) << low;
    EXPECT_LE(whole.low(), low);
    EXPECT_GE(whole.high(), high);
    EXPECT_EQ(whole.ticks()[0].place, 0) << low;
    EXPECT_NE(whole.ticks()[0].label, whole.ticks()[1].label);
  }
  EXPECT_GE(Axis(0, 7, AxisScale::kDoubling, 5).ticks().size(), 2U);
}

TEST(AxisTest, ShortNumbersHaveFiveDigits) {
  EXPECT_EQ(ShortNumber(4.193005999959684), "4.193");
  EXPECT_EQ(ShortNumber(184'216.4), "184216");
  EXPECT_EQ(ShortNumber(1.8260462e-05), "1.826e-05");
  EXPECT_EQ(ShortNumber(kNaN), "undefined");
}

std::string Html(const Figure& figure) { return figure.Html(); }

void ExpectParts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_TRUE(Contains(text, part)) << part << "\nin\n" << text;
}

TEST(FigureTest, ACurveHasItsValuesInItsTableItsLegendAndItsRecord) {
  const std::string html = Html(LineChart{.title = "loss & more",
                                          .marks = {{"resumed", 2}, {"resumed", 5}},
                                          .series = {{"a<b", {1, 2, 3}, {0.5, kNaN, 0.125}}}});
  ExpectParts(html, {"loss &amp; more", "a&lt;b", R"("x": [1, 3], "y": [0.5, 0.125])", "<td class=\"number\">0.5</td>",
                     "<td class=\"number\">0.125</td>", "<span class=\"value\">0.125</span>"});
  EXPECT_FALSE(Contains(html, "a<b"));
  EXPECT_EQ(Count(html, "class=\"mark\""), 1U);  // only where the curves are
  EXPECT_EQ(Count(html, "class=\"band "), 0U);
  EXPECT_EQ(Html(LineChart{.title = "nothing", .series = {{"a", {1, 2}, {kNaN, kNaN}}}}), "");
}

TEST(FigureTest, ASeriesWithARangeHasABandAndAnIntervalSaysItsNumbers) {
  const std::string html = Html(
      LineChart{.title = "y",
                .x_scale = AxisScale::kDoubling,
                .series = {{.name = "a", .x = {4, 8, 32}, .y = {2, 3, 4}, .low = {1.5, 3, 3.5}, .high = {2.5, 3, 5}}}});
  EXPECT_EQ(Count(html, "class=\"band "), 1U);
  ExpectParts(html, {R"("low": [1.5, 3, 3.5], "high": [2.5, 3, 5])", "2 (1.5 to 2.5)", R"("x": [4.0, 32.0, true])"});
  ExpectParts(Html(IntervalChart{.title = "ln(PPL)", .digits = 2, .rows = {{"a & b", 4.25, 4.5, 4.75, 4.125}}}),
              {"a &amp; b", ">4.25<", ">4.50 to 4.75<", ">4.12<"});
}

TEST(FigureTest, ThirtyTwoCurvesDiffer) {
  LineChart chart = {.title = "y"};
  for (int i = 0; i < 32; ++i) chart.series.push_back({StrCat(i), {1, 2}, {1, 2}});
  std::set<std::string> classes;
  for (const Figure::Entry& entry : Figure(chart).legend) classes.insert(entry.key);
  EXPECT_EQ(classes.size(), 32);
}

TEST(FigureTest, AChartStaysSmallWhateverTheNumberOfSteps) {
  Series series{"training", {}, {}};
  for (int i = 1; i <= 100'000; ++i) {
    series.x.push_back(i);
    series.y.push_back(4 + std::sin(i * 0.1) / std::sqrt(i));
  }
  EXPECT_LT(Html(LineChart{.title = "loss", .series = {series}}).size(), 60'000U);
  EXPECT_LT(Html(LineChart{.title = "loss", .series = std::vector<Series>(20, series)}).size(), 250'000U);
}

// Html and StandaloneSvg have the same drawing; a file knows its colours without variables.
TEST(FigureTest, IsTheSameDrawingInAPageAndInAFile) {
  const Figure figures[] = {LineChart{.title = "<y>", .series = {{"a", {1, 2}, {3, 4}}}},
                            IntervalChart{.title = "<y>", .rows = {{"a", 1, 0.5, 2, 3}, {"b", 2, kNaN, kNaN, {}}}},
                            HeatMap{.title = "<y>", .rows = 1, .columns = 2, .values = {1, 2}}};
  for (const Figure& figure : figures) {
    const std::string svg = StandaloneSvg({figure}, {"a < note"});
    ExpectParts(figure.Html(), {figure.plot, "&lt;y&gt;"});
    ExpectParts(svg, {figure.plot, "&lt;y&gt;", "a &lt; note", "prefers-color-scheme: dark", "{ fill: #1b1e23; }",
                      "{ fill: #e7e7e3; }"});
    EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    for (const char* unknown : {"var(", "light-dark("}) EXPECT_FALSE(Contains(svg, unknown)) << svg;
  }
  EXPECT_EQ(StandaloneSvg({LineChart{.title = "nothing"}, IntervalChart{.references = {{"zero", 0}}}}), "");
}

TEST(FigureTest, AHeatMapIsAnImageAndCountsWhatIsNotFinite) {
  const HeatMap map = {
      .title = "P_l", .diverging = true, .rows = 2, .columns = 2, .values = {1, -2, static_cast<float>(kNaN), 0.5F}};
  const std::string html = Html(map);
  ExpectParts(html, {"-2 to 1, 1 not finite", R"("values": [1, -2, "undefined", 0.5])"});
  const std::string begin = "base64,";
  const size_t at = html.find(begin) + begin.size();
  const ReadImage image = ReadPng(DecodeBase64(html.substr(at, html.find('"', at) - at)).value());
  EXPECT_EQ(image.width, 2U);
  // 127 is nothing; the colours below are negative.
  EXPECT_EQ(image.pixels, (std::vector<uint8_t>{191, 0, 127, 159}));
  EXPECT_EQ(image.alphas.substr(126, 3), std::string("\2\0\2", 3));
  HeatMap wrong = map;
  wrong.rows = 3;
  EXPECT_THROW(Html(wrong), Error);
}

TEST(TableTest, NumbersStandRightAndHeadersSayWhatTheyHead) {
  const std::string html =
      HtmlTable({{"name", "value", "pair"}, {{"<a>", "1,234", "1\u00A0→ 2"}, {"b", "-5e-05", ""}, {"c", ""}}});
  EXPECT_EQ(Count(html, "<td class=\"number\">"), 3U) << html;
  EXPECT_EQ(Count(html, "<td class=\"number pair\">"), 3U) << html;
  ExpectParts(html, {"<th scope=\"col\" class=\"number\">value</th>", "<th scope=\"row\">&lt;a&gt;</th>",
                     "<span>1\u00A0→</span> <span>2</span>"});
  EXPECT_EQ(HtmlTable({{"name"}, {}}), "");
}

// Relative luminance and contrast, WCAG 2.2.
double Luminance(const std::string& colour) {
  double luminance = 0;
  const double weights[] = {0.2126, 0.7152, 0.0722};
  for (size_t i = 0; i < 3; ++i) {
    const double part = std::stoi(colour.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    luminance += weights[i] * (part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4));
  }
  return luminance;
}
double Contrast(const std::string& a, const std::string& b) {
  const double x = Luminance(a), y = Luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

TEST(ColoursTest, CanBeReadOnTheirGround) {
  const std::string style = kPageStyle, begin = ": light-dark(";
  std::map<std::string, std::string> colours[2];  // on light ground, on dark
  for (size_t at = style.find(begin); at != std::string::npos; at = style.find(begin, at + 1)) {
    const size_t name = style.rfind("--", at);
    for (size_t i = 0; i < 2; ++i) {
      colours[i][style.substr(name, at - name)] = style.substr(at + begin.size() + 9 * i, 7);
    }
  }
  for (auto& scheme : colours) {
    for (const auto& [name, colour] : scheme) {
      const bool line = name.starts_with("--series-");
      if (!line && (name == "--ground" || name == "--raised" || name == "--rule" || name == "--grid")) continue;
      EXPECT_GE(Contrast(colour, scheme["--ground"]), line ? 3 : 4.5) << name;
      EXPECT_GE(Contrast(colour, scheme["--raised"]), line ? 1 : 4.5) << name;
    }
    EXPECT_EQ(scheme.count("--series-7"), 1U);
  }
}

TEST(SparklineTest, GoesFromTheLeastToTheLargest) {
  const Series falling{"", {1, 2, 3, 4}, {8, 4, 2, 1}};
  EXPECT_EQ(Sparkline(falling, 10, SparklineStyle::kBlocks), "█▄▂▁");
  EXPECT_EQ(Sparkline(falling, 10, SparklineStyle::kAscii), "#-._");
  EXPECT_EQ(Sparkline({"", {1, 2, 3, 4}, {5, 5, 1, 1}}, 2, SparklineStyle::kBlocks), "█▁");
  EXPECT_EQ(Sparkline({"", {1, 9, 10}, {1, 2, 4}}, 3, SparklineStyle::kAscii), "_=#");  // 1, between, 3
  EXPECT_EQ(Sparkline({"", {1, 5, 9, 10}, {1, kNaN, 2, 4}}, 3, SparklineStyle::kAscii), "_ #");
  // A run that has been written twice.
  EXPECT_EQ(Sparkline({"", {1, 1, 2, 2, 3, 3}, {4, 4, 2, 2, 0, 0}}, 6, SparklineStyle::kAscii), "#*+=:_");
  EXPECT_EQ(Sparkline({"", {1, 2}, {3, 3}}, 3, SparklineStyle::kAscii), "==");
  EXPECT_EQ(Sparkline({"", {1}, {kNaN}}, 3, SparklineStyle::kBlocks), "");
}

}  // namespace report_page_test
}  // namespace crosstalk
