// How work that takes long is asked to end: a question that it puts every now and then, at least every 100 ms.
#pragma once

#include <functional>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// True: end now. May be empty; must not throw.
using StopRequest = std::function<bool()>;

// Thrown by the work that was asked to end. Nothing of it stays.
class Interrupted : public Error {
 public:
  Interrupted() : Error(ErrorKind::kFailure, "interrupted") {}
};

inline void ThrowIfStopped(const StopRequest& stop) {
  if (stop && stop()) throw Interrupted();
}

}  // namespace crosstalk
