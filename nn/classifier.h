// The output layer of models over a vocabulary: logits = scale · hidden · tableᵀ + bias, by the table of the embedding
// or one of its own, and its loss.
#pragma once

#include <cstdint>

#include "crosstalk/autograd/ops_loss.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/embedding.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

enum class ClassifierKind {
  kTied,    // logits = scale · hidden · embeddingᵀ
  kUntied,  // logits = scale · hidden · tableᵀ, with a table of its own (T5 1.1)
};
template <>
struct EnumNames<ClassifierKind> {
  static constexpr EnumName<ClassifierKind> kTable[] = {{ClassifierKind::kTied, "tied"},
                                                        {ClassifierKind::kUntied, "untied"}};
};

// The scale of the logits.
enum class LogitScale {
  kIfTied,  // d^-0.5 of a tied table, 1 of another (T5 as first published)
  kAlways,  // d^-0.5
  kNever,   // 1 (BERT, ALBERT)
};
template <>
struct EnumNames<LogitScale> {
  static constexpr EnumName<LogitScale> kTable[] = {
      {LogitScale::kIfTied, "if-tied"}, {LogitScale::kAlways, "always"}, {LogitScale::kNever, "never"}};
};

// Rows of a table over `vocabulary` ids: padded to a multiple of 128, as T5's publishers have it. Rows beyond the
// vocabulary are no classes of the loss; their gradient is 0.
constexpr int64_t PaddedVocabulary(int64_t vocabulary) { return (vocabulary + 127) / 128 * 128; }

// Differences of the published models.
struct ClassifierForm {
  LogitScale scale = LogitScale::kIfTied;
  // bias[classes], a parameter of the module that makes the classifier; undefined: none (T5).
  Variable bias = {};
};

// Untied: parameter table[rows of the embedding, d], normal of std 1/sqrt(d). Tied: none.
class Classifier : public Module {
 public:
  // classes ≤ rows of the embedding.
  Classifier(ClassifierKind kind, int64_t classes, const Child<EmbeddingLayer>& embedding, const Initializer& init);
  Classifier(ClassifierKind kind, int64_t classes, const Child<EmbeddingLayer>& embedding, const ClassifierForm& form,
             const Initializer& init);

  // Of a tied table there is a copy then: look-ups read it unrounded.
  void RoundWeights() override;

  // hidden[…, d] → logits[…, classes].
  Variable Logits(const Variable& hidden) const;
  // hidden[…, d], targets int32[…]; those that are options.ignore_index count nothing. num_classes is set here.
  CrossEntropyResult Loss(const Variable& hidden, const Tensor& targets, CrossEntropyOptions options) const;

 private:
  const Variable& weight() const { return rounded_table_.defined() ? rounded_table_ : table_; }

  int64_t classes_;
  double scale_;
  Variable table_, bias_;
  Variable rounded_table_;  // of the tied table, after RoundWeights
};

}  // namespace crosstalk
