#include "crosstalk/runtime/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "crosstalk/runtime/random.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace tensor_test {

// 0, 1, 2, … in row-major order.
Tensor Counting(const Shape& shape, DType dtype = DType::kFloat32) {
  std::vector<float> values(static_cast<size_t>(shape.NumElements()));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor::FromValues(shape, values).To(dtype);
}

using Floats = std::vector<float>;

TEST(TensorTest, FactoriesFillEveryDType) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kBool}) {
    const Tensor full = Tensor::Full({3, 5}, 1, dtype);
    const Tensor zeros = Tensor::Zeros({3, 5}, dtype);
    const auto values = [](const Tensor& x) { return x.To(DType::kFloat64).ToVector<double>(); };
    EXPECT_EQ(values(full), std::vector<double>(15, 1)) << dtype;
    EXPECT_EQ(values(zeros), std::vector<double>(15, 0)) << dtype;
    EXPECT_EQ(Tensor::Scalar(1, dtype).Item(), 1) << dtype;
    EXPECT_EQ(Tensor::Scalar(1, dtype).rank(), 0);
  }
  // Reused memory is zeroed as well, across the cuts between threads too.
  { const Tensor dirty = Tensor::Full({3'000'000}, 7, DType::kFloat32); }
  const Tensor zeros = Tensor::Zeros({3'000'000}, DType::kFloat32);
  const float* values = zeros.data<float>();
  EXPECT_EQ(std::count(values, values + 3'000'000, 0.0f), 3'000'000);
}

TEST(TensorTest, CopiesShareAndClonesDoNot) {
  const Tensor a = Counting({2, 2});
  const Tensor b = a;
  const Tensor c = a.Clone();
  EXPECT_TRUE(a.SharesStorageWith(b));
  EXPECT_FALSE(a.SharesStorageWith(c));
  EXPECT_FALSE(a.unique());
  EXPECT_TRUE(c.unique());
  a.Fill(9);
  EXPECT_EQ(b.At({1, 1}), 9);
  EXPECT_EQ(c.At({1, 1}), 3);
}

// Over a host's memory: released once, never overwritten in place, read with its strides.
TEST(TensorTest, AdoptedMemoryStaysTheHosts) {
  float values[] = {0, 1, 2, 3, 4, 5};
  int released = 0;
  const int64_t live = GetMemoryStats().live_bytes;
  {
    const auto storage = Storage::Adopt(values, sizeof(values), [&released] { ++released; });
    Tensor even = Tensor::Over(storage, {3}, {2}, DType::kFloat32);
    EXPECT_EQ(even.raw_data(), values);
    EXPECT_EQ(even.ToVector<float>(), (std::vector<float>{0, 2, 4}));
    EXPECT_THROW(Tensor::Over(storage, {4}, {2}, DType::kFloat32), Error);
    EXPECT_THROW(Tensor::Over(storage, {3}, {-1}, DType::kFloat32), Error);
    EXPECT_THROW(Tensor::Over(storage, {3}, {1, 1}, DType::kFloat32), Error);
    EXPECT_THROW(Tensor::Over(storage, {2, 2}, {int64_t{1} << 62, int64_t{1} << 62}, DType::kFloat32), Error);
    EXPECT_EQ(GetMemoryStats().live_bytes, live);
  }
  EXPECT_EQ(released, 1);
  const Tensor only = Tensor::Over(Storage::Adopt(values, sizeof(values), {}), {6}, {1}, DType::kFloat32);
  EXPECT_FALSE(only.unique());
  EXPECT_TRUE(only.Clone().unique());
}

