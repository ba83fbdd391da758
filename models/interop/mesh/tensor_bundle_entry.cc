#include "crosstalk/models/interop/mesh/tensor_bundle_entry.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/protobuf.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
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

}  // namespace crosstalk
