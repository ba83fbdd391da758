// Tasks as text to text, as T5 publishes them: "mnli premise: … hypothesis: …" is answered by "entailment". Source:
// Raffel et al. (2020), section 2.4 and appendix D, and T5's preprocessors.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crosstalk {

// Answers in words as SQuAD's and ReCoRD's scripts compare them: without case, punctuation, articles and white space.

// The words that are left of a text of UTF-8: lower case, ASCII punctuation deleted, each word (Python's \w+) that is
// a, an or the replaced by a space, split at white space, all as Python's Unicode has it.
std::vector<std::string> AnswerWords(std::string_view text);

// How two answers agree: whether all words are equal, and F1 of the words that both have, as often as both have them.
struct AnswerMatch {
  double exact = 0;
  double f1 = 0;
};
// Against the right answer that gives most, of each of the two. Where a side has no words, F1 is 0 as for SQuAD 1.1 and
// ReCoRD, or, for SQuAD 2.0, whether neither has.
enum class NoWords { kScoreZero, kMatchEachOther };
AnswerMatch BestMatch(std::string_view answer, const std::vector<std::string>& right, NoWords no_words);

// The target of a row without a label.
inline constexpr const char* kNoLabelText = "<unk>";

// "cb hypothesis: … premise: …": a task's name, and each field's name in front of its text.
std::string TaskInput(std::string_view task, const std::vector<std::pair<std::string_view, std::string_view>>& fields);

// Without white space at either end: the ASCII of what Python's strip() and float() leave out.
std::string_view Trimmed(std::string_view text);

// string.punctuation of Python.
bool IsAsciiPunctuation(char32_t code);
// A space on either side of each character of ASCII punctuation, then each run of ASCII white space as one space:
// "A question?" is "A question ? ".
std::string SpacedPunctuation(std::string_view text);
// Each run of ASCII white space as one space.
std::string CollapsedSpace(std::string_view text);
// How often `part` stands in the text, from the left.
size_t CountOf(std::string_view text, std::string_view part);

// A similarity as text: round(5·score)/5 with one decimal, in float and half to even, as T5 computes it: 1.66 is "1.6",
// 0.5 is "0.4", 2.8 is "2.8".
std::string SimilarityText(double score);

// True for all of the text as a finite number in decimal notation: "3.4", "1e3".
bool ParseNumber(std::string_view text, double* number);

// Which of `words` the text is, white space at its ends apart; -1: none.
int FindWord(const std::vector<const char*>& words, std::string_view text);

}  // namespace crosstalk
