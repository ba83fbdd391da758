// Working memory of a product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "crosstalk/runtime/storage.h"

namespace crosstalk::kernels {

// On the stack where little is needed, else from the pool that tensors come from.
template <typename T>
class PackBuffer {
 public:
  explicit PackBuffer(int64_t elements) : storage_(FromPool(elements)) {}
  T* data() { return storage_ == nullptr ? stack_ : static_cast<T*>(storage_->data()); }

  // Null where the stack has room.
  static std::shared_ptr<Storage> FromPool(int64_t elements) {
    return elements <= kOnStack ? nullptr : Storage::Allocate(static_cast<size_t>(elements) * sizeof(T));
  }

 private:
  static constexpr int64_t kOnStack = 16384 / int64_t{sizeof(T)};
  alignas(kAlignment) T stack_[kOnStack];
  std::shared_ptr<Storage> storage_;
};

}  // namespace crosstalk::kernels
