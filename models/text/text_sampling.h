// A sample of a text, evenly spread: for training a tokenizer, measuring, and telling corpora apart.
#pragma once

#include <cstdint>
#include <string>

#include "crosstalk/models/text/corpus.h"

namespace crosstalk {

// `count` segments of at least `bytes` bytes, evenly spread over the source, or as many as cover it where fewer do;
// the first ones of a source without an end. A pure function of its arguments.
class SegmentSampler {
 public:
  // `source` must outlive this object. count and bytes must be at least 1.
  SegmentSampler(const TextSource& source, int64_t count, int64_t bytes);
  // The next segment, or false after the last one.
  bool Next(std::string* text);

 private:
  const TextSource& source_;
  int64_t count_;
  int64_t bytes_;
  int64_t stride_;
  int64_t next_ = 0;
};

}  // namespace crosstalk
