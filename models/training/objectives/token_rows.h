// Rows of ids that a model reads and ids that it is asked for, as every objective of a text and its targets has them.
#pragma once

#include <cstdint>
#include <vector>

#include "crosstalk/models/batch.h"

namespace crosstalk {

// inputs int32[rows, inputs], targets int32[rows, targets], all `pad`; the positions are the targets'.
Batch EmptyTokenRows(int64_t rows, int64_t inputs, int64_t targets, int32_t pad);

// Writes the ids of a row, padding staying after them, and counts its targets.
void WriteTokenRow(const std::vector<int32_t>& inputs, const std::vector<int32_t>& targets, int64_t row, Batch& batch);

}  // namespace crosstalk
