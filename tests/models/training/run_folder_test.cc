#include "crosstalk/models/training/run_folder.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/runtime/atomic_file.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk::run_folder_test {

// A run's file or a checkpoint makes a run of a folder; what is neither, nor left by a first save, is foreign.
TEST(RunFolderTest, KnowsItsOwnFilesFromOthers) {
  const TempDir dir;
  const RunFolder folder(dir / "run"), lost(dir / "lost");
  const auto expect = [](const RunFolder& of, bool holds, std::optional<std::string> foreign) {
    EXPECT_EQ(of.HoldsRun(), holds);
    EXPECT_EQ(of.ForeignName(), foreign);
  };
  expect(folder, false, {});
  const RunLock lock(folder.path());
  expect(folder, false, {});
  PutFile(dir / "run/letter.txt", "Dear reader");
  expect(folder, false, "letter.txt");
  PutFile(folder.RunFile(), "{}");
  expect(folder, true, {});
  CreateDirectories(dir / "lost/checkpoints/.step-00000000.tmp-1");  // of a run that was cut in its first save
  expect(lost, false, {});
  PutFile(dir / "lost/checkpoints/letter.txt", "Dear reader");
  expect(lost, false, "checkpoints");
  CheckpointStore(lost.CheckpointDirectory()).Save(3, {});
  expect(lost, true, {});
}

TEST(RunFolderTest, AnotherFormatIsRefused) {
  const TempDir dir;
  const RunFolder folder(dir.path());
  for (const char* text : {"{}", R"({"format": 77})", R"({"format": "2"})", "[]"}) {
    PutFile(folder.RunFile(), text);
    EXPECT_THROW(folder.ReadRunFile(), Error) << text;
  }
  PutFile(folder.RunFile(), Json::MakeObject({{"format", kRunFormat}}).Dump());
  EXPECT_NO_THROW(folder.ReadRunFile());
}

TEST(RunLockTest, OnlyOneHoldsAndSaysWho) {
  const TempDir dir;
  EXPECT_FALSE(RunLock::HolderOf(dir / "run"));
  auto lock = std::make_unique<RunLock>(dir / "run");
  EXPECT_THROW(RunLock(dir / "run"), Error);
  const std::string holder = RunLock::HolderOf(dir / "run").value();
  EXPECT_TRUE(holder.ends_with(", process " + std::to_string(getpid()))) << holder;
  WriteFileAtomically(dir / "run/file", "");  // so that the folder stays
  lock.reset();
  EXPECT_FALSE(RunLock::HolderOf(dir / "run"));
  EXPECT_EQ(ReadFile(dir / "run/lock"), "");  // as it was before
  EXPECT_NO_THROW(RunLock(dir / "run"));
}

// Nor is anything that is not a lock's taken for one, or written over.
TEST(RunLockTest, LeavesWhatIsSomebodys) {
  const TempDir dir;
  WriteFileAtomically(dir / "kept.txt", "mine");
  CreateDirectories(dir / "linked");
  ASSERT_EQ(symlink((dir / "kept.txt").c_str(), (dir / "linked/lock").c_str()), 0);
  { const RunLock lock(dir / "linked"); }
  EXPECT_EQ(ReadFile(dir / "kept.txt"), "mine");
  CreateDirectories(dir / "other");
  WriteFileAtomically(dir / "other/lock", "mine");
  {
    const RunLock lock(dir / "other");
    EXPECT_EQ(RunLock::HolderOf(dir / "other"), "another process");
  }
  EXPECT_EQ(ReadFile(dir / "other/lock"), "mine");
  CreateDirectories(dir / "pipe");
  ASSERT_EQ(mkfifo((dir / "pipe/lock").c_str(), 0600), 0);
  EXPECT_FALSE(RunLock::HolderOf(dir / "pipe"));
}

// A look at who holds a lock never makes it look taken.
TEST(RunLockTest, LooksDoNotKeepOthersOut) {
  const TempDir dir;
  WriteFileAtomically(dir / "file", "");
  std::atomic<bool> done = false;
  std::thread looks([&] {
    for (; !done; std::this_thread::sleep_for(std::chrono::microseconds(200))) RunLock::HolderOf(dir.path());
  });
  for (int i = 0; i < 200; ++i) EXPECT_NO_THROW(RunLock(dir.path()));
  done = true;
  looks.join();
}

TEST(RunLockTest, NewFoldersCountUp) {
  const TempDir dir;
  const auto first = RunLock::OfNewFolder(dir / "runs", "t5");
  EXPECT_EQ(first->folder(), dir / "runs/t5-1");
  PutFile(dir / "runs/t5-2", "a file");
  EXPECT_EQ(RunLock::OfNewFolder(dir / "runs", "t5")->folder(), dir / "runs/t5-3");
}

TEST(RunLockTest, AnUnusedFolderGoesWithTheLockThatCreatedIt) {
  const TempDir dir;
  { const RunLock lock(dir / "run/"); }
  EXPECT_EQ(KindOf(dir / "run"), PathKind::kNothing);
  { RunLock::OfNewFolder(dir.path(), "t5"); }
  EXPECT_EQ(KindOf(dir / "t5-1"), PathKind::kNothing);
  {
    const RunLock lock(dir / "run");
    PutFile(dir / "run/metrics.jsonl", "");
  }
  EXPECT_EQ(KindOf(dir / "run/metrics.jsonl"), PathKind::kFile);
  CreateDirectories(dir / "empty");
  { const RunLock lock(dir / "empty"); }
  EXPECT_EQ(KindOf(dir / "empty"), PathKind::kDirectory);
}