TEST(TensorTest, ViewsShareElementsInAnotherOrder) {
  const Tensor t = Counting({2, 3, 5}), transposed = t.Transpose(0, -1), permuted = t.Permute({2, 0, 1}),
               sliced = t.Slice(2, 1, 4), selected = t.Select(1, 2);
  EXPECT_EQ(transposed.shape(), (Shape{5, 3, 2}));
  EXPECT_EQ(permuted.shape(), (Shape{5, 2, 3}));
  EXPECT_EQ(sliced.shape(), (Shape{2, 3, 3}));
  EXPECT_EQ(selected.shape(), (Shape{2, 5}));
  for (int64_t at = 0; at < 30; ++at) {
    const int64_t i = at / 15, j = at / 5 % 3, k = at % 5;
    EXPECT_EQ(t.At({i, j, k}), at);
    EXPECT_EQ(transposed.At({k, j, i}), at);
    EXPECT_EQ(permuted.At({k, i, j}), at);
    EXPECT_TRUE(k < 1 || k >= 4 || sliced.At({i, j, k - 1}) == at) << at;
    EXPECT_TRUE(j != 2 || selected.At({i, k}) == at) << at;
  }
  for (const Tensor& view : {transposed, permuted, sliced, selected}) {
    EXPECT_TRUE(view.SharesStorageWith(t));
    EXPECT_FALSE(view.is_contiguous());
  }
  for (const Tensor& view : {t, t.Slice(0, 1, 2), t.Select(0, 1)}) EXPECT_TRUE(view.is_contiguous());
  EXPECT_EQ(t.Slice(1, 2, 2).num_elements(), 0);
  const Tensor small = Counting({4, 6});
  const Tensor view = small.Slice(0, 1, 4).Slice(1, 2, 5).Transpose(0, 1).Select(0, 1).Slice(0, 1, 3);
  EXPECT_EQ(view.ToVector<float>(), (Floats{2 * 6 + 3, 3 * 6 + 3}));
}

Shape Of(auto... sizes) { return {sizes...}; }

TEST(TensorTest, WhatDoesNotFitTheShapeIsAUsageError) {
  const Tensor t = Counting({2, 3}), u = Counting({2, 3, 5}), column = Counting({3, 1}), wide = Counting({3, 4});
  const std::vector<int> few = {0}, twice = {0, 0}, beyond = {0, 2};
  const std::initializer_list<int64_t> outside = {0, 3};
  const std::vector<float> two = {1, 2};
  constexpr int64_t kHuge = int64_t{1} << 40;
  const std::string slice = "of dimension 1 is outside of shape [2, 3]", shape = "for shape [2, 3]",
                    rank = "dimension 2 of a shape of rank 2, [2, 3]";
  testing::ExpectRefused({
      {"values", [&] { Tensor::FromValues<float>(t.shape(), two); }, {"of shape [2, 3] needs 6 values, got 2"}},
      {"slice", [&] { t.Slice(1, 1, 4); }, {"Slice: [1, 4) " + slice}},
      {"reversed", [&] { t.Slice(1, 2, 1); }, {"Slice: [2, 1) " + slice}},
      {"negative", [&] { t.Slice(0, -1, 1); }, {"Slice: [-1, 1) of dimension 0 is outside of shape [2, 3]"}},
      {"sliced dimension", [&] { t.Slice(2, 0, 1); }, {rank}},
      {"select", [&] { t.Select(0, 2); }, {"Slice: [2, 3) of dimension 0 is outside of shape [2, 3]"}},
      {"transpose", [&] { t.Transpose(0, 2); }, {rank}},
      {"few to permute", [&] { t.Permute(few); }, {"Permute: 1 indices " + shape}},
      {"one twice", [&] { t.Permute(twice); }, {"Permute: index 0 is out of range or repeated " + shape}},
      {"none such", [&] { t.Permute(beyond); }, {"Permute: index 2 is out of range or repeated " + shape}},
      {"few indices", [&] { t.At({0}); }, {"At: 1 indices " + shape}},
      {"index", [&] { t.At(outside); }, {"At: index 3 in dimension 1 of shape [2, 3]"}},
      {"item", [&] { t.Item(); }, {"Item: the tensor has shape [2, 3], not one element"}},
      {"broadcast", [&] { column.BroadcastTo(Of(2, 4)); }, {"shapes [3, 1] and [2, 4] do not broadcast: 3"}},
      {"narrower", [&] { column.BroadcastTo(Of(1, 1)); }, {"BroadcastTo: shape [3, 1] does not stretch to [1, 1]"}},
      {"fewer", [&] { column.BroadcastTo(Of(3)); }, {"BroadcastTo: shape [3, 1] does not stretch to [3]"}},
      {"reshape", [&] { u.Reshape(Of(4, 7)); }, {"Reshape: [2, 3, 5] has 30 elements, which do not fit [4, 7]"}},
      {"rest", [&] { u.Reshape(Of(-1, 7)); }, {"Reshape: [2, 3, 5] does not fit [-1, 7]"}},
      {"two rests", [&] { u.Reshape(Of(-1, -1)); }, {"Reshape: more than one -1 in [-1, -1]"}},
      {"negative size", [&] { u.Reshape(Of(-2, 3)); }, {"Reshape: negative size in [-2, 3]"}},
      {"huge", [&] { u.Reshape(Of(-1, kHuge, kHuge)); }, {"more elements than memory"}},
      {"copy", [&] { wide.CopyFrom(Counting(Of(4, 3))); }, {"CopyFrom: float32[4, 3] into float32[3, 4]"}},
      {"type", [&] { wide.CopyFrom(wide.To(DType::kInt32)); }, {"CopyFrom: int32[3, 4] into float32[3, 4]"}},
  });
}

