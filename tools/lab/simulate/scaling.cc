#include "tools/lab/simulate/scaling.h"

#include <algorithm>
#include <numeric>

#include "tools/lab/simulate/rank_program.h"

namespace crosstalk {
namespace {

// The networks' points of one number of ranks, whose programs are the same on all.
std::vector<ScalingPoint> PointsOf(const StepRecording& recording, ScalingKind kind, int ranks, double seconds_alone,
                                   const std::vector<Network>& networks, const StopRequest& stop) {
  const int64_t parts = kind == ScalingKind::kStrong ? recording.parts : ranks * recording.parts;
  const std::vector<RankProgram> programs = MakePrograms(recording, ranks, parts);
  const std::vector<RankProgram> small = SmallMessagesOf(programs);
  const int64_t memory = RankMemoryBytes(recording, ranks, parts);
  std::vector<ScalingPoint> points;
  for (const Network& network : networks) {
    if (stop && stop()) throw Interrupted();
    const ReplayResult replay = Replay(programs, network);
    ScalingPoint point{.ranks = ranks, .parts = parts, .seconds = replay.seconds};
    point.efficiency = seconds_alone / replay.seconds / (kind == ScalingKind::kStrong ? ranks : 1);
    if (replay.gradient_bytes > 0) point.hidden = replay.hidden_bytes / replay.gradient_bytes;
    const std::vector<double>& sent = replay.sent_bytes;
    point.mean_sent_bytes = std::accumulate(sent.begin(), sent.end(), 0.0) / static_cast<double>(sent.size());
    point.most_sent_bytes = *std::max_element(sent.begin(), sent.end());
    point.memory_bytes = memory;
    point.messages = replay.messages;
    point.small_seconds = Replay(small, network).seconds;
    point.waited_seconds = replay.waited_seconds;
    points.push_back(point);
  }
  return points;
}

double WaitedFor(const ScalingPoint& point, Traffic traffic) {
  return point.waited_seconds[static_cast<size_t>(traffic)];
}

Json ToJson(const ScalingPoint& point) {
  return Json::MakeObject({{"ranks", int64_t{point.ranks}},
                           {"parts", point.parts},
                           {"seconds", point.seconds},
                           {"speed_up", point.SpeedUp()},
                           {"efficiency", point.efficiency},
                           {"hidden", point.hidden ? Json(*point.hidden) : Json()},
                           {"sent_bytes", point.mean_sent_bytes},
                           {"most_sent_bytes", point.most_sent_bytes},
                           {"memory_bytes", point.memory_bytes},
                           {"messages", point.messages},
                           {"small_messages_seconds", point.small_seconds},
                           {"counts_waited_seconds", WaitedFor(point, Traffic::kCounts)},
                           {"losses_waited_seconds", WaitedFor(point, Traffic::kLosses)},
                           {"squares_waited_seconds", WaitedFor(point, Traffic::kSquares)},
                           {"gradients_waited_seconds", WaitedFor(point, Traffic::kGradient)},
                           {"weights_waited_seconds", WaitedFor(point, Traffic::kWeight)}});
}

}  // namespace

const char* Name(ScalingKind kind) { return kind == ScalingKind::kStrong ? "strong" : "weak"; }

double SecondsAlone(const StepRecording& recording) {
  return Replay(MakePrograms(recording, 1, recording.parts), {"none", 0, 1, 0}).seconds;
}

std::vector<ScalingCurve> SimulateScaling(const StepRecording& recording, const std::vector<int64_t>& ranks,
                                          const std::vector<Network>& networks, const StopRequest& stop) {
  const double alone = SecondsAlone(recording);
  std::vector<ScalingCurve> curves;
  for (const ScalingKind kind : {ScalingKind::kStrong, ScalingKind::kWeak}) {
    const size_t first = curves.size();
    for (const Network& network : networks) curves.push_back({kind, network, {}});
    for (const int64_t count : ranks) {
      if (kind == ScalingKind::kStrong && count > recording.parts) continue;
      const std::vector<ScalingPoint> points =
          PointsOf(recording, kind, static_cast<int>(count), alone, networks, stop);
      for (size_t i = 0; i < points.size(); ++i) curves[first + i].points.push_back(points[i]);
    }
  }
  return curves;
}

Json ToJson(const StepRecording& recording, const std::vector<ScalingCurve>& curves) {
  Json list = Json::MakeArray();
  for (const ScalingCurve& curve : curves) {
    Json points = Json::MakeArray();
    for (const ScalingPoint& point : curve.points) points.Append(ToJson(point));
    list.Append(Json::MakeObject({{"scaling", Name(curve.kind)},
                                  {"network", curve.network.name},
                                  {"latency_seconds", curve.network.latency},
                                  {"bytes_per_second", curve.network.bytes_per_second},
                                  {"overhead_seconds", curve.network.overhead},
                                  {"points", std::move(points)}}));
  }
  return Json::MakeObject({{"simulated", true},
                           {"measured_seconds", recording.step_seconds},
                           {"modelled_seconds", SecondsAlone(recording)},
                           {"curves", std::move(list)},
                           {"recording", ToJson(recording)}});
}

}  // namespace crosstalk
