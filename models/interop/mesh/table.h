// The sorted table in which TensorFlow keeps a checkpoint's index (LevelDB's format): blocks of entries, a block that
// says where they are, and a footer. Hostile until checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

// A block of the sorted table in which TensorFlow keeps a checkpoint's index (LevelDB's format): keys in ascending
// order, each with what it shares with the one before left out, and their values.

struct TableEntry {
  std::string key;
  std::string value;
};

// Where a block stands in its file; its type and checksum, kBlockTrailerBytes, follow.
struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size = 0;
};
inline constexpr size_t kBlockTrailerBytes = 5;
inline constexpr size_t kMaxTableKeyBytes = 4096;

// The limit on all blocks of a table together, so that a small file cannot ask for much memory.
class TableBudget {
 public:
  explicit TableBudget(std::string source) : source_(std::move(source)) {}
  void Spend(uint64_t bytes) {
    spent_ += bytes;
    if (spent_ > kMost) Fail(ErrorKind::kData, source_, ": holds more than ", kMost, " bytes of names and entries");
  }

 private:
  static constexpr uint64_t kMost = 64 << 20;
  std::string source_;
  uint64_t spent_ = 0;
};

// The entries of the block at `handle` of the file `bytes`, whose footer begins at `end`. Error(kData) "SOURCE: …"
// where it leaves the file, its checksum or compression (none, or snappy) is wrong, or its keys do not ascend.
std::vector<TableEntry> ReadTableBlock(std::string_view bytes, uint64_t end, const BlockHandle& handle,
                                       const std::string& source, TableBudget* budget);

// Builds a block: every `restart_interval`-th key is written whole.
class TableBlockWriter {
 public:
  explicit TableBlockWriter(int restart_interval) : restart_interval_(restart_interval) {}

  // Keys must ascend.
  void Add(std::string_view key, std::string_view value);
  bool empty() const { return bytes_.empty(); }
  // The size of what Finish() would return.
  size_t size() const { return bytes_.size() + 4 * restarts_.size() + 4; }
  // The block with its trailer, uncompressed; the writer is then empty.
  std::string Finish();

 private:
  int restart_interval_;
  std::string bytes_;
  std::string last_key_;
  std::vector<size_t> restarts_ = {0};
  int since_restart_ = 0;
};

// All entries of a table's bytes, keys ascending. Error(kData) "SOURCE: …" for what is no such table, is damaged, or
// would take more memory than its size explains.
std::vector<TableEntry> ReadTable(std::string_view bytes, const std::string& source);

// The bytes that TensorFlow writes of these entries, whose keys ascend: uncompressed, in blocks of 256 KiB.
std::string WriteTable(std::span<const TableEntry> entries);

}  // namespace crosstalk
