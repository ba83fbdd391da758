#include "crosstalk/nn/embedding.h"

#include "crosstalk/autograd/ops_index.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

EmbeddingLayer::EmbeddingLayer(int64_t rows, int64_t d, double stddev, const Initializer& init) : Module(init) {
  CROSSTALK_CHECK(rows > 0 && d > 0, "embedding: rows = ", rows, " and d = ", d, " must be positive");
  table_ = AddParameter("table", {rows, d}, InitialValues::Normal(stddev));
}

Variable EmbeddingLayer::Forward(const Tensor& ids) const { return Embedding(table_, ids); }

}  // namespace crosstalk
