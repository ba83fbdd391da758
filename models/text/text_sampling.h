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
  static constexpr int64_t kEndlessSample = 1'000'000;  // bytes

  // `source` must outlive this object. count and bytes must be at least 1.
  SegmentSampler(const TextSource& source, int64_t count, int64_t bytes);
  // Segments of about `bytes` bytes that cover `most_bytes` of the source: all of it where it has fewer, and of one
  // without an end kEndlessSample where that is less.
  static SegmentSampler Covering(const TextSource& source, int64_t bytes, int64_t most_bytes = INT64_MAX);
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
