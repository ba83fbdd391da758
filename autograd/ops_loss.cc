#include <algorithm>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/elementwise.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/kernels/rows.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

// The kernels' mark of an ignored row. Class numbers are never negative.
constexpr int32_t kIgnored = -1;

struct Targets {
  Tensor classes;  // int32[rows], kIgnored where a row does not count
  int64_t count = 0;
};

Targets CheckTargets(const char* name, const Tensor& targets, int64_t rows, int64_t classes,
                     const CrossEntropyOptions& options) {
  CROSSTALK_CHECK(targets.defined() && (targets.dtype() == DType::kInt32 || targets.dtype() == DType::kInt64), name,
                  ": targets must be int32 or int64");
  CROSSTALK_CHECK(classes <= int64_t{1} << 31, name, ": ", classes, " classes are more than 2^31");
  CROSSTALK_CHECK(targets.shape() == Shape({rows}), name, ": targets[rows] = ", targets.shape(), ", but rows=", rows);
  const Tensor values = math::Contiguous(targets);
  Targets result;
  result.classes = Tensor::Empty({rows}, DType::kInt32);
  result.count = rows;
  Launch([&] {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t target = values.dtype() == DType::kInt32 ? values.data<int32_t>()[i] : values.data<int64_t>()[i];
      const bool ignored = target == options.ignore_index || target == options.also_ignored;
      CROSSTALK_CHECK(ignored || (target >= 0 && target < classes), name, ": target ", target, " in row ", i,
                      " is not a class in [0, ", classes, ")");
      result.classes.data<int32_t>()[i] = ignored ? kIgnored : static_cast<int32_t>(target);
      result.count -= ignored ? 1 : 0;
    }
  });
  return result;
}

kernels::CrossEntropyOptions KernelOptions(const CrossEntropyOptions& options) {
  kernels::CrossEntropyOptions result;
  result.ignore_index = kIgnored;
  result.z_loss = options.z_loss;
  return result;
}

// The kernel's results for each row.
struct LossRows {
  LossRows(int64_t rows, DType dtype)
      : nll(Tensor::Empty({rows}, dtype)),
        log_z(Tensor::Empty({rows}, dtype)),
        correct(Tensor::Empty({rows}, DType::kBool)) {}
  Tensor nll, log_z, correct;
};

struct Sums {
  double nll = 0;
  double loss = 0;
  int64_t correct = 0;
};

// In row order, in double: the same bits however the rows were computed.
Sums SumRows(const LossRows& rows, double z_loss) {
  Sums sums;
  Launch("cross_entropy", rows.nll.dtype(), [&](auto zero) {
    using T = decltype(zero);
    double squares = 0;
    for (int64_t i = 0; i < rows.nll.num_elements(); ++i) {
      const double z = rows.log_z.data<T>()[i];
      sums.nll += rows.nll.data<T>()[i];
      squares += z * z;
      sums.correct += rows.correct.data<bool>()[i] ? 1 : 0;
    }
    sums.loss = sums.nll + z_loss * squares;
  });
  return sums;
}

// LossRows of logits that exist at a time: about 32 MB of float.
int64_t ChunkRows(int64_t classes) {
  constexpr int64_t kChunkElements = int64_t{8} << 20;
  const int64_t rows = kChunkElements / std::max<int64_t>(classes, 1) / 64 * 64;
  return std::max<int64_t>(rows, 64);
}

// The tensors of a LinearCrossEntropy, contiguous.
struct Linear {
  Tensor hidden;  // [rows, d]
  Tensor table;   // [at least num_classes, d]; may be bfloat16
  Tensor bias;    // [num_classes], or undefined
  Tensor targets;
  double scale = 1;
  int64_t num_classes = 0;
  int64_t rows() const { return hidden.size(0); }
  int64_t classes() const { return num_classes; }
  int64_t d() const { return hidden.size(1); }
};

// logits[count, classes] = scale · hidden[begin … begin + count, d] · table[classes, d]ᵀ + bias[classes].
template <typename T>
void ChunkLogits(const Linear& linear, int64_t begin, int64_t count, T* logits) {
  kernels::GemmArguments<T> gemm;
  gemm.m = count, gemm.n = linear.classes(), gemm.k = linear.d();
  gemm.alpha = static_cast<T>(linear.scale);
  gemm.a = {linear.hidden.data<T>() + begin * linear.d(), linear.d()};
  gemm.b = OperandOf<T>(linear.table, linear.d());
  gemm.transpose_b = kernels::Transpose::kYes;
  gemm.c = logits, gemm.ldc = linear.classes();
  gemm.bias = linear.bias.defined() ? linear.bias.data<T>() : nullptr;
  gemm.precision = CurrentContext().precision;
  kernels::Gemm<T>(gemm);
}

