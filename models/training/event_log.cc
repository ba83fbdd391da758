#include "crosstalk/models/training/event_log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <system_error>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/file_calls.h"
#include "crosstalk/runtime/protobuf.h"

namespace crosstalk {
namespace {

constexpr std::string_view kEventsPrefix = "events.out.tfevents.", kEventsSuffix = ".crosstalk";
constexpr int64_t kLastSecond = 9'999'999'999;  // of ten digits, as names are compared

// ---- Protocol buffers ---------------------------------------------------------------------------------------------
// The fields of tensorflow.Event and what it holds.
namespace field {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;  // Event
constexpr int kValue = 1;                                                                 // Summary
constexpr int kTag = 1, kSimpleValue = 2, kImage = 4;                                     // Summary.Value
constexpr int kHeight = 1, kWidth = 2, kColorspace = 3, kEncoded = 4;                     // Summary.Image
constexpr int kStatus = 1;                                                                // SessionLog
}  // namespace field
constexpr uint64_t kSessionStart = 1, kRgba = 4;

// Reads fields one after the other; nothing where they end or are none.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}
  struct Field {
    int number;
    WireType type;
    uint64_t value;          // of kVarint, kFixed64, kFixed32
    std::string_view bytes;  // of kBytes
  };
  std::optional<Field> Next() {
    const std::optional<uint64_t> key = TakeVarint(&rest_);
    if (!key) return std::nullopt;
    Field field = {static_cast<int>(*key >> 3), static_cast<WireType>(*key & 7), 0, {}};
    switch (field.type) {
      case kVarint: {
        const std::optional<uint64_t> value = TakeVarint(&rest_);
        if (!value) return std::nullopt;
        field.value = *value;
        return field;
      }
      case kFixed64:
      case kFixed32: {
        const size_t size = field.type == kFixed64 ? 8 : 4;
        if (rest_.size() < size) return std::nullopt;
        field.value = ReadLittleEndian(rest_.substr(0, size));
        rest_.remove_prefix(size);
        return field;
      }
      case kBytes: {
        const std::optional<uint64_t> size = TakeVarint(&rest_);
        if (!size || *size > rest_.size()) return std::nullopt;
        field.bytes = rest_.substr(0, *size);
        rest_.remove_prefix(*size);
        return field;
      }
    }
    return std::nullopt;
  }

