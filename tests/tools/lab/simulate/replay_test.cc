// A recording as a file, and the replay of ranks on a network, against times that are computed by hand.
#include "tools/lab/simulate/replay.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/messages.h"
#include "tools/lab/simulate/scaling.h"

namespace crosstalk {
namespace replay_test {

// Seconds that are sums of powers of two stay exact; of others a sum of a few hundred is off by less.
constexpr double kRounding = 1e-12;

// Two parameters of 1000 bytes: the gradient of the second is complete after 1 s of backward, that of the first after
// 3 s of 4.
StepRecording SomeRecording() {
  StepRecording recording;
  recording.version = "0.1.0";
  recording.processor = "a processor";
  recording.simd_target = "SCALAR";
  recording.model = "a model";
  recording.configuration = ToJson(*ResolvedConfig(TrainingConfig()));
  recording.batch = 8;
  recording.parts = 2;
  recording.batch_seconds = 0.25;
  recording.forward_seconds = 2;
  recording.backward_seconds = 4;
  recording.loss_bytes = 24;
  recording.add_seconds = 0.5;
  recording.norm_seconds = 0.125;
  recording.optimizer_seconds = 1;
  recording.optimizer_bytes = 4000;
  recording.step_seconds = 14.125;
  recording.parameters = {{.name = "a", .elements = 250, .bytes = 1000, .seconds = 3},
                          {.name = "b", .elements = 250, .bytes = 1000, .seconds = 1}};
  return recording;
}

// ---- A recording as a file. tests/sessions/bench.session has `crosstalk simulate` --------------------------------
TEST(RecordingTest, ReadsBackWhatWasWritten) {
  const Json written = ToJson(SomeRecording());
  EXPECT_EQ(ToJson(RecordingFromJson(ParseJson(written.DumpPretty(), "text"), "text")), written);
}

TEST(RecordingTest, RefusesWhatCannotBe) {
  const std::pair<const char*, std::function<void(StepRecording&)>> changes[] = {
      {"backward_seconds", [](StepRecording& r) { r.backward_seconds = -1; }},
      {"forward_seconds", [](StepRecording& r) { r.forward_seconds = 1e300; }},
      {"step_seconds", [](StepRecording& r) { r.step_seconds = 0; }},
      {"step_seconds", [](StepRecording& r) { r.step_seconds = 1e-320; }},
      {"backward_seconds",
       [](StepRecording& r) {
         r.batch_seconds = r.forward_seconds = 0;
         r.backward_seconds = r.parameters[0].seconds = r.parameters[1].seconds = 1e-320;
       }},
      {"parameters[0]: seconds", [](StepRecording& r) { r.parameters[0].seconds = 4.5; }},
      {"parameters[0]: bytes", [](StepRecording& r) { r.parameters[0].bytes = 1001; }},
      {"parameters[1]: bytes", [](StepRecording& r) { r.parameters[1].bytes = 20000; }},
      {"parameters[0]: elements", [](StepRecording& r) { r.parameters[0].elements = -1; }},
      {"parameters", [](StepRecording& r) { r.parameters.clear(); }},
      {"parameters", [](StepRecording& r) { r.parameters[0].trainable = r.parameters[1].trainable = false; }},
      {"parts", [](StepRecording& r) { r.parts = 9; }},
      {"parts", [](StepRecording& r) { r.parts = 0; }},
      {"threads", [](StepRecording& r) { r.threads = 0; }},
      {"configuration", [](StepRecording& r) { r.configuration.Set("steps", -5); }}};
  for (const auto& [says, change] : changes) {
    StepRecording recording = SomeRecording();
    change(recording);
    testing::ExpectError([&] { RecordingFromJson(ToJson(recording), "FILE"); }, ErrorKind::kData, {says});
  }
}

// ---- Its replay --------------------------------------------------------------------------------------------------
constexpr int kTag = RankGroup::kFirstFreeTag;
const std::vector<std::byte> kBytesOfMessages(2000);

void SendTo(ReplayedRank& rank, int to, size_t bytes) {
  rank.Wait(rank.Send(to, kTag, std::span(kBytesOfMessages).first(bytes)));
}
void ReceiveFrom(ReplayedRank& rank, int from) {
  std::vector<std::byte> bytes(2000);
  rank.Wait(rank.Receive(from, kTag, bytes));
}

// Rank 0 sends messages of these bytes to rank 1, which receives them.
ReplayResult Sends(const std::vector<size_t>& bytes, const Network& network) {
  return Replay(2, network, Replayed::kAll, [&](ReplayedRank& rank) {
    rank.Gather(Traffic::kSquares);
    for (const size_t one : bytes) rank.rank() == 0 ? SendTo(rank, 1, one) : ReceiveFrom(rank, 0);
  });
}

TEST(ReplayTest, AMessageTakesItsLatencyItsOverheadAndItsBytesAndWaitsForThoseBeforeIt) {
  const ReplayResult result = Sends({1000}, {"", 0.5, 4000, 0.125});
  EXPECT_DOUBLE_EQ(result.seconds, 0.5 + 0.125 + 0.25);
  EXPECT_DOUBLE_EQ(result.waited_seconds[static_cast<size_t>(Traffic::kWeight)], 0.875 / 2);
  EXPECT_EQ(result.messages, 1);
  EXPECT_EQ(result.sent_bytes, (std::vector<double>{1000, 0}));
  EXPECT_DOUBLE_EQ(Sends({1000, 2000, 500}, {"", 0.5, 4000, 0.125}).seconds, 0.5 + 3 * 0.125 + 3500.0 / 4000);
}

TEST(ReplayTest, TwoSendersShareTheLinkOfTheReceiverWhoseDirectionsWorkAtOnce) {
  const ReplayResult result = Replay(3, {"", 0.5, 1000, 0}, Replayed::kAll, [](ReplayedRank& rank) {
    if (rank.rank() > 0) return SendTo(rank, 0, 1000);
    for (const int from : {1, 2}) ReceiveFrom(rank, from);
  });
  EXPECT_DOUBLE_EQ(result.seconds, 0.5 + 2);
  const ReplayResult both = Replay(2, {"", 0.5, 1000, 0}, Replayed::kAll, [](ReplayedRank& rank) {
    SendTo(rank, 1 - rank.rank(), 1000);
    ReceiveFrom(rank, 1 - rank.rank());
  });
  EXPECT_DOUBLE_EQ(both.seconds, 1.5);
}

// Under one tag the first request gets the first message, whichever is waited for first. A small message is carried.
TEST(ReplayTest, RequestsGetMessagesInTheirOrder) {
  Replay(2, {"", 0.5, 1000, 0}, Replayed::kAll, [](ReplayedRank& rank) {
    std::string first = "ab", second = "cd";
    if (rank.rank() == 0) {
      rank.Send(1, 0, std::as_bytes(std::span(first)));
      rank.Send(1, 0, std::as_bytes(std::span(second)));
      return;
    }
    const Transport::Request one = rank.Receive(0, 0, std::as_writable_bytes(std::span(second)));
    const Transport::Request other = rank.Receive(0, 0, std::as_writable_bytes(std::span(first)));
    EXPECT_FALSE(rank.Test(one));
    EXPECT_EQ(rank.Wait(other), 2u);
    EXPECT_TRUE(rank.Test(one));
    EXPECT_EQ(rank.Wait(one), 2u);
    EXPECT_EQ(second + first, "abcd");
  });
}

TEST(ReplayTest, TheErrorOfARankOrAMessageThatNobodySendsEndsAll) {
  const auto waits = [](ReplayedRank& rank) {
    if (rank.rank() == 1) ReceiveFrom(rank, 0);
  };
  EXPECT_THROW(Replay(2, {"", 0, 1, 0}, Replayed::kAll, waits), Error);
  const auto fails = [](ReplayedRank& rank) {
    if (rank.rank() == 2) Fail(ErrorKind::kData, "the first");
    ReceiveFrom(rank, 2);
  };
  EXPECT_EQ(testing::MessageOf(
                [&] {
                  Replay(4, {"", 0, 1, 0}, Replayed::kAll, fails);
                },
                ErrorKind::kData),
            "the first");
}

TEST(ReplayedStepTest, OneRankTakesWhatWasRecorded) {
  StepRecording recording = SomeRecording();
  // Two parts, one addition, norm, optimizer.
  EXPECT_DOUBLE_EQ(SecondsAlone(recording), 2 * 6.25 + 0.5 + 0.125 + 1);
  recording.parts = 5;  // 5 parts are 4 additions, in any tree
  EXPECT_DOUBLE_EQ(SecondsAlone(recording), 5 * 6.25 + 4 * 0.5 + 0.125 + 1);
  for (const ScalingCurve& curve : SimulateScaling(recording, {1}, {{"", 1, 1, 1}})) {
    EXPECT_DOUBLE_EQ(curve.points.at(0).efficiency, 1);
    EXPECT_FALSE(curve.points.at(0).hidden.has_value());
  }
}

// One parameter, of rank 0, whose gradient is complete after so many seconds of 4.
StepRecording OneParameter(double seconds) {
  StepRecording recording = SomeRecording();
  recording.parameters = {{.name = "a", .elements = 250, .bytes = 1000, .seconds = seconds}};
  return recording;
}

TEST(ReplayedStepTest, TwoRanksWithAPerfectNetworkExchangeForNothing) {
  const ReplayResult result = ReplayStep(OneParameter(1), 2, 2, {"", 0, 1e300, 0});
  // One part of the two; the owner adds, and updates.
  EXPECT_DOUBLE_EQ(result.seconds, 6.25 + 0.5 + 0.125 + 1);
}

// α = 1/64 s, β = 500 B/s, o = 0. A gradient or a value takes 2 s and α.
constexpr double kLatency = 1.0 / 64, kBytes = 500, kLarge = 1000 / kBytes;

// Until rank 0, and then rank 1, have the counts of all, of 32 bytes each: 8 and 32 bytes to rank 0, and then 8 and 80
// back, each text after 8 bytes for its length.
constexpr double kCounts0 = 0.25 + kLatency + 40 / kBytes, kCounts1 = kCounts0 + kLatency + 88 / kBytes;
// From when rank 0 has the losses: it adds, makes its norm, updates and sends the value. Rank 1 waits for that.
constexpr double kAfterLosses = 0.5 + 0.125 + 1 + kLatency + kLarge;

TEST(ReplayedStepTest, AGradientThatArrivesDuringBackwardCostsItsAdditionAlone) {
  const ReplayResult result = ReplayStep(OneParameter(1), 2, 2, {"", kLatency, kBytes, 0});
  // It arrives 1 + 2 s and α after the start of rank 1's backward.
  EXPECT_EQ(result.hidden_bytes, 1000);
  const double losses = kCounts1 + 2 + 4 + kLatency + 32 / kBytes;  // 8 and 24 bytes
  EXPECT_NEAR(result.seconds, losses + kAfterLosses, kRounding);
}

TEST(ReplayedStepTest, AGradientThatArrivesAfterBackwardDelaysTheStep) {
  const ReplayResult last = ReplayStep(OneParameter(4), 2, 2, {"", 0.25, 1000, 0});  // complete at the end of backward
  EXPECT_EQ(last.hidden_bytes, 0);
  EXPECT_EQ(last.gradient_bytes, 1000);
  const ReplayResult result = ReplayStep(OneParameter(3), 2, 2, {"", kLatency, kBytes, 0});
  EXPECT_EQ(result.hidden_bytes, 0);
  // It leaves after 3 s of backward, and rank 1's losses after it.
  const double losses = kCounts1 + 2 + 3 + kLarge + kLatency + 32 / kBytes;
  EXPECT_NEAR(result.seconds, losses + kAfterLosses, kRounding);
  // Rank 0 waits from the end of its own backward.
  EXPECT_NEAR(result.waited_seconds[static_cast<size_t>(Traffic::kWeight)],
              (result.seconds - (losses + 0.625 + kLatency + 40 / kBytes)) / 2, kRounding);
}

// Power-of-two ranks that divide the parts: each gives 1/R of the gradients of each parameter's R-1 others, and the
// weights of what it owns R-1 times.
TEST(ReplayedStepTest, ARankSendsTheBytesOfARingOnAverage) {
  StepRecording recording = SomeRecording();
  for (int i = 0; i < 13; ++i) {
    recording.parameters.push_back({.name = "c", .elements = 10 + i, .bytes = 40 + 4 * i, .seconds = 2});
  }
  const auto bytes = static_cast<double>(recording.TrainableBytes());
  for (const int ranks : {1, 2, 4, 8}) {
    const ReplayResult result = ReplayStep(recording, ranks, 16, {"", 1e-3, 1e6, 1e-4});
    double sent = 0;
    for (const double one : result.sent_bytes) sent += one;
    EXPECT_DOUBLE_EQ(sent / ranks, 2 * bytes * (ranks - 1) / ranks) << ranks;
  }
}

TEST(ReplayedStepTest, RanksThatFallIntoSeveralNodesSendEachOfThem) {
  const StepRecording recording = SomeRecording();
  const int ranks = 3, parts = 16;
  const std::vector<int> owners = OwnersOf(recording, ranks);
  double expected = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const int owner : owners) {
      if (owner != rank) expected += 1000.0 * static_cast<double>(NodesOf(rank, ranks, parts).size());
    }
  }
  EXPECT_EQ(ReplayStep(recording, ranks, parts, {"", 0, 1e9, 0}).gradient_bytes, expected);
}

