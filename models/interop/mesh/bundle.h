// TensorFlow's checkpoints, the tensor bundle V2: PREFIX.index says of each tensor its name, type, shape and place in
// PREFIX.data-SSSSS-of-NNNNN, where its bytes are. Hostile until checked: nothing is allocated that is not in the
// files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

// TensorFlow's numbers of the types that are named here.
enum BundleType : int64_t {
  kBundleFloat32 = 1,
  kBundleString = 7,
  kBundleInt64 = 9,
  kBundleBFloat16 = 14,
  kBundleResource = 20,
  kBundleVariant = 21
};
// "bfloat16"; "type 99" where the format has none of that number.
std::string BundleTypeName(int64_t type);

struct BundleEntry {
  std::string name;
  int64_t type = 0;
  Shape shape;
  int64_t shard = 0;
  int64_t offset = 0;  // in bytes, as is size
  int64_t size = 0;
  uint32_t masked_crc = 0;
};

struct BundleIndex {
  int64_t shards = 0;
  std::vector<BundleEntry> entries;  // by name
  const BundleEntry* Find(std::string_view name) const;
};

std::string BundleIndexPath(const std::string& prefix);
std::string BundleShardPath(const std::string& prefix, int64_t shard, int64_t shards);

// PREFIX.index alone. Error(kData) "FILE: tensor "NAME": …" for what is damaged, or contradicts itself: a shard that is
// none, a size that is not the shape's, tensors that overlap; and for partitioned variables.
BundleIndex ReadBundleIndex(const std::string& prefix);

class TensorBundle {
 public:
  // Reads the index and looks at the shards that it names: Error(kData) for one that is missing or too short.
  explicit TensorBundle(std::string prefix);

  const BundleIndex& index() const { return index_; }
  // An entry of the index: float32 of float32 and bfloat16, int64 of int64. Error(kData) that names file and tensor for
  // another type, and where the checksum is another.
  Tensor Read(const BundleEntry& entry) const;

 private:
  std::string prefix_;
  BundleIndex index_;
};

// The records of a tensor bundle's index as bytes: TensorFlow's BundleHeaderProto and BundleEntryProto.

// The number of shards. Error(kData) "SOURCE: …" for big-endian data, and for what needs a newer reader.
int64_t ReadBundleHeader(std::string_view bytes, const std::string& source);
std::string BundleHeaderBytes(int64_t shards);

// Error(kData) "SOURCE: tensor "NAME": …" where the numbers do not fit each other, and for a partitioned variable.
BundleEntry ReadBundleEntry(const std::string& name, std::string_view bytes, int64_t shards, const std::string& source);
std::string BundleEntryBytes(const BundleEntry& entry);

// TensorFlow's checkpoints, written: the bytes that TensorFlow itself writes of the same tensors.

struct BundleTensor {
  std::string name;
  BundleType type;  // float32 or bfloat16 of float32, rounded to nearest, ties to even; int64 of int64
  Tensor tensor;
};

// PREFIX.index and one file of data; messages call the prefix `shown`. Error(kUsage) for a name that is there twice.
void WriteTensorBundle(const std::string& prefix, const std::string& shown, std::span<const BundleTensor> tensors);

// The bytes of a tensor in such a file.
std::string BundleBytes(const Tensor& tensor, BundleType type);

}  // namespace crosstalk
