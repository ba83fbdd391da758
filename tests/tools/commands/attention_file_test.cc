// Files of a layer's tensors, and `crosstalk attend` on them.
#include "tools/commands/attention_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/runtime/numpy_file.h"
#include "tests/support/attention_cases.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

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

// ---- `crosstalk attend`, from file to file -----------------------------------------------------------------------
class AttendTest : public ::testing::Test {
 protected:
  std::string In() const { return dir_ / "in.safetensors"; }
  std::string Out() const { return dir_ / "out.safetensors"; }

  AttentionCase case_ = Everything();
  AttentionInputs<double> in_ = MakeInputs(case_);
  std::vector<NamedTensor> Tensors(DType dtype) const { return FileOf(case_, in_, dtype).tensors; }

  void ExpectResults(double tolerance, DType dtype) const {
    const TensorFile out = ReadSafetensors(Out());
    const std::vector<NamedArray> expected = ReferenceResults(case_, in_);
    EXPECT_EQ(out.tensors.size(), expected.size() - 1);  // all but U
    for (const NamedArray& result : expected) {
      if (result.name == "U") continue;
      const Tensor& tensor = out.At(result.name);
      EXPECT_EQ(tensor.dtype(), dtype);
      EXPECT_TRUE(CloseTo(ToArray(tensor), result.array, tolerance)) << result.name;
    }
  }

  TempDir dir_;
};

TEST_F(AttendTest, AFileOfEitherTypeGivesWhatItsOptionsAskFor) {
  const struct {
    DType dtype;
    std::vector<std::string> options;
    double tolerance;
  } kCases[] = {
      {DType::kFloat64, {"--precision", "double"}, 1e-12},
      {DType::kFloat32, {"--threads", "2"}, 1e-5},
      // A share of the largest magnitude of a result. Q and K are off by 2^-9 of themselves, so that large logits, as
      // these are, are off by some hundredths, and the weights by as large a share.
      {DType::kFloat32, {"--precision", "bf16"}, 2e-2},
      {DType::kFloat64, {"--precision", "fp32"}, 1e-5},
      {DType::kFloat64, {"--precision", "double", "--scale", "0.375"}, 1e-12},
  };
  std::string before;
  for (const auto& one : kCases) {
    SCOPED_TRACE(::testing::PrintToString(one.options));
    if (one.options.back() == "0.375") in_.scale = 0.375;
    WriteSafetensors(In(), Tensors(one.dtype));
    EXPECT_EQ(Succeeded(RunCommand(Joined({"attend", In(), "--output", Out()}, one.options))).output, "");
    ExpectResults(one.tolerance, one.tolerance == 1e-12 ? DType::kFloat64 : DType::kFloat32);
    EXPECT_NE(ReadBytes(Out()), before) << "a case that asks for what the one before it has";
    before = ReadBytes(Out());
  }
}

TEST_F(AttendTest, SaysWhichImplementationComputedWhat) {
  WriteSafetensors(In(), Tensors(DType::kFloat32));
  const auto says = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"attend", In(), "--output", Out()});
    const CommandResult result = Succeeded(RunCommand(options));
    EXPECT_EQ(result.output, "");
    return result.errors;
  };
  const std::string fused = "attend: computed by the fused implementation", w = ", W by the composed one";
  const std::string composed = "attend: computed by the composed implementation\n";
  const auto Y = [&] { return ReadSafetensors(Out()).At("Y").ToVector<float>(); };
  EXPECT_EQ(says({}), fused + w + "\n");
  const std::vector<float> by_default = Y();
  EXPECT_EQ(says({"--implementation", "fused", "--no-weights"}), fused + "\n");
  EXPECT_EQ(Y(), by_default);
  EXPECT_EQ(says({"--implementation", "composed"}), composed);
  EXPECT_NE(Y(), by_default);  // equal except for rounding
  EXPECT_EQ(says({"--precision", "double"}), composed);
}

