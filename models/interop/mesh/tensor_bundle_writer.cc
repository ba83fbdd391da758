#include "crosstalk/models/interop/mesh/tensor_bundle_writer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "crosstalk/models/interop/mesh/tensor_bundle_entry.h"
#include "crosstalk/models/interop/mesh/tensor_table.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

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
