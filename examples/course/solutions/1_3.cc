// A solution of exercise 1.3: any einsum of two operands.
#include "examples/course/checker/exercise.h"

using namespace course;

static size_t Find(const Names& names, const std::string& name) {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

static size_t Place(const Names& of, const Names& names, const std::vector<int64_t>& sizes,
                    const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (const std::string& name : of) at = at * sizes[Find(names, name)] + index[Find(names, name)];
  return static_cast<size_t>(at);
}

static Array EinsumOfTwo(const Names& result, const Array& a, const Names& of_a, const Array& b, const Names& of_b) {
  Names names = of_a;
  std::vector<int64_t> sizes = a.sizes();
  for (size_t i = 0; i < of_b.size(); ++i) {
    if (std::find(of_a.begin(), of_a.end(), of_b[i]) == of_a.end()) {
      names.push_back(of_b[i]);
      sizes.push_back(b.sizes()[i]);
    }
  }
  std::vector<int64_t> index(names.size());
  // Where the element of the current index stands in an array of these dimensions.
  const auto place = [&](const Names& of) { return Place(of, names, sizes, index); };

  std::vector<int64_t> of_result;
  for (const std::string& name : result) of_result.push_back(sizes[Find(names, name)]);
  Array c(of_result);
  for (bool more = true; more;) {
    c.values()[place(result)] += a.values()[place(of_a)] * b.values()[place(of_b)];
    more = false;
    for (size_t dim = names.size(); dim-- > 0 && !more;) {
      more = ++index[dim] < sizes[dim];
      if (!more) index[dim] = 0;
    }
  }
  return c;
}

EXERCISE(1_3, EinsumOfTwo);
