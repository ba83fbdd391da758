// A pattern that cuts text into pieces before a vocabulary applies, as the tokenizer.json files of byte-level
// tokenizers have it: a regular expression, or a text that is meant literally.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/enum_names.h"

namespace crosstalk {

// The pattern of GPT-2's tokenizer, which is that of ByteLevel with use_regex.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// What becomes of a match and of the text between matches. The names are those of tokenizer.json.
enum class SplitBehavior {
  kRemoved,             // text between matches is a piece, a match is dropped
  kIsolated,            // each of both is a piece
  kMergedWithPrevious,  // a match belongs to the text before it
  kMergedWithNext,      // a match belongs to the text after it
  kContiguous,          // matches beside each other are one piece
};
template <>
struct EnumNames<SplitBehavior> {
  static constexpr EnumName<SplitBehavior> kTable[] = {{SplitBehavior::kRemoved, "Removed"},
                                                       {SplitBehavior::kIsolated, "Isolated"},
                                                       {SplitBehavior::kMergedWithPrevious, "MergedWithPrevious"},
                                                       {SplitBehavior::kMergedWithNext, "MergedWithNext"},
                                                       {SplitBehavior::kContiguous, "Contiguous"}};
};

struct SplitRule {
  std::string pattern;
  bool literal = false;  // the pattern is a text
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // matches and the text between them change places
};

struct PieceRange {
  size_t begin, end;
};

// Memory that matching needs: one a thread, for any number of patterns.
class MatchMemory {
 public:
  MatchMemory();
  ~MatchMemory();
  MatchMemory(const MatchMemory&) = delete;
  MatchMemory& operator=(const MatchMemory&) = delete;

 private:
  friend class SplitPattern;
  void* data_;
};

// Regular expressions are Oniguruma's, which those files are made with, as far as PCRE2 has the same: \s is Unicode's
// White_Space, \w and \b know marks, \h is a hexadecimal digit, a class may hold a class. What the two read
// differently is refused: (?m), {2,3}+, [a&&b], [[:alpha:]], a negated class within a class.
class SplitPattern {
 public:
  // `source` is the file and key for messages. Error(kData) for a pattern that cannot be compiled.
  SplitPattern(SplitRule rule, std::string source);
  ~SplitPattern();
  SplitPattern(SplitPattern&& other) noexcept;
  SplitPattern& operator=(SplitPattern&&) = delete;

  const SplitRule& rule() const { return rule_; }
  // Appends the pieces of text[range], which is UTF-8, none of them empty. Error(kData) where matching exceeds PCRE2's
  // limits.
  void Cut(std::string_view text, PieceRange range, MatchMemory* memory, std::vector<PieceRange>* pieces) const;

 private:
  template <typename Visit>
  void ForEachMatch(std::string_view text, MatchMemory* memory, const Visit& visit) const;

  SplitRule rule_;
  std::string source_;
  void* code_ = nullptr;
};

}  // namespace crosstalk