TEST(ReplayedStepTest, FrozenAndUnreachedParametersSendNoGradient) {
  StepRecording recording = SomeRecording();
  recording.parameters[0].reached = false;
  recording.parameters.push_back({.name = "frozen", .elements = 1000, .bytes = 4000, .trainable = false});
  const ReplayResult result = ReplayStep(recording, 2, 2, {"", 0, 1e9, 0});
  EXPECT_EQ(result.gradient_bytes, 1000);  // b, of rank 0
  EXPECT_EQ(result.sent_bytes[0] + result.sent_bytes[1], 1000 + 2000);
}

TEST(ReplayedStepTest, SmallMessagesAreThreeGathersThroughRank0) {
  for (const int ranks : {1, 2, 5}) {
    const ReplayResult small = ReplayStep(SomeRecording(), ranks, 8, {"", 0, 1e300, 1}, Replayed::kSmallMessages);
    EXPECT_EQ(small.messages, 3 * 4 * (ranks - 1));
    EXPECT_EQ(small.gradient_bytes, 0);
  }
  // Two ranks, a second a message: three times 2 messages to rank 0, and 2 back.
  EXPECT_DOUBLE_EQ(ReplayStep(SomeRecording(), 2, 8, {"", 0, 1e300, 1}, Replayed::kSmallMessages).seconds, 12);
}

