// What is no handle, or no longer one, is an error of the call; a host's memory as tensors and back.
#include "crosstalk/models/bindings/c/handles.h"

#include <atomic>
#include <thread>

#include "crosstalk/models/bindings/c/tensors.h"
#include "tests/models/bindings/c/owned.h"
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif

namespace crosstalk::handles_test {

std::string LastError() { return ct_last_error(); }

TEST(CHandlesTest, AFreedHandleIsNamedAsWhatItWasAndItsSlotGivesAnother) {
  ct_tensors *list = nullptr, *second = nullptr;
  ASSERT_CT(ct_tensors_create(&list));
  ASSERT_CT(ct_free(list));
  ASSERT_CT(ct_tensors_create(&second));
  EXPECT_NE(list, second);
  size_t size = 7;
  EXPECT_EQ(ct_tensors_size(list, &size), CT_USAGE);
  EXPECT_EQ(LastError(), "tensors was freed; it was a list of tensors");
  EXPECT_EQ(ct_last_status(), CT_USAGE);
  EXPECT_EQ(size, 7u);
  EXPECT_EQ(ct_free(list), CT_USAGE);
  EXPECT_CT(ct_tensors_size(second, &size));
  EXPECT_CT(ct_free(second));
}

TEST(CHandlesTest, AHandleOfAnotherKindIsRefused) {
  Owned<ct_tensors> list;
  ASSERT_CT(ct_tensors_create(&list));
  ct_array array;
  EXPECT_EQ(ct_tensor_array(reinterpret_cast<ct_tensor*>(static_cast<ct_tensors*>(list)), &array), CT_USAGE);
  EXPECT_EQ(LastError(), "tensor is a list of tensors, and should be a tensor");
  const char* json = nullptr;
  EXPECT_EQ(ct_describe(list, &json), CT_USAGE);
  ct_tensors* parameters = nullptr;
  EXPECT_EQ(ct_parameters(list, &parameters), CT_USAGE);
}

TEST(CHandlesTest, AnAddressIsNoHandleNorIsAnyOtherNumber) {
  Owned<ct_tensors> list;
  ASSERT_CT(ct_tensors_create(&list));
  size_t size = 0;
  int local = 0;
  std::vector<uint64_t> numbers = {reinterpret_cast<uint64_t>(&local), reinterpret_cast<uint64_t>(&numbers), 1, ~0ull};
  const auto bits = reinterpret_cast<uint64_t>(static_cast<ct_tensors*>(list));
  for (int bit = 0; bit < 64; ++bit) numbers.push_back(bits ^ (uint64_t{1} << bit));
  for (const uint64_t number : numbers) {
    EXPECT_EQ(ct_tensors_size(reinterpret_cast<ct_tensors*>(number), &size), CT_USAGE) << std::hex << number;
  }
  EXPECT_EQ(ct_tensors_size(nullptr, &size), CT_USAGE);
  EXPECT_EQ(LastError(), "tensors is NULL");
  EXPECT_CT(ct_free(nullptr));
}

TEST(CHandlesTest, TheLastErrorIsTheThreadsOwn) {
  ASSERT_EQ(ct_set_threads(0), CT_USAGE);
  const std::string mine = ct_last_error();
  std::string others;
  ct_status status = CT_USAGE;
  std::thread([&] {
    others = ct_last_error();
    status = ct_last_status();
  }).join();
  EXPECT_EQ(others, "");
  EXPECT_EQ(status, CT_OK);
  EXPECT_EQ(ct_last_error(), mine);
}

// Each thread makes and frees handles of its own, and adds to one list that all of them read.
TEST(CHandlesTest, ThreadsMayMakeShareAndFreeHandlesAtOnce) {
  constexpr int kThreads = 4, kTimes = 100;
  std::vector<float> values = {1, 2};
  const Owned<ct_tensor> tensor = Wrap(values, {2});
  Owned<ct_tensors> shared;
  ASSERT_CT(ct_tensors_create(&shared));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTimes; ++i) {
        const std::string name = std::to_string(t) + " " + std::to_string(i);
        Owned<ct_tensors> own;
        Owned<ct_tensor> found;
        if (ct_tensors_create(&own) != CT_OK || ct_tensors_add(own, "X", tensor) != CT_OK) ++wrong;
        if (ct_tensors_add(shared, name.c_str(), tensor) != CT_OK) ++wrong;
        if (ct_tensors_find(shared, name.c_str(), &found) != CT_OK) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  size_t size = 0;
  EXPECT_CT(ct_tensors_size(shared, &size));
  EXPECT_EQ(size, size_t{kThreads * kTimes});
}

TEST(CHandlesTest, AnErrorOfAConfigurationNamesItsField) {
  ct_attention* layer = nullptr;
  const char* const refused[][2] = {
      {R"({"d_model": 8, "heads": 3})", "key_size"},
      {R"({"d_model": 8, "heads": 2, "head": 3})", "head"},
      {R"({"d_model": 8, "head": 3})", "head"},  // not the heads that are missing
      {R"({"heads": 2, "h": 2})", "h"},
      {R"({"d_model": 8, "heads": 2, "h_k": 4, "key_heads": 2})", "h_k"},
      {R"({"heads": 2})", "heads"},
      {R"({"d_model": 8})", "heads"},
      {R"({"h": 2})", "d_X"},
      {R"({"d_X": 8, "d_M": 8, "d_Y": 8, "mixing": ["P_l", "P_l"]})", "mixing"},
      {R"({"d_X": 8, "d_M": 8, "d_Y": 8, "attention": "talking"})", "attention"},
      {R"({"d_model": 8, "heads": 2, "dtype": "float64", "implementation": "fused"})", "implementation"}};
  for (const auto& [json, field] : refused) {
    EXPECT_EQ(ct_attention_create(json, &layer), CT_USAGE) << json;
    EXPECT_STREQ(ct_last_error_field(), field) << json;
  }
  EXPECT_EQ(ct_attention_create("{\"d_model\"", &layer), CT_USAGE);
  EXPECT_EQ(ct_attention_create("[]", &layer), CT_USAGE);
  EXPECT_EQ(layer, nullptr);
}

// ---- A host's memory as tensors and back: nothing is copied, and it is given back once ----

void Count(void* context) { ++*static_cast<int*>(context); }

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
  static const std::vector<int64_t> shape = {2, 3}, negative = {-2, 3}, huge(8, int64_t{1} << 30), backwards = {3, -1},
                                    far = {int64_t{1} << 60, 1}, nine(9, 1);
  const auto shaped = [&](const std::vector<int64_t>& other) { return ArrayOf(values.data(), CT_FLOAT32, other); };
  std::vector<ct_array> bad = {shaped(negative), shaped(huge), shaped(nine)};
  for (void (*change)(ct_array&) : std::initializer_list<void (*)(ct_array&)>{
           [](auto& array) { array.data = nullptr; },
           [](auto& array) { array.data = static_cast<char*>(array.data) + 1; },
           [](auto& array) { array.dtype = static_cast<ct_dtype>(77); }, [](auto& array) { array.dtype = CT_BFLOAT16; },
           [](auto& array) { array.shape = nullptr; }, [](auto& array) { array.strides = backwards.data(); },
           [](auto& array) { array.strides = far.data(); }, [](auto& array) { array.rank = -1; },
           [](auto& array) { array.rank = INT32_MAX; }}) {
    change(bad.emplace_back(shaped(shape)));
  }
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(ct_tensor_wrap(&bad[i], Count, &released, &tensor), CT_USAGE) << i;
    EXPECT_EQ(tensor, nullptr);
    EXPECT_STRNE(ct_last_error(), "");
  }
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
  const Deleted good = managed;
  for (void (*change)(Deleted&) : std::initializer_list<void (*)(Deleted&)>{
           [](auto& one) { one.version.major = 2; }, [](auto& one) { one.array.device.device_type = 2; },
           [](auto& one) { one.array.dtype.bits = 16; }, [](auto& one) { one.array.dtype.lanes = 4; }}) {
    managed = good;
    change(managed);
    EXPECT_EQ(ct_tensor_from_dlpack(plain, CT_DLPACK_VERSIONED, &tensor), CT_USAGE);
  }
  managed = good;
  EXPECT_EQ(managed.count, 0);
  ASSERT_CT(ct_tensor_from_dlpack(plain, CT_DLPACK_VERSIONED, &tensor));
  EXPECT_CT(ct_free(tensor));
  EXPECT_EQ(managed.count, 1);
  managed.array.dtype.code = c::dlpack::kInt;
  ASSERT_CT(ct_tensor_from_dlpack(plain, CT_DLPACK_VERSIONED, &tensor));
  EXPECT_CT(ct_free(tensor));
}

