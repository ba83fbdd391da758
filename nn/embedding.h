// A table of vectors, looked up by id.
#pragma once

#include <cstdint>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/module.h"

namespace crosstalk {

// Parameter table[rows, d], normal with the given std (T5: 1).
class EmbeddingLayer : public Module {
 public:
  EmbeddingLayer(int64_t rows, int64_t d, double stddev, const Initializer& init);

  Variable Forward(const Tensor& ids) const;  // ids int32 or int64 […] → […, d]
  const Variable& table() const { return table_; }

 private:
  Variable table_;
};

}  // namespace crosstalk
