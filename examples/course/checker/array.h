// The arrays of the exercises: the plain loops' own (kernels/reference/attention.h), in double, with indices that are
// checked and a bracket that says what the dimensions are.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/kernels/reference/attention.h"

namespace course {

// A row-major array of doubles, rank ≤ 4, zero at first: Array L({b, n, m, h}); L(0, 1, 2, 3) += 4; L.size(3) == h.
class Array : public crosstalk::kernels::reference::Array<double> {
 public:
  using Base = crosstalk::kernels::reference::Array<double>;

  Array() = default;
  explicit Array(std::vector<int64_t> sizes, double value = 0) : Base(std::move(sizes), value) {}
  Array(Base values) : Base(std::move(values)) {}
  // bracket: "L[b, n, m, h]".
  Array(std::string bracket, Base values) : Base(std::move(values)), bracket_(std::move(bracket)) {}

  const std::string& bracket() const { return bracket_; }

  template <typename... Index>
  double& operator()(Index... index) {
    CheckIndex({static_cast<int64_t>(index)...});
    return Base::operator()(static_cast<int64_t>(index)...);
  }
  template <typename... Index>
  const double& operator()(Index... index) const {
    CheckIndex({static_cast<int64_t>(index)...});
    return Base::operator()(static_cast<int64_t>(index)...);
  }

 private:
  void CheckIndex(std::initializer_list<int64_t> index) const {
    bool inside = index.size() == sizes().size();
    int dim = 0;
    for (const int64_t i : index) inside = inside && i >= 0 && i < size(dim++);
    if (!inside) FailIndex(index);
  }
  [[noreturn]] void FailIndex(const std::vector<int64_t>& index) const {
    const auto list = [](const std::vector<int64_t>& numbers) {
      std::string text;
      for (const int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
      return text;
    };
    throw std::out_of_range((bracket_.empty() ? "an array" : bracket_) + " of size [" + list(sizes()) +
                            "] has no element (" + list(index) + ")");
  }

  std::string bracket_;
};

}  // namespace course
