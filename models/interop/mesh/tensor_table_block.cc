#include "crosstalk/models/interop/mesh/tensor_table_block.h"

#include <snappy.h>

#include <algorithm>
#include <optional>

#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/protobuf.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr char kPlain = 0, kSnappy = 1;
// A tag of snappy's takes at least 3 bytes and makes at most 64; the stated length takes up to 5.
constexpr uint64_t kMostSnappyRatio = 22;

// A block while it is read: every error names it.
class BlockReader {
 public:
  BlockReader(const std::string& source, uint64_t offset, TableBudget* budget)
      : source_(source), offset_(offset), budget_(budget) {}

  std::string Decompressed(std::string_view stored) const {
    size_t length = 0;
    if (!snappy::GetUncompressedLength(stored.data(), stored.size(), &length) ||
        length > kMostSnappyRatio * stored.size()) {
      Reject("is no snappy data");
    }
    budget_->Spend(length);
    std::string content(length, '\0');
    if (!snappy::RawUncompress(stored.data(), stored.size(), content.data())) Reject("is no snappy data");
    return content;
  }

  std::vector<TableEntry> Entries(std::string_view content) const {
    const std::vector<size_t> restarts = Restarts(content);
    std::string_view rest = content.substr(0, content.size() - 4 * (restarts.size() + 1));
    const size_t length = rest.size();
    std::vector<TableEntry> entries;
    size_t next_restart = 0;
    while (!rest.empty()) {
      const size_t at = length - rest.size();
      const uint64_t shared = Number(&rest), fresh = Number(&rest), value = Number(&rest);
      const std::string_view before = entries.empty() ? std::string_view() : entries.back().key;
      if (shared > before.size()) Reject("has a name that shares more than the one before has");
      if (next_restart < restarts.size() && restarts[next_restart] == at) {
        if (shared != 0) Reject("has a restart whose name is not whole");
        ++next_restart;
      }
      if (fresh > rest.size() || value > rest.size() - fresh) Reject("has an entry that is longer than the block");
      if (shared + fresh > kMaxTableKeyBytes) Reject("has a name of more than ", kMaxTableKeyBytes, " bytes");
      budget_->Spend(shared + fresh + value + sizeof(TableEntry));
      TableEntry entry;
      entry.key.append(before.substr(0, shared)).append(rest.substr(0, fresh));
      entry.value = rest.substr(fresh, value);
      rest.remove_prefix(fresh + value);
      if (!entries.empty() && entry.key <= entries.back().key) {
        Reject("has ", Quoted(entry.key), " after ", Quoted(entries.back().key));
      }
      entries.push_back(std::move(entry));
    }
    if (next_restart != restarts.size() && length > 0) Reject("has a restart where no entry begins");
    return entries;
  }

  template <typename... Parts>
  [[noreturn]] void Reject(const Parts&... parts) const {
    Fail(ErrorKind::kData, source_, ": the block at byte ", offset_, " ", parts...);
  }

 private:
  // Offsets of entries at the block's end, and how many; ascending from 0.
  std::vector<size_t> Restarts(std::string_view content) const {
    if (content.size() < 8) Reject("is cut off");
    const uint64_t count = ReadLittleEndian(content.substr(content.size() - 4));
    if (count == 0 || count > content.size() / 4 - 1) Reject("has ", count, " restarts");
    const std::string_view offsets = content.substr(content.size() - 4 * (count + 1), 4 * count);
    std::vector<size_t> restarts;
    for (size_t i = 0; i < count; ++i) {
      restarts.push_back(ReadLittleEndian(offsets.substr(4 * i, 4)));
      if (i == 0 ? restarts[0] != 0 : restarts[i] <= restarts[i - 1]) Reject("has restarts that do not ascend from 0");
    }
    return restarts;
  }

  uint64_t Number(std::string_view* rest) const {
    const std::optional<uint64_t> number = TakeVarint(rest);
    if (!number || *number > UINT32_MAX) Reject("has a length that is not one");
    return *number;
  }

  const std::string& source_;
  uint64_t offset_;
  TableBudget* budget_;
};

}  // namespace

std::vector<TableEntry> ReadTableBlock(std::string_view bytes, uint64_t end, const BlockHandle& handle,
                                       const std::string& source, TableBudget* budget) {
  const BlockReader reader(source, handle.offset, budget);
  if (end < kBlockTrailerBytes || handle.size > end - kBlockTrailerBytes ||
      handle.offset > end - kBlockTrailerBytes - handle.size) {
    reader.Reject("(", handle.size, " bytes) is not within the file's ", bytes.size());
  }
  const std::string_view with_type = bytes.substr(handle.offset, handle.size + 1);
  const uint64_t stored = ReadLittleEndian(bytes.substr(handle.offset + with_type.size(), 4));
  if (stored != MaskedCrc32c(Crc32cOf(with_type))) reader.Reject("is damaged: its checksum is another");
  const std::string_view content = with_type.substr(0, handle.size);
  switch (with_type.back()) {
    case kPlain:
      return reader.Entries(content);
    case kSnappy:
      return reader.Entries(reader.Decompressed(content));
    default:
      reader.Reject("is compressed in a way that is not read here (type ", static_cast<int>(with_type.back()), ")");
  }
}

void TableBlockWriter::Add(std::string_view key, std::string_view value) {
  size_t shared = 0;
  if (since_restart_ < restart_interval_) {
    const size_t most = std::min(key.size(), last_key_.size());
    while (shared < most && key[shared] == last_key_[shared]) ++shared;
  } else {
    restarts_.push_back(bytes_.size());
    since_restart_ = 0;
  }
  bytes_ += Varint(shared) + Varint(key.size() - shared) + Varint(value.size());
  bytes_.append(key.substr(shared)).append(value);
  last_key_ = key;
  ++since_restart_;
}

std::string TableBlockWriter::Finish() {
  for (const size_t restart : restarts_) bytes_ += LittleEndian(restart, 4);
  bytes_ += LittleEndian(restarts_.size(), 4);
  bytes_ += kPlain;
  bytes_ += LittleEndian(MaskedCrc32c(Crc32cOf(bytes_)), 4);
  std::string block = std::move(bytes_);
  *this = TableBlockWriter(restart_interval_);
  return block;
}

}  // namespace crosstalk
