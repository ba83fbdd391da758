// Vectors of texts: the last states of what reads a text (an encoder, a T5's among them, or a language model's
// decoder), pooled.
//
//   Embeddings found = Embed(model, *tokenizer, {"a text", "another"}, {.pooling = Pooling::kMean, .normalize = true});
//
// A vector is a function of the model, its text and the options that decide: its bits depend neither on the other texts
// nor on EmbedOptions::batch, nor on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// What a vector is of the states of a text's tokens, the special ones among them.
enum class Pooling {
  kMean,
  kCls,   // the first one's
  kLast,  // the last one's
  kMax,   // the largest of each component
};
template <>
struct EnumNames<Pooling> {
  static constexpr EnumName<Pooling> kTable[] = {
      {Pooling::kMean, "mean"}, {Pooling::kCls, "cls"}, {Pooling::kLast, "last"}, {Pooling::kMax, "max"}};
};

struct EmbedOptions {
  Pooling pooling = Pooling::kMean;
  bool normalize = false;                  // to length 1
  std::optional<int64_t> max_length = {};  // tokens, special ones counted, that are read; the rest of a text is cut
                                           // off. None: as many as the model reads (ModelConfig::longest_text)
  int64_t batch = 32;                      // texts that are computed together, at most
  StopRequest stop = {};                   // asked before every batch: true throws Interrupted
  std::function<void(int64_t done)> progress = {};  // texts
  int64_t first = 0;                                // number of the first text, in messages

  // Throws a usage error that names the field.
  void Validate() const;
};

struct Embeddings {
  Tensor vectors;   // [texts, d_model], of the model's type
  int64_t cut = 0;  // texts that were too long
};

// Error(kUsage) of the field "max_length" for more than the model reads, of "texts" for one without a token;
// Error(kNumerical) for a vector that is not finite.
Embeddings Embed(const Model& model, const Tokenizer& tokenizer, std::span<const std::string> texts,
                 const EmbedOptions& options);
// The same of texts that are ids already, special ones among them: nothing is cut off.
Tensor EmbedIds(const Model& model, std::span<const std::vector<int32_t>> texts, const EmbedOptions& options);

}  // namespace crosstalk
#pragma GCC visibility pop
