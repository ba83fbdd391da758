// The paper's ten tables and this project's own: rows as configurations at the table's width, the printed numbers, and
// the claims about them. They are the data of tables.json, which is part of the program.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tools/lab/experiment/table.h"

namespace crosstalk {

// The paper's in its order, then this project's.
const std::vector<Table>& Tables();
std::vector<std::string> TableNames();

// Tables of that form. Error(kData) with `source` for what is not one, or names a row or measure that is not there.
std::vector<Table> TablesFromJson(const Json& json, const std::string& source);

}  // namespace crosstalk
