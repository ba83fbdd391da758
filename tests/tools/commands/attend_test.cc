// `crosstalk attend` as a user runs it, from file to file. What it computes is tested in tests/nn/attention_*_test.cc.
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
namespace attend_test {

class AttendTest : public ::testing::Test {
 protected:
  std::string In() const { return dir_ / "in.safetensors"; }
  std::string Out() const { return dir_ / "out.safetensors"; }

  // Everything that a file may hold, for a layer with all projections.
  AttentionCase case_{
      .name = "everything",
      .config = MixingConfig({.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true}),
      .pairs = true,
      .bias = true};
  AttentionInputs<double> in_ = MakeInputs(case_);

  std::vector<NamedTensor> Tensors(DType dtype) const {
    std::vector<NamedTensor> tensors = {
        {"X", ToTensor(in_.X, dtype)},       {"M", ToTensor(in_.M, dtype)},
        {"P_q", ToTensor(in_.P_q, dtype)},   {"P_k", ToTensor(in_.P_k, dtype)},
        {"P_v", ToTensor(in_.P_v, dtype)},   {"P_o", ToTensor(in_.P_o, dtype)},
        {"P_l", ToTensor(in_.P_l, dtype)},   {"P_w", ToTensor(in_.P_w, dtype)},
        {"P_Xl", ToTensor(in_.P_Xl, dtype)}, {"P_Ml", ToTensor(in_.P_Ml, dtype)},
        {"P_Xw", ToTensor(in_.P_Xw, dtype)}, {"P_Mw", ToTensor(in_.P_Mw, dtype)},
        {"bias", ToTensor(in_.bias, dtype)}, {"dY", ToTensor(MakeOutputGradient(case_), dtype)}};
    tensors.push_back({"mask", Tensor::FromValues<uint8_t>(Shape(in_.mask.sizes()), in_.mask.values())});
    return tensors;
  }

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
  WriteBytes(dir_ / "objects.npy", "\x93NUMPY\1" + std::string("\0\x3D\0", 3) +
                                       "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}       \n");
  ExpectExit(attend("objects.npy", "Y.npz"), 3, {"objects.npy: the dtype \"|O\" cannot be loaded"});
}

TEST_F(AttendTest, AFileThatDoesNotFitIsRefusedAndNothingWritten) {
  std::vector<NamedTensor> tensors = Tensors(DType::kFloat32);
  tensors[2].tensor = Tensor::Zeros({19, 12, 5}, DType::kFloat32);  // P_q, with another d_k than P_k
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

}  // namespace attend_test
}  // namespace crosstalk
