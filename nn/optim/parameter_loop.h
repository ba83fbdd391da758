// A loop over parameters, threaded however many and however small they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace crosstalk {

// f(i) for each i with elements[i] > 0: for a large parameter by itself, so that f's own loops are threaded; for the
// others several at a time, each on one thread. f(i) must not depend on the others' results.
void ForEachParameter(const std::vector<int64_t>& elements, const std::function<void(size_t i)>& f);

}  // namespace crosstalk
