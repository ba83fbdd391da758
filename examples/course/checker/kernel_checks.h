// The checks of kernels, and what they share with the rest of chapter 6.
#pragma once

#include "examples/course/checker/checker.h"

namespace course {

void Check_6_3(AnyFunction function, Checker& checker);
void Check_6_4(AnyFunction function, Checker& checker);

// How many multiplications a layer's attention takes: J, L, U and O.
int64_t Multiplications(const LayerSizes& sizes);

}  // namespace course
