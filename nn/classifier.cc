#include "crosstalk/nn/classifier.h"

#include <cmath>

#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/ops_matmul.h"
#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/autograd/rounded.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

Classifier::Classifier(ClassifierKind kind, int64_t classes, const Child<EmbeddingLayer>& embedding,
                       const Initializer& init)
    : Classifier(kind, classes, embedding, ClassifierForm(), init) {}

Classifier::Classifier(ClassifierKind kind, int64_t classes, const Child<EmbeddingLayer>& embedding,
                       const ClassifierForm& form, const Initializer& init)
    : Module(init), classes_(classes), scale_(1.0), table_(embedding->table()), bias_(form.bias) {
  const int64_t rows = table_.size(0), d = table_.size(1);
  CROSSTALK_CHECK(classes >= 1 && classes <= rows, "classifier: ", classes, " classes of a table of ", rows, " rows");
  CROSSTALK_CHECK(!bias_.defined() || bias_.shape() == Shape({classes}), "classifier: bias", bias_.shape(),
                  " must have an element for each of ", classes, " classes");
  const double root = 1.0 / std::sqrt(static_cast<double>(d));
  const bool tied = kind == ClassifierKind::kTied;
  if (form.scale == LogitScale::kAlways || (form.scale == LogitScale::kIfTied && tied)) scale_ = root;
  if (!tied) {
    table_ = AddWeight("table", {rows, d}, InitialValues::Normal(root));
  }
}

void Classifier::RoundWeights() {
  Module::RoundWeights();
  if (table_.dtype() == DType::kFloat32) rounded_table_ = Variable(Rounded(table_.value()));
}

Variable Classifier::Logits(const Variable& hidden) const {
  CROSSTALK_CHECK(hidden.rank() >= 1 && hidden.size(hidden.rank() - 1) == table_.size(1), "classifier: hidden",
                  hidden.shape(), " must end with d = ", table_.size(1));
  const ContextScope scope = InLayer("classifier");
  Shape shape = hidden.shape();
  const int64_t d = shape[shape.rank() - 1];
  const Variable rows = Reshape(hidden, {d == 0 ? 0 : hidden.value().num_elements() / d, d});
  const Variable table = Slice(weight(), 0, 0, classes_);  // the rows beyond are no classes
  const Variable logits = MatMul(Scale(rows, scale_), table, kernels::Transpose::kNo, kernels::Transpose::kYes);
  shape[shape.rank() - 1] = classes_;
  return Reshape(bias_.defined() ? Add(logits, bias_) : logits, shape);
}

CrossEntropyResult Classifier::Loss(const Variable& hidden, const Tensor& targets, CrossEntropyOptions options) const {
  const ContextScope scope = InLayer("classifier");
  const int64_t rows = targets.num_elements();
  options.num_classes = classes_;
  return LinearCrossEntropy(Reshape(hidden, {rows, table_.size(1)}), weight(), targets.Reshape({rows}), scale_, options,
                            bias_);
}

}  // namespace crosstalk
