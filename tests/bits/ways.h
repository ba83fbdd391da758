// The ways in which a training can be carried out, none of which changes a bit, and a set of them that covers all
// pairs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/simd.h"
#include "tests/bits/published.h"

namespace crosstalk::bits {

struct Machine {
  std::string target;                 // as --simd has it
  std::vector<std::string> launcher;  // the words that start the command on it; none: it is this one
};

// An emulated processor is one more machine, on which only the command runs. CROSSTALK_EMULATED names its target and
// how its command is started: "NEON qemu-aarch64 build-arm/crosstalk".
inline std::optional<Machine> EmulatedMachine() {
  const char* const emulated = std::getenv("CROSSTALK_EMULATED");
  if (emulated == nullptr) return std::nullopt;
  const std::vector<std::string> words = Split(emulated, ' ');
  return Machine{words.at(0), {words.begin() + 1, words.end()}};
}

// This one with each of its targets, and the emulated one: each row is trained on one of each.
inline std::vector<std::vector<Machine>> AllMachines() {
  std::vector<std::vector<Machine>> machines(1);
  for (const std::string& target : kernels::SupportedSimdTargets()) machines[0].push_back({target, {}});
  if (const auto emulated = EmulatedMachine()) machines.push_back({*emulated});
  return machines;
}

enum class Host { kLibrary, kC, kCommand, kFile, kPython };
enum class Cut { kNone, kStopped, kKilled, kContinued };
inline constexpr const char* kHostNames[] = {"library", "C", "command", "configuration file", "Python"};
inline constexpr const char* kCutNames[] = {"whole", "stopped after a step", "killed after a checkpoint", "continued"};
inline constexpr int kThreads[] = {1, 2, 3, 7};
inline constexpr int kRanks[] = {0, 1, 2, 3, -1};  // -1: one for each part

// Where a session of a run computes.
struct Place {
  Machine machine;
  std::string unit;  // of bfloat16; "" in float
  int threads = 1, ranks = 0;

  std::string Text() const {
    return StrCat(machine.target, unit.empty() ? "" : " ", unit, ", ", threads, " threads",
                  ranks == 0 ? "" : StrCat(", ", ranks, " ranks"));
  }
};

struct Way {
  Host host = Host::kLibrary;
  Cut cut = Cut::kNone;
  Place first, second;  // the second after a cut

  std::string Text() const {
    return StrCat("by the ", kHostNames[static_cast<int>(host)], ", ", kCutNames[static_cast<int>(cut)], ", on ",
                  first.Text(), cut == Cut::kNone ? "" : StrCat(", then on ", second.Text()));
  }
};

// Values by axis.
using Point = std::map<std::string, std::string>;

inline Point PointOf(const PublishedRow& row) {
  return {{"model", row.Get("--model")},
          {"attention", row.Get("--attention", "talking")},
          {"implementation", row.Get("--implementation", "fused")},
          {"optimizer", row.Get("--optimizer", "default")},
          {"precision", row.Get("--precision", "fp32")}};
}

inline Point PointOf(const PublishedRow& row, const Way& way) {
  Point point = {{"machine", way.first.machine.target},
                 {"threads", std::to_string(way.first.threads)},
                 {way.cut == Cut::kContinued ? "continued" : "cut", kCutNames[static_cast<int>(way.cut)]}};
  if (way.host != Host::kPython && way.first.machine.launcher.empty() && way.cut != Cut::kStopped) {
    point["host"] = kHostNames[static_cast<int>(way.host)];
  }
  // Ranks are the library's, and of rows whose steps have parts.
  if (way.host == Host::kLibrary && !row.Get("--shards").empty()) {
    const int parts = std::stoi(row.Get("--shards"));
    point["ranks"] = way.first.ranks == parts && parts > 3 ? "as many as parts" : std::to_string(way.first.ranks);
  }
  return point;
}

// Which values have met: of each axis of a way with every other axis.
class Coverage {
 public:
  using Pair = std::array<std::string, 4>;  // two axes, a value of each

  static std::vector<Pair> PairsOf(const Point& row, const Point& way) {
    std::vector<Pair> pairs;
    for (auto b = way.begin(); b != way.end(); ++b) {
      for (const auto& [axis, value] : row) pairs.push_back({axis, b->first, value, b->second});
      for (auto a = way.begin(); a != b; ++a) pairs.push_back({a->first, b->first, a->second, b->second});
    }
    return pairs;
  }

  void Add(const std::vector<Pair>& pairs) { met_.insert(pairs.begin(), pairs.end()); }
  int64_t CountNew(const std::vector<Pair>& pairs) const {
    return std::count_if(pairs.begin(), pairs.end(), [&](const Pair& pair) { return !met_.contains(pair); });
  }

  void ExpectAll() const {
    std::map<std::pair<std::string, std::string>, std::array<std::set<std::string>, 2>> values;  // by axes
    for (const auto& [a, b, of_a, of_b] : met_) values[{a, b}][0].insert(of_a), values[{a, b}][1].insert(of_b);
    for (const auto& [axes, sets] : values) {
      const auto& [a, b] = axes;
      if ((a == "continued" || b == "continued") && a != "model") continue;  // one row of each model
      for (const std::string& of_a : sets[0]) {
        for (const std::string& of_b : sets[1]) {
          EXPECT_TRUE(met_.contains({a, b, of_a, of_b})) << a << " " << of_a << " never meets " << b << " " << of_b;
        }
      }
    }
  }

 private:
  std::set<Pair> met_;
};

// One of all ways to train a row on these machines; `draw` gives a number below its argument.
template <typename Draw>
Way DrawWay(const PublishedRow& row, const std::vector<Machine>& machines, const Draw& draw) {
  const Machine& machine = machines[draw(machines.size())];
  std::vector<Machine> others;  // to go on with
  std::copy_if(machines.begin(), machines.end(), std::back_inserter(others),
               [&](const Machine& other) { return other.launcher == machine.launcher; });
  const bool here = machine.launcher.empty();
  kernels::RestrictSimdTarget(here ? machine.target : "");
  const auto units = here ? kernels::SupportedBFloat16Units() : std::vector<std::string>{"widened"};
  const std::string unit = row.Get("--precision") == "bf16" ? units[draw(units.size())] : "";
  kernels::RestrictSimdTarget("");
  const int parts = std::stoi(row.Get("--shards", "1"));
  Way way;
  // Seldom what takes longer: a process of its own, a second session.
  const size_t host = draw(40);
  way.host = host < 30 ? Host::kLibrary : host < 38 ? Host::kC : host == 38 ? Host::kFile : Host::kCommand;
  if (!here) way.host = Host::kCommand;
  if (draw(2) == 0) way.cut = static_cast<Cut>(draw(row.Get("--continued-at").empty() ? 3 : 4));
  if (way.cut == Cut::kStopped && way.host > Host::kC) way.cut = Cut::kKilled;
  way.first = {.machine = machine, .unit = unit};
  way.second = {.machine = others[draw(others.size())], .unit = unit};
  if (unit == "dot-product") way.second.unit = "widened";  // the same sums, on every target
  for (Place* place : {&way.first, &way.second}) {
    place->threads = kThreads[draw(std::size(kThreads))];
    if (way.host == Host::kLibrary && parts > 1) place->ranks = kRanks[draw(std::size(kRanks))];
    if (place->ranks < 0) place->ranks = parts;
  }
  return way;
}

}  // namespace crosstalk::bits
