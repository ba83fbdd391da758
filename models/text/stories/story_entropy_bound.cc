#include "crosstalk/models/text/stories/story_entropy_bound.h"

#include <algorithm>
#include <cmath>

#include "crosstalk/models/text/stories/story_words.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// Let Z be everything drawn in the writing of the story except the words S whose every mention among the tokens is
// hidden, together with the mask and the number of tokens of each word. The visible tokens are a function of Z. The
// words of S are a function of Z and the targets, and given Z they are still uniform over the rows that nobody of their
// group took and that have the same number of tokens wherever they are mentioned. So for any model
//   E[-ln p(targets | inputs)] ≥ H(targets | inputs) ≥ H(targets | Z) ≥ H(S | Z) = E[Σ_S ln(rows left)].

// Which form of a row: its column, a capital or not, straight after a quotation mark or not.
int FormIndex(int column, bool capitalised, bool quoted) { return (column * 2 + capitalised) * 2 + quoted; }

enum class Seen { kOutside, kHidden, kVisible };

// Whether the bytes [begin, end) stand in the tokens, and if so whether all tokens that touch them are hidden. Bytes
// that only begin inside count as visible: the targets do not tell them whole.
Seen Look(int64_t begin, int64_t end, const std::vector<TokenSpan>& tokens, const std::vector<bool>& hidden) {
  const auto first = std::upper_bound(tokens.begin(), tokens.end(), begin,
                                      [](int64_t byte, const TokenSpan& token) { return byte < token.end; });
  if (first == tokens.end()) return Seen::kOutside;
  if (tokens.back().end < end) return Seen::kVisible;
  for (auto token = first; token != tokens.end() && token->begin < end; ++token) {
    if (!hidden[token - tokens.begin()]) return Seen::kVisible;
  }
  return Seen::kHidden;
}

}  // namespace

StoryEntropyBound::StoryEntropyBound(const Tokenizer& tokenizer) {
  const int quote_tokens = static_cast<int>(tokenizer.Encode("\"").size());
  token_counts_.resize(kStoryTables);
  for (int table = 0; table < kStoryTables; ++table) {
    for (const StoryRow& row : StoryRows(table)) {
      std::vector<int>& counts = token_counts_[table].emplace_back();
      for (std::string_view form : row) {
        std::string word(form);
        std::string capitalised = word;
        if (word[0] >= 'a' && word[0] <= 'z') capitalised[0] = static_cast<char>(word[0] - 'a' + 'A');
        for (const std::string& text : {word, capitalised}) {
          counts.push_back(static_cast<int>(tokenizer.Encode(text).size()));
          counts.push_back(static_cast<int>(tokenizer.Encode("\"" + text).size()) - quote_tokens);
        }
      }
    }
  }
}

double StoryEntropyBound::Nats(const Story& story, const std::vector<TokenSpan>& tokens,
                               const std::vector<bool>& hidden) const {
  CROSSTALK_CHECK(tokens.size() == hidden.size(), "entropy bound of a story: ", tokens.size(), " tokens but a mask of ",
                  hidden.size());
  double nats = 0;
  for (size_t i = 0; i < story.choices.size(); ++i) {
    const WordChoice& choice = story.choices[i];
    std::vector<int> forms;  // of its mentions among the tokens
    bool told = false;       // by something visible, or by a number computed from it
    for (const ChoiceMention& mention : choice.mentions) {
      const Seen seen = Look(mention.begin, mention.end, tokens, hidden);
      if (seen == Seen::kOutside) continue;
      if (seen == Seen::kVisible || mention.column < 0) {
        told = true;
        break;
      }
      const bool quoted = mention.begin > 0 && story.text[mention.begin - 1] == '"';
      forms.push_back(FormIndex(mention.column, mention.capitalised, quoted));
    }
    if (told || forms.empty()) continue;
    const std::vector<std::vector<int>>& counts = token_counts_[choice.table];
    std::vector<bool> possible(counts.size());
    for (size_t row = 0; row < counts.size(); ++row) {
      possible[row] = std::all_of(forms.begin(), forms.end(),
                                  [&](int form) { return counts[row][form] == counts[choice.row][form]; });
    }
    if (choice.group >= 0) {
      for (size_t j = 0; j < story.choices.size(); ++j) {
        const WordChoice& other = story.choices[j];
        if (j != i && other.table == choice.table && other.group == choice.group) possible[other.row] = false;
      }
    }
    nats += std::log(static_cast<double>(std::count(possible.begin(), possible.end(), true)));
  }
  return nats;
}

}  // namespace crosstalk
