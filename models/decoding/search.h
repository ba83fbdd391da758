// Search: what a model answers to a batch of inputs, by the most probable token each time, by drawing, or by beam
// search.
//
//   std::vector<std::vector<SearchAnswer>> answers = Search(model, {{.ids = ids}}, {.max_length = 64, .beams = 4});
//
// An answer, its score's bits included, is a function of the model, its input and the options that decide: it depends
// neither on the other inputs, nor on padding (what a mask hides at either end of an input is left out), nor on
// SearchOptions::batch, nor on the number of threads.
//
// A hypothesis is a row of written tokens; its sum is Σ log p of these, under the whole vocabulary's softmax. Beam
// search keeps the `beams` open hypotheses of the largest sums. A step ranks all that go on from them by a token: by
// sum, of equal sums first what goes on from the better one, then the smaller id. In that order, until `beams` are open
// again: one that ends is finished if it is among the first `beams`, else dropped; any other is open. Of the finished
// ones the `beams` best scores are kept, of equal scores the one that was finished first. What is open at max_length is
// finished there. The search ends before that
//   with early stopping     as soon as `beams` are finished,
//   without                 when, moreover, the largest sum that is open, normalised by its length, is no better than
//                           the worst of them: what is open can then hardly win.
// These rules are those of Hugging Face's generate, where a length counts what is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "crosstalk/models/decoding/sampling.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/model_config.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/record.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Decoder: what a search (search.h) needs of a model, whichever it is: logits of the next token for each row of a
// batch, a step at a time, with cached keys and values.

struct DecoderOptions {
  CachedMixings mixings = CachedMixings::kOfEachPosition;
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // The model's. Its ends (ModelConfig::EndsText) end what is written; its padding is written only if it is one.
  virtual const ModelConfig& config() const = 0;
  // The length ≥ n that inputs of n tokens are padded to, and may be computed together with: of n alone, so that
  // nothing of an answer depends on what else is there.
  virtual int64_t PaddedLength(int64_t n) const = 0;

  // Begins again: inputs int32[b, n], mask bool[b, n] (true = read) → logits[b, vocabulary] of each row's first token.
  virtual Tensor Start(const Tensor& inputs, const Tensor& mask) = 0;
  // The tokens int32[rows] that were written last → logits[rows, vocabulary] of the next. Under
  // SumOrder::kBatchInvariant a row's bits depend on nothing of the other rows but how many its input has.
  virtual Tensor Step(const Tensor& tokens) = 0;
  // Row i goes on from what row rows[i] has written. The rows of an input stand together, equally many of each.
  virtual void SelectBeams(const std::vector<int64_t>& rows) = 0;
  // Keeps those of the inputs, in that order, with all of their rows.
  virtual void SelectInputs(const std::vector<int64_t>& inputs) = 0;
};

// score = sum / length^α, or sum / ((5 + length) / 6)^α (Wu et al. 2016, and T5). length counts the tokens that were
// written, the end token among them, and neither the decoder's start token nor a prompt.
enum class LengthNormalisation { kPower, kGnmt };
template <>
struct EnumNames<LengthNormalisation> {
  static constexpr EnumName<LengthNormalisation> kTable[] = {{LengthNormalisation::kPower, "power"},
                                                             {LengthNormalisation::kGnmt, "gnmt"}};
};
enum class EarlyStopping { kNo, kYes };

struct SearchInput {
  std::vector<int32_t> ids;
  // One value an id: false = not read. Empty: all are read.
  std::vector<bool> mask = {};
  // Takes away tokens from `allowed`, which has all but padding, after what is written. Empty: none. It must be a pure
  // function; several threads call it at once.
  std::function<void(const std::vector<int32_t>& written, std::vector<bool>* allowed)> restrict_tokens = {};
  std::optional<int64_t> max_length = {};  // instead of the options'
};

// The most beams and answers: each beam and each drawn answer has a row of the cache and of the logits.
inline constexpr int64_t kMostBeams = 10'000;

struct SearchOptions {
  int64_t max_length = 128;   // tokens of an answer, its end token among them
  int64_t beams = 1;          // 1: the most probable token each time (of equal ones the smallest id), or what is drawn
  double length_penalty = 1;  // α
  LengthNormalisation normalisation = LengthNormalisation::kPower;
  EarlyStopping early_stopping = EarlyStopping::kNo;
  int64_t answers = 1;                            // to each input: at most `beams`, or as many as are to be drawn
  SamplingOptions sampling = {.temperature = 0};  // above 0 every token is drawn, and beams must be 1
  uint64_t seed = 1;                              // of what is drawn
  uint32_t first_sample = 0;                      // number i of the answers that are drawn is sample first_sample + i
  int64_t batch = 32;                             // inputs that are computed together, at most
  DecoderOptions decoder = {};
  StopRequest stop = {};  // asked before every token: true ends all answers there
  // Without beams: each token as it is written, the end among them.
  std::function<void(size_t input, int64_t answer, int32_t id)> on_token = {};

  // Throws a usage error that names the field.
  void Validate() const;
};

struct SearchAnswer {
  std::vector<int32_t> ids;  // what was written, with the end token if there is one
  double score = 0;          // normalised; of what is drawn too, at temperature 1

  static FieldTable<SearchAnswer> Fields() { return {{"ids", &SearchAnswer::ids}, {"score", &SearchAnswer::score}}; }
};

// For each input its answers, best first, of equal scores the one that was finished first. There are fewer than
// asked for where a model can write fewer. Error(kUsage) of the field "inputs" for one that is empty or holds an id
// that the model does not have; Error(kNumerical) where logits are not numbers, or no token may be written.
std::vector<std::vector<SearchAnswer>> Search(const Model& model, const std::vector<SearchInput>& inputs,
                                              const SearchOptions& options);

}  // namespace crosstalk
#pragma GCC visibility pop
