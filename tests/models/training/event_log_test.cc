// What is written is read back here by a reader that shares nothing with the writer but the formats' definitions.
#include "crosstalk/models/training/event_log.h"

#include <gtest/gtest.h>

#include "crosstalk/models/training/run.h"
#include "tests/support/png_reader.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_models.h"
#include "tests/support/tiny_run.h"

namespace crosstalk::event_log_test {

// Castagnoli's CRC, a bit at a time.
uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

uint32_t Masked(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

template <typename T>
T Number(std::string_view bytes) {
  T value{};
  EXPECT_GE(bytes.size(), sizeof value);
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

// Fields by number; a varint as 8 bytes.
std::multimap<int, std::string> Fields(std::string_view message) {
  std::multimap<int, std::string> fields;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message[0]);
      message.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (!message.empty()) {
    const uint64_t key = varint();
    size_t size = 0;
    switch (key & 7) {
      case 0: {
        const uint64_t value = varint();
        fields.emplace(key >> 3, std::string(reinterpret_cast<const char*>(&value), sizeof value));
        continue;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = varint();
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    EXPECT_LE(size, message.size());
    fields.emplace(key >> 3, std::string(message.substr(0, size)));
    message.remove_prefix(std::min(size, message.size()));
  }
  return fields;
}

std::string FieldOf(const std::multimap<int, std::string>& fields, int number) {
  const auto found = fields.find(number);
  return found == fields.end() ? "" : found->second;
}

struct Value {
  int64_t step;
  std::string tag;
  std::optional<float> number;
  std::string png;
  bool operator==(const Value&) const = default;
};

// All files of a folder, in the order of their names.
struct EventFiles {
  std::vector<std::string> names;
  std::vector<Value> values;
  std::vector<int64_t> restarts;  // steps at which a viewer is told to start over
};

EventFiles ReadEvents(const std::string& folder) {
  EventFiles files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.find("tfevents") != std::string::npos) files.names.push_back(name);
  }
  std::sort(files.names.begin(), files.names.end());
  for (const std::string& name : files.names) {
    const std::string bytes = ReadBytes(folder + "/" + name);
    bool first = true;
    for (std::string_view rest = bytes; !rest.empty(); first = false) {
      const auto length = Number<uint64_t>(rest);
      EXPECT_LE(16 + length, rest.size());
      if (16 + length > rest.size()) return files;
      EXPECT_EQ(Number<uint32_t>(rest.substr(8)), Masked(rest.substr(0, 8)));
      const std::string_view event = rest.substr(12, length);
      EXPECT_EQ(Number<uint32_t>(rest.substr(12 + length)), Masked(event));
      rest.remove_prefix(16 + length);
      const auto fields = Fields(event);
      EXPECT_GT(Number<double>(FieldOf(fields, 1)), 1.6e9);  // seconds since 1970
      EXPECT_EQ(FieldOf(fields, 3), first ? "brain.Event:2" : "");
      const auto step = Number<int64_t>(FieldOf(fields, 2));
      if (const std::string session = FieldOf(fields, 7); !session.empty()) {
        EXPECT_EQ(Number<uint64_t>(FieldOf(Fields(session), 1)), 1u);
        files.restarts.push_back(step);
      }
      const auto summary = Fields(FieldOf(fields, 5));
      for (auto value = summary.lower_bound(1); value != summary.upper_bound(1); ++value) {
        const auto parts = Fields(value->second);
        const std::string number = FieldOf(parts, 2), image = FieldOf(parts, 4);
        files.values.push_back({step, FieldOf(parts, 1),
                                number.empty() ? std::nullopt : std::optional(Number<float>(number)),
                                FieldOf(Fields(image), 4)});
        if (!image.empty()) {
          const ReadImage png = ReadPng(files.values.back().png);
          EXPECT_EQ(Number<uint64_t>(FieldOf(Fields(image), 1)), png.height);
          EXPECT_EQ(Number<uint64_t>(FieldOf(Fields(image), 2)), png.width);
        }
      }
    }
  }
  return files;
}

Json Line(const char* text) { return ParseJson(text, "line"); }

TEST(EventLogTest, TheCheckValueOfTheReadersChecksum) { EXPECT_EQ(Crc32c("123456789"), 0xE3069283u); }

TEST(EventLogTest, ScalarsAndPicturesAreReadBack) {
  const TempDir dir;
  {
    EventLog log(dir.path(), 0, MetricsLog::Evaluated::kNo);
    log.AppendScalars(Line(R"({"event": "train", "step": 300, "loss": 2.5, "target_tokens": 70000, "note": "x"})"));
    log.AppendScalars(
        Line(R"({"event": "eval", "step": 300, "ln_ppl": -1e-30, "constant_guess": {"accuracy": 0.25}})"));
    log.AppendPictures(300, {{"P_l/encoder.block_0.self_attention",
                              DrawHeatImage(Tensor::FromValues<float>({1, 2}, std::vector<float>{1, -1}))}});
  }
  const EventFiles files = ReadEvents(dir.path());
  ASSERT_EQ(files.names.size(), 1u);
  ASSERT_EQ(files.values.size(), 5u);
  EXPECT_EQ(files.values[0], (Value{300, "train/loss", 2.5f, ""}));
  EXPECT_EQ(files.values[1], (Value{300, "train/target_tokens", 70000.0f, ""}));
  EXPECT_EQ(files.values[2], (Value{300, "eval/ln_ppl", -1e-30f, ""}));
  EXPECT_EQ(files.values[3], (Value{300, "eval/constant_guess/accuracy", 0.25f, ""}));
  EXPECT_EQ(files.values[4].tag, "P_l/encoder.block_0.self_attention");
  EXPECT_FALSE(files.values[4].number);
  const ReadImage image = ReadPng(files.values[4].png);
  const auto colour = [&](size_t pixel) { return image.palette.substr(3u * image.pixels[pixel], 3); };
  EXPECT_GT(static_cast<unsigned char>(colour(0)[2]), static_cast<unsigned char>(colour(0)[0]));  // 1 is blue
  EXPECT_LT(static_cast<unsigned char>(colour(image.width - 1)[2]),
            static_cast<unsigned char>(colour(image.width - 1)[0]));
  EXPECT_TRUE(files.restarts.empty());
}

TEST(EventLogTest, AResumedRunKeepsWhatPrecedesAndGoesOnInANewFile) {
  const TempDir dir;
  const auto tags_and_steps = [&] {
    std::vector<std::pair<std::string, int64_t>> all;
    for (const Value& value : ReadEvents(dir.path()).values) all.emplace_back(value.tag, value.step);
    return all;
  };
  using All = std::vector<std::pair<std::string, int64_t>>;
  {
    EventLog log(dir.path(), 0, MetricsLog::Evaluated::kNo);
    for (const auto& [event, step] : {std::pair("train", 1), {"train", 2}, {"eval", 2}, {"train", 3}}) {
      log.AppendScalars(Json::MakeObject({{"event", event}, {"step", step}, {"loss", 1}}));
    }
  }
  const std::string name = ReadEvents(dir.path()).names[0];
  const std::string whole = ReadBytes(dir / name);
  PutFile(dir / name, whole.substr(0, whole.size() - 3));  // cut off while it was written
  { EventLog log(dir.path(), 2, MetricsLog::Evaluated::kYes); }
  EXPECT_EQ(tags_and_steps(), (All{{"train/loss", 1}, {"train/loss", 2}, {"eval/loss", 2}}));
  EXPECT_EQ(ReadEvents(dir.path()).restarts, std::vector<int64_t>{3});
  {
    EventLog log(dir.path(), 2, MetricsLog::Evaluated::kNo);
    log.AppendScalars(Line(R"({"event": "eval", "step": 2, "loss": 1})"));
  }
  EXPECT_EQ(tags_and_steps(), (All{{"train/loss", 1}, {"train/loss", 2}, {"eval/loss", 2}}));
  EXPECT_EQ(ReadEvents(dir.path()).names.size(), 3u);
}

TEST(EventLogTest, DamageEndsAFileAndForeignFilesStay) {
  const TempDir dir;
  {
    EventLog log(dir.path(), 0, MetricsLog::Evaluated::kNo);
    log.AppendScalars(Line(R"({"event": "train", "step": 1, "loss": 1})"));
    log.AppendScalars(Line(R"({"event": "train", "step": 2, "loss": 1})"));
  }
  const std::string name = ReadEvents(dir.path()).names[0];
  std::string bytes = ReadBytes(dir / name);
  bytes[bytes.size() - 10] ^= 1;
  PutFile(dir / name, bytes);
  PutFile(dir / "events.out.tfevents.9999999999.elsewhere", "of another program");
  { EventLog log(dir.path(), 5, MetricsLog::Evaluated::kYes); }
  EXPECT_EQ(ReadBytes(dir / "events.out.tfevents.9999999999.elsewhere"), "of another program");
  std::filesystem::remove(dir / "events.out.tfevents.9999999999.elsewhere");
  const EventFiles files = ReadEvents(dir.path());
  ASSERT_EQ(files.values.size(), 1u);
  EXPECT_EQ(files.values[0].step, 1);
}

// By the run itself: every number of metrics.jsonl, and pictures at evaluations; cut and resumed, the same.
TEST(EventLogTest, ARunWritesItsMetricsAndPicturesOnce) {
  const TempDir dir;
  TrainingConfig config = *TinyConfig();
  config.run.tensorboard = true;
  const ResolvedConfig resolved(config);
  TrainingObserver stopping;
  int64_t steps = 0;
  stopping.step = [&](const StepResult& step) { steps = step.step; };
  stopping.stop = [&] { return steps >= 3; };
  EXPECT_EQ(TrainingRun(resolved, dir / "run", {}, stopping).Train().end, TrainingSummary::End::kStopped);
  ResumeOptions resume;
  resume.from = ResumeOptions::From::kNewest;
  TrainingRun(resolved, dir / "run", resume, {}).Train();

  std::map<std::pair<std::string, int64_t>, float> numbers;
  std::map<std::string, int> pictures;
  const EventFiles files = ReadEvents(dir / "run");
  EXPECT_EQ(files.names.size(), 2u);
  for (const Value& value : files.values) {
    if (value.number) {
      EXPECT_TRUE(numbers.emplace(std::pair(value.tag, value.step), *value.number).second) << value.tag << " twice";
    } else {
      ++pictures[value.tag];
    }
  }
  size_t expected = 0;
  for (const Json& line : ReadMetrics(dir / "run/metrics.jsonl")) {
    for (const auto& [key, value] : line.AsObject()) {
      if (!value.is_number() || key == "step") continue;
      ++expected;
      const auto found = numbers.find({line.At("event").AsString() + "/" + key, line.At("step").AsInt()});
      ASSERT_NE(found, numbers.end()) << key;
      EXPECT_EQ(found->second, static_cast<float>(value.AsDouble())) << key;
    }
  }
  EXPECT_EQ(numbers.size(), expected);
  EXPECT_EQ(pictures.size(), 6u);                                 // P_l and P_w of three layers
  EXPECT_EQ(pictures["P_w/decoder.block_0.cross_attention"], 2);  // at steps 2 and 4
}

}  // namespace crosstalk::event_log_test
