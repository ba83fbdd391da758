// What a model has learnt, as text: what it writes, or of a masked language model the words that it fills in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

// A model with what samples of it are made from. `held_out` may be null: then only what needs no text is shown.
struct SampledModel {
  const TrainingConfig* config;
  const Model* model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const TextSource> held_out;
  StopRequest stop = {};  // ends what is being written
};

struct SamplePart {
  enum class Kind {
    kGiven,    // what the model reads
    kWritten,  // what it wrote
    kRight,    // what it filled in, as it was
    kWrong,    // what it filled in, and
    kInstead,  // after it, what was there
  };
  Kind kind;
  std::string text;
};

struct Sample {
  std::string title;  // "Blanks of held-out text, filled in": samples of one kind have the same
  std::vector<SamplePart> parts;
};

// A piece of held-out text, number `index` of several that are spread over it.
std::string HeldOutText(const TextSource& held_out, int64_t index);

// What a model is shown of held-out text: a text with blanks, if its writer fills those, or the beginning of one.
struct SamplePrompt {
  enum class Kind { kBlanks, kBeginning };
  Kind kind;
  std::string text;
};
// That of number `index`.
SamplePrompt MakeSamplePrompt(const TextWriter& writer, const TextSource& held_out, int64_t index);
// Whose words are whose in what the model makes of a prompt.
std::vector<SamplePart> WrittenParts(const Model& model, const TextWriter& writer, const std::string& prompt,
                                     const SearchOptions& options);

// At most `count` samples; none for a model that writes nothing and fills in nothing, or that learnt tasks. A function
// of the model's bits and of the text: each token is the most probable one.
std::vector<Sample> MakeSamples(const SampledModel& sampled, int64_t count);

// Its text, without the title.
std::string SampleHtml(const Sample& sample);

}  // namespace crosstalk
