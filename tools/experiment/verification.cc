#include "tools/experiment/verification.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <utility>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"
#include "tools/output.h"
#include "tools/text_table.h"

namespace crosstalk {

namespace {

// A double in as many digits as tell it from every other.
std::string ExactText(double value) { return Json(value).Dump(); }

class Comparison {
 public:
  void Texts(const std::string& of, const std::string& there, const std::string& here) {
    if (there != here) Differ(of, there, here);
  }
  // A result of an earlier version has no digest.
  void Digests(const std::string& of, const std::string& there, const std::string& here) {
    if (!there.empty() && !here.empty()) Texts(of, there, here);
  }
  void Values(const std::string& of, const std::map<std::string, double>& there,
              const std::map<std::string, double>& here) {
    for (const auto& [name, value] : there) {
      const auto other = here.find(name);
      Texts(of + name, ExactText(value), other == here.end() ? "nothing" : ExactText(other->second));
    }
    for (const auto& [name, value] : here) {
      if (there.count(name) == 0) Differ(of + name, "nothing", ExactText(value));
    }
  }
  void Curves(const PretrainingRecord& there, const PretrainingRecord& here) {
    if (there.curve_steps != here.curve_steps) {
      Differ("curve", StrCat(there.curve.size(), " values"), StrCat(here.curve.size(), " values of other steps"));
      return;
    }
    for (size_t i = 0; i < there.curve.size(); ++i) {
      if (there.curve[i] == here.curve[i]) continue;
      Differ(StrCat("ln_ppl at step ", there.curve_steps[i]), ExactText(there.curve[i]), ExactText(here.curve[i]));
      return;  // what follows differs with it
    }
  }

  std::vector<std::string> differences;

 private:
  void Differ(const std::string& of, const std::string& there, const std::string& here) {
    differences.push_back(StrCat(of, ": ", there, " there, ", here, " here"));
  }
};

}  // namespace

std::vector<std::string> RecordDifferences(const CellRecord& there, const CellRecord& here) {
  Comparison compare;
  const PretrainingRecord &a = there.pretraining, &b = here.pretraining;
  compare.Texts("data", a.data_fingerprint, b.data_fingerprint);
  compare.Texts("parameters", StrCat(a.parameters), StrCat(b.parameters));
  compare.Texts("rounding", a.simd_bits, b.simd_bits);
  compare.Digests("model_sha256", a.model_sha256, b.model_sha256);
  compare.Curves(a, b);
  compare.Values("", a.values, b.values);
  for (const auto& [tasks, finetuning] : there.finetunings) {
    const auto other = here.finetunings.find(tasks);
    if (other == here.finetunings.end()) {
      compare.Texts(tasks, "finetuned", "not finetuned");
      continue;
    }
    compare.Texts(tasks + ", data", finetuning.data_fingerprint, other->second.data_fingerprint);
    compare.Digests(tasks + ", model_sha256", finetuning.model_sha256, other->second.model_sha256);
    for (const auto& [task, scores] : finetuning.scores) {
      const auto own = other->second.scores.find(task);
      compare.Values(task + ", ", scores,
                     own == other->second.scores.end() ? std::map<std::string, double>() : own->second);
    }
  }
  return std::move(compare.differences);
}

std::vector<Cell> CellsToVerify(const std::vector<Cell>& cells, int64_t count, uint64_t seed) {
  std::vector<const Cell*> there;
  for (const Cell& cell : cells) {
    try {
      if (KeptRecord(cell) && WhyAnother(cell).empty()) there.push_back(&cell);
    } catch (const Error& error) {
      PrintMessage("not verified: ", error.what());
    }
  }
  // Each cell's place in the draw is a random number of its own, so that one more cell displaces at most one.
  const auto place = [seed](const Cell& cell) {
    const RandomKey key{seed, StreamId("tools.reproduce.verify"), StreamId(cell.Title())};
    return key.Bits(0);
  };
  std::vector<size_t> order(there.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place(*there[a]) < place(*there[b]); });
  order.resize(std::min(order.size(), static_cast<size_t>(count)));
  std::sort(order.begin(), order.end());
  std::vector<Cell> chosen;
  for (const size_t i : order) chosen.push_back(*there[i]);
  return chosen;
}

bool Verify(const Cell& cell, const std::string& folder, const StopSignals& signals, Verification* verification) {
  namespace fs = std::filesystem;
  Cell repeated = cell;
  repeated.folder = StrCat(folder, "/", cell.name, "/seed-", cell.pretraining.optimization.seed);
  CROSSTALK_CHECK(fs::weakly_canonical(repeated.folder) != fs::weakly_canonical(cell.folder), "--verify: ", cell.folder,
                  " is where the cell would be recomputed; choose another --out");
  if (Exists(repeated.folder)) RemoveAtomically(repeated.folder);
  *verification = {.cell = cell.Title(), .model_sha256 = {}, .differences = {}};
  const CellEnd end = RunCell(repeated, signals);
  if (end == CellEnd::kStopped) return false;
  const std::optional<CellRecord> there = KeptRecord(cell), here = KeptRecord(repeated);
  if (end != CellEnd::kFinished || !there || !here) {
    const std::string failure = FailureOf(repeated);
    verification->differences = {StrCat("cannot be recomputed", failure.empty() ? "" : ": ", failure)};
    return true;
  }
  verification->model_sha256 = here->pretraining.model_sha256;
  verification->has_digest = !there->pretraining.model_sha256.empty();
  verification->differences = RecordDifferences(*there, *here);
  if (verification->differences.empty()) RemoveAtomically(repeated.folder);
  return true;
}

std::string VerdictText(const Verification& verification) {
  if (!verification.differences.empty()) return Join(verification.differences, "; ");
  return verification.has_digest ? "the same to the bit" : "the same values; its result has no digest of the model";
}

std::string VerificationText(const std::vector<Verification>& verified) {
  TextTable table = {{"cell", "recomputed", "sha256 of the model"}, {}};
  for (const Verification& one : verified) {
    table.rows.push_back(
        {one.cell, one.differences.empty() ? "the same to the bit" : Join(one.differences, "; "), one.model_sha256});
  }
  return MarkdownTable(table);
}

Json ToJson(const std::vector<Verification>& verified) {
  Json list = Json::MakeArray();
  for (const Verification& one : verified) {
    Json differences = Json::MakeArray();
    for (const std::string& difference : one.differences) differences.Append(difference);
    list.Append(Json::MakeObject({{"cell", one.cell},
                                  {"same", one.differences.empty()},
                                  {"model_sha256", one.model_sha256},
                                  {"differences", differences}}));
  }
  return list;
}

}  // namespace crosstalk
