#include "crosstalk/models/text/held_out.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/packed.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr size_t kLongestWord = 256;  // in bytes

}  // namespace

std::vector<bool> ChooseHeldOut(const std::vector<InputFile>& files, uint64_t seed, double share) {
  struct Candidate {
    uint32_t hash;
    size_t index;
  };
  std::vector<Candidate> candidates;
  double total = 0;
  size_t smallest = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const RandomKey key{seed, StreamId("models.text.held_out"), StreamId(WithoutGz(files[i].relative_path))};
    candidates.push_back({key.Bits(0), i});
    total += static_cast<double>(files[i].file->size());
    if (files[i].file->size() < files[smallest].file->size()) smallest = i;
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.hash != b.hash ? a.hash < b.hash : a.index < b.index;
  });
  std::vector<bool> held_out(files.size(), false);
  double taken = 0;
  for (const Candidate& candidate : candidates) {
    if (taken >= share * total) break;
    const auto size = static_cast<double>(files[candidate.index].file->size());
    if (taken + size > 2 * share * total) continue;
    held_out[candidate.index] = true;
    taken += size;
  }
  if (taken == 0) held_out[smallest] = true;
  return held_out;
}

size_t HeldOutBegin(const TextFile& file, double share) {
  constexpr std::string_view kSpaces = " \t\r\n";
  constexpr size_t npos = std::string_view::npos;
  const bool jsonl = file.format() == TextFormat::kJsonl;
  const auto wanted = static_cast<size_t>(std::floor(static_cast<double>(file.size()) * (1 - share)));
  for (const std::string_view mark : {"\n\n", "\r\n\r\n", "\n", " "}) {
    if (jsonl && mark != "\n") continue;
    const size_t found = file.Find(mark, wanted);
    if (found != npos && file.FindFirstNotOf(kSpaces, found) != npos) return found + mark.size();
  }
  // No mark follows: cut at the last one before.
  const size_t last = file.FindLastNotOf(kSpaces, npos);
  if (last != npos && last > 0) {
    const size_t found = file.FindLastOf(jsonl ? "\n" : " \n", last - 1);
    if (found != npos) return found + 1;
    // No word is that long: it is a script without spaces, which is cut at a character.
    if (!jsonl && last >= kLongestWord) {
      size_t cut = std::min(wanted, last);
      while (IsUtf8Continuation(file.Read(cut, 1)[0])) --cut;
      if (cut > 0) return cut;
    }
  }
  Fail(ErrorKind::kData, file.path(),
       ": too short to hold a part out for validation: give more text, or a validation text of its own");
}

}  // namespace crosstalk
