// The sorted table in which TensorFlow keeps a checkpoint's index (LevelDB's format): blocks of entries, a block that
// says where they are, and a footer. Hostile until checked.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/interop/mesh/tensor_table_block.h"

namespace crosstalk {

// All entries of a table's bytes, keys ascending. Error(kData) "SOURCE: …" for what is no such table, is damaged, or
// would take more memory than its size explains.
std::vector<TableEntry> ReadTable(std::string_view bytes, const std::string& source);

// The bytes that TensorFlow writes of these entries, whose keys ascend: uncompressed, in blocks of 256 KiB.
std::string WriteTable(std::span<const TableEntry> entries);

}  // namespace crosstalk
