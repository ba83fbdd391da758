// The interface of every model to loop, run and commands. A model is one folder of models/ and
// one line of registry.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/models/batch.h"
#include "crosstalk/models/metrics.h"
#include "crosstalk/models/model_config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/op_context.h"

#pragma GCC visibility push(default)
namespace crosstalk {

class Decoder;
struct DecoderOptions;
struct InspectedText;
class TextWriter;
class Tokenizer;

struct LossOptions {
  double z_loss = 0;  // added in training, as z_loss · (log Z)² a target
};

// The denominators of a step's loss, as factors: 1 / its targets, 1 / its examples, those of all its parts.
struct LossScales {
  double targets = 1;
  double examples = 1;
};

struct LossResult {
  Variable sum;                 // scalar: Σ over the batch's targets of what training minimises; differentiable
  Variable example_sum = {};    // scalar: Σ over its examples of what is minimised beside that; undefined: nothing
  std::vector<MetricSum> sums;  // what is reported; the first one chooses the best checkpoint

  // scales.targets · sum + scales.examples · example_sum; differentiable, and its value.
  Variable Scaled(const LossScales& scales) const;
  double ScaledValue(const LossScales& scales) const;
};

// A result of a model by its published name: {"last_hidden_state", [b, n, d]}.
struct NamedVariable {
  std::string name;
  Variable value;
};
enum class OutputDetail {
  kResults,
  kAll,  // also what each layer computes: hidden states, attention weights
};

// The logits of each head. Undefined for a head that the model lacks.
struct HeadLogits {
  Variable classes;  // [b, classes]
  Variable choice;   // [b]
  Variable span;     // [b, n, 2]: start, end
};

// One attention layer of a model, by its place: {"encoder self-attention", …}.
struct AttentionPlace {
  std::string name;
  AttentionConfig config;
};

class Model : public Module {
 public:
  explicit Model(const Initializer& init) : Module(init) {}

  virtual const ModelConfig& config() const = 0;
  // "T5, 2 + 2 layers": for people.
  virtual std::string Describe() const = 0;
  // One entry for each place that has attention, the first the one that a comparison shows.
  virtual std::vector<AttentionPlace> AttentionPlaces() const = 0;
  // kKeep unless set.
  virtual void SetActivations(Activations activations) = 0;

  // The precision of all the model's computations, its gradients and decoding too, whatever
  // OpContext::precision is outside. kFloat32 unless set: by the run that trains it or trained it, or by a command.
  // Error(kUsage) of the field "precision" for kBFloat16 where the model computes in double.
  void SetPrecision(Precision precision);
  Precision precision() const { return precision_; }

  // Error(kUsage) if the batch lacks a tensor that the model reads, or its shape does not fit.
  LossResult Loss(const Batch& batch, const LossOptions& options, const ForwardContext& context) const;

  // The model's outputs for inputs under their published names (input_ids, attention_mask, labels, …; see
  // inputs.h), by the names that Hugging Face gives its outputs. Error(kUsage) that names the input at fault.
  std::vector<NamedVariable> Outputs(const Batch& inputs, OutputDetail detail, const ForwardContext& context) const;

  // ids int32[b, n], mask bool[b, n], true = read, padding only at the end → the last states [b, n, d_model], in
  // evaluation, of what reads a text: an encoder, a T5's among them, or a language model's decoder.
  virtual Variable ReadStates(const Tensor& ids, const Tensor& mask) const = 0;

  // A text of the user's as one row of such inputs (inputs.h has the checks that all models share). Error(kUsage)
  // of the field text, second or target for what the model has no use for or cannot take.
  virtual Batch TextInputs(const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) const;

  // The heads of an encoder, and what those that answer tasks say of ids and segments int32[b, n] in evaluation.
  virtual EncoderHeads heads() const { return {}; }
  virtual HeadLogits AnswerByHeads(const Tensor& ids, const Tensor& segments) const;

  // The model as one that writes tokens; null for one that writes none. It reads the model, which must outlive it.
  virtual std::unique_ptr<Decoder> MakeDecoder(const DecoderOptions& options) const = 0;
  // The model as one that writes text with that tokenizer; null for one that writes none. It reads the model, which
  // must outlive it.
  virtual std::unique_ptr<TextWriter> MakeWriter(std::shared_ptr<const Tokenizer> tokenizer) const = 0;

 protected:
  // Each other function of a model that computes begins with it.
  ContextScope InPrecision() const { return ContextScope(&OpContext::precision, precision_); }

 private:
  virtual LossResult ComputeLoss(const Batch& batch, const LossOptions& options,
                                 const ForwardContext& context) const = 0;
  virtual std::vector<NamedVariable> ComputeOutputs(const Batch& inputs, OutputDetail detail,
                                                    const ForwardContext& context) const;

  Precision precision_ = Precision::kFloat32;
};

// A layer of a model of that width, in its configuration's field `place`. Error(kUsage) of that field for one that
// cannot be computed, is of other widths or of another causality.
void CheckModelAttention(const char* place, const AttentionConfig& attention, int64_t d_model, Causality causality);
// The same of layers that have one each, of which there are `layers`, or none.
void CheckLayerAttention(const char* place, const std::vector<AttentionConfig>& attention, int64_t layers,
                         int64_t d_model, Causality causality);
// `place`, or each layer of it where they differ: "self-attention of layer 2".
std::vector<AttentionPlace> PlacesOf(const char* place, const AttentionConfig& of_all,
                                     const std::vector<AttentionConfig>& of_each);

// A model's attention for people: its first place's, and how many others have another.
std::string AttentionText(const Model& model);

// The implementation that computes a model's attention in float: "fused", "composed", or "fused and composed" where its
// layers differ.
std::string AttentionImplementationText(const Model& model);

// Recipe: how a model's publishers train it, which is the default of what a training configuration leaves open.

enum class OptimizerKind { kAdafactor, kAdamW, kLamb };
// The units that masked language modelling hides: tokens one by one (BERT), or runs of 1 to 3 whole words (ALBERT).
enum class Masking { kTokens, kNgrams };
// The question about a row's two segments A and B. The label is 1 where B is from elsewhere (next sentence), or where
// the two have changed places (sentence order).
enum class SentenceTask { kNone, kNextSentence, kSentenceOrder };

template <>
struct EnumNames<OptimizerKind> {
  static constexpr EnumName<OptimizerKind> kTable[] = {
      {OptimizerKind::kAdafactor, "adafactor"}, {OptimizerKind::kAdamW, "adamw"}, {OptimizerKind::kLamb, "lamb"}};
};
template <>
struct EnumNames<Masking> {
  static constexpr EnumName<Masking> kTable[] = {{Masking::kTokens, "tokens"}, {Masking::kNgrams, "ngrams"}};
};
template <>
struct EnumNames<SentenceTask> {
  static constexpr EnumName<SentenceTask> kTable[] = {{SentenceTask::kNone, "none"},
                                                      {SentenceTask::kNextSentence, "next-sentence"},
                                                      {SentenceTask::kSentenceOrder, "sentence-order"}};
};

struct Recipe {
  OptimizerKind optimizer = OptimizerKind::kAdafactor;
  std::optional<kernels::AdamWOptions::BiasCorrection> bias_correction =
      {};  // of an optimizer that has it; none: its own
  double clip = 0;
  double z_loss = 1e-4;
  // For masked language modelling.
  std::optional<Masking> masking = {};
  std::optional<SentenceTask> sentence_task = {};
};

}  // namespace crosstalk
#pragma GCC visibility pop
