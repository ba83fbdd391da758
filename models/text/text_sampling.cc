#include "crosstalk/models/text/text_sampling.h"

#include <algorithm>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {

SegmentSampler::SegmentSampler(const TextSource& source, int64_t count, int64_t bytes)
    : source_(source), count_(count), bytes_(bytes), stride_(bytes) {
  CROSSTALK_CHECK(count >= 1 && bytes >= 1, "sample: ", count, " segments of ", bytes,
                  " bytes; both must be at least 1");
  if (!source.num_bytes()) return;
  const int64_t total = std::max<int64_t>(1, *source.num_bytes());
  bytes_ = std::min(bytes, total);
  count_ = std::min(count, (total + bytes_ - 1) / bytes_);
  stride_ = std::max<int64_t>(1, total / count_);
}

SegmentSampler SegmentSampler::Covering(const TextSource& source, int64_t bytes, int64_t most_bytes) {
  const int64_t wanted = std::min(source.num_bytes().value_or(kEndlessSample), most_bytes);
  return SegmentSampler(source, std::max<int64_t>(1, CeilDivide(wanted, bytes)), bytes);
}

bool SegmentSampler::Next(std::string* text) {
  if (next_ == count_) return false;
  *text = source_.ReadSegment(0, next_++, stride_, bytes_, TextSource::Order::kSequential);
  return true;
}

}  // namespace crosstalk
