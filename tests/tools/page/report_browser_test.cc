// Pages in a real browser, as a reader has them: no network, no complaint, on a phone and on a desk, light and dark, by
// pointer and by keys. `make test-browser` runs it; CROSSTALK_SCREENSHOTS names the folder for the pictures.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "tests/support/browser.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"
#include "tools/page/figure.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace report_browser_test {

using testing::Contains;

// On the widest the contents stand beside the text.
constexpr int kPhone = 390, kDesk = 1280, kWide = 1600;

// The cells of a table of the paper that the repository has: `make test-browser` runs in its root.
std::string PublishedCells() {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  return StrCat(source == nullptr ? "." : source, "/docs/reproduction/small");
}

// What a page is made of, once each.
std::string PageOfParts() {
  Page page("Parts of a page");
  page.SetLead("Heat maps, intervals and a chart on a logarithmic scale.");
  std::vector<float> mixing(8 * 8), attention(40 * 40);
  for (size_t i = 0; i < mixing.size(); ++i) {
    mixing[i] = 0.4F * std::sin(1.7F * static_cast<float>(i)) + (i % 9 == 0 ? 1.0F : 0.0F);
  }
  std::vector<std::string> tokens;
  for (size_t i = 0; i < 40; ++i) {
    tokens.push_back(i == 3 ? "<script>alert(1)</script>" : StrCat("\u2581token", i * i));
    for (size_t j = 0; j <= i; ++j) attention[40 * i + j] = static_cast<float>((7 * i + 3 * j) % 10) / 10;
  }
  page.AddSection("Heat maps", Figure(HeatMap{.title = "P_l",
                                              .row_name = "head of keys",
                                              .column_name = "head",
                                              .diverging = true,
                                              .rows = 8,
                                              .columns = 8,
                                              .values = mixing})
                                       .Html() +
                                   Figure(HeatMap{.title = "W",
                                                  .row_labels = tokens,
                                                  .column_labels = tokens,
                                                  .rows = 40,
                                                  .columns = 40,
                                                  .values = attention})
                                       .Html());
  page.AddSection("Intervals", Figure(IntervalChart{.title = "ln(PPL)",
                                                    .value_label = "ours",
                                                    .spread_label = "95 % interval",
                                                    .reference_label = "the paper's",
                                                    .references = {{"multi-head, 12 heads", 4.3}},
                                                    .rows = {{"multi-head, 12 heads", 4.31, 4.28, 4.34, 4.35},
                                                             {"talking-heads, 12 heads", 4.22, 4.20, 4.24, 4.25},
                                                             {"talking-heads, 24 heads", 4.11, 4.05, 4.17, 4.15},
                                                             {"one seed alone", 4.2, std::nan(""), std::nan(""), {}}}})
                                   .Html());
  Series norm{"training", {}, {}};
  for (int i = 1; i <= 50; ++i) {
    norm.x.push_back(i);
    norm.y.push_back(1000.0 / (i * i));
  }
  page.AddSection(
      "Chart", Figure(LineChart{.title = "gradient norm", .y_scale = AxisScale::kLogIfWide, .series = {norm}}).Html());
  return page.Html();
}

class ReportBrowserTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (std::getenv("CROSSTALK_BROWSER") == nullptr) return;
    folder_ = std::make_unique<TempDir>();
    browser_ = std::make_unique<Browser>(*folder_ / "browser");
    std::string text;
    for (int i = 0; i < 400; ++i) text += "The <script>document.title = 'taken'</script> cat & the dog went home. ";
    PutFile(*folder_ / "text.txt", text);
    for (const char* attention : {"talking", "multihead"}) {
      const std::string run = Run(attention);
      Succeeded(RunCommand(TinyTrain({"--attention", attention, "--data", *folder_ / "text.txt", "--steps", "120",
                                      "--eval-every", "10", "--out", run})));
      Succeeded(RunCommand({"train", "--resume", run, "--steps", "200"}));
    }
    Succeeded(RunCommand({"report", Run("talking"), Run("multihead"), "--out", Path("runs")}));
    std::filesystem::copy_file(Run("talking") + "/report.html", Path("run"));
    PutFile(Path("parts"), PageOfParts());
    const CommandResult table = Succeeded(RunCommand({"reproduce", "--table", "1", "--scale", "small", "--cells",
                                                      PublishedCells(), "--assemble", "--out", *folder_ / "table-1"}));
    std::filesystem::copy_file(*folder_ / "table-1/report.html", Path("table"));
  }
  static void TearDownTestSuite() {
    browser_.reset();
    folder_.reset();
  }
  void SetUp() override {
    if (std::getenv("CROSSTALK_BROWSER") == nullptr) GTEST_SKIP() << "make test-browser runs this";
    browser().AllowScripts(true);
  }

  static std::string Run(const std::string& attention) {
    return *folder_ / ("<img src=x onerror=alert(1)>" + attention);
  }
  static std::string Path(const std::string& page) { return *folder_ / (page + ".html"); }
  static Browser& browser() { return *browser_; }

  void Open(const std::string& page, const Screen& screen) {
    browser().Show(screen);
    browser().Open(Path(page));
  }
  void Keep(const std::string& name) {
    const std::string picture = browser().Screenshot();
    EXPECT_GT(picture.size(), 5000U);
    if (const char* folder = std::getenv("CROSSTALK_SCREENSHOTS")) {
      std::filesystem::create_directories(folder);
      PutFile(StrCat(folder, "/", name, ".png"), picture);
    }
  }
  std::string Text(const std::string& expression) {
    const Json value = browser().Evaluate(StrCat("String(", expression, ")"));
    return value.AsString();
  }
  double Number(const std::string& expression) { return browser().Evaluate(expression).AsDouble(); }
  void ExpectNoComplaint() {
    Number("1");  // after what the page still had to say
    for (const std::string& complaint : browser().complaints()) ADD_FAILURE() << complaint;
  }

  static std::unique_ptr<TempDir> folder_;
  static std::unique_ptr<Browser> browser_;
};
std::unique_ptr<TempDir> ReportBrowserTest::folder_;
std::unique_ptr<Browser> ReportBrowserTest::browser_;

// What no page may have, as lists of what has it, with every details element open.
struct Fault {
  const char* name;
  const char* found;
  int narrowest = 0;  // a narrower screen may have it
};
constexpr Fault kFaults[] = {
    {"beyond the screen, unless it scrolls by itself",
     "all('main *').filter((e) => !e.closest('.scroll, svg') && box(e).right > innerWidth + 1).map(named)"},
    {"wider than its place, unless it scrolls",
     "all('main, main *').filter((e) => !e.closest('svg') && !e.parentElement.closest('.scroll') && "
     "!e.matches('.scroll') && e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1).map(named)"},
    {"a caption that is not read whole",
     "all('caption').filter((e) => { const text = document.createRange(); text.selectNodeContents(e); "
     "return box(text).right > box(e.closest('.scroll')).right + 1; }).map(named)"},
    {"a table that scrolls on a desk, except values that one unfolds",
     "all('.scroll').filter((e) => !e.closest('details') && e.scrollWidth > e.clientWidth + 1).map(named)", kDesk},
    {"texts of a chart on each other",
     "all('.chart .plot').filter((plot) => { const boxes = all('text', plot).map(box); return boxes.some((a, i) => "
     "boxes.some((b, j) => j < i && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)); "
     "}).map(named)"},
    {"not one of a landmark",
     "['header', 'nav[aria-label]', 'main', 'footer', 'h1', 'html[lang=en]'].filter((one) => all(one).length !== 1)"},
    {"a link without a target", "all('nav a').map((a) => a.hash).filter((hash) => !all(hash).length)"},
    {"an id that stands twice", "all('[id]').map((e) => e.id).filter((id, i, ids) => ids.indexOf(id) !== i)"},
    {"without a name or a heading",
     "all('[role=slider]:not([aria-label]), svg.plot:not([aria-label]), th:not([scope]), figure:not(:has(figcaption)), "
     "section:not([aria-labelledby])').map(named)"},
    {"a script beside the page's", "all('script:not([type])').slice(1).map(named)"},
    {"a title that a text took", "[document.title].filter((title) => title === 'taken')"},
};