TEST(ReplayedStepTest, MemoryIsWeightsGradientsAndTheOwnedState) {
  const StepRecording recording = SomeRecording();
  EXPECT_EQ(RankMemoryBytes(recording, 1, 1), 2000 + 2000 + 4000);
  EXPECT_EQ(RankMemoryBytes(recording, 2, 2), 2000 + 2000 + 2000);
  EXPECT_EQ(RankMemoryBytes(recording, 2, 8), 2000 + 3 * 2000 + 2000);  // 4 parts a rank: two sums and a gradient
  // More ranks than parts are refused.
  EXPECT_THROW(ReplayStep(SomeRecording(), 3, 2, {"", 0, 1, 0}), Error);
}

TEST(ScalingTest, ASecondReplayIsTheSame) {
  const StepRecording recording = SomeRecording();
  const std::vector<Network> networks = {ParseNetwork("1GbE"), ParseNetwork("0.001/50/3")};
  const auto simulate = [&] { return ToJson(recording, SimulateScaling(recording, {1, 2, 5, 16}, networks)).Dump(); };
  EXPECT_EQ(simulate(), simulate());
}

TEST(ScalingTest, StrongScalingEndsAtTheNumberOfParts) {
  const std::vector<ScalingCurve> curves = SimulateScaling(SomeRecording(), {1, 2, 4}, {ParseNetwork("1GbE")});
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_EQ(curves[0].points.size(), 2u);
  ASSERT_EQ(curves[1].points.size(), 3u);
  EXPECT_EQ(curves[1].points[2].parts, 8);
}

TEST(NetworkTest, ReadsNamesAndNumbers) {
  EXPECT_EQ(ParseNetwork("10GbE").bytes_per_second, 1.1e9);
  const Network network = ParseNetwork("1.5/50/2");
  EXPECT_DOUBLE_EQ(network.bytes_per_second, 1.5e9);
  EXPECT_DOUBLE_EQ(network.latency, 50e-6);
  EXPECT_DOUBLE_EQ(network.overhead, 2e-6);
  for (const char* wrong : {"", "10gbe", "1", "1/2/3/4", "0/50", "-1/50", "1/-1", "x/1", "1/50/nan"}) {
    EXPECT_THROW(ParseNetwork(wrong), Error) << wrong;
  }
}

}  // namespace replay_test
}  // namespace crosstalk
