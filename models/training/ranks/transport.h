// Transport: how the processes that train one model tell each other bytes. Each is a rank, 0 … size-1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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
