#include "crosstalk/models/interop/mesh/bundle.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "crosstalk/models/interop/mesh/table.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/protobuf.h"
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

namespace {

namespace header_proto {
enum : uint64_t { kNumShards = 1, kEndianness = 2, kVersion = 3 };
}
namespace version_proto {
enum : uint64_t { kProducer = 1, kMinConsumer = 2 };
}
namespace entry_proto {
enum : uint64_t { kType = 1, kShape = 2, kShard = 3, kOffset = 4, kSize = 5, kCrc = 6, kSlices = 7 };
}
namespace shape_proto {
enum : uint64_t { kDim = 2, kUnknownRank = 3, kDimSize = 1 };
}

constexpr uint64_t kVersion = 1;  // of the format that is read and written
constexpr int64_t kMaxShards = 65536;

struct TypeRow {
  int64_t number;
  const char* name;
  int64_t bytes;  // of an element; 0: of no fixed size
};
constexpr TypeRow kTypes[] = {{kBundleFloat32, "float32", 4},
                              {2, "float64", 8},
                              {3, "int32", 4},
                              {4, "uint8", 1},
                              {5, "int16", 2},
                              {6, "int8", 1},
                              {kBundleString, "string", 0},
                              {8, "complex64", 8},
                              {kBundleInt64, "int64", 8},
                              {10, "bool", 1},
                              {kBundleBFloat16, "bfloat16", 2},
                              {17, "uint16", 2},
                              {18, "complex128", 16},
                              {19, "float16", 2},
                              {kBundleResource, "resource", 0},
                              {kBundleVariant, "variant", 0},
                              {22, "uint32", 4},
                              {23, "uint64", 8}};

const TypeRow* FindType(int64_t type) {
  const auto row =
      std::find_if(std::begin(kTypes), std::end(kTypes), [type](const TypeRow& one) { return one.number == type; });
  return row == std::end(kTypes) ? nullptr : row;
}

// A number that must not be negative as a signed one.
int64_t ReadCount(const WireReader& reader) {
  const uint64_t value = reader.AsVarint();
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) reader.FailHere("a number below 0");
  return static_cast<int64_t>(value);
}

Shape ReadShape(WireReader reader) {
  std::vector<int64_t> sizes;
  while (reader.Next()) {
    if (reader.field() == shape_proto::kUnknownRank && reader.AsVarint() != 0) reader.FailHere("a shape without rank");
    if (reader.field() != shape_proto::kDim) continue;
    if (sizes.size() == kMaxRank) reader.FailHere("a dimension beyond the ", kMaxRank, " that can be read");
    int64_t size = 0;
    for (WireReader dim = reader.AsMessage(); dim.Next();) {
      if (dim.field() == shape_proto::kDimSize) size = ReadCount(dim);
    }
    sizes.push_back(size);
  }
  return Shape(sizes);
}

// kTooMany also where the others alone would be too many beside a dimension of 0.
int64_t BytesOfShape(const Shape& shape, int64_t element_bytes) {
  int64_t bytes = element_bytes;
  for (const int64_t size : shape) bytes = SaturatingProduct(bytes, std::max<int64_t>(size, 1));
  const bool nothing = std::find(shape.begin(), shape.end(), 0) != shape.end();
  return nothing && bytes != kTooMany ? 0 : bytes;
}

}  // namespace

std::string BundleTypeName(int64_t type) {
  const TypeRow* const row = FindType(type);
  return row == nullptr ? StrCat("type ", type) : row->name;
}

int64_t ReadBundleHeader(std::string_view bytes, const std::string& source) {
  const std::string subject = source + ": the header";
  int64_t shards = 0;
  for (WireReader reader(bytes, 0, subject); reader.Next();) {
    if (reader.field() == header_proto::kNumShards) shards = ReadCount(reader);
    if (reader.field() == header_proto::kEndianness && reader.AsVarint() != 0) {
      Fail(ErrorKind::kData, source, ": its tensors are big-endian, which is not read here");
    }
    if (reader.field() != header_proto::kVersion) continue;
    for (WireReader version = reader.AsMessage(); version.Next();) {
      if (version.field() == version_proto::kMinConsumer && version.AsVarint() > kVersion) {
        Fail(ErrorKind::kData, source, ": is of a version (", version.AsVarint(), ") that is not read here");
      }
    }
  }
  if (shards < 1 || shards > kMaxShards) {
    Fail(ErrorKind::kData, source, ": says that there are ", shards, " files of tensors, not 1 to ", kMaxShards);
  }
  return shards;
}

std::string BundleHeaderBytes(int64_t shards) {
  return IntField(header_proto::kNumShards, static_cast<uint64_t>(shards)) +
         BytesField(header_proto::kVersion, IntField(version_proto::kProducer, kVersion));
}

