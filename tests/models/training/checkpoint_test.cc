#include "crosstalk/models/training/checkpoint.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::checkpoint_test {

using testing::MessageOf;

using Names = std::vector<std::string>;
using Steps = std::vector<int64_t>;

// Files whose content tells the step.
std::vector<CheckpointFile> FilesOf(int64_t step) {
  return {BytesFile("model.safetensors", "model " + std::to_string(step) + std::string(1000, 'm')),
          BytesFile("state.json", "{\"step\": " + std::to_string(step) + "}"), BytesFile("config.json", "")};
}

void Put(const std::string& path, const std::string& bytes) {
  RemoveAll(path);
  FileWriter(path).Write(bytes);
}

TEST(CheckpointTest, WhatIsSavedVerifiesAndIsFound) {
  const TempDir dir;
  CheckpointStore store(dir / "run/checkpoints");
  EXPECT_FALSE(store.FindNewestGood().checkpoint);
  EXPECT_EQ(store.Steps(), Steps{});
  const Checkpoint saved = store.Save(123, FilesOf(123), 2.5);
  EXPECT_EQ(saved.path, dir / "run/checkpoints/step-00000123");
  EXPECT_EQ(ListDirectory(saved.path), (Names{"config.json", "manifest.json", "model.safetensors", "state.json"}));
  const Checkpoint verified = VerifyCheckpoint(saved.path);
  EXPECT_EQ(verified.step, 123);
  EXPECT_EQ(verified.score, 2.5);
  EXPECT_EQ(ReadFile(verified.FilePath("state.json")), "{\"step\": 123}");
  const FoundCheckpoint found = CheckpointStore(dir / "run/checkpoints").FindNewestGood();
  ASSERT_TRUE(found.checkpoint);
  EXPECT_EQ(found.checkpoint->step, 123);
  EXPECT_TRUE(found.skipped.empty());
}

// A file is read in pieces of a megabyte.
TEST(CheckpointTest, DamageIsSeenInEachPieceOfALongFile) {
  const TempDir dir;
  std::string bytes((size_t{5} << 20) / 2 + 7, 'm');
  for (size_t i = 0; i < bytes.size(); i += 1001) bytes[i] = static_cast<char>(i % 251);
  const std::vector<CheckpointFile> files = {BytesFile("model.safetensors", bytes)};
  const Checkpoint saved = CheckpointStore(dir.path()).Save(1, files);
  EXPECT_EQ(VerifyCheckpoint(saved.path).step, 1);
  for (const size_t at : {size_t{3}, (size_t{1} << 20) + 3, bytes.size() - 1}) {
    std::string damaged = bytes;
    damaged[at] ^= 1;
    Put(saved.FilePath("model.safetensors"), damaged);
    MessageOf([&] { VerifyCheckpoint(saved.path); }, ErrorKind::kData);
  }
}

TEST(CheckpointTest, TheSameFilesGiveTheSameManifest) {
  const TempDir dir;
  CheckpointStore one(dir / "one");
  CheckpointStore two(dir / "two");
  const std::vector<CheckpointFile> files = FilesOf(7);
  const std::vector<CheckpointFile> reversed(files.rbegin(), files.rend());
  EXPECT_EQ(ReadFile(one.Save(7, files).FilePath("manifest.json")),
            ReadFile(two.Save(7, reversed).FilePath("manifest.json")));
}

TEST(CheckpointTest, StepsAreInOrderAndOtherNamesAreNot) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  for (int64_t step : {2, 1000000000, 10}) store.Save(step, FilesOf(step));
  for (const char* name : {"step-3", "step-0000000a", "step-000000004", "other", ".step-00000005.tmp-1-1"}) {
    CreateDirectories(dir / name);
  }
  Put(dir / "step-00000006", "a file");
  EXPECT_EQ(store.Steps(), (Steps{2, 10, 1000000000}));
}

TEST(CheckpointTest, NamesThatAreNotPlainAreRefused) {
  const TempDir dir;
  CheckpointStore store(dir / "checkpoints");
  const auto save = [&](const std::vector<CheckpointFile>& files) { store.Save(1, files); };
  for (const char* name : {"", ".", "..", "a/b", "../a", ".hidden", "manifest.json", "a b", "a\n"}) {
    MessageOf([&] { save({BytesFile(name, "x")}); });
  }
  MessageOf([&] { save({BytesFile("a", "x"), BytesFile("a", "x")}); });
  MessageOf([&] { store.Save(-1, FilesOf(1)); });
  MessageOf([&] { store.Prune(0); });
  EXPECT_EQ(ListDirectory(dir / "checkpoints"), Names{});
}

