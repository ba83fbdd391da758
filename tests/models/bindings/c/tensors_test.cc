// A host's memory as tensors and back: nothing is copied, and it is given back once.
#include "crosstalk/models/bindings/c/tensors.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/models/bindings/c/owned.h"
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif

namespace crosstalk::tensors_test {

void Count(void* context) { ++*static_cast<int*>(context); }

TEST(CTensorsTest, WrappedMemoryIsNotCopied) {
  std::vector<float> values = SomeValues(6);
  const Owned<ct_tensor> tensor = Wrap(values, {2, 3});
  ct_array seen = {};
  ASSERT_CT(ct_tensor_array(tensor, &seen));
  EXPECT_EQ(seen.data, values.data());
  EXPECT_EQ(seen.dtype, CT_FLOAT32);
  ASSERT_EQ(seen.rank, 2);
  EXPECT_EQ(seen.shape[1], 3);
  EXPECT_EQ(seen.strides[0], 3);
  EXPECT_EQ(seen.read_only, 0);
}

TEST(CTensorsTest, ReleaseIsCalledOnceWhenNothingRefersToTheMemory) {
  std::vector<float> values = SomeValues(6);
  int released = 0;
  Owned<ct_tensor> tensor, again;
  Owned<ct_tensors> list;
  const std::vector<int64_t> shape = {6};
  const ct_array array = ArrayOf(values.data(), CT_FLOAT32, shape);
  ASSERT_CT(ct_tensor_wrap(&array, Count, &released, &tensor));
  ASSERT_CT(ct_tensors_create(&list));
  ASSERT_CT(ct_tensors_add(list, "a", tensor));
  tensor.Free();
  EXPECT_EQ(released, 0);
  ASSERT_CT(ct_tensors_find(list, "a", &again));
  list.Free();
  EXPECT_EQ(released, 0);
  again.Free();
  EXPECT_EQ(released, 1);
}

TEST(CTensorsTest, WhatCannotBeATensorIsRefusedAndNotReleased) {
  std::vector<float> values = SomeValues(6);
  int released = 0;
  ct_tensor* tensor = nullptr;
  const auto refused = [&](ct_array array) {
    const ct_status status = ct_tensor_wrap(&array, Count, &released, &tensor);
    EXPECT_EQ(tensor, nullptr);
    EXPECT_STRNE(ct_last_error(), "");
    return status == CT_USAGE;
  };
  const std::vector<int64_t> shape = {2, 3}, negative = {-2, 3}, huge(8, int64_t{1} << 30), backwards = {3, -1},
                             far = {int64_t{1} << 60, 1}, nine(9, 1);
  const ct_array good = ArrayOf(values.data(), CT_FLOAT32, shape);
  ct_array array = good;
  array.data = nullptr;
  EXPECT_TRUE(refused(array));
  array = good;
  array.data = reinterpret_cast<char*>(values.data()) + 1;
  EXPECT_TRUE(refused(array)) << "not aligned";
  array = good;
  array.dtype = static_cast<ct_dtype>(77);
  EXPECT_TRUE(refused(array));
  array.dtype = CT_BFLOAT16;
  EXPECT_TRUE(refused(array));
  array = good;
  array.shape = nullptr;
  EXPECT_TRUE(refused(array));
  array = good;
  array.strides = backwards.data();
  EXPECT_TRUE(refused(array));
  array.strides = far.data();
  EXPECT_TRUE(refused(array));
  EXPECT_TRUE(refused(ArrayOf(values.data(), CT_FLOAT32, negative)));
  EXPECT_TRUE(refused(ArrayOf(values.data(), CT_FLOAT32, huge)));
  EXPECT_TRUE(refused(ArrayOf(values.data(), CT_FLOAT32, nine)));
  array = good;
  array.rank = -1;
  EXPECT_TRUE(refused(array));
  array.rank = std::numeric_limits<int32_t>::max();
  EXPECT_TRUE(refused(array));
  EXPECT_EQ(released, 0);
}

TEST(CTensorsTest, NamesOfAListAreThere) {
  std::vector<float> values = SomeValues(1);
  const Owned<ct_tensor> tensor = Wrap(values, {1});
  Owned<ct_tensors> list;
  ASSERT_CT(ct_tensors_create(&list));
  ASSERT_CT(ct_tensors_add(list, "one", tensor));
  EXPECT_EQ(ct_tensors_add(list, "one", tensor), CT_USAGE);
  const char* name = nullptr;
  ASSERT_CT(ct_tensors_at(list, 0, &name, nullptr));
  EXPECT_STREQ(name, "one");
  EXPECT_EQ(ct_tensors_at(list, 1, &name, nullptr), CT_USAGE);
  ct_tensor* none = nullptr;
  EXPECT_EQ(ct_tensors_find(list, "two", &none), CT_USAGE);
  EXPECT_STREQ(ct_last_error(), "there is no tensor two; there are one");
}

TEST(CTensorsTest, DLPackGoesOutAndComesBackWithoutACopy) {
  for (const ct_dlpack form : {CT_DLPACK_UNVERSIONED, CT_DLPACK_VERSIONED}) {
    std::vector<float> values = SomeValues(6);
    Owned<ct_tensor> tensor = Wrap(values, {2, 3});
    void* managed = nullptr;
    ASSERT_CT(ct_tensor_to_dlpack(tensor, form, &managed));
    tensor.Free();
    Owned<ct_tensor> back;
    ASSERT_CT(ct_tensor_from_dlpack(managed, form, &back));
    ct_array seen = {};
    ASSERT_CT(ct_tensor_array(back, &seen));
    EXPECT_EQ(seen.data, values.data());
    EXPECT_EQ(seen.shape[0], 2);
  }
}

TEST(CTensorsTest, ReadOnlyMemoryStaysSoAndHasNoUnversionedForm) {
  std::vector<float> values = SomeValues(2);
  const std::vector<int64_t> shape = {2};
  ct_array array = ArrayOf(values.data(), CT_FLOAT32, shape);
  array.read_only = 1;
  Owned<ct_tensor> tensor;
  ASSERT_CT(ct_tensor_wrap(&array, nullptr, nullptr, &tensor));
  void* managed = nullptr;
  EXPECT_EQ(ct_tensor_to_dlpack(tensor, CT_DLPACK_UNVERSIONED, &managed), CT_USAGE);
  ASSERT_CT(ct_tensor_to_dlpack(tensor, CT_DLPACK_VERSIONED, &managed));
  EXPECT_EQ(static_cast<c::dlpack::Versioned*>(managed)->flags, 1u);
  Owned<ct_tensor> back;
  ASSERT_CT(ct_tensor_from_dlpack(managed, CT_DLPACK_VERSIONED, &back));
  ct_array seen = {};
  ASSERT_CT(ct_tensor_array(back, &seen));
  EXPECT_EQ(seen.read_only, 1);
}

struct Deleted : c::dlpack::Versioned {
  int count = 0;
};

TEST(CTensorsTest, DLPackOfAnotherVersionDeviceOrTypeIsRefusedAndStaysTheCallers) {
  float value = 3;
  int64_t shape[] = {1};
  Deleted managed = {};
  managed.version = {1, 3};
  managed.deleter = [](c::dlpack::Versioned* self) { ++static_cast<Deleted*>(self)->count; };
  managed.array = {&value, {1, 0}, 1, {c::dlpack::kFloat, 32, 1}, shape, nullptr, 0};
  auto* const plain = static_cast<c::dlpack::Versioned*>(&managed);
  ct_tensor* tensor = nullptr;
  managed.version.major = 2;
  EXPECT_EQ(ct_tensor_from_dlpack(plain, CT_DLPACK_VERSIONED, &tensor), CT_USAGE);
  managed.version.major = 1;
  managed.array.device.device_type = 2;
  EXPECT_EQ(ct_tensor_from_dlpack(plain, CT_DLPACK_VERSIONED, &tensor), CT_USAGE);
  managed.array.device.device_type = 1;
  managed.array.dtype.bits = 16;
  EXPECT_EQ(ct_tensor_from_dlpack(plain, CT_DLPACK_VERSIONED, &tensor), CT_USAGE);
  managed.array.dtype = {c::dlpack::kFloat, 32, 4};
  EXPECT_EQ(ct_tensor_from_dlpack(plain, CT_DLPACK_VERSIONED, &tensor), CT_USAGE);
  EXPECT_EQ(managed.count, 0);
  managed.array.dtype.lanes = 1;
  ASSERT_CT(ct_tensor_from_dlpack(plain, CT_DLPACK_VERSIONED, &tensor));
  EXPECT_CT(ct_free(tensor));
  EXPECT_EQ(managed.count, 1);
}

// The published ABI on 64-bit machines.
TEST(CTensorsTest, DLPackIsLaidOutAsPublished) {
  EXPECT_EQ(sizeof(c::dlpack::Array), 48u);
  EXPECT_EQ(offsetof(c::dlpack::Array, device), 8u);
  EXPECT_EQ(offsetof(c::dlpack::Array, ndim), 16u);
  EXPECT_EQ(offsetof(c::dlpack::Array, dtype), 20u);
  EXPECT_EQ(offsetof(c::dlpack::Array, shape), 24u);
  EXPECT_EQ(offsetof(c::dlpack::Array, strides), 32u);
  EXPECT_EQ(offsetof(c::dlpack::Array, byte_offset), 40u);
  EXPECT_EQ(offsetof(c::dlpack::Unversioned, manager_ctx), 48u);
  EXPECT_EQ(offsetof(c::dlpack::Unversioned, deleter), 56u);
  EXPECT_EQ(offsetof(c::dlpack::Versioned, manager_ctx), 8u);
  EXPECT_EQ(offsetof(c::dlpack::Versioned, deleter), 16u);
  EXPECT_EQ(offsetof(c::dlpack::Versioned, flags), 24u);
  EXPECT_EQ(offsetof(c::dlpack::Versioned, array), 32u);
#if __has_include(<dlpack/dlpack.h>)
  EXPECT_EQ(sizeof(c::dlpack::Array), sizeof(DLTensor));
  EXPECT_EQ(offsetof(c::dlpack::Array, device), offsetof(DLTensor, device));
  EXPECT_EQ(offsetof(c::dlpack::Array, ndim), offsetof(DLTensor, ndim));
  EXPECT_EQ(offsetof(c::dlpack::Array, dtype), offsetof(DLTensor, dtype));
  EXPECT_EQ(offsetof(c::dlpack::Array, shape), offsetof(DLTensor, shape));
  EXPECT_EQ(offsetof(c::dlpack::Array, strides), offsetof(DLTensor, strides));
  EXPECT_EQ(offsetof(c::dlpack::Array, byte_offset), offsetof(DLTensor, byte_offset));
  EXPECT_EQ(offsetof(c::dlpack::Unversioned, manager_ctx), offsetof(DLManagedTensor, manager_ctx));
  EXPECT_EQ(offsetof(c::dlpack::Unversioned, deleter), offsetof(DLManagedTensor, deleter));
  EXPECT_EQ(c::dlpack::kCpu, kDLCPU);
  EXPECT_EQ(static_cast<int>(c::dlpack::kFloat), static_cast<int>(kDLFloat));
#endif
}

}  // namespace crosstalk::tensors_test
