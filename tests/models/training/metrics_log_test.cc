#include "crosstalk/models/training/metrics_log.h"

#include <gtest/gtest.h>

#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace {

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

TEST(MetricsLogTest, AForeignFileIsRefusedAsItIs) {
  const TempDir dir;
  WriteBytes(dir / "metrics.jsonl", "not a line of ours\n");
  EXPECT_THROW(MetricsLog(dir / "metrics.jsonl", 2, Evaluated::kNo), Error);
  EXPECT_EQ(ReadBytes(dir / "metrics.jsonl"), "not a line of ours\n");
}

TEST(MetricsLogTest, ALineThatIsNotJsonIsNamedByItsNumber) {
  const TempDir dir;
  const std::string path = dir / "metrics.jsonl";
  WriteBytes(path, Line("train", 1).Dump() + "\n" + Line("eval", 1).Dump() + "\n{\"cut");
  EXPECT_EQ(ReadMetrics(path).size(), 2u);
  WriteBytes(path, Line("train", 1).Dump() + "\nnonsense\n");
  const std::string message = testing::MessageOf([&] { ReadMetrics(path); }, ErrorKind::kData);
  EXPECT_NE(message.find("line 2"), std::string::npos) << message;
}

}  // namespace
}  // namespace crosstalk
