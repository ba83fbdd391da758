#include "crosstalk/autograd/einsum/equation.h"

#include <algorithm>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// Far more than an equation of tensors of kMaxRank dimensions takes; an error shows all of it.
constexpr size_t kMaxEquationBytes = 1000;

// Without comments, every run of white space one blank, no blank at either end.
std::string Normalise(std::string_view text) {
  std::string result;
  bool comment = false;
  for (const char c : text) {
    if (c == '#') comment = true;
    if (c == '\n') comment = false;
    if (comment) continue;
    if (IsAsciiSpace(c)) {
      if (!result.empty() && result.back() != ' ') result += ' ';
    } else {
      result += c;
    }
  }
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Bracket ParseNamed(std::string_view text, const std::string& equation) {
  const Bracket bracket = [&] {
    try {
      return ParseBracket(text);
    } catch (const Error& error) {
      Fail(ErrorKind::kUsage, "einsum: ", error.what(), " (in '", equation, "')");
    }
  }();
  for (auto index = bracket.indices.begin(); index != bracket.indices.end(); ++index) {
    CROSSTALK_CHECK(!IsAsciiDigit(index->front()), "einsum: ", ToString(bracket), " has the number ", *index,
                    " where a dimension's name is needed (in '", equation, "')");
    CROSSTALK_CHECK(std::find(bracket.indices.begin(), index, *index) == index, "einsum: ", ToString(bracket),
                    " names the dimension ", *index, " twice (in '", equation, "')");
  }
  return bracket;
}

// The parts between commas that are in no bracket.
std::vector<std::string_view> SplitOperands(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (text[i] == ',' && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace

EinsumEquation ParseEinsum(std::string_view text) {
  const std::string normalised = Normalise(text);
  CROSSTALK_CHECK(normalised.size() <= kMaxEquationBytes, "einsum: an equation of ", normalised.size(),
                  " bytes, where at most ", kMaxEquationBytes, " are read");
  const std::string_view all = normalised;
  const size_t equals = all.find('=');
  const size_t open = all.find('(');
  const bool has_form = equals != std::string_view::npos && open != std::string_view::npos && open > equals &&
                        all.back() == ')' && Trim(all.substr(equals + 1, open - equals - 1)) == "einsum";
  CROSSTALK_CHECK(has_form, "einsum: '", normalised, "' is not of the form RESULT[dims] = einsum(TENSOR[dims], …)");
  EinsumEquation equation;
  equation.result = ParseNamed(Trim(all.substr(0, equals)), normalised);
  for (const std::string_view part : SplitOperands(all.substr(open + 1, all.size() - open - 2))) {
    CROSSTALK_CHECK(!Trim(part).empty(), "einsum: an operand is missing in '", normalised, "'");
    equation.operands.push_back(ParseNamed(Trim(part), normalised));
  }
  return equation;
}

std::string ToString(const Bracket& bracket) {
  std::string text = bracket.tensor + "[";
  for (size_t i = 0; i < bracket.indices.size(); ++i) text += (i == 0 ? "" : ", ") + bracket.indices[i];
  return text + "]";
}

std::string ToString(const EinsumEquation& equation) {
  std::string text = ToString(equation.result) + " = einsum(";
  for (size_t i = 0; i < equation.operands.size(); ++i) {
    text += (i == 0 ? "" : ", ") + ToString(equation.operands[i]);
  }
  return text + ")";
}

}  // namespace crosstalk
