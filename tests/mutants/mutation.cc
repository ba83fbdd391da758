#include "tests/mutants/mutation.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <tuple>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"

namespace crosstalk {

namespace {

struct Exchange {
  std::string_view before;
  std::string_view after;
};

// Binary operators, with the spaces that set them apart from templates, pointers and signs.
constexpr std::array kOperators = {
    Exchange{" + ", " - "},   Exchange{" - ", " + "},   Exchange{" * ", " / "},   Exchange{" / ", " * "},
    Exchange{" % ", " / "},   Exchange{" += ", " -= "}, Exchange{" -= ", " += "}, Exchange{" *= ", " /= "},
    Exchange{" < ", " <= "},  Exchange{" <= ", " < "},  Exchange{" > ", " >= "},  Exchange{" >= ", " > "},
    Exchange{" == ", " != "}, Exchange{" != ", " == "}, Exchange{" && ", " || "}, Exchange{" || ", " && "},
};

// A minus sign in front of an operand, with what stands before it.
constexpr std::array kSigns = {
    Exchange{"(-", "("}, Exchange{", -", ", "},   Exchange{"= -", "= "},  Exchange{"return -", "return "},
    Exchange{"(!", "("}, Exchange{"&& !", "&& "}, Exchange{"|| !", "|| "}};

constexpr std::array kNames = {Exchange{"hn::Add", "hn::Sub"},
                               Exchange{"hn::Sub", "hn::Add"},
                               Exchange{"hn::Mul", "hn::Add"},
                               Exchange{"hn::Div", "hn::Mul"},
                               Exchange{"hn::MulAdd", "hn::MulSub"},
                               Exchange{"hn::NegMulAdd", "hn::MulAdd"},
                               Exchange{"hn::Max", "hn::Min"},
                               Exchange{"hn::Min", "hn::Max"},
                               Exchange{"hn::Gt", "hn::Lt"},
                               Exchange{"hn::Lt", "hn::Gt"},
                               Exchange{"std::min", "std::max"},
                               Exchange{"std::max", "std::min"},
                               Exchange{"true", "false"},
                               Exchange{"false", "true"}};

bool IsNameCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Walks the source and notes which characters are code.
class CodeMask {
 public:
  explicit CodeMask(std::string_view source) : source_(source), code_(source.size(), true) {
    for (size_t i = 0; i < source_.size();) i = Step(i);
    HideCalls("static_assert");
    HideCalls("CROSSTALK_DCHECK");
  }

  bool IsCode(size_t offset, size_t size) const {
    return std::all_of(code_.begin() + static_cast<std::ptrdiff_t>(offset),
                       code_.begin() + static_cast<std::ptrdiff_t>(offset + size), [](bool code) { return code; });
  }

 private:
  size_t Hide(size_t begin, size_t end) {
    for (; begin < std::min(end, source_.size()); ++begin) code_[begin] = false;
    return begin;
  }

  size_t Find(std::string_view what, size_t from) const { return std::min(source_.find(what, from), source_.size()); }

  size_t Step(size_t i) {
    const std::string_view rest = source_.substr(i);
    if (rest.starts_with("//")) return Hide(i, Find("\n", i));
    if (rest.starts_with("/*")) return Hide(i, Find("*/", i) + 2);
    if (rest.starts_with("R\"")) {
      const std::string close = ")" + std::string(source_.substr(i + 2, Find("(", i) - i - 2)) + "\"";
      return Hide(i, Find(close, i) + close.size());
    }
    if (rest[0] == '#' && AtLineStart(i)) return Hide(i, EndOfDirective(i));
    // 1'000'000 has separators, 'a' is a character.
    const bool separator = rest[0] == '\'' && i > 0 && IsNameCharacter(source_[i - 1]);
    if (rest[0] == '"' || (rest[0] == '\'' && !separator)) return Hide(i, EndOfQuote(i));
    return i + 1;
  }

  bool AtLineStart(size_t i) const {
    while (i > 0 && source_[i - 1] == ' ') --i;
    return i == 0 || source_[i - 1] == '\n';
  }

  size_t EndOfDirective(size_t i) const {
    size_t end = Find("\n", i);
    while (end < source_.size() && source_[end - 1] == '\\') end = Find("\n", end + 1);
    return end;
  }

  size_t EndOfQuote(size_t i) const {
    const char quote = source_[i];
    for (++i; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] == '\\') ++i;
    }
    return i + 1;
  }

  // From the name to the parenthesis that closes its arguments.
  void HideCalls(std::string_view name) {
    for (size_t i = source_.find(name); i != std::string_view::npos; i = source_.find(name, i + 1)) {
      int depth = 0;
      size_t end = i;
      for (; end < source_.size(); ++end) {
        if (!code_[end]) continue;
        if (source_[end] == '(') ++depth;
        if (source_[end] == ')' && --depth == 0) break;
        if (source_[end] == ';' && depth == 0) break;
      }
      Hide(i, end);
    }
  }

  std::string_view source_;
  std::vector<bool> code_;
};

class Finder {
 public:
  Finder(const std::string& file, std::string_view source) : file_(file), source_(source), mask_(source) {}

