// How a recorded step would scale: over the number of ranks, on several networks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/op_context.h"
#include "tools/cli/output.h"
#include "tools/lab/simulate/recording.h"
#include "tools/lab/simulate/replay.h"

namespace crosstalk {

// Strong: all ranks share the recorded step, whose S parts are the most ranks. Weak: each rank computes as many parts
// as the recorded step has, so that a step of R ranks has R·S.
enum class ScalingKind { kStrong, kWeak };
const char* Name(ScalingKind kind);

struct ScalingPoint {
  int ranks = 1;
  int64_t parts = 1;
  double seconds = 0;     // of a step
  double efficiency = 0;  // strong: seconds of one rank / (R · seconds); weak: seconds of one rank / seconds
  // The share of gradients' bytes that arrive while their receiver computes; nothing if none are sent.
  std::optional<double> hidden;
  double mean_sent_bytes = 0, most_sent_bytes = 0;  // of a rank: gradients and weights
  int64_t memory_bytes = 0;                         // RankMemoryBytes
  int64_t messages = 0;
  double small_seconds = 0;  // that counts, losses and squares would take by themselves
  // ReplayResult's. Losses are gathered while gradients are under way: they wait for them.
  std::array<double, kTraffics> waited_seconds = {};

  // Rows a second, of one rank's.
  double SpeedUp() const { return efficiency * ranks; }
};

struct ScalingCurve {
  ScalingKind kind;
  Network network;
  std::vector<ScalingPoint> points;
};

// The recorded step on one rank, without a network.
double SecondsAlone(const StepRecording& recording);

// A curve of each kind for each network, strong first. Ranks beyond S have no point of strong scaling. Interrupted
// where `stop` says so.
std::vector<ScalingCurve> SimulateScaling(const StepRecording& recording, const std::vector<int64_t>& ranks,
                                          const std::vector<Network>& networks, const StopRequest& stop = {});

Json ToJson(const StepRecording& recording, const std::vector<ScalingCurve>& curves);

// Simulated scaling as texts: for a terminal, and the tables that a page shows.

// The note above every figure.
std::string SimulatedNote();
// The origin of the recording: name and value.
std::vector<std::pair<std::string, std::string>> RecordingFacts(const StepRecording& recording);
// "Strong scaling on 10GbE (…), simulated".
std::string TitleOf(const ScalingCurve& curve);
// A row for each number of ranks.
TextTable TableOf(const ScalingCurve& curve);
// The legend of its columns.
std::string ColumnsNote();

std::string ScalingText(const StepRecording& recording, const std::vector<ScalingCurve>& curves);

// Simulated scaling as a page, and as a picture.

std::string ScalingPage(const StepRecording& recording, const std::vector<ScalingCurve>& curves);
// One SVG file of both panels: the speed-up of strong scaling, and below it the efficiency of weak scaling.
std::string ScalingSvg(const StepRecording& recording, const std::vector<ScalingCurve>& curves);

}  // namespace crosstalk
