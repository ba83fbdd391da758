#include "tests/support/browser.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <thread>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr int kMostMilliseconds = 120'000;  // for an answer, on a machine that does much else
// By the protocol, what the browser reads and where it answers.
constexpr int kBrowserReads = 3, kBrowserWrites = 4;

[[noreturn]] void Complain(const std::string& what) { throw std::runtime_error("browser: " + what); }

std::string FileUrl(const std::string& path) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string url = "file://";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || c == '/' || c == '-' || c == '_' || c == '.') {
      url += c;
    } else {
      url += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return url;
}

// The keys that tests press.
const std::map<std::string, int> kKeyCodes = {{"Tab", 9},      {"Enter", 13},      {"Escape", 27},
                                              {"End", 35},     {"Home", 36},       {"ArrowLeft", 37},
                                              {"ArrowUp", 38}, {"ArrowRight", 39}, {"ArrowDown", 40}};

}  // namespace

std::optional<std::string> FindBrowser() {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : Split(path == nullptr ? "" : path, ':')) {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const std::string program = folder + "/" + name;
      if (access(program.c_str(), X_OK) == 0) return program;
    }
  }
  return std::nullopt;
}

Browser::Browser(const std::string& folder) {
  const std::optional<std::string> program = FindBrowser();
  if (!program) Complain("none is installed");
  int commands[2], answers[2];
  // Above the descriptors that the browser's become.
  if (pipe(commands) != 0 || pipe(answers) != 0) Complain("no pipe");
  for (int* end : {&commands[0], &commands[1], &answers[0], &answers[1]}) {
    const int above = fcntl(*end, F_DUPFD_CLOEXEC, 10);
    close(*end);
    *end = above;
  }
  // Root cannot have a sandbox.
  const std::vector<std::string> words = {*program,
                                          "--headless",
                                          "--no-sandbox",
                                          "--disable-gpu",
                                          "--no-first-run",
                                          "--disable-background-networking",
                                          "--disable-component-update",
                                          "--disable-sync",
                                          "--disable-dev-shm-usage",
                                          "--hide-scrollbars",
                                          "--force-color-profile=srgb",
                                          "--host-resolver-rules=MAP * ~NOTFOUND",
                                          "--user-data-dir=" + folder,
                                          "--remote-debugging-pipe",
                                          "about:blank"};
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  process_ = fork();
  if (process_ == 0) {
    setpgid(0, 0);
    const int nowhere = open("/dev/null", O_RDWR);
    for (int standard : {0, 1, 2}) dup2(nowhere, standard);
    dup2(commands[0], kBrowserReads);
    dup2(answers[1], kBrowserWrites);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  setpgid(process_, process_);
  close(commands[0]);
  close(answers[1]);
  to_ = commands[1];
  from_ = answers[0];
  const Json target = Call("Target.createTarget", Json::MakeObject({{"url", "about:blank"}}), false);
  const Json attached =
      Call("Target.attachToTarget", Json::MakeObject({{"targetId", target.At("targetId")}, {"flatten", true}}), false);
  session_ = attached.At("sessionId").AsString();
  for (const char* domain : {"Page", "Runtime", "Log", "Network"}) Call(StrCat(domain, ".enable"), Json::MakeObject());
  Call("Network.emulateNetworkConditions",
       Json::MakeObject({{"offline", true}, {"latency", 0}, {"downloadThroughput", 0}, {"uploadThroughput", 0}}));
}

Browser::~Browser() {
  close(to_);
  close(from_);
  // It ends when the pipe does; its helpers are of the same group.
  for (int i = 0; i < 50 && waitpid(process_, nullptr, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  kill(-process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

Json Browser::Call(const std::string& method, const Json& params, bool of_the_tab) {
  const int64_t id = ++last_id_;
  Json message = Json::MakeObject({{"id", id}, {"method", method}, {"params", params}});
  if (of_the_tab) message.Set("sessionId", session_);
  const std::string text = message.Dump() + '\0';
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t size = write(to_, text.data() + sent, text.size() - sent);
    if (size <= 0) Complain("it reads no more");
    sent += static_cast<size_t>(size);
  }
  while (true) {
    const Json answer = Receive();
    const Json* answered = answer.Find("id");
    if (answered == nullptr || answered->AsInt() != id) continue;
    if (const Json* error = answer.Find("error")) Complain(method + ": " + error->Dump());
    return answer.At("result");
  }
}

Json Browser::Receive() {
  size_t end;
  while ((end = received_.find('\0')) == std::string::npos) {
    pollfd ready{from_, POLLIN, 0};
    if (poll(&ready, 1, kMostMilliseconds) <= 0) Complain("no answer");
    char buffer[1 << 16];
    const ssize_t size = read(from_, buffer, sizeof buffer);
    if (size <= 0) Complain("it ended");
    received_.append(buffer, static_cast<size_t>(size));
  }
  const Json message = ParseJson(std::string_view(received_).substr(0, end), "browser");
  received_.erase(0, end + 1);
  Notice(message);
  return message;
}

void Browser::Notice(const Json& message) {
  const Json* method = message.Find("method");
  if (method == nullptr) return;
  const std::string& event = method->AsString();
  const Json& params = message.At("params");
  if (event == "Page.loadEventFired") loaded_ = true;
  if (event == "Runtime.consoleAPICalled" || event == "Runtime.exceptionThrown" || event == "Log.entryAdded") {
    complaints_.push_back(event + ": " + params.Dump().substr(0, 600));
  } else if (event == "Network.requestWillBeSent") {
    const std::string& url = params.At("request").At("url").AsString();
    if (url != url_ && !url.starts_with("data:")) complaints_.push_back("request: " + url.substr(0, 300));
  }
}

void Browser::Show(const Screen& screen) {
  Call("Emulation.setDeviceMetricsOverride", Json::MakeObject({{"width", screen.width},
                                                               {"height", screen.height},
                                                               {"deviceScaleFactor", 1},
                                                               {"mobile", screen.width < 600}}));
  const Json scheme = Json::MakeObject(
      {{"name", "prefers-color-scheme"}, {"value", screen.scheme == ColourScheme::kDark ? "dark" : "light"}});
  Call("Emulation.setEmulatedMedia",
       Json::MakeObject({{"media", screen.print ? "print" : "screen"}, {"features", Json::MakeArray({scheme})}}));
}

void Browser::AllowScripts(bool allowed) {
  Call("Emulation.setScriptExecutionDisabled", Json::MakeObject({{"value", !allowed}}));
}

void Browser::Open(const std::string& path) {
  complaints_.clear();
  loaded_ = false;
  url_ = FileUrl(path);
  Call("Page.navigate", Json::MakeObject({{"url", url_}}));
  while (!loaded_) Receive();
}

Json Browser::Evaluate(const std::string& expression) {
  const Json answer =
      Call("Runtime.evaluate",
           Json::MakeObject({{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}}));
  if (const Json* thrown = answer.Find("exceptionDetails")) Complain(expression + ": " + thrown->Dump().substr(0, 500));
  const Json* value = answer.At("result").Find("value");
  return value == nullptr ? Json() : *value;
}

void Browser::Point(const std::string& selector, double share) {
  const Json box =
      Evaluate(StrCat("(() => { const element = document.querySelector(", Json(selector).Dump(),
                      "); element.scrollIntoView({block: 'center', behavior: 'instant'}); const box = ",
                      "element.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; })()"));
  const auto number = [&box](size_t i) { return box.AsArray().at(i).AsDouble(); };
  Call("Input.dispatchMouseEvent",
       Json::MakeObject(
           {{"type", "mouseMoved"}, {"x", number(0) + share * number(2)}, {"y", number(1) + number(3) / 2}}));
}

void Browser::Press(const std::string& key) {
  for (const char* type : {"keyDown", "keyUp"}) {
    Json event =
        Json::MakeObject({{"type", type}, {"key", key}, {"code", key}, {"windowsVirtualKeyCode", kKeyCodes.at(key)}});
    if (key == "Enter") event.Set("text", "\r");  // without which it presses no button
    Call("Input.dispatchKeyEvent", event);
  }
}

std::string Browser::Screenshot() {
  const Json size = Call("Page.getLayoutMetrics", Json::MakeObject()).At("cssContentSize");
  const Json whole =
      Json::MakeObject({{"x", 0}, {"y", 0}, {"width", size.At("width")}, {"height", size.At("height")}, {"scale", 1}});
  const Json answer = Call("Page.captureScreenshot",
                           Json::MakeObject({{"format", "png"}, {"captureBeyondViewport", true}, {"clip", whole}}));
  return DecodeBase64(answer.At("data").AsString()).value_or("");
}

}  // namespace crosstalk
