// The checkpoints of TensorFlow that tests/models/interop/mesh/bundles holds, and others made of entries as a test
// wants them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "crosstalk/models/interop/mesh/bundle.h"
#include "crosstalk/models/interop/mesh/table.h"
#include "crosstalk/runtime/atomic_file.h"

namespace crosstalk {

inline std::string BundleFixture(const std::string& name) {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  return std::string(source == nullptr ? "." : source) + "/tests/models/interop/mesh/bundles/" + name;
}

inline void WriteFileBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// PREFIX.index of such entries, in this order, as damaged as they are.
inline void WriteIndex(const std::string& prefix, int64_t shards, const std::vector<BundleEntry>& entries) {
  std::vector<TableEntry> table = {{"", BundleHeaderBytes(shards)}};
  for (const BundleEntry& entry : entries) table.push_back({entry.name, BundleEntryBytes(entry)});
  WriteFileBytes(BundleIndexPath(prefix), WriteTable(table));
}

}  // namespace crosstalk