// Returns the logits where all rows are one chunk: backward needs not compute them again.
template <typename T>
Tensor LinearForward(const Linear& linear, const kernels::CrossEntropyOptions& options, const LossRows& rows) {
  const int64_t chunk = ChunkRows(linear.classes());
  const Tensor logits = Tensor::Empty({std::min(chunk, linear.rows()), linear.classes()}, DTypeOf<T>);
  for (int64_t begin = 0; begin < linear.rows(); begin += chunk) {
    const int64_t count = std::min(chunk, linear.rows() - begin);
    ChunkLogits<T>(linear, begin, count, logits.data<T>());
    Launch([&] {
      kernels::CrossEntropy<T>(count, linear.classes(), logits.data<T>(), linear.targets.data<int32_t>() + begin,
                               options, rows.nll.data<T>() + begin, rows.log_z.data<T>() + begin,
                               rows.correct.data<bool>() + begin);
    });
  }
  return linear.rows() <= chunk ? logits : Tensor();
}

// Undefined where not needed.
struct LinearGradients {
  Tensor hidden, table, bias;
};

// `kept`: LinearForward's logits, which are overwritten; else undefined.
template <typename T>
void LinearBackward(const Linear& linear, const kernels::CrossEntropyOptions& options, const Tensor& log_z,
                    const Tensor& kept, T dloss, const LinearGradients& d) {
  const int64_t chunk = ChunkRows(linear.classes());
  const Tensor logits =
      kept.defined() ? kept : Tensor::Empty({std::min(chunk, linear.rows()), linear.classes()}, DTypeOf<T>);
  const Tensor chunk_dbias = d.bias.defined() ? Tensor::Empty({linear.classes()}, DTypeOf<T>) : Tensor();
  T* const dlogits = logits.data<T>();
  for (int64_t begin = 0; begin < linear.rows(); begin += chunk) {
    const int64_t count = std::min(chunk, linear.rows() - begin);
    if (!kept.defined()) ChunkLogits<T>(linear, begin, count, logits.data<T>());
    Launch([&] {
      kernels::CrossEntropyGradient<T>(count, linear.classes(), logits.data<T>(),
                                       linear.targets.data<int32_t>() + begin, log_z.data<T>() + begin, options, dloss,
                                       nullptr, dlogits);
      if (d.bias.defined()) {  // dbias += Σ_rows dlogits
        kernels::Sum<T>(1, count, linear.classes(), dlogits, chunk_dbias.data<T>());
        kernels::Axpy<T>(linear.classes(), T{1}, chunk_dbias.data<T>(), d.bias.data<T>());
      }
    });
    kernels::GemmArguments<T> gemm;
    gemm.alpha = static_cast<T>(linear.scale);
    gemm.a = {dlogits, linear.classes()};
    gemm.n = linear.d();
    gemm.precision = CurrentContext().precision;
    if (d.hidden.defined()) {  // dH = scale · dlogits · table
      gemm.m = count, gemm.k = linear.classes();
      gemm.b = OperandOf<T>(linear.table, linear.d());
      gemm.c = d.hidden.data<T>() + begin * linear.d(), gemm.ldc = linear.d();
      kernels::Gemm<T>(gemm);
    }
    if (d.table.defined()) {  // dtable += scale · dlogitsᵀ · H
      gemm.transpose_a = kernels::Transpose::kYes;
      gemm.m = linear.classes(), gemm.k = count;
      gemm.b = {linear.hidden.data<T>() + begin * linear.d(), linear.d()};
      gemm.beta = begin == 0 ? T{0} : T{1};
      gemm.c = d.table.data<T>(), gemm.ldc = linear.d();
      kernels::Gemm<T>(gemm);
    }
  }
}

}  // namespace

CrossEntropyResult CrossEntropy(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  Dims dims("cross_entropy");
  dims.Bind("logits[rows, classes]", logits.shape());
  const int64_t rows = dims["rows"];
  const int64_t classes = dims["classes"];
  CROSSTALK_CHECK(classes > 0, "cross_entropy: logits[rows, classes] = ", logits.shape(), " has no classes");
  const Targets checked = CheckTargets("cross_entropy", targets, rows, classes, options);
  const kernels::CrossEntropyOptions kernel_options = KernelOptions(options);
  const Tensor values = math::Contiguous(logits.value());
  const LossRows of_rows(rows, logits.dtype());
  Launch("cross_entropy", logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::CrossEntropy<T>(rows, classes, values.data<T>(), checked.classes.data<int32_t>(), kernel_options,
                             of_rows.nll.data<T>(), of_rows.log_z.data<T>(), of_rows.correct.data<bool>());
  });
  const Sums sums = SumRows(of_rows, options.z_loss);
  CrossEntropyResult result;
  result.nll_sum = sums.nll;
  result.count = checked.count;
  result.correct = sums.correct;
  result.loss =
      MakeOp("cross_entropy", Tensor::Scalar(sums.loss, logits.dtype()), {logits},
             [values, log_z = of_rows.log_z, classes_of_rows = checked.classes, kernel_options](const Tensor& dy,
                                                                                                Gradients& gradients) {
               // Over the logits themselves where nothing else holds them any more.
               const Tensor dlogits = values.unique() ? values : Tensor::Empty(values.shape(), values.dtype());
               Launch("cross_entropy", dy.dtype(), [&](auto zero) {
                 using T = decltype(zero);
                 kernels::CrossEntropyGradient<T>(values.size(0), values.size(1), values.data<T>(),
                                                  classes_of_rows.data<int32_t>(), log_z.data<T>(), kernel_options,
                                                  static_cast<T>(dy.Item()), nullptr, dlogits.data<T>());
               });
               gradients.Add(0, dlogits);
             });
  return result;
}

