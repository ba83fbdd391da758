// The lines NAME = VALUE of a gin configuration, in which Mesh TensorFlow keeps what a model was made with.
#pragma once

#include <string>
#include <string_view>

#include "crosstalk/runtime/json.h"

namespace crosstalk {

// An object of the bindings, by their names as they stand: "encoder/DenseReluDense.activation". Strings, numbers, True,
// False, None, lists and tuples are values of JSON; @NAME is the string "@NAME"; %NAME alone is the value bound to
// NAME, where its text has at most 10,000 bytes. A binding of anything else, and every other statement, is left out.
// Error(kData) "SOURCE: line N: …" for a string or bracket without end, for lists deeper than 16, and for more than
// 10,000 bindings.
Json ReadGin(std::string_view text, const std::string& source);

// The inverse for such an object: a line a binding.
std::string WriteGin(const Json& bindings);

}  // namespace crosstalk