TEST(CheckpointTest, DamageIsRefusedWithTheFileAndTheReason) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  const std::string path = store.Save(1, FilesOf(1), 1.5).path;
  const std::string model = path + "/model.safetensors", good = ReadFile(model);
  const std::string manifest = path + "/manifest.json", whole = ReadFile(manifest);
  const auto with = [&](const std::string& bytes) { return [&, bytes] { Put(model, bytes); }; };
  const auto flipped = [&](size_t bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    return with(bytes);
  };
  testing::ExpectRefused<std::function<void()>>(
      {{"cut", with(good.substr(0, 500)), {model + ": truncated: has 500 bytes, the manifest says 1007"}},
       {"empty", with(""), {model + ": truncated: has 0 bytes, the manifest says 1007"}},
       {"longer", with(good + "x"), {model + ": too long: has 1008 bytes, the manifest says 1007"}},
       {"the first bit", flipped(0), {model + ": altered: has the checksum crc64:"}},
       {"bit 4001", flipped(4001), {model + ": altered: has the checksum crc64:"}},
       {"the last bit", flipped(8 * good.size() - 1), {model + ": altered: has the checksum crc64:"}},
       {"gone", [&] { RemoveAll(model); }, {model + ": missing, but in the manifest"}},
       {"a folder", [&] { RemoveAll(model), CreateDirectories(model); }, {model + ": is a directory"}},
       {"foreign", [&] { Put(path + "/extra", ""); }, {path + "/extra: a foreign file: it is not in the manifest"}},
       {"no manifest",
        [&] { RemoveAll(manifest); },
        {path + ": has no manifest.json: not a checkpoint, or not a whole one"}}},
      [&](const std::function<void()>& damage) {
        Put(model, good), Put(manifest, whole), RemoveAll(path + "/extra");
        EXPECT_NO_THROW(VerifyCheckpoint(path));
        damage();
        VerifyCheckpoint(path);
      },
      ErrorKind::kData);
  testing::ExpectError([&] { VerifyCheckpoint(dir / "none"); }, ErrorKind::kData, {"No such file"});
}

TEST(CheckpointTest, EveryFlippedBitAndTruncationOfTheManifestIsSeen) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  const std::string path = store.Save(1, FilesOf(1), 1.5).path;
  const std::string manifest = ReadFile(path + "/manifest.json");
  for (size_t bit = 0; bit < 8 * manifest.size(); ++bit) {
    std::string flipped = manifest;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    Put(path + "/manifest.json", flipped);
    EXPECT_NE(MessageOf([&] { VerifyCheckpoint(path); }, ErrorKind::kData), "") << "bit " << bit;
  }
  for (size_t size = 0; size < manifest.size(); ++size) {
    Put(path + "/manifest.json", manifest.substr(0, size));
    EXPECT_NE(MessageOf([&] { VerifyCheckpoint(path); }, ErrorKind::kData), "") << "size " << size;
  }
}

TEST(CheckpointTest, NewestGoodSkipsWhatIsDamagedAndSaysWhy) {
  const TempDir dir;
  CheckpointStore saving(dir.path());
  for (int64_t step : {10, 20, 30, 40}) saving.Save(step, FilesOf(step));
  Put(saving.PathOf(40) + "/state.json", "{");
  RemoveAll(saving.PathOf(30));
  std::filesystem::copy(saving.PathOf(10), saving.PathOf(30));  // whole, but of another step

  const FoundCheckpoint found = CheckpointStore(dir.path()).FindNewestGood();
  ASSERT_TRUE(found.checkpoint);
  EXPECT_EQ(found.checkpoint->step, 20);
  ASSERT_EQ(found.skipped.size(), 2u);
  EXPECT_EQ(found.skipped[0].path, saving.PathOf(40));
  EXPECT_EQ(found.skipped[0].reason, saving.PathOf(40) + "/state.json: truncated: has 1 bytes, the manifest says 12");
  EXPECT_EQ(found.skipped[1].path, saving.PathOf(30));
  EXPECT_EQ(found.skipped[1].reason,
            saving.PathOf(30) + "/manifest.json: is of step 10, but stands in the directory of step 30");
}

TEST(CheckpointTest, TheBestHasTheLowestScore) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  EXPECT_FALSE(store.FindBest().checkpoint);
  store.Save(1, FilesOf(1));
  store.Save(2, FilesOf(2), std::nan(""));
  EXPECT_FALSE(store.FindBest().checkpoint);
  store.Save(3, FilesOf(3), 2.0);
  store.Save(4, FilesOf(4), 1.0);
  store.Save(5, FilesOf(5), 3.0);
  EXPECT_EQ(store.FindBest().checkpoint->step, 4);
  EXPECT_FALSE(store.FindBest().better);
  Put(store.PathOf(5) + "/state.json", "{}");
  EXPECT_FALSE(CheckpointStore(dir.path()).FindBest().better);  // its score is known to be worse
  Put(store.PathOf(4) + "/state.json", "{}");
  const FoundCheckpoint second = CheckpointStore(dir.path()).FindBest();
  EXPECT_EQ(second.checkpoint->step, 3);
  ASSERT_TRUE(second.better);
  EXPECT_EQ(second.better->path, store.PathOf(4));
  // What nothing is known of may be the best.
  Put(store.PathOf(1) + "/manifest.json", "{");
  std::filesystem::remove_all(store.PathOf(4));
  ASSERT_TRUE(CheckpointStore(dir.path()).FindBest().better);
}

