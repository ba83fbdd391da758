// A run on several ranks: the same bits as one process's, whatever their number, also where it is cut and resumed; and
// what refuses to begin.
#include "crosstalk/models/training/ranks/session.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "crosstalk/models/training/run.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/thread_transport.h"
#include "tests/support/tiny_config.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace session_test {

using testing::RunRanks;
using testing::ThreadTransport;

// Trains in the folder on so many ranks, 0: in one process without any. What rank 0 throws is thrown.
TrainingSummary TrainOn(int ranks, const TrainingConfig& config, const std::string& folder,
                        TrainingObserver observer = {}) {
  const ResumeOptions resume = {.from = ResumeOptions::From::kNewest, .path = ""};
  TrainingSummary summary;
  if (ranks == 0) return TrainingRun(ResolvedConfig(config), folder, resume, observer).Train();
  RunRanks(ranks, [&](ThreadTransport& transport) {
    RankGroup group(transport);
    if (!group.leads()) return ServeRanks(group);
    summary = TrainingRun(ResolvedConfig(config), folder, resume, observer, &group).Train();
    EndRanks(group);
  });
  return summary;
}

std::string ModelOf(const std::string& folder) { return Sha256OfFile(folder + "/model.safetensors"); }

TrainingConfig ConfigOf(const std::string& model, OptimizerKind optimizer, Precision precision) {
  TrainingConfig config = TinyConfigOf(model);
  config.optimization.optimizer = optimizer;
  config.optimization.precision = precision;
  config.optimization.batch = 11;
  config.optimization.shards = 8;  // parts of one and two rows
  config.optimization.clip = 0.5;
  config.optimization.steps = 6;
  config.model.dropout_rate = 0.1;
  config.run.eval_every = 3;
  config.run.eval_batches = 3;
  config.run.checkpoint_every = 0;
  return config;
}

TEST(RankSessionTest, BitsDoNotDependOnTheNumberOfRanks) {
  for (const char* model : {"t5", "bert", "albert", "lm"}) {
    for (const OptimizerKind optimizer : {OptimizerKind::kAdamW, OptimizerKind::kAdafactor, OptimizerKind::kLamb}) {
      for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
        const TrainingConfig config = ConfigOf(model, optimizer, precision);
        const TempDir dir;
        const ThreadsScope threads(1);
        const TrainingSummary alone = TrainOn(0, config, dir / "alone");
        const bool fp32 = precision == Precision::kFloat32;
        for (const int ranks : fp32 ? std::array{3, 8} : std::array{2, 5}) {
          const ThreadsScope more(ranks % 2 == 0 ? 1 : 3);
          const std::string folder = dir / std::to_string(ranks);
          const TrainingSummary summary = TrainOn(ranks, config, folder);
          const std::string what = StrCat(model, ", ", Name(optimizer), ", ", Name(precision), ", ", ranks, " ranks");
          EXPECT_EQ(ModelOf(folder), ModelOf(dir / "alone")) << what;
          EXPECT_EQ(summary.last_evaluation->result.metrics[0].value, alone.last_evaluation->result.metrics[0].value)
              << what;
          const std::string state = "/checkpoints/step-00000006/optimizer.safetensors";
          EXPECT_EQ(Sha256OfFile(folder + state), Sha256OfFile(dir / "alone" + state)) << what;
        }
      }
    }
  }
}

TEST(RankSessionTest, ARunIsResumedOnAnotherNumberOfRanks) {
  const TrainingConfig config = ConfigOf("t5", OptimizerKind::kAdafactor, Precision::kFloat32);
  const TempDir dir;
  TrainOn(0, config, dir / "whole");
  for (const auto& [first, second, third] : {std::tuple(3, 2, 0), {0, 8, 5}, {2, 0, 3}}) {
    const std::string folder = dir / StrCat(first, "-", second, "-", third);
    const auto until = [](int64_t step) {
      TrainingObserver observer;
      const auto done = std::make_shared<std::atomic<int64_t>>(0);
      observer.step = [done](const StepResult& result) { *done = result.step; };
      observer.stop = [done, step] { return *done >= step; };
      return observer;
    };
    EXPECT_EQ(TrainOn(first, config, folder, until(2)).end, TrainingSummary::End::kStopped);
    EXPECT_EQ(TrainOn(second, config, folder, until(4)).end, TrainingSummary::End::kStopped);
    EXPECT_EQ(TrainOn(third, config, folder).end, TrainingSummary::End::kFinished);
    EXPECT_EQ(ModelOf(folder), ModelOf(dir / "whole")) << first << ", " << second << ", " << third;
    const Json run = ReadJsonFile(folder + "/run.json");
    const std::vector<Json>& sessions = run.At("sessions").AsArray();
    ASSERT_EQ(sessions.size(), 3u);
    const Json* ranks = sessions[0].Find("ranks");
    EXPECT_EQ(ranks == nullptr ? 0 : std::ssize(ranks->AsArray()), first);
  }
}

TEST(RankSessionTest, RanksAreRefusedBeforeAnythingIsWritten) {
  const TempDir dir;
  TrainingConfig config = ConfigOf("t5", OptimizerKind::kAdamW, Precision::kFloat32);
  config.optimization.shards = 2;
  testing::ExpectError([&] { TrainOn(3, config, dir / "run"); }, ErrorKind::kUsage, {"3 ranks", "2 parts"});
  EXPECT_FALSE(Exists(dir / "run"));
}

TEST(RankSessionTest, ANonFiniteLossEndsTheRunAndTheRanksCanBeUsedAgain) {
  const TempDir dir;
  TrainingConfig config = ConfigOf("t5", OptimizerKind::kAdamW, Precision::kFloat32);
  config.optimization.learning_rate = 1e30;
  config.optimization.clip = 0;
  RunRanks(3, [&](ThreadTransport& transport) {
    RankGroup group(transport);
    if (!group.leads()) return ServeRanks(group);
    testing::ExpectError([&] { TrainingRun(ResolvedConfig(config), dir / "run", {}, {}, &group).Train(); },
                         ErrorKind::kNumerical, {"not finite"});
    EXPECT_TRUE(group.together());
    EndRanks(group);
  });
}

}  // namespace session_test
}  // namespace crosstalk
