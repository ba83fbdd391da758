#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "crosstalk/runtime/visibility.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// A function that a call takes and does not keep, FunctionRef<void(int64_t)>: two pointers to a lambda
// or functor of the caller's, which std::function would copy. It must not outlive what it was made from.
template <typename Signature>
class CROSSTALK_LOCAL FunctionRef;

template <typename Result, typename... Arguments>
class CROSSTALK_LOCAL FunctionRef<Result(Arguments...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<Result, F&, Arguments...>)
      FunctionRef(F&& f)  // NOLINT: as std::function, it takes what can be called
      : function_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* function, Arguments... arguments) -> Result {
          auto& called = *static_cast<std::remove_reference_t<F>*>(function);
          return static_cast<Result>(called(std::forward<Arguments>(arguments)...));
        }) {}

  Result operator()(Arguments... arguments) const { return call_(function_, std::forward<Arguments>(arguments)...); }

 private:
  void* function_;
  Result (*call_)(void* function, Arguments...);
};

}  // namespace crosstalk
#pragma GCC visibility pop
