#include "crosstalk/models/text/synthetic/story_entropy_bound.h"

#include <algorithm>
#include <string>

#include "crosstalk/models/text/synthetic/story_words.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {
namespace {

// Let Z be everything drawn in the writing of the story except the words S whose every mention among the tokens is
// hidden, together with the mask and the number of tokens of each word. The visible tokens are a function of Z. The
// words of S are a function of Z and the targets, and given Z they are still uniform over the rows that nobody of their
// group took and that have the same number of tokens wherever they are mentioned. So for any model
//   E[-ln p(targets | inputs)] ≥ H(targets | inputs) ≥ H(targets | Z) ≥ H(S | Z) = E[Σ_S ln(rows left)].

// How a word stands in the text, which decides how many tokens it has.
struct Form {
  int column;  // of its row
  bool capitalised;
  bool quoted;  // straight after a quotation mark

  friend bool operator==(const Form&, const Form&) = default;
};

// The number of tokens of a word in that form, a quotation mark before it counted.
size_t CountTokens(const StoryRow& row, const Form& form, const Tokenizer& tokenizer) {
  std::string text(form.quoted ? "\"" : "");
  const size_t first = text.size();
  text += row[form.column];
  if (form.capitalised && text[first] >= 'a' && text[first] <= 'z') text[first] += 'A' - 'a';
  return tokenizer.Encode(text).size();
}

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

double StoryEntropyBound(const Story& story, const std::vector<TokenSpan>& tokens, const std::vector<bool>& hidden,
                         const Tokenizer& tokenizer) {
  CROSSTALK_CHECK(tokens.size() == hidden.size(), "entropy bound of a story: ", tokens.size(), " tokens but a mask of ",
                  hidden.size());
  double nats = 0;
  for (size_t i = 0; i < story.choices.size(); ++i) {
    const WordChoice& choice = story.choices[i];
    std::vector<Form> forms;  // of its mentions among the tokens
    bool told = false;        // by something visible, or by a number computed from it
    for (const ChoiceMention& mention : choice.mentions) {
      const Seen seen = Look(mention.begin, mention.end, tokens, hidden);
      if (seen == Seen::kOutside) continue;
      if (seen == Seen::kVisible || mention.column < 0) {
        told = true;
        break;
      }
      const bool quoted = mention.begin > 0 && story.text[mention.begin - 1] == '"';
      const Form form = {mention.column, mention.capitalised, quoted};
      if (std::find(forms.begin(), forms.end(), form) == forms.end()) forms.push_back(form);
    }
    if (told || forms.empty()) continue;
    const std::vector<StoryRow>& rows = StoryRows(choice.table);
    std::vector<bool> possible(rows.size(), true);
    for (const Form& form : forms) {
      const size_t count = CountTokens(rows[choice.row], form, tokenizer);
      for (size_t row = 0; row < rows.size(); ++row) {
        if (possible[row] && CountTokens(rows[row], form, tokenizer) != count) possible[row] = false;
      }
    }
    if (choice.group >= 0) {
      for (size_t j = 0; j < story.choices.size(); ++j) {
        const WordChoice& other = story.choices[j];
        if (j != i && other.table == choice.table && other.group == choice.group) possible[other.row] = false;
      }
    }
    nats += Log(static_cast<double>(std::count(possible.begin(), possible.end(), true)));
  }
  return nats;
}

}  // namespace crosstalk