TEST(CheckpointTest, PruneKeepsTheNewestAndTheBest) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  for (int64_t step = 1; step <= 6; ++step) store.Save(step, FilesOf(step), step == 2 ? 1.0 : 2.0);
  EXPECT_EQ(store.Prune(2).removed, (Steps{1, 3, 4}));
  EXPECT_EQ(store.Steps(), (Steps{2, 5, 6}));
  EXPECT_EQ(store.Prune(2).removed, Steps{});
  EXPECT_EQ(ListDirectory(dir.path()), (Names{"step-00000002", "step-00000005", "step-00000006"}));
}

// What is not good stays, and so does the newest good one, and that of the lowest score.
TEST(CheckpointTest, PruneRemovesNothingThatIsNotGoodNorTheOnlyGoodOne) {
  const TempDir dir, other;
  CheckpointStore saving(dir.path()), scored(other.path());
  for (int64_t step = 1; step <= 6; ++step) scored.Save(step, FilesOf(step), step == 2 ? 1.0 : 2.0);
  for (int64_t step = 1; step <= 5; ++step) saving.Save(step, FilesOf(step));
  for (int64_t step = 3; step <= 5; ++step) Put(saving.PathOf(step) + "/state.json", "");
  CheckpointStore store(dir.path());
  EXPECT_EQ(store.Prune(1).removed, Steps{1});
  EXPECT_EQ(store.Steps(), (Steps{2, 3, 4, 5}));
  EXPECT_EQ(store.FindNewestGood().checkpoint->step, 2);
  Put(scored.PathOf(2) + "/manifest.json", "{}");
  Put(scored.PathOf(3) + "/state.json", "");
  CheckpointStore with_scores(other.path());
  EXPECT_EQ(with_scores.Prune(1).removed, (Steps{4, 5}));
  EXPECT_EQ(with_scores.Steps(), (Steps{1, 2, 3, 6}));
}

TEST(CheckpointTest, SavingAStepAgainReplacesIt) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  store.Save(1, FilesOf(1), 5.0);
  store.Save(1, std::vector<CheckpointFile>{BytesFile("other", "x")}, 4.0);
  EXPECT_EQ(ListDirectory(store.PathOf(1)), (Names{"manifest.json", "other"}));
  EXPECT_EQ(VerifyCheckpoint(store.PathOf(1)).score, 4.0);
  EXPECT_EQ(ListDirectory(dir.path()), Names{"step-00000001"});
}

TEST(CheckpointTest, AFailingWriterLeavesTheEarlierOnesAndNoRubbish) {
  const TempDir dir;
  CheckpointStore store(dir.path());
  store.Save(1, FilesOf(1));
  const std::vector<CheckpointFile> files = {BytesFile("a", "x"), {"b", [](FileWriter& file) {
                                                                     file.Write("half of");
                                                                     throw std::runtime_error("no more");
                                                                   }}};
  EXPECT_THROW(store.Save(2, files), std::runtime_error);
  EXPECT_THROW(store.Save(1, files), std::runtime_error);
  EXPECT_EQ(ListDirectory(dir.path()), Names{"step-00000001"});
  EXPECT_NO_THROW(VerifyCheckpoint(store.PathOf(1)));
}

TEST(CheckpointTest, KilledWhileItWritesAFileItLeavesTheEarlierOne) {
  for (int killed_file = 0; killed_file < 3; ++killed_file) {
    const TempDir dir;
    CheckpointStore store(dir.path());
    store.Save(1, FilesOf(1));
    for (int64_t step : {1, 2}) {  // replacing, and new
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        std::vector<CheckpointFile> files = FilesOf(step);
        files[killed_file].write = [](FileWriter& file) {
          file.Write("a part");
          raise(SIGKILL);
        };
        store.Save(step, files);
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status)) << status;
    }
    CheckpointStore after(dir.path());
    EXPECT_EQ(after.Steps(), Steps{1});
    EXPECT_EQ(after.FindNewestGood().checkpoint->step, 1);
    EXPECT_EQ(after.RemoveStale().removed.size(), 2u);
    EXPECT_EQ(ListDirectory(dir.path()), Names{"step-00000001"});
    after.Save(2, FilesOf(2));
    EXPECT_EQ(after.FindNewestGood().checkpoint->step, 2);
  }
}

}  // namespace crosstalk::checkpoint_test
