// How work that takes long is asked to end, and tells how far it is.
#pragma once

#include <cstdint>
#include <functional>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// A question that the work puts every now and then, at least every 100 ms. True: end now. May be empty; must not throw.
using StopRequest = std::function<bool()>;

// Thrown by the work that was asked to end. Nothing of it stays.
class Interrupted : public Error {
 public:
  Interrupted() : Error(ErrorKind::kFailure, "interrupted") {}
};

inline void ThrowIfStopped(const StopRequest& stop) {
  if (stop && stop()) throw Interrupted();
}

// Either may be empty.
struct Observer {
  StopRequest stop = {};
  std::function<void(int64_t done, int64_t all)> progress = {};
};

}  // namespace crosstalk