 private:
  std::string_view rest_;
};

std::string_view BytesOf(std::string_view message, int number) {
  FieldReader reader(message);
  while (const auto field = reader.Next()) {
    if (field->number == number && field->type == kBytes) return field->bytes;
  }
  return {};
}

// ---- Records: length, its checksum, the event, its checksum -------------------------------------------------------
constexpr size_t kLengthBytes = 8, kChecksumBytes = 4;

std::string MaskedChecksum(std::string_view bytes) {
  return LittleEndian(MaskedCrc32c(Crc32cOf(bytes)), kChecksumBytes);
}

std::string RecordOf(std::string_view event) {
  const std::string length = LittleEndian(event.size(), kLengthBytes);
  return length + MaskedChecksum(length) + std::string(event) + MaskedChecksum(event);
}

// Takes the first record off the front of `rest`; nothing if that is none, whole and undamaged.
std::optional<std::string_view> TakeRecord(std::string_view* rest) {
  constexpr size_t kHeader = kLengthBytes + kChecksumBytes;
  if (rest->size() < kHeader + kChecksumBytes) return std::nullopt;
  const uint64_t length = ReadLittleEndian(rest->substr(0, kLengthBytes));
  if (rest->substr(kLengthBytes, kChecksumBytes) != MaskedChecksum(rest->substr(0, kLengthBytes))) return std::nullopt;
  if (length > rest->size() - kHeader - kChecksumBytes) return std::nullopt;
  const std::string_view event = rest->substr(kHeader, length);
  if (rest->substr(kHeader + length, kChecksumBytes) != MaskedChecksum(event)) return std::nullopt;
  rest->remove_prefix(kHeader + length + kChecksumBytes);
  return event;
}

// ---- Events -------------------------------------------------------------------------------------------------------
std::string EventAt(int64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return DoubleField(field::kWallTime, std::chrono::duration<double>(now).count()) +
         IntField(field::kStep, static_cast<uint64_t>(step));
}

void AddScalars(const Json& object, const std::string& tag, std::string* summary) {
  for (const auto& [key, value] : object.AsObject()) {
    const std::string own = tag + "/" + key;
    if (value.is_object()) {
      AddScalars(value, own, summary);
    } else if (value.is_number()) {
      const std::string one =
          BytesField(field::kTag, own) + FloatField(field::kSimpleValue, static_cast<float>(value.AsDouble()));
      *summary += BytesField(field::kValue, one);
    }
  }
}

// Whether an event was written before the run stood at `step`, by the rule of metrics.jsonl: what is not of a training
// step is of an evaluation.
bool Precedes(std::string_view event, int64_t step, MetricsLog::Evaluated evaluated) {
  int64_t own = 0;
  FieldReader reader(event);
  while (const auto field = reader.Next()) {
    if (field->number == field::kStep && field->type == kVarint) own = static_cast<int64_t>(field->value);
  }
  if (own != step) return own < step;
  const std::string_view tag = BytesOf(BytesOf(BytesOf(event, field::kSummary), field::kValue), field::kTag);
  return tag.empty() || tag.starts_with("train/") || evaluated == MetricsLog::Evaluated::kYes;
}

void KeepPreceding(const std::string& path, int64_t step, MetricsLog::Evaluated evaluated) {
  const std::string bytes = ReadFile(path);
  std::string kept;
  std::string_view rest = bytes;
  for (std::string_view before = rest; const auto event = TakeRecord(&rest); before = rest) {
    if (Precedes(*event, step, evaluated)) kept += before.substr(0, before.size() - rest.size());
  }
  if (kept != bytes) WriteFileAtomically(path, kept);
}

bool IsOurs(std::string_view name) {
  return name.size() > kEventsPrefix.size() + kEventsSuffix.size() && name.starts_with(kEventsPrefix) &&
         name.ends_with(kEventsSuffix);
}

// Later than those that are there: viewers read the files in the order of their names.
std::string NewName(const std::vector<std::string>& names) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  for (const std::string& name : names) {
    if (!IsOurs(name)) continue;
    int64_t earlier = 0;
    const char* const end = name.data() + name.size() - kEventsSuffix.size();
    const auto parsed = std::from_chars(name.data() + kEventsPrefix.size(), end, earlier);
    if (parsed.ec == std::errc() && parsed.ptr == end && earlier < kLastSecond)
      seconds = std::max(seconds, earlier + 1);
  }
  return StrCat(kEventsPrefix, seconds, kEventsSuffix);
}

}  // namespace

EventLog::EventLog(const std::string& folder, int64_t step, MetricsLog::Evaluated evaluated) {
  const std::vector<std::string> names = ListDirectory(folder);
  for (const std::string& name : names) {
    if (IsOurs(name)) KeepPreceding(folder + "/" + name, step, evaluated);
  }
  path_ = folder + "/" + NewName(names);
  descriptor_ = OpenFile(path_, O_WRONLY | O_CREAT | O_APPEND);
  if (descriptor_ < 0) FailWriting("open", path_, errno);
  AppendEvent(EventAt(0) + BytesField(field::kFileVersion, "brain.Event:2"));
  // A viewer that has read further forgets the steps from here on.
  if (step > 0) {
    AppendEvent(EventAt(step + 1) + BytesField(field::kSessionLog, IntField(field::kStatus, kSessionStart)));
  }
}

EventLog::~EventLog() { close(descriptor_); }

void EventLog::AppendEvent(const std::string& event) {
  const std::string record = RecordOf(event);
  if (!WriteAll(descriptor_, record.data(), record.size())) FailWriting("write an event", path_, errno);
}

void EventLog::AppendScalars(const Json& line) {
  const std::string& event = line.At("event").AsString();
  Json numbers = Json::MakeObject();
  for (const auto& [key, value] : line.AsObject()) {
    if (key != "step") numbers.Set(key, value);
  }
  std::string summary;
  AddScalars(numbers, event, &summary);
  AppendEvent(EventAt(line.At("step").AsInt()) + BytesField(field::kSummary, summary));
}

void EventLog::AppendPictures(int64_t step, const std::vector<Picture>& pictures) {
  for (const Picture& picture : pictures) {
    const std::string image = IntField(field::kHeight, static_cast<uint64_t>(picture.image.height)) +
                              IntField(field::kWidth, static_cast<uint64_t>(picture.image.width)) +
                              IntField(field::kColorspace, kRgba) + BytesField(field::kEncoded, picture.image.png);
    const std::string value = BytesField(field::kTag, picture.tag) + BytesField(field::kImage, image);
    AppendEvent(EventAt(step) + BytesField(field::kSummary, BytesField(field::kValue, value)));
  }
}

}  // namespace crosstalk