TEST_F(AttendTest, GradientsNeedTheOutputsAndWeightsAreLeftOutIfAsked) {
  std::vector<NamedTensor> tensors = Tensors(DType::kFloat32);
  std::erase_if(tensors, [](const NamedTensor& tensor) { return tensor.name == "dY"; });
  WriteSafetensors(In(), tensors);
  Succeeded(RunCommand({"attend", In(), "--output", Out()}));
  EXPECT_EQ(ReadSafetensors(Out()).tensors.size(), 2u);
  Succeeded(RunCommand({"attend", In(), "--output", Out(), "--no-weights"}));
  const TensorFile out = ReadSafetensors(Out());
  ASSERT_EQ(out.tensors.size(), 1u);
  EXPECT_EQ(out.tensors[0].name, "Y");
  EXPECT_EQ(out.tensors[0].tensor.dtype(), DType::kFloat32);
}

// The same tensors in and the same results out, whichever of the three forms they have.
TEST_F(AttendTest, NumPysFilesAreReadAndWritten) {
  const auto attend = [&](const std::string& in, const std::string& out, const std::vector<std::string>& more = {}) {
    return RunCommand(Joined({"attend", dir_ / in, "--output", dir_ / out}, more));
  };
  WriteTensors(In(), Tensors(DType::kFloat64));
  WriteTensors(dir_ / "in.npz", Tensors(DType::kFloat64));
  Succeeded(attend("in.npz", "out.safetensors", {"--precision", "double"}));
  ExpectResults(1e-12, DType::kFloat64);
  Succeeded(attend("in.safetensors", "out.npz", {"--precision", "double"}));
  const TensorFile results = ReadTensors(Out()), of_numpy = ReadTensors(dir_ / "out.npz");
  ASSERT_EQ(of_numpy.tensors.size(), results.tensors.size());
  for (const NamedTensor& result : results.tensors) {
    EXPECT_EQ(of_numpy.At(result.name).ToVector<double>(), result.tensor.ToVector<double>()) << result.name;
  }
  // One array: dot-product attention of X, and Y.
  WriteTensors(dir_ / "X.npy", std::vector<NamedTensor>{{"X", ToTensor(in_.X, DType::kFloat32)}});
  Succeeded(attend("X.npy", "Y.npy", {"--no-weights"}));
  EXPECT_EQ(ReadTensors(dir_ / "Y.npy").At("Y").shape(), Shape(in_.X.sizes()));
  ExpectExit(attend("X.npy", "both.npy"), 2, {"an .npy holds one array, and there are 2 (W, Y); name an .npz"});
  EXPECT_FALSE(std::filesystem::exists(dir_ / "both.npy"));
  std::filesystem::rename(dir_ / "X.npy", dir_ / "other.npy");
  ExpectExit(attend("other.npy", "Y.npy"), 3, {"other.npy: tensor 'other'", "is not part of an attention layer"});
  PutFile(dir_ / "objects.npy", "\x93NUMPY\1" + std::string("\0\x3D\0", 3) +
                                    "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}       \n");
  ExpectExit(attend("objects.npy", "Y.npz"), 3, {"objects.npy: the dtype \"|O\" cannot be loaded"});
}

TEST_F(AttendTest, AFileThatDoesNotFitIsRefusedAndNothingWritten) {
  std::vector<NamedTensor> tensors = Tensors(DType::kFloat32);
  for (NamedTensor& entry : tensors) {
    if (entry.name == "P_q") entry.tensor = Tensor::Zeros({19, 12, 5}, DType::kFloat32);  // another d_k than P_k
  }
  WriteSafetensors(In(), tensors);
  ExpectExit(RunCommand({"attend", In(), "--output", Out()}), 3,
             {"in.safetensors", "P_k", "d_k=11", "d_k=12", "[19, 12, 5]"});
  EXPECT_FALSE(std::filesystem::exists(Out()));
  EXPECT_EQ(RunCommand({"attend", dir_ / "absent.safetensors", "--output", Out()}).exit_code, 3);
}

