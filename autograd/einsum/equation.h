// Reads einsum equations in the paper's notation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/shape.h"

namespace crosstalk {

// "Q[n, d_k] = einsum(X[n, d_X], P[d_X, d_k])", taken apart.
struct EinsumEquation {
  Bracket result;
  std::vector<Bracket> operands;
};

// Spaces and line breaks are free; "# …" to the end of a line is a comment. Throws a usage error that quotes the
// equation where it is not of that form, where a bracket names a dimension twice, or where it is longer than 1,000
// bytes.
EinsumEquation ParseEinsum(std::string_view text);

// "Q[n, d_k]"
std::string ToString(const Bracket& bracket);
// The equation on one line.
std::string ToString(const EinsumEquation& equation);

}  // namespace crosstalk
