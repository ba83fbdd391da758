#include <gtest/gtest.h>

#include "crosstalk/models/training/run_folder.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace metrics_log_test {

using Evaluated = MetricsLog::Evaluated;

Json Line(const char* event, int64_t step) { return Json::MakeObject({{"event", event}, {"step", step}}); }

std::string Written(const std::string& path, int64_t step, Evaluated evaluated) {
  { const MetricsLog log(path, step, evaluated); }
  return ReadBytes(path);
}

TEST(MetricsLogTest, EachLineIsThereAtOnce) {
  const TempDir dir;
  MetricsLog log(dir / "metrics.jsonl", 0, Evaluated::kNo);
  log.Append(Line("train", 1));
  EXPECT_EQ(ReadBytes(dir / "metrics.jsonl"), "{\"event\": \"train\", \"step\": 1}\n");
  log.Append(Line("eval", 1));
  EXPECT_EQ(ReadBytes(dir / "metrics.jsonl"),
            "{\"event\": \"train\", \"step\": 1}\n{\"event\": \"eval\", \"step\": 1}\n");
}

TEST(MetricsLogTest, ResumingDropsWhatWillBeWrittenAgain) {
  const TempDir dir;
  const std::string path = dir / "metrics.jsonl";
  const std::string kept_always =
      Line("train", 1).Dump() + "\n" + Line("eval", 1).Dump() + "\n" + Line("train", 2).Dump() + "\n";
  const std::string measured = Line("eval", 2).Dump() + "\n";
  const std::string later = Line("train", 3).Dump() + "\n" + Line("eval", 3).Dump() + "\n";
  for (const std::string& cut_off : {std::string(), std::string("{\"event\": \"tr")}) {
    WriteBytes(path, kept_always + measured + later + cut_off);
    EXPECT_EQ(Written(path, 2, Evaluated::kYes), kept_always + measured);
    WriteBytes(path, kept_always + measured + later + cut_off);
    EXPECT_EQ(Written(path, 2, Evaluated::kNo), kept_always);
    WriteBytes(path, kept_always + measured + later + cut_off);
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
    WriteBytes(path, before);
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
  WriteBytes(path, Line("train", 1).Dump() + "\n" + Line("eval", 1).Dump() + "\n{\"cut");
  EXPECT_EQ(ReadMetrics(path).size(), 2u);
  WriteBytes(path, Line("train", 1).Dump() + "\nnonsense\n");
  testing::ExpectError([&] { ReadMetrics(path); }, ErrorKind::kData, {"line 2"});
}

}  // namespace metrics_log_test
}  // namespace crosstalk
