// A real browser for tests of pages: headless Chromium, without a network, driven over a pipe by its DevTools protocol.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"

namespace crosstalk {

// The program, or nothing where none is installed.
std::optional<std::string> FindBrowser();

enum class ColourScheme { kLight, kDark };
struct Screen {
  int width = 1280, height = 900;
  ColourScheme scheme = ColourScheme::kLight;
  bool print = false;  // as on paper
};

// One tab. Everything that is wrong throws std::runtime_error.
class Browser {
 public:
  // `folder`: for the browser's own files.
  explicit Browser(const std::string& folder);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void Show(const Screen& screen);
  void AllowScripts(bool allowed);
  // Opens a file and waits until it is loaded.
  void Open(const std::string& path);
  // The value of an expression of the page's.
  Json Evaluate(const std::string& expression);
  // Moves the pointer to the middle of the first element of a selector, `share` of its width across.
  void Point(const std::string& selector, double share);
  // Presses a key by its name: "ArrowRight", "Tab", "Home".
  void Press(const std::string& key);
  // PNG of the whole page, not only of what the screen shows.
  std::string Screenshot();

  // Since the page was opened: what the console says, errors that nobody caught, and what was asked for beside the
  // page itself and what stands in it.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  Json Call(const std::string& method, const Json& params, bool of_the_tab = true);
  // The next message, told to Notice.
  Json Receive();
  void Notice(const Json& message);

  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  int64_t last_id_ = 0;
  std::string session_, received_, url_;
  bool loaded_ = false;
  std::vector<std::string> complaints_;
};

}  // namespace crosstalk