template <typename Type>
std::vector<size_t> PlacesIn() {
  return {sizeof(Type),          offsetof(Type, device),  offsetof(Type, ndim),       offsetof(Type, dtype),
          offsetof(Type, shape), offsetof(Type, strides), offsetof(Type, byte_offset)};
}

// The published ABI on 64-bit machines.
TEST(CTensorsTest, DLPackIsLaidOutAsPublished) {
  using c::dlpack::Unversioned, c::dlpack::Versioned;
  const std::vector<size_t> managed = {offsetof(Unversioned, manager_ctx), offsetof(Unversioned, deleter),
                                       offsetof(Versioned, manager_ctx),   offsetof(Versioned, deleter),
                                       offsetof(Versioned, flags),         offsetof(Versioned, array)};
  EXPECT_EQ(PlacesIn<c::dlpack::Array>(), (std::vector<size_t>{48, 8, 16, 20, 24, 32, 40}));
  EXPECT_EQ(managed, (std::vector<size_t>{48, 56, 8, 16, 24, 32}));
#if __has_include(<dlpack/dlpack.h>)
  EXPECT_EQ(PlacesIn<c::dlpack::Array>(), PlacesIn<DLTensor>());
  EXPECT_EQ(offsetof(DLManagedTensor, manager_ctx), managed[0]);
  EXPECT_EQ(offsetof(DLManagedTensor, deleter), managed[1]);
  EXPECT_EQ(c::dlpack::kCpu, kDLCPU);
  EXPECT_EQ(static_cast<int>(c::dlpack::kFloat), static_cast<int>(kDLFloat));
#endif
}

}  // namespace crosstalk::handles_test