TEST(TensorTest, BroadcastingRepeatsWithoutCopying) {
  const Tensor t = Tensor::FromValues<float>({3, 1}, {1, 2, 3});
  const Tensor wide = t.BroadcastTo({2, 3, 4});
  EXPECT_TRUE(wide.SharesStorageWith(t));
  EXPECT_EQ(wide.strides(), (Strides{0, 1, 0}));
  EXPECT_EQ(wide.num_elements(), 24);
  EXPECT_FALSE(wide.is_contiguous());
  EXPECT_EQ(wide.Select(0, 1).ToVector<float>(), (Floats{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}));
  EXPECT_EQ(Tensor::Scalar(5, DType::kFloat32).BroadcastTo({2, 2}).ToVector<float>(), (Floats{5, 5, 5, 5}));
}

TEST(TensorTest, ReshapeIsAViewWhereStridesAllowIt) {
  const Tensor t = Counting({4, 6, 5}), turned = t.Transpose(0, 1);
  const Tensor rows = t.Slice(1, 0, 3);  // [4, 3, 5], contiguous within a row of 15
  EXPECT_EQ(t.Reshape({-1}).shape(), (Shape{120}));
  EXPECT_EQ(t.Reshape({5, -1, 3}).shape(), (Shape{5, 8, 3}));
  for (const Tensor& view : {t.Reshape({-1}), t.Reshape({5, -1, 3}), rows.Reshape({4, 15}), rows.Reshape({2, 2, 3, 5}),
                             turned.Reshape({3, 2, 4, 5})}) {
    EXPECT_TRUE(view.SharesStorageWith(t)) << view.shape();
  }
  for (const Tensor& copy : {rows.Reshape({12, 5}), turned.Reshape({24, 5})}) EXPECT_FALSE(copy.SharesStorageWith(t));
  EXPECT_EQ(Tensor::Scalar(1, DType::kFloat32).Reshape({1, 1}).shape(), (Shape{1, 1}));
  EXPECT_EQ(Counting({2, 0}).Reshape({0, 7}).shape(), (Shape{0, 7}));
}

TEST(TensorTest, ReshapeOfAnyViewKeepsTheOrderOfTheElements) {
  RandomSequence random(RandomKey{7, StreamId("tensor_test"), 0});
  const std::vector<Shape> shapes = {{24}, {1, 24}, {2, 12}, {4, 6}, {2, 3, 4}, {4, 1, 3, 2}, {2, 2, 2, 3}, {24, 1, 1}};
  int views = 0;
  for (int round = 0; round < 3000; ++round) {
    Tensor t = Counting({2, 6, 4, 2});
    // A random view of 24 elements: two slices, a permutation, perhaps a stretched dimension.
    t = random.UniformInt(2) == 0 ? t.Slice(1, 1, 4).Slice(3, 1, 2) : t.Slice(2, 1, 2).Reshape({2, 6, 2}).Clone();
    std::vector<int> order(t.rank());
    std::iota(order.begin(), order.end(), 0);
    for (int i = t.rank() - 1; i > 0; --i) std::swap(order[i], order[random.UniformInt(i + 1)]);
    t = t.Permute(order);
    if (random.UniformInt(3) == 0) t = t.Slice(0, 0, 1).BroadcastTo(t.shape());
    ASSERT_EQ(t.num_elements(), 24);
    const Shape& shape = shapes[random.UniformInt(shapes.size())];
    const Tensor reshaped = t.Reshape(shape);
    ASSERT_EQ(reshaped.shape(), shape);
    ASSERT_EQ(reshaped.ToVector<float>(), t.ToVector<float>())
        << "shape " << t.shape() << " strides " << t.strides() << " to " << shape;
    views += reshaped.SharesStorageWith(t) ? 1 : 0;
  }
  EXPECT_GT(views, 100);
}

