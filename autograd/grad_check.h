// Compares the gradients that Backward computes with central differences, in double.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "crosstalk/autograd/variable.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct GradCheckOptions {
  // Half the distance between the two evaluations. The error of a central difference is step²·f'''/6 + ε·|f|/step;
  // 1e-5 balances the two near 1e-10 for functions of order 1.
  double step = 1e-5;
  // |analytic - numeric| must be ≤ tolerance · max(1, the largest |gradient| of that input).
  double tolerance = 1e-7;
  // Inputs with more elements than this are checked along `directions` random directions instead of element by element.
  int64_t max_elements = 512;
  int directions = 4;
  uint64_t seed = 1;
};

struct GradCheckReport {
  bool ok = false;
  // The worst place: which input, which element (row-major; -1: a random direction), and both values there.
  int worst_input = -1;
  int64_t worst_element = -1;
  std::vector<int64_t> worst_index;
  double analytic = 0;
  double numeric = 0;
  double error = 0;  // |analytic - numeric| / max(1, largest |gradient| of the input), the largest of all
  double tolerance = 0;
  int64_t checked = 0;  // elements and directions compared
  std::string message;  // a non-empty reason if something else is wrong (a missing gradient, a wrong shape, …)

  explicit operator bool() const { return ok; }
};
std::string ToString(const GradCheckReport& report);
std::ostream& operator<<(std::ostream& out, const GradCheckReport& report);

// `function` maps the inputs to a result of any shape; it is made a scalar by fixed random weights. Inputs are double;
// each is given to `function` as a leaf that requires a gradient. Values of `inputs` are not changed.
//   const GradCheckReport report = GradCheck([](const auto& in) { return MatMul(in[0], in[1]); }, {a, b});
//   EXPECT_TRUE(report.ok) << report;
GradCheckReport GradCheck(const std::function<Variable(const std::vector<Variable>&)>& function,
                          const std::vector<Tensor>& inputs, const GradCheckOptions& options = {});

}  // namespace crosstalk
#pragma GCC visibility pop