TEST(RunLockTest, AFolderThatIsNotTheLockedOneIsNoticed) {
  const TempDir dir;
  for (const bool replaced : {false, true}) {
    const RunLock lock(dir / "run");
    EXPECT_NO_THROW(lock.CheckHeld());
    std::filesystem::rename(dir / "run", dir / (replaced ? "moved-2" : "moved-1"));
    std::unique_ptr<RunLock> other;
    if (replaced) other = std::make_unique<RunLock>(dir / "run");
    testing::ExpectError([&] { lock.CheckHeld(); }, ErrorKind::kFailure,
                         {dir / "run: it or its lock was moved, removed or replaced"});
  }
  EXPECT_EQ(ListDirectory(dir.path()), (std::vector<std::string>{"moved-1", "moved-2"}));
}

// Each of many has its own, however they race; and a lock that goes takes no other's folder away.
TEST(RunLockTest, FoldersOfManyProcessesAreDistinct) {
  const TempDir dir;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(fork());
    if (children.back() > 0) continue;
    int failed = 0;
    try {
      for (int round = 0; round < 20; ++round) {
        const auto lock = RunLock::OfNewFolder(dir / "runs", "t5");
        if (round % 2 == 0) continue;
        if (KindOf(lock->folder() + "/run.json") != PathKind::kNothing) failed = 1;
        PutFile(lock->folder() + "/run.json", "{}");
      }
    } catch (...) {
      failed = 2;
    }
    _exit(failed);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(ListDirectory(dir / "runs").size(), 80u);
}

using Evaluated = MetricsLog::Evaluated;

Json Line(const char* event, int64_t step) { return Json::MakeObject({{"event", event}, {"step", step}}); }

std::string Written(const std::string& path, int64_t step, Evaluated evaluated) {
  { const MetricsLog log(path, step, evaluated); }
  return ReadBytes(path);
}

TEST(MetricsLogTest, ResumingDropsWhatWillBeWrittenAgain) {
  const TempDir dir;
  const std::string path = dir / "metrics.jsonl";
  const std::string kept_always =
      Line("train", 1).Dump() + "\n" + Line("eval", 1).Dump() + "\n" + Line("train", 2).Dump() + "\n";
  const std::string measured = Line("eval", 2).Dump() + "\n";
  const std::string later = Line("train", 3).Dump() + "\n" + Line("eval", 3).Dump() + "\n";
  for (const std::string& cut_off : {std::string(), std::string("{\"event\": \"tr")}) {
    PutFile(path, kept_always + measured + later + cut_off);
    EXPECT_EQ(Written(path, 2, Evaluated::kYes), kept_always + measured);
    PutFile(path, kept_always + measured + later + cut_off);
    EXPECT_EQ(Written(path, 2, Evaluated::kNo), kept_always);
    PutFile(path, kept_always + measured + later + cut_off);
    EXPECT_EQ(Written(path, 3, Evaluated::kYes), kept_always + measured + later);
  }
}

TEST(MetricsLogTest, ADamagedFileIsKeptBesideTheNewOne) {
  const TempDir dir;
  const std::string path = dir / "metrics.jsonl";
  const std::string first = Line("train", 1).Dump() + "\n", second = Line("train", 2).Dump() + "\n";
  int number = 0;
  for (const std::string& damaged :
       {std::string("not a line of ours\n"), std::string("\0\0\0\n", 4), std::string("{\"event\": \"train\"}\n"),
        std::string("{\"event\": 1, \"step\": 1}\n"), std::string("[]\n")}) {
    const std::string before = first + damaged + second;
    PutFile(path, before);
    const MetricsLog log(path, 2, Evaluated::kNo);
    const std::string kept = path + ".damaged-" + std::to_string(++number);
    EXPECT_TRUE(testing::Contains(log.damage(), path + ": line 2: ")) << log.damage();
    EXPECT_TRUE(testing::Contains(log.damage(), kept)) << log.damage();
    EXPECT_TRUE(ReadBytes(kept) == before);
    EXPECT_EQ(ReadBytes(path), first + second);
  }
  EXPECT_EQ(MetricsLog(path, 2, Evaluated::kNo).damage(), "");
}

TEST(MetricsLogTest, ALineThatIsNotJsonIsNamedByItsNumber) {
  const TempDir dir;
  const std::string path = dir / "metrics.jsonl";
  PutFile(path, Line("train", 1).Dump() + "\n" + Line("eval", 1).Dump() + "\n{\"cut");
  EXPECT_EQ(ReadMetrics(path).size(), 2u);
  PutFile(path, Line("train", 1).Dump() + "\nnonsense\n");
  testing::ExpectError([&] { ReadMetrics(path); }, ErrorKind::kData, {"line 2"});
}

}  // namespace crosstalk::run_folder_test