TEST_F(AttendTest, OptionsThatCannotBeHonouredAreUsageErrors) {
  WriteSafetensors(In(), Tensors(DType::kFloat32));
  const std::string before = ReadBytes(In());
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--output", Out(), "--implementation", "fused", "--precision", "double"}, "composed"},
      {{"--output", Out(), "--precision", "half"}, "--precision"},
      {{"--output", Out(), "--scale", "nan"}, "--scale"},
      {{}, "--output"},
      {{"--output", In()}, "--output"}};  // it would replace what it reads
  for (const auto& [options, word] : cases) ExpectExit(RunCommand(Joined({"attend", In()}, options)), 2, {word});
  EXPECT_TRUE(ReadBytes(In()) == before);
}

TEST_F(AttendTest, WhatIsNotFiniteIsANumericalFailureThatNamesIt) {
  const auto attend = [&](std::vector<std::string> more = {}) {
    return RunCommand(Joined({"attend", In(), "--output", Out()}, more));
  };
  const auto expect_failure = [&](const CommandResult& result, const std::vector<std::string>& parts) {
    ExpectExit(result, 4, parts);
    EXPECT_FALSE(std::filesystem::exists(Out()));
  };
  struct Planted {
    const char* name;
    double value;
    const char* text;
  };
  for (const Planted& planted : {Planted{"X", NAN, "tensor 'X' has nan at [0, 0, 1]"},
                                 Planted{"P_Mw", INFINITY, "tensor 'P_Mw' has inf at [0, 0, 1]"},
                                 Planted{"dY", -INFINITY, "tensor 'dY' has -inf at [0, 0, 1]"},
                                 Planted{"P_q", 1e300, "tensor 'P_q' has inf at [0, 0, 1]"}}) {
    std::vector<NamedTensor> tensors = Tensors(DType::kFloat64);
    for (NamedTensor& entry : tensors) {
      if (entry.name == planted.name) entry.tensor.data<double>()[1] = planted.value;
    }
    WriteSafetensors(In(), tensors);
    expect_failure(attend(), {"in.safetensors", planted.text, "--allow-non-finite"});
    ExpectExit(attend({"--allow-non-finite"}), 0, {"result "});
    ASSERT_TRUE(std::filesystem::remove(Out()));
  }
  WriteSafetensors(In(), Tensors(DType::kFloat64));
  expect_failure(attend({"--scale", "1e308"}), {"result 'Y' has", "float32 overflows"});
  Succeeded(attend());
}

// W is the composed implementation's, Y by default the fused one's.
TEST_F(AttendTest, ABiasFarBelowEveryLogitHidesWhatTheMaskWould) {
  constexpr int64_t kQuery = 2;  // all of it is hidden
  for (const double hidden : {-1e38, -3.4e38, double{-INFINITY}}) {
    std::vector<NamedTensor> tensors = Tensors(DType::kFloat64);
    for (NamedTensor& entry : tensors) {
      if (entry.name != "bias") continue;
      for (int64_t head = 0; head < case_.config.h; ++head) {
        std::fill_n(entry.tensor.data<double>() + (head * case_.n + kQuery) * case_.m, case_.m, hidden);
      }
    }
    WriteSafetensors(In(), tensors);
    for (const std::vector<std::string>& how :
         std::vector<std::vector<std::string>>{{"--precision", "fp32"},
                                               {"--precision", "fp32", "--implementation", "composed"},
                                               {"--precision", "bf16"},
                                               {"--precision", "double"}}) {
      SCOPED_TRACE(StrCat(hidden, " ", ::testing::PrintToString(how)));
      Succeeded(RunCommand(Joined({"attend", In(), "--output", Out()}, how)));
      const TensorFile out = ReadSafetensors(Out());
      for (const char* name : {"Y", "W", "dX"}) {
        const Array<double> result = ToArray(out.At(name));
        const auto row = std::ssize(result.values()) / (case_.b * case_.n);
        const auto is_zero = [&](int64_t query) {
          const auto begin = result.values().begin() + query * row;
          return std::all_of(begin, begin + row, [](double x) { return x == 0; });
        };
        EXPECT_TRUE(is_zero(kQuery)) << name;
        EXPECT_FALSE(is_zero(kQuery + 1)) << name;
      }
    }
  }
}

}  // namespace attention_file_test
}  // namespace crosstalk