TEST_F(ReportBrowserTest, LoadsWithoutANetworkOrAComplaintAndFitsTheScreen) {
  for (const char* page : {"run", "runs", "parts", "table"}) {
    for (const int width : {kPhone, kDesk, kWide}) {
      for (const ColourScheme scheme : {ColourScheme::kLight, ColourScheme::kDark}) {
        const bool dark = scheme == ColourScheme::kDark;
        const std::string name = StrCat(page, "-", width, "-", dark ? "dark" : "light");
        SCOPED_TRACE(name);
        Open(page, {.width = width, .scheme = scheme});
        EXPECT_LE(Number("document.documentElement.scrollWidth"), width);
        EXPECT_EQ(Text("getComputedStyle(document.body).backgroundColor"),
                  dark ? "rgb(21, 23, 27)" : "rgb(252, 252, 250)");
        EXPECT_GT(Number("document.querySelectorAll('[role=slider]').length"), 0);
        Keep(name);
        if (!dark) {
          browser().Evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
          for (const Fault& fault : kFaults) {
            if (width < fault.narrowest) continue;
            EXPECT_EQ(Text(StrCat(
                          "(() => { const all = (what, where = document) => [...where.querySelectorAll(what)], ",
                          "box = (e) => e.getBoundingClientRect(), named = (e) => `${e.tagName} ",
                          "${e.getAttribute('class')} ${e.textContent.slice(0, 40)}`; return ", fault.found, "; })()")),
                      "")
                << fault.name;
          }
        }
        ExpectNoComplaint();
      }
    }
  }
}

TEST_F(ReportBrowserTest, PointerAndKeysReadValuesAloud) {
  Open("run", {.width = kDesk});
  const auto at = [this] { return Text("document.querySelector('.legend .at').textContent"); };
  EXPECT_EQ(at(), "last value");
  browser().Point(".chart .plot", 0.5);
  EXPECT_TRUE(at().starts_with("step ")) << at();
  EXPECT_EQ(Number("document.querySelector('.chart .plot').querySelectorAll('.dot').length"), 2);
  EXPECT_EQ(Number("document.querySelectorAll('.cursor').length"), 1);
  // The value is the one that the table has at that step.
  browser().Point(".chart .plot", 0.999);
  EXPECT_EQ(at(), "step 200");
  EXPECT_EQ(Text("document.querySelectorAll('.chart .legend li')[1].querySelector('.value').textContent"),
            Text("document.querySelector('.chart table tbody tr:last-child').lastElementChild.textContent"));
  Keep("hover-1280-light");
  browser().Point("h1", 0.5);
  EXPECT_EQ(at(), "last value");
  browser().Evaluate("document.querySelector('.chart .plot').focus()");
  for (const auto& [key, begin] : {std::pair{"Home", "step 1: training "},
                                   {"ArrowRight", "step 2: training "},
                                   {"ArrowDown", "step 1: "},
                                   {"ArrowUp", "step 2: "},
                                   {"End", "step 200: "}}) {
    browser().Press(key);
    const std::string said = Text("document.querySelector('.chart .plot').getAttribute('aria-valuetext')");
    EXPECT_TRUE(said.starts_with(begin)) << said;
    EXPECT_TRUE(Contains(said, "held-out ")) << said;
  }
  browser().Press("Escape");
  EXPECT_EQ(Number("document.querySelectorAll('.cursor').length"), 0);
  ExpectNoComplaint();
}

