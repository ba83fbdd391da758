#include "tools/commands/summary.h"

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/format.h"
#include "tools/lab/experiment/results_text.h"

namespace crosstalk {

namespace {

std::string Scope(const TableResult& result) {
  const Table& table = *result.table;
  std::string text = StrCat(
      table.IsOfPaper() ? StrCat("Table ", table.name, " of *Talking-Heads Attention* (2020), section ", table.section)
                        : StrCat("Table ", table.name, " of Crosstalk"),
      ": ", table.title, ". The claims:\n\n");
  for (const TableClaim& claim : table.claims) text += StrCat("- ", claim.text, " (", claim.source, ")\n");
  return text;
}

// Of the pretrainings that count, evaluation left out.
double SecondsOfSteps(const TableResult& result) {
  double seconds = 0;
  for (const RowResult& row : result.rows) {
    for (const CellResult& cell : row.cells) {
      seconds += cell.step_seconds.value_or(0) * static_cast<double>(row.steps);
    }
  }
  return seconds;
}

std::string Methodology(const TableResult& result) {
  int64_t runs = 0;
  for (const RowResult& row : result.rows) runs += static_cast<int64_t>(row.cells.size());
  std::string text;
  for (const std::string& note : RunNotes(result)) text += StrCat("- ", EscapeMarkdown(note), "\n");
  text += StrCat("- ", runs, runs == 1 ? " run" : " runs", " of ", result.rows.size(), " rows");
  if (const double seconds = SecondsOfSteps(result); seconds > 0) {
    text +=
        StrCat("; their steps took about ", EstimateText(seconds), " on the processors named, one run after the other");
  }
  return StrCat(text, ".\n- ", ClaimsNote(),
                "\n- Each run can be checked: its seed, configuration, text and digest stand in its result.json, and "
                "`crosstalk reproduce --verify N` recomputes N of them and compares to the bit.\n");
}

std::string WithoutStop(std::string sentence) {
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

// The table, a verdict for each measured claim, and its pairs.
std::string Results(const TableResult& result) {
  std::string text = MarkdownTable(MeasuresTable(result)) + "\n";
  for (const ClaimResult& claim : result.claims) {
    if (claim.verdict == Verdict::kNotMeasured) continue;
    text +=
        StrCat("- ", WithoutStop(claim.claim->text), " (", claim.measure.label, "): **", claim.VerdictText(), "**.\n");
  }
  std::vector<std::string> not_measured;
  const TextTable pairs = ClaimsTable(result, &not_measured);
  if (!pairs.rows.empty()) text += "\n" + MarkdownTable(pairs);
  for (size_t i = 0; i < not_measured.size(); ++i) {
    text += StrCat(i == 0 ? "\nNot measured:\n\n" : "", "- ", not_measured[i], "\n");
  }
  return text;
}

std::string Easy(const TableResult& result) {
  return StrCat(
      "One command computes the table, on any number of machines, and what is interrupted goes on to the same "
      "bits. ",
      result.MostSeeds() == 0 ? "Nothing has been computed yet."
      : result.simd_bits.size() > 1
          ? "These runs were computed with several kinds of rounding, so that they are not all comparable to the bit."
          : "All runs have the same bits on every processor of their kind.",
      "\n");
}

std::string Hard(const TableResult& result) {
  std::string text;
  std::set<std::string> undecided;
  for (const ClaimResult& claim : result.claims) {
    if (claim.verdict == Verdict::kUndecided || claim.verdict == Verdict::kNotMeasured)
      undecided.insert(StrCat(claim.claim->text, " (", claim.measure.label, ")"));
  }
  for (const std::string& claim : undecided) text += StrCat("- Not decided: ", claim, "\n");
  for (const MissingCell& cell : result.missing)
    text += StrCat("- Missing: ", EscapeMarkdown(StrCat(cell.title, ": ", cell.reason)), "\n");
  if (result.processors.size() > 1) text += "- Step times come from several kinds of machine and say little.\n";
  return text.empty() ? "Nothing is missing, and every claim that was measured is decided.\n" : text;
}

}  // namespace

std::string ReproducibilitySummary(const TableResult& result) {
  return StrCat("# Reproducibility summary\n\n## Scope of reproducibility\n\n", Scope(result), "\n## Methodology\n\n",
                Methodology(result), "\n## Results\n\n", Results(result), "\n## What was easy\n\n", Easy(result),
                "\n## What was difficult\n\n", Hard(result));
}

}  // namespace crosstalk
