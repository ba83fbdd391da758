#include "crosstalk/models/interop/mesh/tensor_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "crosstalk/runtime/protobuf.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
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

// A short key that is not below `last` and, where there is one, below `next`: the fewest first bytes of `last` of which
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