TEST_F(ReportBrowserTest, TheKeyboardReachesEverythingAndIsSeen) {
  Open("run", {.width = kDesk});
  browser().Press("Tab");
  EXPECT_EQ(Text("document.activeElement.className"), "skip");
  EXPECT_GE(Number("document.activeElement.getBoundingClientRect().left"), 0);
  browser().Press("Tab");
  EXPECT_EQ(Text("document.activeElement.id"), "scheme");
  EXPECT_EQ(Text("getComputedStyle(document.activeElement).outlineStyle"), "solid");
  const std::string ground = Text("getComputedStyle(document.body).backgroundColor");
  browser().Press("Enter");
  EXPECT_NE(Text("getComputedStyle(document.body).backgroundColor"), ground);
  EXPECT_EQ(Text("document.activeElement.textContent"), "Light colours");
  browser().Press("Enter");
  EXPECT_EQ(Text("getComputedStyle(document.body).backgroundColor"), ground);
  std::vector<std::string> reached;
  for (int i = 0; i < 60; ++i) {
    browser().Press("Tab");
    reached.push_back(Text("document.activeElement.getAttribute('class') || document.activeElement.tagName"));
  }
  for (const char* one : {"A", "plot", "SUMMARY", "scroll"}) {
    EXPECT_NE(std::find(reached.begin(), reached.end(), one), reached.end()) << one;
  }
  ExpectNoComplaint();
}

TEST_F(ReportBrowserTest, TheSwitchGoesAgainstTheSystemsScheme) {
  Open("parts", {.width = kDesk, .scheme = ColourScheme::kDark});
  EXPECT_EQ(Text("document.getElementById('scheme').textContent"), "Light colours");
  browser().Evaluate("document.getElementById('scheme').click()");
  EXPECT_EQ(Text("document.getElementById('scheme').textContent"), "Dark colours");
  EXPECT_EQ(Text("getComputedStyle(document.body).backgroundColor"), "rgb(252, 252, 250)");
  ExpectNoComplaint();
}

TEST_F(ReportBrowserTest, AHeatMapIsReadByPointerAndKeys) {
  Open("parts", {.width = kDesk});
  browser().Evaluate("document.querySelector('.heat .plot').focus()");
  browser().Press("ArrowRight");
  EXPECT_EQ(Text("document.querySelector('.readout').textContent"), "head of keys 1, head 2: 0.39667");
  browser().Press("ArrowDown");
  EXPECT_EQ(Text("document.querySelector('.heat .plot').getAttribute('aria-valuetext')"),
            "head of keys 2, head 2: 1.1587");
  // The values of many cells come from the image: [20, 20] of 40 by 40 is (7·20 + 3·20) % 10 / 10.
  browser().Point(".heat:nth-of-type(2) .plot", 0.5125);
  EXPECT_EQ(Text("document.querySelectorAll('.readout')[1].textContent"), "▁token400, ▁token400: 0.0");
  browser().Evaluate("document.querySelectorAll('.heat .plot')[1].focus()");
  browser().Press("ArrowUp");
  browser().Press("ArrowLeft");  // [19, 19]: 190 % 10
  browser().Press("ArrowLeft");  // [19, 18]: 187 % 10 = 7, of a largest value of 0.9
  EXPECT_EQ(Text("document.querySelectorAll('.readout')[1].textContent"), "▁token361, ▁token324: 0.70");
  ExpectNoComplaint();
}

TEST_F(ReportBrowserTest, WithoutScriptsThePageIsWhole) {
  browser().AllowScripts(false);
  Open("run", {.width = kDesk});
  EXPECT_EQ(Text("getComputedStyle(document.getElementById('scheme')).display"), "none");
  EXPECT_GE(Number("document.querySelectorAll('.chart .plot path.line').length"), 6);
  EXPECT_EQ(Text("document.querySelector('.chart .plot').getAttribute('role')"), "img");
  ExpectNoComplaint();
}

TEST_F(ReportBrowserTest, OnPaperItIsLightWithoutWhatOnlyAScreenUses) {
  Open("run", {.width = 720, .scheme = ColourScheme::kDark, .print = true});
  EXPECT_EQ(Text("getComputedStyle(document.querySelector('nav')).display"), "none");
  EXPECT_EQ(Text("getComputedStyle(document.getElementById('scheme')).display"), "none");
  EXPECT_EQ(Text("getComputedStyle(document.body).color"), "rgb(27, 30, 35)");
  EXPECT_LE(Number("document.documentElement.scrollWidth"), 720);
  Keep("print-720");
  ExpectNoComplaint();
}

}  // namespace report_browser_test
}  // namespace crosstalk
