// What is no handle, or no longer one, is an error of the call.
#include "crosstalk/models/bindings/c/handles.h"

#include <atomic>
#include <thread>

#include "tests/models/bindings/c/owned.h"

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

}  // namespace crosstalk::handles_test
