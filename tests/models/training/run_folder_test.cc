#include "crosstalk/models/training/run_folder.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace {

TEST(RunLockTest, OnlyOneHolds) {
  const TempDir dir;
  auto lock = std::make_unique<RunLock>(dir / "run");
  EXPECT_THROW(RunLock(dir / "run"), Error);
  lock.reset();
  EXPECT_NO_THROW(RunLock(dir / "run"));
}

TEST(RunFolderTest, KnowsItsOwnFilesFromOthers) {
  const TempDir dir;
  const RunFolder folder(dir / "run");
  EXPECT_FALSE(folder.HoldsRun());
  EXPECT_FALSE(folder.IsForeign());
  { const RunLock lock(folder.path()); }
  EXPECT_FALSE(folder.IsForeign());
  WriteBytes(dir / "run/letter.txt", "Dear reader");
  EXPECT_TRUE(folder.IsForeign());
  WriteBytes(folder.RunFile(), "{}");
  EXPECT_TRUE(folder.HoldsRun());
  EXPECT_FALSE(folder.IsForeign());
}

TEST(RunFolderTest, AnotherFormatIsRefused) {
  const TempDir dir;
  const RunFolder folder(dir.path());
  for (const char* text : {"{}", R"({"format": 77})", R"({"format": "2"})", "[]"}) {
    WriteBytes(folder.RunFile(), text);
    EXPECT_THROW(folder.ReadRunFile(), Error) << text;
  }
  WriteBytes(folder.RunFile(), Json::MakeObject({{"format", kRunFormat}}).Dump());
  EXPECT_NO_THROW(folder.ReadRunFile());
}

TEST(RunFolderTest, UnusedPathsCountUp) {
  const TempDir dir;
  EXPECT_EQ(UnusedRunPath(dir.path(), "t5"), dir / "t5-1");
  std::filesystem::create_directory(dir / "t5-1");
  EXPECT_EQ(UnusedRunPath(dir.path(), "t5"), dir / "t5-2");
}

}  // namespace
}  // namespace crosstalk
