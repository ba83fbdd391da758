#include "crosstalk/models/bert/masked_lm_head.h"

#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

MaskedLmHead::MaskedLmHead(const BertConfig& config, const Child<EmbeddingLayer>& embedding, const Initializer& init)
    : Module(init),
      activation_(config.feed_forward),
      dense_(this, "dense", config.d_model, config.embedding_width(), LinearBias::kYes, config.stddev),
      norm_(this, "norm", config.embedding_width(), NormConfig{NormKind::kLayer, config.norm_epsilon}),
      bias_(AddParameter("bias", {config.vocabulary}, InitialValues::Zeros())),
      decoder_(this, "decoder", config.classifier, config.vocabulary, embedding,
               ClassifierForm{ClassifierForm::TiedScale::kOne, bias_}) {}

Variable MaskedLmHead::Transform(const Variable& hidden) const {
  const ContextScope scope = InLayer("masked_lm");
  return norm_->Forward(Activate(activation_, dense_->Forward(hidden)));
}

Variable MaskedLmHead::Logits(const Variable& hidden) const { return decoder_->Logits(Transform(hidden)); }

CrossEntropyResult MaskedLmHead::Loss(const Variable& hidden, const Tensor& targets,
                                      const CrossEntropyOptions& options) const {
  return decoder_->Loss(Transform(hidden), targets, options);
}

}  // namespace crosstalk