BundleEntry ReadBundleEntry(const std::string& name, std::string_view bytes, int64_t shards,
                            const std::string& source) {
  const std::string subject = StrCat(source, ": tensor ", Quoted(name), ": its entry");
  BundleEntry entry;
  entry.name = name;
  for (WireReader reader(bytes, 0, subject); reader.Next();) {
    switch (reader.field()) {
      case entry_proto::kType:
        entry.type = ReadCount(reader);
        break;
      case entry_proto::kShape:
        entry.shape = ReadShape(reader.AsMessage());
        break;
      case entry_proto::kShard:
        entry.shard = ReadCount(reader);
        break;
      case entry_proto::kOffset:
        entry.offset = ReadCount(reader);
        break;
      case entry_proto::kSize:
        entry.size = ReadCount(reader);
        break;
      case entry_proto::kCrc:
        entry.masked_crc = reader.AsFixed32();
        break;
      case entry_proto::kSlices:
        reader.FailHere("a slice: a partitioned variable, which is not read here");
      default:
        break;
    }
  }
  const auto reject = [&](const auto&... parts) {
    Fail(ErrorKind::kData, source, ": tensor ", Quoted(name), ": ", parts...);
  };
  if (entry.shard >= shards) reject("is in the file ", entry.shard, " of ", shards);
  if (entry.offset > std::numeric_limits<int64_t>::max() - entry.size) {
    reject("would end beyond the largest file: ", entry.size, " bytes from ", entry.offset);
  }
  const TypeRow* const type = FindType(entry.type);
  if (type != nullptr && type->bytes > 0) {
    const int64_t bytes = BytesOfShape(entry.shape, type->bytes);
    if (bytes == kTooMany || bytes != entry.size) {
      reject(entry.size, " bytes are not those of ", type->name, entry.shape);
    }
  }
  return entry;
}

std::string BundleEntryBytes(const BundleEntry& entry) {
  std::string shape;
  for (const int64_t size : entry.shape) {
    shape += BytesField(shape_proto::kDim,
                        size == 0 ? std::string() : IntField(shape_proto::kDimSize, static_cast<uint64_t>(size)));
  }
  std::string bytes = IntField(entry_proto::kType, static_cast<uint64_t>(entry.type));
  bytes += BytesField(entry_proto::kShape, shape);
  // A number that is 0 is left out.
  const auto add = [&bytes](uint64_t field, int64_t value) {
    if (value != 0) bytes += IntField(field, static_cast<uint64_t>(value));
  };
  add(entry_proto::kShard, entry.shard);
  add(entry_proto::kOffset, entry.offset);
  add(entry_proto::kSize, entry.size);
  if (entry.masked_crc != 0) bytes += Fixed32Field(entry_proto::kCrc, entry.masked_crc);
  return bytes;
}

std::string BundleBytes(const Tensor& tensor, BundleType type) {
  const Tensor dense = tensor.Contiguous();
  const auto count = static_cast<size_t>(dense.num_elements());
  CROSSTALK_DCHECK(dense.dtype() == (type == kBundleInt64 ? DType::kInt64 : DType::kFloat32));
  if (type != kBundleBFloat16) return {static_cast<const char*>(dense.raw_data()), count * SizeOf(dense.dtype())};
  std::string bytes(2 * count, '\0');
  const float* const values = dense.data<float>();
  for (size_t i = 0; i < count; ++i) {
    const uint16_t bits = Narrow(HalfFormat::kBFloat16, values[i]);
    std::memcpy(&bytes[2 * i], &bits, 2);
  }
  return bytes;
}

void WriteTensorBundle(const std::string& prefix, const std::string& shown, std::span<const BundleTensor> tensors) {
  constexpr int64_t kShards = 1;
  std::vector<const BundleTensor*> ordered;
  for (const BundleTensor& tensor : tensors) ordered.push_back(&tensor);
  std::sort(ordered.begin(), ordered.end(),
            [](const BundleTensor* a, const BundleTensor* b) { return a->name < b->name; });
  std::vector<TableEntry> table = {{"", BundleHeaderBytes(kShards)}};
  FileWriter data(BundleShardPath(prefix, 0, kShards), BundleShardPath(shown, 0, kShards));
  for (const BundleTensor* tensor : ordered) {
    CROSSTALK_CHECK(table.back().key != tensor->name, data.path(), ": tensor ", Quoted(tensor->name),
                    ": is there twice");
    const std::string bytes = BundleBytes(tensor->tensor, tensor->type);
    BundleEntry entry;
    entry.type = tensor->type;
    entry.shape = tensor->tensor.shape();
    entry.offset = static_cast<int64_t>(data.bytes_written());
    entry.size = static_cast<int64_t>(bytes.size());
    entry.masked_crc = MaskedCrc32c(Crc32cOf(bytes));
    data.Write(bytes);
    table.push_back({tensor->name, BundleEntryBytes(entry)});
  }
  data.Finish();
  FileWriter index(BundleIndexPath(prefix), BundleIndexPath(shown));
  index.Write(WriteTable(table));
  index.Finish();
}

}  // namespace crosstalk
