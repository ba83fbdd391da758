#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/atomic_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::fuzz {

// A folder of tokenizers' files and of those that lie beside them: after a byte 255 and a digit, its number, the
// contents of each. What the folder gives can be published, unless its form has no place for a rule.
void FuzzTokenizerFolder(std::string_view input) {
  constexpr const char* kNames[] = {"tokenizer.json",        "vocab.txt",         "spiece.model",
                                    "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json",
                                    "config.json",           "vocab.json",        "merges.txt"};
  constexpr char kMark = '\xFF';
  const TempDir dir;
  for (size_t at = input.find(kMark); at != std::string_view::npos && at + 1 < input.size();) {
    const size_t end = std::min(input.find(kMark, at + 1), input.size());
    const auto which = static_cast<size_t>(static_cast<unsigned char>(input[at + 1]) - '0');
    if (which < std::size(kNames)) WriteFileAtomically(dir / kNames[which], input.substr(at + 2, end - at - 2));
    at = end < input.size() ? end : std::string_view::npos;
  }
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::string> remarks;
  if (!Accepts([&] { tokenizer = OpenTokenizer(dir.path(), kDefaultSentinels, &remarks); })) return;
  RequireTokenizer(*tokenizer, input);
  Accepts([&] { tokenizer->PublishedFiles(); });
}

}  // namespace crosstalk::fuzz
