// A table's results as text: markdown for people, CSV and JSON for programs. The same cells give the same bytes.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tools/cli/text_table.h"
#include "tools/lab/experiment/results.h"

namespace crosstalk {

// Ours beside the paper's; columns of which neither has anything are left out.
TextTable MeasuresTable(const TableResult& result);
TextTable CostsTable(const TableResult& result);
// A row for each pair of each claim that has a seed in common; the claims that have none stand in `not_measured`.
TextTable ClaimsTable(const TableResult& result, std::vector<std::string>* not_measured);

// A row for each measure and each two rows that have a seed in common, of a table without claims.
TextTable DifferencesTable(const TableResult& result);

// The runs of the table: sentences.
std::vector<std::string> RunNotes(const TableResult& result);
// How the claims were tested: a sentence.
std::string ClaimsNote();

std::string Markdown(const TableResult& result);
std::string Csv(const TableResult& result);
// Each point of the curves that the page draws: row, seed, step, held-out ln(PPL).
std::string CurvesCsv(const TableResult& result);
Json ToJson(const TableResult& result);

}  // namespace crosstalk
