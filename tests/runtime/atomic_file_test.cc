#include "crosstalk/runtime/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

#include "crosstalk/runtime/check.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace atomic_file_test {

using testing::MessageOf;

using Names = std::vector<std::string>;

class AtomicFileTest : public ::testing::Test {
 protected:
  // The file that was there, with what it held, and nothing beside it.
  void ExpectOldFile() const {
    EXPECT_EQ(ReadFile(dir / "file"), "old");
    EXPECT_EQ(ListDirectory(dir.path()), Names{"file"});
  }
  const TempDir dir;
};

// Its destructor runs while an exception is on its way, which may be that memory is out: another one would end the
// program.
TEST_F(AtomicFileTest, ATransactionThatIsGivenUpNeedsNoMemory) {
  bool gone = false;
  for (int64_t successes = 0; !gone; ++successes) {
    ASSERT_LT(successes, 100);
    auto transaction =
        std::make_unique<DirectoryTransaction>(dir / "checkpoint-with-a-long-name", OldDirectory::kReplaced);
    const std::string temporary = transaction->temporary_path();
    FileWriter(temporary + "/a-file-with-a-long-name").Finish();
    {
      const testing::FailingAllocations failing(successes);
      transaction.reset();
    }
    gone = !std::filesystem::exists(temporary);
  }
}