TEST(TensorTest, ContiguousCopiesOnlyWhatIsNot) {
  const Tensor t = Counting({3, 4});
  EXPECT_TRUE(t.Contiguous().SharesStorageWith(t));
  const Tensor transposed = t.Transpose(0, 1);
  const Tensor copy = transposed.Contiguous();
  EXPECT_FALSE(copy.SharesStorageWith(t));
  EXPECT_TRUE(copy.is_contiguous());
  EXPECT_EQ(copy.ToVector<float>(), (Floats{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  // A dimension of one has no say about strides.
  EXPECT_TRUE(Counting({3, 4}).Slice(0, 1, 2).Transpose(0, 1).is_contiguous());
}

TEST(TensorTest, ConversionBetweenAllDTypes) {
  const DType dtypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kBool};
  for (DType from : dtypes) {
    for (DType to : dtypes) {
      const Tensor source = Tensor::FromValues<float>({2, 2}, {0, 1, 1, 0}).To(from);
      const Tensor result = source.Transpose(0, 1).Slice(0, 0, 1).To(to);
      EXPECT_EQ(result.dtype(), to);
      EXPECT_EQ(result.At({0, 0}), 0) << from << " to " << to;
      EXPECT_EQ(result.At({0, 1}), 1) << from << " to " << to;
    }
  }
  EXPECT_EQ(Tensor::FromValues<float>({3}, {2.75f, -2.75f, 0}).To(DType::kInt32).ToVector<int32_t>(),
            (std::vector<int32_t>{2, -2, 0}));
  EXPECT_EQ(Tensor::FromValues<float>({3}, {0.25f, -3, 0}).To(DType::kBool).ToVector<uint8_t>(),
            (std::vector<uint8_t>{1, 1, 0}));
  const Tensor t = Counting({2});
  EXPECT_TRUE(t.To(DType::kFloat32).SharesStorageWith(t));
}

TEST(TensorTest, CopyFromAndFillReachThroughViews) {
  const Tensor t = Tensor::Zeros({3, 4}, DType::kFloat32);
  t.Slice(1, 1, 3).Transpose(0, 1).CopyFrom(Counting({2, 3}));
  EXPECT_EQ(t.ToVector<float>(), (Floats{0, 0, 3, 0, 0, 1, 4, 0, 0, 2, 5, 0}));
  t.Select(1, 3).Fill(7);
  EXPECT_EQ(t.ToVector<float>(), (Floats{0, 0, 3, 7, 0, 1, 4, 7, 0, 2, 5, 7}));
}

#ifndef CROSSTALK_NO_DEBUG_CHECKS
TEST(TensorTest, DataOfAnotherTypeIsOurMistake) {
  const Tensor t = Counting({2});
  EXPECT_THROW(t.data<double>(), std::logic_error);
  EXPECT_THROW(Tensor().data<float>(), std::logic_error);
}
#endif

TEST(TensorTest, TextShowsTheFirstElements) {
  EXPECT_EQ(ToString(Counting({2, 2})), "float32[2, 2] = {0, 1, 2, 3}");
  EXPECT_EQ(ToString(Counting({9}, DType::kInt64)), "int64[9] = {0, 1, 2, 3, 4, 5, 6, 7, …}");
  EXPECT_EQ(ToString(Tensor::Zeros({0}, DType::kBool)), "bool[0] = {}");
  EXPECT_EQ(ToString(Tensor()), "undefined tensor");
}

}  // namespace tensor_test
}  // namespace crosstalk
