#include "tools/commands/attention_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/attention_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace attention_file_test {

void SortByName(TensorFile& file) {
  std::sort(file.tensors.begin(), file.tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

// A case's inputs as a file would hold them: paper layouts, ordered by name.
TensorFile FileOf(const AttentionCase& c, const AttentionInputs<double>& in, DType dtype = DType::kFloat64) {
  TensorFile file;
  file.path = "in.safetensors";
  const auto add = [&](const std::string& name, const Array<double>& array) {
    if (array.present()) file.tensors.push_back({name, ToTensor(array, dtype)});
  };
  add("X", in.X);
  if (!c.self) add("M", in.M);
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (const Array<double>* array = InPaper(projection, in)) add(std::string(projection.name()), *array);
  }
  add("bias", in.bias);
  add("dY", MakeOutputGradient(c));
  if (in.mask.present()) {
    file.tensors.push_back({"mask", Tensor::FromValues<uint8_t>(Shape(in.mask.sizes()), in.mask.values())});
  }
  SortByName(file);
  return file;
}

const Tensor* Find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor.tensor;
  }
  return nullptr;
}

AttentionTensorsOptions OptionsFor(const AttentionCase& c, DType dtype) {
  AttentionTensorsOptions options;
  options.layer.scale = c.config.scale;
  options.dtype = dtype;
  return options;
}

// Values and gradients of every kind that a file can say, within 1e-12 of the largest magnitude in double (composed),
// 1e-5 in float (fused, as nothing else is asked for).
TEST(AttentionTensorsTest, EveryKindEqualsThePlainLoops) {
  int compared = 0;
  for (const AttentionCase& c : AttentionCases()) {
    if (c.dropout || c.config.tied()) continue;
    SCOPED_TRACE(::testing::Message() << c);
    const AttentionInputs<double> in = MakeInputs(c);
    const std::vector<NamedArray> expected = ReferenceResults(c, in);
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      const std::vector<NamedTensor> actual = EvaluateAttention(FileOf(c, in), OptionsFor(c, dtype)).tensors;
      EXPECT_EQ(actual.size(), expected.size() - 1);  // all but U
      for (const NamedArray& result : expected) {
        if (result.name == "U") continue;
        const Tensor* tensor = Find(actual, result.name);
        ASSERT_NE(tensor, nullptr) << result.name;
        EXPECT_EQ(tensor->dtype(), dtype);
        const Array<double> array = ToArray(*tensor);
        const bool in_double = dtype == DType::kFloat64;
        EXPECT_TRUE(in_double ? CloseTo(array, result.array, 1e-12) : CloseOrCancelled(array, result.array, 1e-5))
            << result.name;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

AttentionCase Everything() {
  return {.name = "everything",
          .config = MixingConfig({.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true}),
          .pairs = true,
          .bias = true};
}

TensorFile Without(TensorFile file, const std::string& name) {
  std::erase_if(file.tensors, [&](const NamedTensor& tensor) { return tensor.name == name; });
  return file;
}

TensorFile With(TensorFile file, const std::string& name, const Tensor& tensor) {
  file = Without(file, name);
  file.tensors.push_back({name, tensor});
  SortByName(file);
  return file;
}

TEST(AttentionTensorsTest, WhatDoesNotMakeALayerIsNamed) {
  const auto file_of = [](const AttentionCase& c) { return FileOf(c, MakeInputs(c)); };
  const TensorFile file = file_of(Everything()), plain = file_of({.config = AttentionConfig::DotProduct(19)});
  const TensorFile bilinear = file_of({.config = BilinearConfig()});
  const TensorFile heads = file_of({.config = MixingConfig({}), .bias = true});
  const auto zeros = [](const Shape& shape) { return Tensor::Zeros(shape, DType::kFloat32); };
  const Tensor tensor = zeros({5, 7});
  std::vector<testing::Refusal<TensorFile>> rows = {
      {"no P", Without(bilinear, "P"), {"P"}},
      {"no Q", Without(bilinear, "Q"), {"Q"}},
      {"a tensor of no layer", With(file, "P_x", tensor), {"'P_x'", "[5, 7]"}},
      {"half of a bilinear form", With(file, "P", tensor), {"'Q'"}},
      {"both forms", With(With(file, "P", tensor), "Q", tensor), {"'P_q'", "beside P and Q"}},
      {"mixing without projections", With(plain, "P_l", tensor), {"'P_l'", "needs P_q"}},
      {"a mask of numbers", With(file, "mask", zeros({3, 15, 17})), {"'mask'", "BOOL"}},
      {"integers", With(file, "X", Tensor::Zeros({3, 15, 19}, DType::kInt32)), {"'X'", "F32 or F64"}},
      {"nothing", With(file, "X", zeros({3, 0, 19})), {"'X'", "empty"}},
      {"heads that nothing stands between", With(heads, "P_v", zeros({21, 13, 9})), {"9 heads", "h_v=7"}},
      {"a bias of other heads", With(heads, "bias", zeros({5, 15, 17})), {"h=5", "h=7"}},
      {"another width without projections", With(plain, "M", zeros({3, 17, 21})), {"d_M=21", "19"}}};
  for (const char* name : {"X", "P_q", "P_k", "P_v", "P_o"}) rows.push_back({name, Without(file, name), {name}});
  for (const auto& [name, one] : file.tensors) {
    for (int dim = 0; dim < one.rank(); ++dim) {
      Shape shape = one.shape();
      shape[dim] += 1;
      rows.push_back({name, With(file, name, Tensor::Zeros(shape, one.dtype())), {ToString(shape)}});
    }
    rows.push_back({name, With(file, name, Tensor::Zeros({3}, one.dtype())), {name, "[3]"}});
  }
  for (testing::Refusal<TensorFile>& row : rows) row.words.push_back("in.safetensors");
  testing::ExpectRefused(
      rows, [](const TensorFile& one) { EvaluateAttention(one, {}); }, ErrorKind::kData);
}

}  // namespace attention_file_test
}  // namespace crosstalk
