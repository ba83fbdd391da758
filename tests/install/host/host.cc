// A program that has a nn/module.h of its own on its include path, before all others.
#include <crosstalk/nn/layers.h>

#include <cstdio>

#include "nn/module.h"

int main() {
  const crosstalk::Linear linear(3, 2, crosstalk::LinearBias::kYes, crosstalk::Initializer(1));
  std::printf("%d and %d\n", host::Module().answer, static_cast<int>(linear.NumParameters()));
  return 0;
}
