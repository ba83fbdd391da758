// Cross-entropy over classes, with T5's z-loss, from logits or fused with the classifier's matrix product.
#pragma once

#include <cstdint>
#include <limits>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct CrossEntropyOptions {
  // Rows whose target is this contribute nothing: no loss, no gradient, not counted. kIgnoreNone: every row counts.
  static constexpr int64_t kIgnoreNone = std::numeric_limits<int64_t>::min();
  int64_t ignore_index = kIgnoreNone;
  // Adds z_loss · (log Z)² per counted row, Z = Σ_classes exp(logit) (T5: 1e-4, in training only).
  double z_loss = 0;
  // LinearCrossEntropy: the classes are the table's first num_classes rows; the others get gradient 0. 0: all rows.
  int64_t num_classes = 0;
};

struct CrossEntropyResult {
  Variable loss;        // scalar: Σ over counted rows of (log Z - logit[target] + z_loss · (log Z)²); differentiable
  double nll_sum = 0;   // Σ over counted rows of (log Z - logit[target]): without z-loss
  int64_t count = 0;    // counted rows
  int64_t correct = 0;  // of them, those whose target has the largest logit; of equal logits the first class has it
};

// logits[rows, classes], targets int32 or int64 [rows]. The loss is a sum: the caller chooses the denominator
// (Scale(result.loss, 1.0 / …)). The gradient keeps the logits and log Z[rows], nothing else of their size.
CrossEntropyResult CrossEntropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

// CrossEntropy(scale · hidden[rows, d] · table[classes, d]ᵀ + bias[classes], targets) without ever holding more than
// 32 MB of logits: rows are taken in chunks; forward keeps log Z[rows], and the logits of a single chunk, and the
// gradient computes those of several again. The table may be bfloat16 (autograd/rounded.h). The bias has an element for
// each class that counts (num_classes); undefined: none.
CrossEntropyResult LinearCrossEntropy(const Variable& hidden, const Variable& table, const Tensor& targets,
                                      double scale, const CrossEntropyOptions& options = {}, const Variable& bias = {});

}  // namespace crosstalk
