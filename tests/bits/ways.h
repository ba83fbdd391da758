// The ways in which a training can be carried out, none of which changes a bit, and a set of them that covers all
// pairs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/simd.h"
#include "tests/bits/published.h"
#include "tests/support/messages.h"
#include "tests/support/run_command.h"

namespace crosstalk::bits {

enum class Host { kLibrary, kC, kCommand, kFile, kPython };
enum class Cut { kNone, kStopped, kKilled, kContinued };
inline constexpr const char* kHostNames[] = {"library", "C", "command", "configuration file", "Python"};
inline constexpr const char* kCutNames[] = {"whole", "stopped after a step", "killed after a checkpoint", "continued"};
inline constexpr int kThreads[] = {1, 2, 3, 7};
inline constexpr int kRanks[] = {0, 1, 2, 3, -1};  // -1: one for each part

// The command of another machine and its targets, under `make test-arm`, where this program is one of ARM and emulated.
inline std::string OtherCommand() {
  const char* const command = std::getenv("CROSSTALK_OTHER_COMMAND");
  return command == nullptr ? "" : command;
}
inline std::vector<std::string> OtherTargets() {
  std::vector<std::string> targets;
  if (OtherCommand().empty()) return targets;
  const std::string refusal = RunCommand({"train", "--simd", "?"}, {.program = OtherCommand()}).errors;  // lists them
  for (const char* target : {"AVX3", "AVX2"}) {
    if (testing::Contains(refusal, target)) targets.push_back(target);
  }
  EXPECT_FALSE(targets.empty()) << refusal;
  return targets;
}

// Where a session of a run computes.
struct Place {
  std::string target;  // as --simd has it
  std::string unit;    // of bfloat16; "" in float
  int threads = 1, ranks = 0;
  bool elsewhere = false;  // on the other machine, by its command

  std::string Text() const {
    return StrCat(target, unit.empty() ? "" : " ", unit, ", ", threads, " threads",
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
  Point point = {{"threads", std::to_string(way.first.threads)},
                 {way.cut == Cut::kContinued ? "continued" : "cut", kCutNames[static_cast<int>(way.cut)]}};
  const bool two_machines = way.first.elsewhere || way.second.elsewhere;
  if (two_machines) {
    point["machines"] = StrCat(way.first.target, ", then ", way.second.target);
  } else {
    point["target"] = way.first.target;
  }
  if (way.host != Host::kPython && way.cut != Cut::kStopped) {
    point["host"] = kHostNames[static_cast<int>(way.host)];
  }
  // Ranks are the library's, of one machine, and of rows whose steps have parts.
  if (way.host == Host::kLibrary && !two_machines && !row.Get("--shards").empty()) {
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

// One of all ways to train a row on this machine, and in two sessions on another with these targets; `draw` gives a
// number below its argument.
template <typename Draw>
Way DrawWay(const PublishedRow& row, const std::vector<std::string>& other_targets, const Draw& draw) {
  const std::vector<std::string> targets = kernels::SupportedSimdTargets();
  const std::string& target = targets[draw(targets.size())];
  kernels::RestrictSimdTarget(target);
  const std::vector<std::string> units = kernels::SupportedBFloat16Units();
  const std::string unit = row.Get("--precision") == "bf16" ? units[draw(units.size())] : "";
  kernels::RestrictSimdTarget("");
  const int parts = std::stoi(row.Get("--shards", "1"));
  Way way;
  // Seldom what takes longer: a process of its own, a second session.
  const size_t host = draw(40);
  way.host = host < 30 ? Host::kLibrary : host < 38 ? Host::kC : host == 38 ? Host::kFile : Host::kCommand;
  if (draw(2) == 0) way.cut = static_cast<Cut>(draw(row.Get("--continued-at").empty() ? 3 : 4));
  if (way.cut == Cut::kStopped && way.host > Host::kC) way.cut = Cut::kKilled;
  way.first = {.target = target, .unit = unit};
  way.second = {.target = targets[draw(targets.size())], .unit = unit};
  if (unit == "dot-product") way.second.unit = "widened";  // the same sums, on every target
  for (Place* place : {&way.first, &way.second}) {
    place->threads = kThreads[draw(std::size(kThreads))];
    if (way.host == Host::kLibrary && parts > 1) place->ranks = kRanks[draw(std::size(kRanks))];
    if (place->ranks < 0) place->ranks = parts;
  }
  if (!other_targets.empty() && (way.cut == Cut::kKilled || way.cut == Cut::kContinued) && draw(2) == 0) {
    Place& place = draw(2) == 0 ? way.first : way.second;
    place = {.target = other_targets[draw(other_targets.size())],
             .unit = unit.empty() ? "" : "widened",
             .threads = place.threads,
             .elsewhere = true};
  }
  return way;
}

}  // namespace crosstalk::bits