  std::vector<Mutation> Find() {
    for (size_t i = 0; i < source_.size(); ++i) {
      for (const Exchange& exchange : kOperators) Try(i, exchange, false);
      for (const Exchange& exchange : kSigns) Try(i, exchange, false);
      for (const Exchange& exchange : kNames) Try(i, exchange, true);
      TryConstant(i);
      TryIndex(i);
    }
    return std::move(mutations_);
  }

 private:
  void Try(size_t i, const Exchange& exchange, bool whole_name) {
    if (!source_.substr(i).starts_with(exchange.before)) return;
    if (whole_name && !IsWholeName(i, i + exchange.before.size())) return;
    Add(i, exchange.before, std::string(exchange.after));
  }

  bool IsWholeName(size_t begin, size_t end) const {
    return (begin == 0 || !IsNameCharacter(source_[begin - 1])) &&
           (end == source_.size() || !IsNameCharacter(source_[end]));
  }

  // 0 becomes 1, 7 becomes 8; 0.044715f becomes 0.054715f; 1e-9f becomes 2e-9f.
  void TryConstant(size_t i) {
    if (i < number_end_ || !IsDigit(source_[i]) ||
        (i > 0 && (IsNameCharacter(source_[i - 1]) || source_[i - 1] == '.')))
      return;
    number_end_ = EndOfNumber(i);
    std::string number(source_.substr(i, number_end_ - i));
    if (number.size() > 1 && std::tolower(number[1]) == 'x') return;  // bits, not a quantity
    size_t digit = number.find_first_of("123456789");
    if (digit == std::string::npos) digit = 0;
    number[digit] = number[digit] == '9' ? '8' : static_cast<char>(number[digit] + 1);
    Add(i, source_.substr(i, number_end_ - i), number);
  }

  size_t EndOfNumber(size_t i) const {
    const auto continues = [this](size_t at) {
      const char c = source_[at];
      const bool exponent_sign = (c == '-' || c == '+') && std::tolower(source_[at - 1]) == 'e';
      return IsNameCharacter(c) || c == '.' || c == '\'' || exponent_sign;
    };
    while (i < source_.size() && continues(i)) ++i;
    return i;
  }

  // row[i] becomes row[i + 1].
  void TryIndex(size_t i) {
    if (source_[i] != '[' || i == 0 || !(IsNameCharacter(source_[i - 1]) || source_[i - 1] == ']')) return;
    size_t end = i + 1;
    while (end < source_.size() && IsNameCharacter(source_[end])) ++end;
    if (end == i + 1 || end == source_.size() || source_[end] != ']' || IsDigit(source_[i + 1])) return;
    const std::string_view index = source_.substr(i, end + 1 - i);
    Add(i, index, std::string(index.substr(0, index.size() - 1)) + " + 1]");
  }

  void Add(size_t offset, std::string_view before, std::string after) {
    if (!mask_.IsCode(offset, before.size())) return;
    const size_t begin = offset == 0 ? 0 : source_.rfind('\n', offset - 1) + 1;  // npos + 1 == 0
    const size_t end = std::min(source_.find('\n', offset), source_.size());
    const size_t text = std::min(source_.find_first_not_of(' ', begin), end);
    const auto line = 1 + std::count(source_.begin(), source_.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
    mutations_.push_back({file_, static_cast<int>(line), offset, std::string(before), std::move(after),
                          std::string(source_.substr(text, end - text))});
  }

  std::string file_;
  std::string_view source_;
  CodeMask mask_;
  size_t number_end_ = 0;  // of the last number looked at
  std::vector<Mutation> mutations_;
};

// SplitMix64's finaliser: neighbouring values of the argument give unrelated results.
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<Mutation> FindMutations(const std::string& file, const std::string& source) {
  return Finder(file, source).Find();
}

std::string Apply(const Mutation& mutation, const std::string& source) {
  CROSSTALK_CHECK(source.compare(mutation.offset, mutation.before.size(), mutation.before) == 0, mutation.file,
                  ": is not the source that the mutation was found in");
  std::string mutated = source;
  return mutated.replace(mutation.offset, mutation.before.size(), mutation.after);
}

void Shuffle(uint64_t seed, std::vector<Mutation>* mutations) {
  std::map<std::string, int> times_seen;
  std::vector<std::tuple<uint64_t, std::string, Mutation>> keyed;
  for (Mutation& mutation : *mutations) {
    std::string text = StrCat(mutation.file, "\n", mutation.context, "\n", mutation.before, "\n", mutation.after);
    text += StrCat("\n", times_seen[text]++);
    const uint64_t key = Mix(Crc64Of(text) + Mix(seed));
    keyed.emplace_back(key, std::move(text), std::move(mutation));
  }
  std::sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  mutations->clear();
  for (auto& entry : keyed) mutations->push_back(std::move(std::get<2>(entry)));
}

std::string ToString(const Mutation& mutation) {
  return StrCat(mutation.file, ":", mutation.line, ": `", Trimmed(mutation.before), "` becomes `",
                Trimmed(mutation.after), "` in: ", mutation.context);
}

}  // namespace crosstalk
