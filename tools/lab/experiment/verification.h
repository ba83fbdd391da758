// Finished cells, recomputed in another folder and compared: no tolerance.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tools/lab/experiment/cell_record.h"
#include "tools/lab/experiment/cells.h"

namespace crosstalk {

struct Verification {
  std::string cell;                      // "t5-talking-24x32, seed 1"
  std::string model_sha256;              // of the pretrained model, as recomputed
  bool has_digest = true;                // whether the result that is there has one to compare with
  std::vector<std::string> differences;  // "ln_ppl: 2.1 there, 2.2 here"; empty: none
};
// "the same to the bit", or what differs.
std::string VerdictText(const Verification& verification);

// The differences of two records of a cell, except the time and the machine: the configuration as far as it affects
// the result, the digests of the models, what was measured of them, the text, and how sums were rounded. A record
// without digests is compared by its values.
std::vector<std::string> RecordDifferences(const CellRecord& there, const CellRecord& here);

// A cell whose result cannot be compared with anything, and why.
struct Unverifiable {
  std::string cell, reason;
};
// `count` of the cells whose results are there, drawn with the seed, all where there are no more; in their order. Of
// those that cannot be drawn, as they cannot be read or are of another configuration, it says so.
struct DrawnCells {
  std::vector<Cell> cells;
  std::vector<Unverifiable> others;
};
DrawnCells CellsToVerify(const std::vector<Cell>& cells, int64_t count, uint64_t seed);

// Computes the cell in `folder`, from its beginning whatever is there, and compares it with the cell's result; that it
// cannot be computed is a difference. Equal ones are removed. False: a signal ended it. Error(kUsage) where the cell
// itself is there. The caller holds the lock of `folder`.
bool Verify(const Cell& cell, const std::string& folder, const StopSignals& signals, Verification* verification);

// A table; and {"verified": [{"cell", "same", "model_sha256", "differences"}, …], "not_verified": [{"cell", "reason"},
// …]}.
std::string VerificationText(const std::vector<Verification>& verified, const std::vector<Unverifiable>& others);
Json VerificationJson(const std::vector<Verification>& verified, const std::vector<Unverifiable>& others);

}  // namespace crosstalk
