#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/interop/mesh/bundle.h"
#include "crosstalk/models/interop/mesh/folder.h"
#include "crosstalk/models/interop/mesh/gin.h"
#include "crosstalk/models/interop/mesh/table.h"
#include "crosstalk/models/interop/published_model.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/protobuf.h"
#include "crosstalk/runtime/storage.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::fuzz {
namespace {

constexpr size_t kDataBytes = 4096;
constexpr const char* kPrefix = "model.ckpt-1";

// A table of one block with this content and the right checksums, so that what is within is reached.
std::string TableOfBlock(std::string_view content, char type) {
  std::string bytes(content);
  bytes += type;
  bytes += LittleEndian(MaskedCrc32c(Crc32cOf(bytes)), 4);
  TableBlockWriter meta(16), index(1);
  std::string footer = Varint(bytes.size()) + Varint(meta.size());
  bytes += meta.Finish();
  index.Add("\xFF\xFF", Varint(0) + Varint(content.size()));
  footer += Varint(bytes.size()) + Varint(index.size());
  bytes += index.Finish();
  footer.resize(40, '\0');
  return bytes + footer + LittleEndian(0xDB4775248B80FB57u, 8);
}

// A table of one record, whose bytes these are, after the header.
std::string TableOfEntry(std::string_view record) {
  return WriteTable(std::vector<TableEntry>{{"", BundleHeaderBytes(1)}, {"shared/embedding", std::string(record)}});
}

// What is read is written as the same again.
void CheckGin(std::string_view text) {
  std::optional<Json> bindings;
  if (!Accepts([&] { bindings = ReadGin(text, "gin"); })) return;
  const Json again = ReadGin(WriteGin(*bindings), "gin");
  Require(again == *bindings, "bindings that change: ", bindings->Dump().substr(0, 1000));
}

}  // namespace

// The first line says what follows: `index`, a whole index; `plain` or `snappy`, the content of its block; `entry`, a
// record of it; `checkpoint`, that file; `gin`, a configuration. What is accepted takes memory in proportion to the
// files.
void FuzzTensorBundle(std::string_view input) {
  const FirstLine split = SplitFirstLine(input);
  const std::string_view kind = split.line;
  if (kind == "gin") return CheckGin(split.rest);
  const TempDir dir;
  const std::string prefix = dir / kPrefix;
  std::string index(split.rest);
  if (kind == "plain" || kind == "snappy") index = TableOfBlock(split.rest, kind == "plain" ? 0 : 1);
  if (kind == "entry") index = TableOfEntry(split.rest);
  if (kind == "checkpoint") {
    dir.Put("checkpoint", split.rest);
    index = TableOfEntry("");
  } else if (kind != "index" && kind != "plain" && kind != "snappy" && kind != "entry") {
    return;
  }
  PutFile(BundleIndexPath(prefix), index);
  PutFile(BundleShardPath(prefix, 0, 1), std::string(kDataBytes, '\1'));
  ResetPeakMemory();
  const int64_t before = GetMemoryStats().peak_bytes;
  Accepts([&] {
    const TensorBundle bundle(prefix);
    for (const BundleEntry& entry : bundle.index().entries) {
      Require(entry.offset >= 0 && entry.size >= 0 && entry.shard == 0, entry.name, " is outside");
      Require(static_cast<size_t>(entry.offset + entry.size) <= kDataBytes, entry.name, " is outside its file");
      Accepts([&] { bundle.Read(entry); });
    }
  });
  Accepts([&] { LoadPublishedModel(MeshFolder(dir.path(), {.feed_forward = FeedForwardKind::kRelu}), {}); });
  const int64_t taken = GetMemoryStats().peak_bytes - before;
  Require(taken <= static_cast<int64_t>(256 * (kDataBytes + index.size()) + (64 << 10)), taken,
          " bytes of tensors from ", index.size());
}

}  // namespace crosstalk::fuzz