CrossEntropyResult LinearCrossEntropy(const Variable& hidden, const Variable& table, const Tensor& targets,
                                      double scale, const CrossEntropyOptions& options, const Variable& bias) {
  Dims dims("linear_cross_entropy");
  dims.Bind("hidden[rows, d]", hidden.shape()).Bind("table[classes, d]", table.shape());
  CROSSTALK_CHECK(options.num_classes >= 0 && options.num_classes <= dims["classes"],
                  "linear_cross_entropy: num_classes = ", options.num_classes,
                  ", but table[classes, d] = ", table.shape());
  const int64_t num_classes = options.num_classes > 0 ? options.num_classes : dims["classes"];
  CROSSTALK_CHECK(hidden.dtype() == ResultDType(table.dtype()), "linear_cross_entropy: hidden is ", hidden.dtype(),
                  ", table is ", table.dtype(), "; convert one");
  CROSSTALK_CHECK(dims["classes"] > 0, "linear_cross_entropy: table[classes, d] = ", table.shape(), " has no classes");
  std::vector<Variable> inputs = {hidden, table};
  if (bias.defined()) {
    CROSSTALK_CHECK(bias.shape() == Shape({num_classes}) && bias.dtype() == hidden.dtype(),
                    "linear_cross_entropy: bias is ", bias.dtype(), bias.shape(), ", but must be ", hidden.dtype(),
                    Shape({num_classes}), ", an element a class");
    inputs.push_back(bias);
  }
  const Targets checked = CheckTargets("linear_cross_entropy", targets, dims["rows"], num_classes, options);
  const kernels::CrossEntropyOptions kernel_options = KernelOptions(options);
  const Linear linear = {.hidden = math::Contiguous(hidden.value()),
                         .table = math::Contiguous(ReadByProducts(table.value())),
                         .bias = bias.defined() ? math::Contiguous(bias.value()) : Tensor(),
                         .targets = checked.classes,
                         .scale = scale,
                         .num_classes = num_classes};
  const LossRows rows(linear.rows(), hidden.dtype());
  CountMultiplications(SaturatingProduct(linear.rows(), linear.classes(), linear.d()));
  Tensor logits;
  DispatchFloat("linear_cross_entropy", hidden.dtype(),
                [&](auto zero) { logits = LinearForward<decltype(zero)>(linear, kernel_options, rows); });
  const Sums sums = SumRows(rows, options.z_loss);
  CrossEntropyResult result;
  result.nll_sum = sums.nll;
  result.count = checked.count;
  result.correct = sums.correct;
  result.loss = MakeOp("linear_cross_entropy", Tensor::Scalar(sums.loss, hidden.dtype()), inputs,
                       [linear, log_z = rows.log_z, logits, kernel_options](const Tensor& dy, Gradients& gradients) {
                         LinearGradients d;
                         if (gradients.Needs(0)) d.hidden = Tensor::Empty(linear.hidden.shape(), dy.dtype());
                         if (gradients.Needs(1)) d.table = Tensor::Empty(linear.table.shape(), dy.dtype());
                         if (linear.bias.defined() && gradients.Needs(2))
                           d.bias = Tensor::Zeros(linear.bias.shape(), dy.dtype());
                         if (d.table.defined() && linear.rows() == 0) d.table.Fill(0);
                         if (d.table.defined()) d.table.Slice(0, linear.classes(), d.table.size(0)).Fill(0);
                         DispatchFloat("linear_cross_entropy", dy.dtype(), [&](auto zero) {
                           using T = decltype(zero);
                           LinearBackward<T>(linear, kernel_options, log_z, logits, static_cast<T>(dy.Item()), d);
                         });
                         if (d.hidden.defined()) gradients.Add(0, d.hidden);
                         if (d.table.defined()) gradients.Add(1, d.table);
                         if (d.bias.defined()) gradients.Add(2, d.bias);
                       });
  return result;
}

}  // namespace crosstalk
