#include "tools/commands/attention_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/attention_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace attention_file_test {

using testing::MessageOf;

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

TEST(AttentionTensorsTest, WithoutAnOutputGradientThereAreNoGradients) {
  const AttentionCase c = Everything();
  TensorFile file = FileOf(c, MakeInputs(c));
  std::erase_if(file.tensors, [](const NamedTensor& tensor) { return tensor.name == "dY"; });
  AttentionTensorsOptions options;
  EXPECT_EQ(EvaluateAttention(file, options).tensors.size(), 2u);  // Y, W
  options.outputs = AttentionOutputs::kOutputOnly;
  const std::vector<NamedTensor> results = EvaluateAttention(file, options).tensors;
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].name, "Y");
  EXPECT_EQ(results[0].tensor.dtype(), DType::kFloat32);
}

TEST(AttentionTensorsTest, TheImplementationIsTheOneAskedForOrTheFastestThereIs) {
  using enum AttentionImplementation;
  const AttentionCase c = Everything();
  const TensorFile file = FileOf(c, MakeInputs(c));
  const auto computed_by = [&](const AttentionTensorsOptions& options) {
    return EvaluateAttention(file, options).implementation;
  };
  EXPECT_EQ(computed_by({}), kFused);
  EXPECT_EQ(computed_by({.dtype = DType::kFloat64}), kComposed);
  EXPECT_EQ(computed_by({.implementation = kComposed}), kComposed);
  EXPECT_EQ(computed_by({.implementation = kFused}), kFused);
  EXPECT_THROW(computed_by({.implementation = kFused, .dtype = DType::kFloat64}), Error);
}

// ---- Files that do not make a layer ------------------------------------------------------------------------------
void ExpectRefused(const TensorFile& file, const std::vector<std::string>& parts) {
  const std::string message = MessageOf([&] { EvaluateAttention(file, {}); }, ErrorKind::kData);
  EXPECT_NE(message.find("in.safetensors"), std::string::npos) << message;
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
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

TEST(AttentionTensorsTest, MissingTensorsAreNamed) {
  const AttentionCase c = Everything();
  const TensorFile file = FileOf(c, MakeInputs(c));
  for (const char* name : {"X", "P_q", "P_k", "P_v", "P_o"}) ExpectRefused(Without(file, name), {name});
  const AttentionCase bilinear{.name = "bilinear", .config = BilinearConfig()};
  const TensorFile bilinear_file = FileOf(bilinear, MakeInputs(bilinear));
  for (const char* name : {"P", "Q"}) ExpectRefused(Without(bilinear_file, name), {name});
}

TEST(AttentionTensorsTest, TensorsOutOfPlaceAreNamed) {
  const Tensor tensor = Tensor::Zeros({5, 7}, DType::kFloat32);
  const AttentionCase c = Everything();
  const TensorFile file = FileOf(c, MakeInputs(c));
  ExpectRefused(With(file, "P_x", tensor), {"'P_x'", "[5, 7]"});
  ExpectRefused(With(file, "P", tensor), {"'Q'"});
  ExpectRefused(With(With(file, "P", tensor), "Q", tensor), {"'P_q'", "beside P and Q"});
  const AttentionCase plain{.name = "plain", .config = AttentionConfig::DotProduct(19)};
  ExpectRefused(With(FileOf(plain, MakeInputs(plain)), "P_l", tensor), {"'P_l'", "needs P_q"});
}

TEST(AttentionTensorsTest, TypesAreChecked) {
  const AttentionCase c = Everything();
  const TensorFile file = FileOf(c, MakeInputs(c));
  ExpectRefused(With(file, "mask", Tensor::Zeros({3, 15, 17}, DType::kFloat32)), {"'mask'", "BOOL"});
  ExpectRefused(With(file, "X", Tensor::Zeros({3, 15, 19}, DType::kInt32)), {"'X'", "F32 or F64"});
  ExpectRefused(With(file, "X", Tensor::Zeros({3, 0, 19}, DType::kFloat32)), {"'X'", "empty"});
}

TEST(AttentionTensorsTest, ShapesThatDoNotFitAreShown) {
  const AttentionCase c = Everything();
  const TensorFile file = FileOf(c, MakeInputs(c));
  for (const NamedTensor& tensor : file.tensors) {
    for (int dim = 0; dim < tensor.tensor.rank(); ++dim) {
      Shape shape = tensor.tensor.shape();
      shape[dim] += 1;
      ExpectRefused(With(file, tensor.name, Tensor::Zeros(shape, tensor.tensor.dtype())), {ToString(shape)});
    }
    ExpectRefused(With(file, tensor.name, Tensor::Zeros({3}, tensor.tensor.dtype())), {tensor.name, "[3]"});
  }
  // Heads that nothing stands between.
  const AttentionCase multi_head{.name = "multi-head", .config = MixingConfig({}), .bias = true};
  const TensorFile heads = FileOf(multi_head, MakeInputs(multi_head));
  ExpectRefused(With(heads, "P_v", Tensor::Zeros({21, 13, 9}, DType::kFloat32)), {"9 heads", "h_v=7"});
  ExpectRefused(With(heads, "bias", Tensor::Zeros({5, 15, 17}, DType::kFloat32)), {"h=5", "h=7"});
  // Without projections all widths are one.
  const AttentionCase plain{.name = "plain", .config = AttentionConfig::DotProduct(19)};
  ExpectRefused(With(FileOf(plain, MakeInputs(plain)), "M", Tensor::Zeros({3, 17, 21}, DType::kFloat32)),
                {"d_M=21", "19"});
}

}  // namespace attention_file_test
}  // namespace crosstalk
