#include "crosstalk/models/training/ranks/rank_group.h"

#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {
namespace {

constexpr int kSizeTag = 0, kBytesTag = 1, kTensorTag = 2;

std::span<const std::byte> BytesIn(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

std::string RankGroup::NameOf(int rank) const { return StrCat("rank ", rank, " (", transport_.host(rank), ")"); }

void RankGroup::SendBytes(int to, const std::string& bytes) {
  const uint64_t size = bytes.size();
  const Transport::Request first = transport_.Send(to, kSizeTag, std::as_bytes(std::span(&size, 1)));
  const Transport::Request second = transport_.Send(to, kBytesTag, BytesIn(bytes));
  transport_.Wait(first);
  transport_.Wait(second);
}

std::string RankGroup::ReceiveBytes(int from) {
  uint64_t size = 0;
  transport_.Wait(transport_.Receive(from, kSizeTag, std::as_writable_bytes(std::span(&size, 1))));
  std::string bytes(size, '\0');
  transport_.Wait(transport_.Receive(from, kBytesTag, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

std::string RankGroup::Broadcast(std::string bytes) {
  if (!leads()) return ReceiveBytes(0);
  for (int rank = 1; rank < size(); ++rank) SendBytes(rank, bytes);
  return bytes;
}

// Through rank 0, which sends the texts of all as one: 4·(R-1) messages, of which no link but its own sees many.
std::vector<std::string> RankGroup::AllGather(const std::string& bytes) {
  std::string joined;
  if (leads()) {
    MessageWriter all;
    all.Text(bytes);
    for (int rank = 1; rank < size(); ++rank) all.Text(ReceiveBytes(rank));
    joined = Broadcast(all.bytes());
  } else {
    SendBytes(0, bytes);
    joined = ReceiveBytes(0);
  }
  std::vector<std::string> texts;
  for (MessageReader reader(std::move(joined)); !reader.done();) texts.push_back(reader.Text());
  return texts;
}

void RankGroup::SendTensors(int to, std::span<const NamedTensor> tensors) {
  Json list = Json::MakeArray();
  for (const NamedTensor& one : tensors) {
    Json shape = Json::MakeArray();
    for (const int64_t size : one.tensor.shape()) shape.Append(size);
    list.Append(
        Json::MakeObject({{"name", one.name}, {"dtype", static_cast<int64_t>(one.tensor.dtype())}, {"shape", shape}}));
  }
  SendBytes(to, list.Dump());
  for (const NamedTensor& one : tensors) {
    const Tensor contiguous = one.tensor.Contiguous();
    transport_.Wait(transport_.Send(to, kTensorTag, BytesIn(contiguous)));
  }
}

std::vector<TensorSource> RankGroup::IncomingTensors(int from) {
  const std::string source = "tensors of " + NameOf(from);
  const Json list = ParseJson(ReceiveBytes(from), source);
  std::vector<TensorSource> tensors;
  for (const Json& entry : list.AsArray()) {
    const JsonReader reader(entry, source);
    std::vector<int64_t> sizes;
    for (const Json& size : reader.Array("shape")) sizes.push_back(size.AsInt());
    const Shape shape(sizes);
    const auto dtype = static_cast<DType>(reader.Int("dtype"));
    tensors.push_back({reader.String("name"), dtype, shape, [this, from, dtype, shape] {
                         const Tensor tensor = Tensor::Empty(shape, dtype);
                         transport_.Wait(transport_.Receive(from, kTensorTag, BytesIn(tensor)));
                         return tensor;
                       }});
  }
  return tensors;
}

std::vector<NamedTensor> RankGroup::ReceiveTensors(int from) {
  std::vector<NamedTensor> tensors;
  for (TensorSource& source : IncomingTensors(from)) tensors.push_back({std::move(source.name), source.read()});
  return tensors;
}

}  // namespace crosstalk