// f() while no file of this process may grow beyond `bytes`: a write fails with EFBIG, as on a full disk.
template <typename F>
void WithFilesOfAtMost(rlim_t bytes, const F& f) {
  void (*const handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit = {bytes, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  f();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

TEST_F(AtomicFileTest, WhatIsWrittenIsRead) {
  const std::string bytes("a\0b\xff\n", 5);
  WriteFileAtomically(dir / "file", bytes);
  EXPECT_EQ(ReadFile(dir / "file"), bytes);
  WriteFileAtomically(dir / "file", "");
  EXPECT_EQ(ReadFile(dir / "file"), "");
  EXPECT_EQ(ListDirectory(dir.path()), Names{"file"});
}

TEST_F(AtomicFileTest, ReadingSaysWhyItCannot) {
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  WriteFileAtomically(dir / "long", "12345");
  testing::ExpectRefused<std::string>(
      {{"no file", dir / "none", {dir / "none: cannot open: No such file or directory"}},
       {"a folder", dir.path(), {dir.path() + ": is a directory"}},
       {"a device", "/dev/null", {"/dev/null: is not a regular file"}},
       {"a pipe", dir / "pipe", {dir / "pipe: is not a regular file"}},
       {"too long", dir / "long", {dir / "long: has 5 bytes, more than the 4 that are read here"}}},
      [](const std::string& path) { ReadFile(path, 4); }, ErrorKind::kData);
  EXPECT_EQ(ReadFile(dir / "long", 5), "12345");
  if (geteuid() == 0) return;
  ASSERT_EQ(chmod((dir / "long").c_str(), 0), 0);
  EXPECT_EQ(MessageOf([&] { ReadFile(dir / "long"); }, ErrorKind::kFailure),
            dir / "long: cannot open: Permission denied");
}

TEST_F(AtomicFileTest, AFileThatShrinksUnderTheReaderIsAnError) {
  WriteFileAtomically(dir / "file", "0123456789");
  const FileReader reader(dir / "file");
  EXPECT_EQ(reader.size(), 10u);
  ASSERT_EQ(truncate((dir / "file").c_str(), 4), 0);
  char out[10];
  EXPECT_EQ(MessageOf([&] { reader.ReadAt(0, out, 10); }, ErrorKind::kData),
            dir / "file: ends at byte 4, 6 bytes too early");
}

TEST_F(AtomicFileTest, AWriterThatIsNotCommittedOrFindsAFullDiskLeavesTheOldFile) {
  WriteFileAtomically(dir / "file", "old");
  {
    AtomicFile file(dir / "file");
    file.writer().Write("new, not finished");
    EXPECT_EQ(ReadFile(dir / "file"), "old");
  }
  ExpectOldFile();
  WithFilesOfAtMost(100, [&] {
    EXPECT_EQ(MessageOf([&] { WriteFileAtomically(dir / "file", std::string(1000, 'x')); }, ErrorKind::kResource),
              dir / "file: cannot write: File too large; free some space or choose another folder");
  });
  ExpectOldFile();
  MessageOf([&] { DirectoryTransaction(dir / "file", OldDirectory::kReplaced).Commit(); }, ErrorKind::kFailure);
  ExpectOldFile();
}

TEST_F(AtomicFileTest, OnlyARegularFileIsReplaced) {
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(MessageOf([&] { WriteFileAtomically(dir / "pipe", "x"); }, ErrorKind::kFailure),
            dir / "pipe: cannot put in place: is not a regular file; name a file");
  struct stat status;
  ASSERT_EQ(stat((dir / "pipe").c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
  EXPECT_EQ(MessageOf([&] { WriteFileAtomically(dir.path(), "x"); }, ErrorKind::kFailure),
            dir.path() + ": cannot put in place: is a directory; name a file");
  EXPECT_EQ(ListDirectory(dir.path()), Names{"pipe"});
}

TEST_F(AtomicFileTest, TheFileBehindASymbolicLinkIsReplacedAndTheLinkStays) {
  CreateDirectories(dir / "elsewhere");
  WriteFileAtomically(dir / "elsewhere/file", "old");
  ASSERT_EQ(symlink("elsewhere/file", (dir / "link").c_str()), 0);
  WriteFileAtomically(dir / "link", "new");
  EXPECT_EQ(ReadFile(dir / "elsewhere/file"), "new");
  struct stat status;
  ASSERT_EQ(lstat((dir / "link").c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
}

TEST_F(AtomicFileTest, APlaceThatCannotBeWrittenIsAnError) {
  WriteFileAtomically(dir / "file", "x");
  testing::ExpectRefused(
      {{"no folder", [&] { WriteFileAtomically(dir / "none/file", "x"); }, {"none/file: cannot create: No such file"}},
       {"below a file", [&] { CreateDirectories(dir / "file/below"); }, {}},
       {"a file", [&] { CreateDirectories(dir / "file"); }, {}},
       {"no parent", [&] { CreateDirectory(dir / "none/below"); }, {}},
       {"nothing there", [&] { RemoveAtomically(dir / "none"); }, {}}},
      ErrorKind::kFailure);
  FileWriter full("/dev/full");
  EXPECT_EQ(MessageOf([&] { full.Write("x"); }, ErrorKind::kResource),
            "/dev/full: cannot write: No space left on device; free some space or choose another folder");
}

TEST_F(AtomicFileTest, TheWriterCountsAndChecksums) {
  FileWriter file(dir / "file", "shown/name");
  file.Write("12345");
  file.Write("6789");
  file.Finish();
  EXPECT_EQ(file.bytes_written(), 9u);
  EXPECT_EQ(file.crc64(), 0x995dc9bbdf1939fau);
  EXPECT_EQ(file.path(), "shown/name");
  EXPECT_EQ(ReadFile(dir / "file"), "123456789");
  EXPECT_EQ(MessageOf([&] { file.Write("x"); }, ErrorKind::kUsage), "shown/name: written to after Finish");
}

TEST_F(AtomicFileTest, DirectoriesAreCreatedWithTheirParentsByOneOfSeveralCallersAndRemoved) {
  CreateDirectories(dir / "a/b/c/");
  CreateDirectories(dir / "a/b/c");
  EXPECT_EQ(ListDirectory(dir / "a/b"), Names{"c"});
  EXPECT_TRUE(CreateDirectory(dir / "one/"));
  EXPECT_FALSE(CreateDirectory(dir / "one"));
  WriteFileAtomically(dir / "one/file", "x");
  EXPECT_FALSE(CreateDirectory(dir / "one/file"));
  RemoveAtomically(dir / "one");
  RemoveAll(dir / "a");
  RemoveAll(dir / "a");
  EXPECT_EQ(ListDirectory(dir.path()), Names{});
}

TEST_F(AtomicFileTest, ThePlaceOfAMissingPathIsFree) {
  WriteFileAtomically(dir / "file", "x");
  EXPECT_EQ(KindOf(dir.path()), PathKind::kDirectory);
  EXPECT_EQ(KindOf(dir / "file"), PathKind::kFile);
  EXPECT_EQ(KindOf("/dev/null"), PathKind::kOther);
  EXPECT_EQ(KindOf(dir / "none"), PathKind::kNothing);
  std::filesystem::create_symlink("none", dir / "link");
  EXPECT_EQ(KindOf(dir / "link"), PathKind::kOther);
  EXPECT_EQ(KindOf(dir / "file/below"), PathKind::kNothing);
  EXPECT_THROW(KindOf(dir / std::string(300, 'x')), Error);
}

TEST_F(AtomicFileTest, RemovingDoesNotFollowLinks) {
  CreateDirectories(dir / "kept");
  WriteFileAtomically(dir / "kept/file", "x");
  CreateDirectories(dir / "gone");
  std::filesystem::create_directory_symlink(dir / "kept", dir / "gone/link");
  RemoveAll(dir / "gone");
  EXPECT_EQ(ListDirectory(dir.path()), Names{"kept"});
  EXPECT_EQ(ReadFile(dir / "kept/file"), "x");
}

TEST_F(AtomicFileTest, ADirectoryAppearsWholeInPlaceOfAnOldOneOrNotAtAll) {
  {
    DirectoryTransaction abandoned(dir / "runs/one", OldDirectory::kReplaced);
    WriteFileAtomically(abandoned.temporary_path() + "/file", "x");
  }
  EXPECT_EQ(ListDirectory(dir / "runs"), Names{});
  for (const std::string content : {"1", "2"}) {
    DirectoryTransaction transaction(dir / "runs/one/", OldDirectory::kReplaced);
    WriteFileAtomically(transaction.temporary_path() + "/file-" + content, content);
    EXPECT_EQ(std::filesystem::exists(dir / "runs/one"), content == "2");
    transaction.Commit();
    EXPECT_EQ(ListDirectory(dir / "runs/one"), Names{"file-" + content});
    EXPECT_EQ(ReadFile(dir / "runs/one/file-" + content), content);
  }
  EXPECT_EQ(ListDirectory(dir / "runs"), Names{"one"});
}

// Whatever has come to its place since it was begun.
TEST_F(AtomicFileTest, ADirectoryThatMustBeNewReplacesNothing) {
  DirectoryTransaction first(dir / "one", OldDirectory::kKept), second(dir / "one/", OldDirectory::kKept);
  for (DirectoryTransaction* one : {&first, &second}) WriteFileAtomically(one->temporary_path() + "/file", one->path());
  CreateDirectories(dir / "one");  // an empty one is none
  first.Commit();
  EXPECT_EQ(MessageOf([&] { second.Commit(); }, ErrorKind::kUsage),
            dir / "one: is a folder that holds something already; name another");
  WriteFileAtomically(dir / "two", "file");
  DirectoryTransaction third(dir / "two", OldDirectory::kKept);
  EXPECT_EQ(MessageOf([&] { third.Commit(); }, ErrorKind::kUsage), dir / "two: is a file already; name another");
  EXPECT_EQ(ListDirectory(dir / "one"), Names{"file"});
  EXPECT_EQ(ReadFile(dir / "two"), "file");
}

TEST_F(AtomicFileTest, OnlyTemporariesAreTakenForRubbish) {
  for (const char* kept : {"file.tmp-1", ".hidden", "step-1", "tmp-1"}) WriteFileAtomically(dir / kept, "x");
  CreateDirectories(dir / ".step-1.tmp-12-0/below");
  WriteFileAtomically(dir / ".file.tmp-12-1", "x");
  EXPECT_EQ(RemoveTemporaries(dir.path()).removed, (Names{".file.tmp-12-1", ".step-1.tmp-12-0"}));
  EXPECT_EQ(ListDirectory(dir.path()), (Names{".hidden", "file.tmp-1", "step-1", "tmp-1"}));
}

TEST_F(AtomicFileTest, TheNextWriterRemovesWhatAKilledOneHasLeft) {
  const auto die = [&] {
    AtomicFile file(dir / "file");
    file.writer().Write("half");
    DirectoryTransaction directory(dir / "directory", OldDirectory::kReplaced);
    WriteFileAtomically(directory.temporary_path() + "/below", "x");
    _exit(0);
  };
  EXPECT_EXIT(die(), ::testing::ExitedWithCode(0), "");
  ASSERT_EQ(ListDirectory(dir.path()).size(), 2u);
  for (const char* foreign : {".file.tmp-backup", ".file.tmp-1x", ".other.tmp-1-1"})
    WriteFileAtomically(dir / foreign, "x");
  {
    // What is being written stays, also where everything is cleared.
    AtomicFile first(dir / "file"), second(dir / "file");
    const DirectoryTransaction directory(dir / "directory", OldDirectory::kReplaced);
    const Names names = ListDirectory(dir.path());
    EXPECT_EQ(names.size(), 3u + 3u);
    EXPECT_TRUE(std::all_of(names.begin(), names.end(), [](const auto& name) { return IsTemporaryName(name); }));
    EXPECT_EQ(RemoveTemporaries(dir.path()).removed.size(), 3u);
    first.writer().Write("first");
    second.writer().Write("second");
    second.Commit();
    first.Commit();
  }
  EXPECT_EQ(ListDirectory(dir.path()), Names{"file"});
  EXPECT_EQ(ReadFile(dir / "file"), "first");
}

}  // namespace atomic_file_test
}  // namespace crosstalk
