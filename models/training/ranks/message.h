// Numbers, texts and tensors as the bytes of a message between ranks of one version, and back: exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/metrics.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

class MessageWriter {
 public:
  MessageWriter& Int(int64_t value) { return Append(&value, sizeof value); }
  MessageWriter& Double(double value) { return Append(&value, sizeof value); }
  MessageWriter& Text(std::string_view text) {
    Int(static_cast<int64_t>(text.size()));
    return Append(text.data(), text.size());
  }
  const std::string& bytes() const { return bytes_; }

 private:
  MessageWriter& Append(const void* data, size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
    return *this;
  }

  std::string bytes_;
};

// In the order in which they were written; Error(kFailure) at the end of the message.
class MessageReader {
 public:
  explicit MessageReader(std::string bytes) : bytes_(std::move(bytes)) {}

  bool done() const { return at_ == bytes_.size(); }
  int64_t Int() { return Number<int64_t>(); }
  double Double() { return Number<double>(); }
  std::string Text() { return std::string(Take(static_cast<size_t>(Int()))); }

 private:
  std::string_view Take(size_t size) {
    if (size > bytes_.size() - at_) Fail(ErrorKind::kFailure, "a message of another rank is cut off");
    at_ += size;
    return std::string_view(bytes_).substr(at_ - size, size);
  }
  template <typename T>
  T Number() {
    T value;
    std::memcpy(&value, Take(sizeof value).data(), sizeof value);
    return value;
  }

  std::string bytes_;
  size_t at_ = 0;
};

// Of a contiguous tensor.
inline std::span<std::byte> BytesIn(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw_data()),
          static_cast<size_t>(BytesOf(tensor.num_elements(), tensor.dtype()))};
}

// The sums of one batch.
inline void WriteSums(const std::vector<MetricSum>& sums, MessageWriter& message) {
  message.Int(std::ssize(sums));
  for (const MetricSum& one : sums) message.Text(one.name).Double(one.sum).Int(one.count);
}
inline std::vector<MetricSum> ReadSums(MessageReader& message) {
  std::vector<MetricSum> sums;
  for (int64_t left = message.Int(); left > 0; --left) {
    std::string name = message.Text();
    const double sum = message.Double();
    sums.push_back({std::move(name), sum, message.Int()});
  }
  return sums;
}

}  // namespace crosstalk
