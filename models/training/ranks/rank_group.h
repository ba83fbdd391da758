// RankGroup: what the ranks of a training do together, over a Transport. Each call is made by every rank, in the same
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "crosstalk/models/training/ranks/transport.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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
  // Of what another rank sends, each tensor as it is asked for: each once, in the order in which they are sent.
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
