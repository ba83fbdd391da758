#include "crosstalk/models/interop/mesh/tensor_bundle.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "crosstalk/models/interop/mesh/tensor_bundle_entry.h"
#include "crosstalk/models/interop/mesh/tensor_table.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr uint64_t kMaxBundleIndexBytes = 256 << 20;
constexpr size_t kMaxEntries = 100'000;
constexpr size_t kPieceBytes = 1 << 20;  // of a tensor, read at a time

template <typename... Parts>
[[noreturn]] void Reject(const std::string& file, const std::string& tensor, const Parts&... parts) {
  Fail(ErrorKind::kData, file, ": tensor ", Quoted(tensor), ": ", parts...);
}

// Tensors of one shard share no byte.
void CheckOverlaps(const BundleIndex& index, const std::string& path) {
  std::vector<const BundleEntry*> by_place;
  for (const BundleEntry& entry : index.entries) {
    if (entry.size > 0) by_place.push_back(&entry);
  }
  std::sort(by_place.begin(), by_place.end(), [](const BundleEntry* a, const BundleEntry* b) {
    return a->shard != b->shard ? a->shard < b->shard : a->offset < b->offset;
  });
  for (size_t i = 1; i < by_place.size(); ++i) {
    const BundleEntry &before = *by_place[i - 1], &entry = *by_place[i];
    if (before.shard == entry.shard && before.offset + before.size > entry.offset) {
      Reject(path, entry.name, "overlaps ", Quoted(before.name));
    }
  }
}

// Reads an entry's bytes piece by piece and hands them on; the checksum of all must be the entry's.
template <typename Use>
void ReadPieces(const std::string& path, const BundleEntry& entry, const Use& use) {
  const FileReader file(path);
  const auto size = static_cast<uint64_t>(entry.size);
  std::string piece(std::min<uint64_t>(size, kPieceBytes), '\0');
  Crc32c crc;
  for (uint64_t done = 0; done < size; done += piece.size()) {
    piece.resize(std::min<uint64_t>(size - done, kPieceBytes));
    file.ReadAt(static_cast<uint64_t>(entry.offset) + done, piece.data(), piece.size());
    crc.Add(piece);
    use(done, piece);
  }
  if (MaskedCrc32c(crc.value()) != entry.masked_crc) Reject(path, entry.name, "is damaged: its checksum is another");
}

}  // namespace

const BundleEntry* BundleIndex::Find(std::string_view name) const {
  const auto found = std::lower_bound(entries.begin(), entries.end(), name,
                                      [](const BundleEntry& entry, std::string_view n) { return entry.name < n; });
  return found != entries.end() && found->name == name ? &*found : nullptr;
}

std::string BundleIndexPath(const std::string& prefix) { return prefix + ".index"; }

std::string BundleShardPath(const std::string& prefix, int64_t shard, int64_t shards) {
  char end[64];
  std::snprintf(end, sizeof end, ".data-%05lld-of-%05lld", static_cast<long long>(shard),
                static_cast<long long>(shards));
  return prefix + end;
}

BundleIndex ReadBundleIndex(const std::string& prefix) {
  const std::string path = BundleIndexPath(prefix);
  const std::vector<TableEntry> table = ReadTable(ReadFile(path, kMaxBundleIndexBytes), path);
  if (table.empty() || !table[0].key.empty()) Fail(ErrorKind::kData, path, ": has no header");
  if (table.size() - 1 > kMaxEntries) {
    Fail(ErrorKind::kData, path, ": names ", table.size() - 1, " tensors, more than ", kMaxEntries);
  }
  BundleIndex index;
  index.shards = ReadBundleHeader(table[0].value, path);
  for (size_t i = 1; i < table.size(); ++i) {
    const std::string& name = table[i].key;
    if (name[0] == '\0')
      Fail(ErrorKind::kData, path, ": holds parts of a partitioned variable, which is not read here");
    if (FindInvalidUtf8(name) != std::string::npos) Reject(path, name, "the name is not UTF-8");
    index.entries.push_back(ReadBundleEntry(name, table[i].value, index.shards, path));
  }
  CheckOverlaps(index, path);
  return index;
}

TensorBundle::TensorBundle(std::string prefix) : prefix_(std::move(prefix)), index_(ReadBundleIndex(prefix_)) {
  std::map<int64_t, uint64_t> sizes;  // of the shards that hold something
  for (const BundleEntry& entry : index_.entries) {
    const std::string path = BundleShardPath(prefix_, entry.shard, index_.shards);
    const auto [place, is_new] = sizes.emplace(entry.shard, 0);
    if (is_new) {
      if (KindOf(path) == PathKind::kNothing) {
        Fail(ErrorKind::kData, path, ": is missing; ", BundleIndexPath(prefix_), " says that ", Quoted(entry.name),
             " is in it");
      }
      place->second = FileReader(path).size();
    }
    if (static_cast<uint64_t>(entry.offset + entry.size) > place->second) {
      Reject(path, entry.name, "would end at byte ", entry.offset + entry.size, ", but the file has only ",
             place->second);
    }
  }
}

Tensor TensorBundle::Read(const BundleEntry& entry) const {
  const std::string path = BundleShardPath(prefix_, entry.shard, index_.shards);
  if (entry.type == kBundleFloat32 || entry.type == kBundleInt64) {
    Tensor tensor = Tensor::Empty(entry.shape, entry.type == kBundleInt64 ? DType::kInt64 : DType::kFloat32);
    char* const values = static_cast<char*>(tensor.raw_data());
    ReadPieces(path, entry, [&](uint64_t begin, const std::string& piece) {
      std::copy(piece.begin(), piece.end(), values + begin);
    });
    return tensor;
  }
  if (entry.type != kBundleBFloat16) {
    Reject(path, entry.name, "is ", BundleTypeName(entry.type), "; float32, bfloat16 and int64 can be read");
  }
  Tensor tensor = Tensor::Empty(entry.shape, DType::kFloat32);
  float* const values = tensor.data<float>();
  ReadPieces(path, entry, [&](uint64_t begin, const std::string& piece) {
    for (size_t i = 0; i < piece.size(); i += 2) {
      const int low = static_cast<unsigned char>(piece[i]), high = static_cast<unsigned char>(piece[i + 1]);
      values[(begin + i) / 2] = Widen(HalfFormat::kBFloat16, static_cast<uint16_t>(high << 8 | low));
    }
  });
  return tensor;
}

}  // namespace crosstalk
