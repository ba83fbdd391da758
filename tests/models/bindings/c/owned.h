// A handle of the C interface that is given back when its test is over, and what tests of it share.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "crosstalk/models/bindings/c/crosstalk.h"

namespace crosstalk {

#define EXPECT_CT(call) EXPECT_EQ(call, CT_OK) << ct_last_error()
#define ASSERT_CT(call) ASSERT_EQ(call, CT_OK) << ct_last_error()

template <typename Handle>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (handle_ != nullptr) {
      EXPECT_CT(ct_free(handle_));
    }
  }
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  operator Handle*() const { return handle_; }
  Handle** operator&() { return &handle_; }
  void Free() { EXPECT_CT(ct_free(std::exchange(handle_, nullptr))); }

 private:
  Handle* handle_ = nullptr;
};

inline ct_array ArrayOf(void* data, ct_dtype dtype, const std::vector<int64_t>& shape) {
  return {data, dtype, static_cast<int32_t>(shape.size()), shape.data(), nullptr, 0};
}

// Over the vector's elements, which must outlive it.
inline Owned<ct_tensor> Wrap(std::vector<float>& values, const std::vector<int64_t>& shape) {
  Owned<ct_tensor> tensor;
  const ct_array array = ArrayOf(values.data(), CT_FLOAT32, shape);
  EXPECT_CT(ct_tensor_wrap(&array, nullptr, nullptr, &tensor));
  return tensor;
}

inline std::vector<float> ValuesOf(const ct_tensor* tensor) {
  ct_array array = {};
  EXPECT_CT(ct_tensor_array(tensor, &array));
  int64_t count = 1;
  for (int i = 0; i < array.rank; ++i) count *= array.shape[i];
  const auto* const data = static_cast<const float*>(array.data);
  return {data, data + count};
}

inline std::vector<float> ValuesOf(const ct_tensors* tensors, const char* name) {
  Owned<ct_tensor> tensor;
  EXPECT_CT(ct_tensors_find(tensors, name, &tensor));
  return ValuesOf(tensor);
}

// Numbers between -1 and 1, not in any order.
inline std::vector<float> SomeValues(size_t count, int salt = 0) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 37 + salt * 11 + 5) % 101) / 50.0f - 1.0f;
  return values;
}

}  // namespace crosstalk
