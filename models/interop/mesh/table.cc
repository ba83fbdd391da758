#include "crosstalk/models/interop/mesh/table.h"

#include <snappy.h>

#include <algorithm>
#include <optional>
#include <utility>

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

namespace {

constexpr size_t kFooterBytes = 48, kMagicBytes = 8;
constexpr uint64_t kMagic = 0xDB4775248B80FB57u;
constexpr size_t kBlockBytes = 256 << 10;  // a block is closed when it has so many
constexpr int kRestartInterval = 16, kIndexRestartInterval = 1;

std::optional<BlockHandle> TakeHandle(std::string_view* bytes) {
  const std::optional<uint64_t> offset = TakeVarint(bytes);
  if (!offset) return std::nullopt;
  const std::optional<uint64_t> size = TakeVarint(bytes);
  if (!size) return std::nullopt;
  return BlockHandle{*offset, *size};
}

std::string HandleBytes(const BlockHandle& handle) { return Varint(handle.offset) + Varint(handle.size); }

// A short key that is not below `last` and, if there is one, below `next`: the fewest first bytes of `last` of which
// the final one can be raised.
std::string Separator(const std::string& last, const std::string* next) {
  size_t at = 0;
  const auto byte = [](const std::string& key, size_t i) { return static_cast<unsigned char>(key[i]); };
  if (next != nullptr) {
    while (at < std::min(last.size(), next->size()) && last[at] == (*next)[at]) ++at;
    if (at == std::min(last.size(), next->size())) return last;
    if (byte(last, at) == 0xFF || byte(last, at) + 1 >= byte(*next, at)) return last;
  } else {
    while (at < last.size() && byte(last, at) == 0xFF) ++at;
    if (at == last.size()) return last;
  }
  std::string separator = last.substr(0, at + 1);
  separator.back() = static_cast<char>(byte(last, at) + 1);
  return separator;
}

}  // namespace

std::vector<TableEntry> ReadTable(std::string_view bytes, const std::string& source) {
  if (bytes.size() < kFooterBytes || ReadLittleEndian(bytes.substr(bytes.size() - kMagicBytes)) != kMagic) {
    Fail(ErrorKind::kData, source,
         ": is not an index of a TensorFlow checkpoint, or cut off: its last 8 bytes are others");
  }
  const uint64_t end = bytes.size() - kFooterBytes;
  std::string_view footer = bytes.substr(end, kFooterBytes - kMagicBytes);
  const std::optional<BlockHandle> meta = TakeHandle(&footer);
  const std::optional<BlockHandle> index = meta ? TakeHandle(&footer) : std::nullopt;
  if (!index) Fail(ErrorKind::kData, source, ": its last 48 bytes do not say where its blocks are");
  TableBudget budget(source);
  ReadTableBlock(bytes, end, *meta, source, &budget);  // says nothing that is needed here
  std::vector<TableEntry> entries;
  std::string separator;
  for (const TableEntry& block : ReadTableBlock(bytes, end, *index, source, &budget)) {
    std::string_view value = block.value;
    const std::optional<BlockHandle> handle = TakeHandle(&value);
    if (!handle || !value.empty()) {
      Fail(ErrorKind::kData, source, ": the place of the block up to ", Quoted(block.key), " is not one");
    }
    std::vector<TableEntry> more = ReadTableBlock(bytes, end, *handle, source, &budget);
    const bool fits =
        !more.empty() && more.back().key <= block.key && (entries.empty() || more.front().key > separator);
    if (!fits) {
      Fail(ErrorKind::kData, source, ": the block at byte ", handle->offset, " does not hold the names up to ",
           Quoted(block.key));
    }
    separator = block.key;
    std::move(more.begin(), more.end(), std::back_inserter(entries));
  }
  return entries;
}

std::string WriteTable(std::span<const TableEntry> entries) {
  std::string bytes;
  TableBlockWriter block(kRestartInterval), index(kIndexRestartInterval);
  const auto close = [&bytes](TableBlockWriter& writer) {
    const BlockHandle handle = {bytes.size(), writer.size()};
    bytes += writer.Finish();
    return handle;
  };
  for (size_t i = 0; i < entries.size(); ++i) {
    block.Add(entries[i].key, entries[i].value);
    const bool last = i + 1 == entries.size();
    if (!last && block.size() < kBlockBytes) continue;
    const BlockHandle handle = close(block);
    index.Add(Separator(entries[i].key, last ? nullptr : &entries[i + 1].key), HandleBytes(handle));
  }
  TableBlockWriter meta(kRestartInterval);
  std::string footer = HandleBytes(close(meta));
  footer += HandleBytes(close(index));
  footer.resize(kFooterBytes - kMagicBytes, '\0');
  return bytes + footer + LittleEndian(kMagic, kMagicBytes);
}

}  // namespace crosstalk
