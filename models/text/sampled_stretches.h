// A part of a text that stands for the whole of it: for training a tokenizer, measuring, and telling corpora apart.
#pragma once

#include <cstdint>
#include <string>

#include "crosstalk/models/text/corpus.h"

namespace crosstalk {

// `count` stretches of at least `bytes` bytes, evenly spread over the source, or as many as cover it where fewer do;
// the first ones of a source without an end. A pure function of its arguments.
class SampledStretches {
 public:
  // `source` must outlive this object. count and bytes must be at least 1.
  SampledStretches(const TextSource& source, int64_t count, int64_t bytes);
  // The next stretch, or false after the last one.
  bool Next(std::string* text);

 private:
  const TextSource& source_;
  int64_t count_;
  int64_t bytes_;
  int64_t stride_;
  int64_t next_ = 0;
};

}  // namespace crosstalk
