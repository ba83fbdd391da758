#include "crosstalk/models/interop/import.h"

#include <gtest/gtest.h>

#include <string>

#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "tests/support/parity.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace import_test {

// Whenever it is asked to stop, nothing is left, not even under another name.
TEST(ImportTest, InterruptedItLeavesNothing) {
  for (int calls = 1;; ++calls) {
    const TempDir dir;
    int left = calls;
    const StopRequest stop = [&] { return --left == 0; };
    try {
      ImportModel(ParityFolder("albert_groups1"), dir / "model", {.stop = stop});
    } catch (const Interrupted&) {
      EXPECT_TRUE(ListDirectory(dir.path()).empty()) << calls;
      continue;
    }
    EXPECT_GT(calls, 2);
    EXPECT_EQ(ListDirectory(dir.path()).size(), 1u);
    return;
  }
}

// The fields of a training configuration say what the model is, as far as they can.
TEST(ImportTest, ItsTrainingConfigurationSaysItsSizes) {
  const TempDir dir;
  ImportModel(ParityFolder("albert_groups1"), dir / "model", {.attention = AttentionKind::kTalking});
  const TrainingConfig config = ReadRunConfig(RunFolder(dir / "model"));
  EXPECT_EQ(config.model.name, "albert");
  EXPECT_EQ(config.model.attention.kind, AttentionKind::kTalking);
  EXPECT_EQ(config.model.mixing_init, MixingInit::kIdentity);
  EXPECT_EQ(config.model.attention.heads, 4);
  EXPECT_EQ(config.model.attention_scale, AttentionScale::kExplicit);
  EXPECT_EQ(config.model.d_model, 48);
  EXPECT_EQ(config.model.d_ff, 96);
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.embedding_size, 32);
  EXPECT_EQ(config.model.layer_groups, 1);
  EXPECT_EQ(config.model.max_positions, 40);
  EXPECT_EQ(config.model.feed_forward, FeedForwardKind::kGeluTanh);
  EXPECT_EQ(config.model.positions, PositionScheme::kLearned);
}

}  // namespace import_test
}  // namespace crosstalk
