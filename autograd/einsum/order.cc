#include "crosstalk/autograd/einsum/order.h"

#include <algorithm>
#include <tuple>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
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

namespace {

using LabelList = std::vector<int>;  // of any number of dimensions: what is made on the way may have too many

constexpr int kMaxExhaustive = 6;

bool Has(const LabelList& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

struct Cost {
  int64_t multiplications = 0;
  int64_t intermediate = 0;  // elements of all results on the way
  bool operator<(const Cost& other) const {
    return std::tie(multiplications, intermediate) < std::tie(other.multiplications, other.intermediate);
  }
};

// Adds the steps of the contractions to `plan`.
class Contractions {
 public:
  Contractions(EinsumPlan& plan, std::vector<LabelList> labels) : plan_(plan), labels_(std::move(labels)) {
    for (size_t i = 0; i < labels_.size(); ++i) values_.push_back(static_cast<int>(i));
  }

  void Add() {
    if (static_cast<int>(values_.size()) <= kMaxExhaustive) {
      AddExhaustive();
    } else {
      AddGreedy();
    }
  }

 private:
  int64_t Size(const LabelList& labels) const {
    int64_t size = 1;
    for (const int label : labels) size = SaturatingProduct(size, plan_.sizes[static_cast<size_t>(label)]);
    return size;
  }

  // The labels of a · b that something outside still needs: those both have, those of a, those of b.
  template <typename Needed>
  static LabelList ResultLabels(const LabelList& a, const LabelList& b, Needed&& needed) {
    LabelList result;
    for (const int label : a) {
      if (Has(b, label) && needed(label)) result.push_back(label);
    }
    for (const int label : a) {
      if (!Has(b, label) && needed(label)) result.push_back(label);
    }
    for (const int label : b) {
      if (!Has(a, label) && needed(label)) result.push_back(label);
    }
    return result;
  }

  int64_t Multiplications(const LabelList& a, const LabelList& b) const {
    int64_t product = Size(a);
    for (const int label : b) {
      if (!Has(a, label)) product = SaturatingProduct(product, plan_.sizes[static_cast<size_t>(label)]);
    }
    return product;
  }

  int AddStep(int a, const LabelList& labels_a, int b, const LabelList& labels_b, const LabelList& result) {
    EinsumStep step;
    step.a = a;
    step.b = b;
    step.labels = result;
    step.multiplications = Multiplications(labels_a, labels_b);
    plan_.steps.push_back(step);
    return static_cast<int>(plan_.operands.size() + plan_.steps.size()) - 1;
  }

  // The best contraction of a set of operands (a bit mask), and its two halves.
  struct Best {
    Cost cost;
    LabelList labels;
    unsigned half = 0;
    bool known = false;
  };

  void AddExhaustive() {
    const int count = static_cast<int>(values_.size());
    const unsigned all = (1u << count) - 1;
    best_.assign(all + 1, {});
    for (int i = 0; i < count; ++i) {
      best_[1u << i].labels = labels_[static_cast<size_t>(i)];
      best_[1u << i].known = true;
    }
    for (unsigned set = 1; set <= all; ++set) {
      if ((set & (set - 1)) == 0) continue;
      Best& best = best_[set];
      const unsigned lowest = set & (~set + 1);
      for (unsigned half = (set - 1) & set; half != 0; half = (half - 1) & set) {
        if ((half & lowest) == 0) continue;  // the other half names the same pair
        const Best& left = best_[half];
        const Best& right = best_[set ^ half];
        const LabelList labels = ResultLabels(left.labels, right.labels, [&](int label) { return Needed(label, set); });
        Cost cost;
        cost.multiplications = SaturatingSum(SaturatingSum(left.cost.multiplications, right.cost.multiplications),
                                             Multiplications(left.labels, right.labels));
        cost.intermediate = SaturatingSum(SaturatingSum(left.cost.intermediate, right.cost.intermediate), Size(labels));
        if (!best.known || cost < best.cost) best = {cost, labels, half, true};
      }
    }
    Emit(all);
  }

  // True if the result or an operand outside `set` has the label.
  bool Needed(int label, unsigned set) const {
    if (Has(plan_.result, label)) return true;
    for (size_t i = 0; i < labels_.size(); ++i) {
      if ((set >> i & 1u) == 0 && Has(labels_[i], label)) return true;
    }
    return false;
  }

  int Emit(unsigned set) {
    if ((set & (set - 1)) == 0) {
      int i = 0;
      while ((set >> i & 1u) == 0) ++i;
      return values_[static_cast<size_t>(i)];
    }
    const Best& best = best_[set];
    const int a = Emit(best.half);
    const int b = Emit(set ^ best.half);
    const bool last = set + 1 == best_.size();
    return AddStep(a, best_[best.half].labels, b, best_[set ^ best.half].labels, last ? plan_.result : best.labels);
  }

  void AddGreedy() {
    while (values_.size() > 1) {
      Cost best_cost;
      size_t best_i = 0, best_j = 0;
      LabelList best_labels;
      for (size_t i = 0; i < values_.size(); ++i) {
        for (size_t j = i + 1; j < values_.size(); ++j) {
          const LabelList labels = ResultLabels(labels_[i], labels_[j], [&](int label) {
            if (Has(plan_.result, label)) return true;
            for (size_t other = 0; other < labels_.size(); ++other) {
              if (other != i && other != j && Has(labels_[other], label)) return true;
            }
            return false;
          });
          const Cost cost = {Multiplications(labels_[i], labels_[j]), Size(labels)};
          if (best_j == 0 || cost < best_cost) {
            best_cost = cost;
            best_i = i;
            best_j = j;
            best_labels = labels;
          }
        }
      }
      if (values_.size() == 2) best_labels = plan_.result;
      values_[best_i] = AddStep(values_[best_i], labels_[best_i], values_[best_j], labels_[best_j], best_labels);
      labels_[best_i] = best_labels;
      values_.erase(values_.begin() + static_cast<std::ptrdiff_t>(best_j));
      labels_.erase(labels_.begin() + static_cast<std::ptrdiff_t>(best_j));
    }
  }

  EinsumPlan& plan_;
  std::vector<int> values_;        // what is left to contract: numbers of values
  std::vector<LabelList> labels_;  // of each
  std::vector<Best> best_;
};

// True if an operand beside number i has the label.
bool IsShared(const std::vector<LabelList>& operands, size_t i, int label) {
  for (size_t j = 0; j < operands.size(); ++j) {
    if (j != i && Has(operands[j], label)) return true;
  }
  return false;
}

// Most likely another name was meant, one that X itself does not have.
[[noreturn]] void FailAlone(const EinsumEquation& equation, const EinsumPlan& plan, size_t i, int label) {
  std::vector<std::string> others;
  for (size_t other = 0; other < plan.names.size(); ++other) {
    if (!Has(plan.operands[i], static_cast<int>(other))) others.push_back(plan.names[other]);
  }
  const std::string& name = plan.names[static_cast<size_t>(label)];
  Fail(ErrorKind::kUsage, "einsum: the dimension ", name, " of ", ToString(equation.operands[i]),
       " is in no other operand and not in the result of '", ToString(equation), "'", DidYouMean(name, others),
       " (Sum(x, dims) sums over a tensor's own dimensions)");
}

// Names and sizes to labels, with all checks.
EinsumPlan Label(const EinsumEquation& equation, const std::vector<Shape>& shapes) {
  CROSSTALK_CHECK(equation.operands.size() == shapes.size(), "einsum: '", ToString(equation), "' has ",
                  equation.operands.size(), " operands, but ", shapes.size(), " tensors were given");
  EinsumPlan plan;
  Dims dims("einsum");
  for (size_t i = 0; i < shapes.size(); ++i) {
    CROSSTALK_CHECK(std::all_of(shapes[i].begin(), shapes[i].end(), [](int64_t size) { return size >= 0; }),
                    "einsum: ", ToString(equation.operands[i]), " = ", shapes[i], " has a negative size");
    dims.Bind(ToString(equation.operands[i]), shapes[i]);
    LabelList labels;
    for (const std::string& name : equation.operands[i].indices) {
      const auto at = std::find(plan.names.begin(), plan.names.end(), name);
      labels.push_back(static_cast<int>(at - plan.names.begin()));
      if (at == plan.names.end()) {
        plan.names.push_back(name);
        plan.sizes.push_back(dims[name]);
      }
    }
    plan.operands.push_back(labels);
  }
  CROSSTALK_CHECK(static_cast<int>(equation.result.indices.size()) <= kMaxRank, "einsum: ", ToString(equation.result),
                  " has more than ", kMaxRank, " dimensions");
  for (const std::string& name : equation.result.indices) {
    const auto at = std::find(plan.names.begin(), plan.names.end(), name);
    CROSSTALK_CHECK(at != plan.names.end(), "einsum: ", ToString(equation.result), " has the dimension ", name,
                    ", which no operand of '", ToString(equation), "' has");
    plan.result.push_back(static_cast<int>(at - plan.names.begin()));
  }
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    for (const int label : plan.operands[i]) {
      if (!Has(plan.result, label) && !IsShared(plan.operands, i, label)) FailAlone(equation, plan, i, label);
    }
  }
  return plan;
}

}  // namespace

EinsumPlan PlanEinsum(const EinsumEquation& equation, const std::vector<Shape>& shapes) {
  EinsumPlan plan = Label(equation, shapes);
  const size_t count = plan.operands.size();
  if (count == 1) {
    if (plan.operands[0] != plan.result) plan.steps.push_back({.a = 0, .b = -1, .labels = plan.result});
    return plan;
  }
  Contractions(plan, plan.operands).Add();
  for (const EinsumStep& step : plan.steps) {
    CROSSTALK_CHECK(step.labels.size() <= static_cast<size_t>(kMaxRank), "einsum: '", ToString(equation), "' takes ",
                    step.labels.size(), " dimensions on the way, where a tensor has at most ", kMaxRank);
    plan.multiplications = SaturatingSum(plan.multiplications, step.multiplications);
  }
  return plan;
}

}  // namespace crosstalk
