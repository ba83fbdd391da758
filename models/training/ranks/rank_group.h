// RankGroup: what the ranks of a training do together, over a Transport. Each call is made by every rank, in the same
// order.
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
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Transport: how the processes that train one model tell each other bytes. Each is a rank, 0 … size-1.

class Transport {
 public:
  using Request = uint64_t;

  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The host that a rank runs on, for messages.
  virtual std::string host(int rank) const = 0;

  // Begin to send, or to receive a message of at most so many bytes; the bytes must stay until Wait has returned or
  // Test has said true. Messages from one rank to another under one tag, ≥ 0, arrive in order.
  virtual Request Send(int to, int tag, std::span<const std::byte> bytes) = 0;
  virtual Request Receive(int from, int tag, std::span<std::byte> bytes) = 0;
  // The number of bytes of the message, once it is there, or has left. A request is waited for once. Error(kFailure)
  // that names rank and host where one that it needs is lost or says nothing any more.
  virtual size_t Wait(Request request) = 0;
  // Whether Wait would return at once.
  virtual bool Test(Request request) = 0;

  // Ends the processes of all ranks, this one with the exit code, where the transport's ranks are processes.
  virtual void Abort(int code) = 0;
};

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// Numbers, texts and tensors as the bytes of a message between ranks of one version, and back: exact.

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

// The bytes of a contiguous tensor.
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

#pragma GCC visibility push(default)
namespace crosstalk {

class RankGroup {
 public:
  // Refers to it.
  explicit RankGroup(Transport& transport) : transport_(transport) {}

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }
  bool leads() const { return rank() == 0; }
  // "rank 2 (HOST)"
  std::string NameOf(int rank) const;
  Transport& transport() const { return transport_; }

  // Rank 0's bytes, on every rank.
  std::string Broadcast(std::string bytes);
  // Every rank's bytes, on every rank.
  std::vector<std::string> AllGather(const std::string& bytes);

  // Tensors of one rank, on another. They are received as they were, contiguous.
  void SendTensors(int to, std::span<const NamedTensor> tensors);
  std::vector<NamedTensor> ReceiveTensors(int from);
  // What another rank sends, each tensor as it is asked for: each once, in the order in which they are sent.
  std::vector<TensorSource> IncomingTensors(int from);

  // Whether every rank has come to the end of what they did together, so that others than rank 0 wait for its next
  // call: rank 0 keeps it. Where an error has cut that off, they cannot be told anything but Abort.
  bool together() const { return together_; }
  void SetTogether(bool together) { together_ = together; }

  // Tags from here on are a reducer's.
  static constexpr int kFirstFreeTag = 8;

 private:
  void SendBytes(int to, const std::string& bytes);
  std::string ReceiveBytes(int from);

  Transport& transport_;
  bool together_ = true;
};

}  // namespace crosstalk
#pragma GCC visibility pop
