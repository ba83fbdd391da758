#include "crosstalk/autograd/ops_loss.h"

#include <algorithm>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/cross_entropy.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/shapes_only.h"

namespace crosstalk {
namespace {

// What the kernels call a row that does not count. Class numbers are never negative.
constexpr int32_t kIgnored = -1;

struct Targets {
  Tensor classes;  // int32[rows], kIgnored where a row does not count
  int64_t count = 0;
};

Targets CheckTargets(const char* name, const Tensor& targets, int64_t rows, int64_t classes, int64_t ignore_index) {
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
      const bool ignored = target == ignore_index;
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

struct Sums {
  double nll = 0;
  double loss = 0;
};

// In row order, in double: the same bits however the rows were computed.
Sums SumRows(const Tensor& nll, const Tensor& log_z, double z_loss) {
  Sums sums;
  Launch("cross_entropy", nll.dtype(), [&](auto zero) {
    using T = decltype(zero);
    double squares = 0;
    for (int64_t i = 0; i < nll.num_elements(); ++i) {
      const double z = log_z.data<T>()[i];
      sums.nll += nll.data<T>()[i];
      squares += z * z;
    }
    sums.loss = sums.nll + z_loss * squares;
  });
  return sums;
}

// Rows of logits that exist at a time: about 32 MB of float.
int64_t ChunkRows(int64_t classes) {
  constexpr int64_t kChunkElements = int64_t{8} << 20;
  const int64_t rows = kChunkElements / std::max<int64_t>(classes, 1) / 64 * 64;
  return std::max<int64_t>(rows, 64);
}

// logits[count, classes] = scale · hidden[count, d] · table[classes, d]ᵀ.
template <typename T>
void ChunkLogits(int64_t count, int64_t classes, int64_t d, T scale, const T* hidden, const T* table, T* logits) {
  kernels::GemmArguments<T> gemm;
  gemm.transpose_b = kernels::Transpose::kYes;
  gemm.m = count, gemm.n = classes, gemm.k = d;
  gemm.alpha = scale;
  gemm.a = hidden, gemm.lda = d;
  gemm.b = table, gemm.ldb = d;
  gemm.c = logits, gemm.ldc = classes;
  kernels::Gemm<T>(gemm);
}

// The tensors of a LinearCrossEntropy, contiguous.
struct Linear {
  Tensor hidden;  // [rows, d]
  Tensor table;   // [at least num_classes, d]
  Tensor targets;
  double scale = 1;
  int64_t num_classes = 0;
  int64_t rows() const { return hidden.size(0); }
  int64_t classes() const { return num_classes; }
  int64_t d() const { return hidden.size(1); }
};

template <typename T>
void LinearForward(const Linear& linear, const kernels::CrossEntropyOptions& options, const Tensor& nll,
                   const Tensor& log_z) {
  const int64_t chunk = ChunkRows(linear.classes());
  const Tensor logits = Tensor::Empty({std::min(chunk, linear.rows()), linear.classes()}, DTypeOf<T>);
  for (int64_t begin = 0; begin < linear.rows(); begin += chunk) {
    const int64_t count = std::min(chunk, linear.rows() - begin);
    ChunkLogits<T>(count, linear.classes(), linear.d(), static_cast<T>(linear.scale),
                   linear.hidden.data<T>() + begin * linear.d(), linear.table.data<T>(), logits.data<T>());
    Launch([&] {
      kernels::CrossEntropy<T>(count, linear.classes(), logits.data<T>(), linear.targets.data<int32_t>() + begin,
                               options, nll.data<T>() + begin, log_z.data<T>() + begin);
    });
  }
}

// dhidden, dtable: undefined where not needed.
template <typename T>
void LinearBackward(const Linear& linear, const kernels::CrossEntropyOptions& options, const Tensor& log_z, T dloss,
                    const Tensor& dhidden, const Tensor& dtable) {
  const int64_t chunk = ChunkRows(linear.classes());
  const Tensor logits = Tensor::Empty({std::min(chunk, linear.rows()), linear.classes()}, DTypeOf<T>);
  T* const dlogits = logits.data<T>();
  for (int64_t begin = 0; begin < linear.rows(); begin += chunk) {
    const int64_t count = std::min(chunk, linear.rows() - begin);
    const T* const hidden = linear.hidden.data<T>() + begin * linear.d();
    ChunkLogits<T>(count, linear.classes(), linear.d(), static_cast<T>(linear.scale), hidden, linear.table.data<T>(),
                   logits.data<T>());
    Launch([&] {
      kernels::CrossEntropyGradient<T>(count, linear.classes(), logits.data<T>(),
                                       linear.targets.data<int32_t>() + begin, log_z.data<T>() + begin, options, dloss,
                                       nullptr, dlogits);
    });
    kernels::GemmArguments<T> gemm;
    gemm.alpha = static_cast<T>(linear.scale);
    gemm.a = dlogits, gemm.lda = linear.classes();
    gemm.n = linear.d();
    if (dhidden.defined()) {  // dH = scale · dlogits · table
      gemm.m = count, gemm.k = linear.classes();
      gemm.b = linear.table.data<T>(), gemm.ldb = linear.d();
      gemm.c = dhidden.data<T>() + begin * linear.d(), gemm.ldc = linear.d();
      kernels::Gemm<T>(gemm);
    }
    if (dtable.defined()) {  // dtable += scale · dlogitsᵀ · H
      gemm.transpose_a = kernels::Transpose::kYes;
      gemm.m = linear.classes(), gemm.k = count;
      gemm.b = hidden, gemm.ldb = linear.d();
      gemm.beta = begin == 0 ? T{0} : T{1};
      gemm.c = dtable.data<T>(), gemm.ldc = linear.d();
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
  const Targets checked = CheckTargets("cross_entropy", targets, rows, classes, options.ignore_index);
  const kernels::CrossEntropyOptions kernel_options = KernelOptions(options);
  const Tensor values = math::Contiguous(logits.value());
  const Tensor nll = Tensor::Empty({rows}, logits.dtype());
  const Tensor log_z = Tensor::Empty({rows}, logits.dtype());
  Launch("cross_entropy", logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::CrossEntropy<T>(rows, classes, values.data<T>(), checked.classes.data<int32_t>(), kernel_options,
                             nll.data<T>(), log_z.data<T>());
  });
  const Sums sums = SumRows(nll, log_z, options.z_loss);
  CrossEntropyResult result;
  result.nll_sum = sums.nll;
  result.count = checked.count;
  result.loss = MakeOp(
      "cross_entropy", Tensor::Scalar(sums.loss, logits.dtype()), {logits},
      [values, log_z, classes_of_rows = checked.classes, kernel_options](const Tensor& dy, Gradients& gradients) {
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
                                      double scale, const CrossEntropyOptions& options) {
  Dims dims("linear_cross_entropy");
  dims.Bind("hidden[rows, d]", hidden.shape()).Bind("table[classes, d]", table.shape());
  CROSSTALK_CHECK(options.num_classes >= 0 && options.num_classes <= dims["classes"],
                  "linear_cross_entropy: num_classes = ", options.num_classes,
                  ", but table[classes, d] = ", table.shape());
  const int64_t num_classes = options.num_classes > 0 ? options.num_classes : dims["classes"];
  CROSSTALK_CHECK(hidden.dtype() == table.dtype(), "linear_cross_entropy: hidden is ", hidden.dtype(), ", table is ",
                  table.dtype(), "; convert one");
  CROSSTALK_CHECK(dims["classes"] > 0, "linear_cross_entropy: table[classes, d] = ", table.shape(), " has no classes");
  const Targets checked =
      CheckTargets("linear_cross_entropy", targets, dims["rows"], num_classes, options.ignore_index);
  const kernels::CrossEntropyOptions kernel_options = KernelOptions(options);
  const Linear linear = {math::Contiguous(hidden.value()), math::Contiguous(table.value()), checked.classes, scale,
                         num_classes};
  const Tensor nll = Tensor::Empty({linear.rows()}, hidden.dtype());
  const Tensor log_z = Tensor::Empty({linear.rows()}, hidden.dtype());
  CountMultiplications(SaturatingProduct(linear.rows(), linear.classes(), linear.d()));
  DispatchFloat("linear_cross_entropy", hidden.dtype(),
                [&](auto zero) { LinearForward<decltype(zero)>(linear, kernel_options, nll, log_z); });
  const Sums sums = SumRows(nll, log_z, options.z_loss);
  CrossEntropyResult result;
  result.nll_sum = sums.nll;
  result.count = checked.count;
  result.loss =
      MakeOp("linear_cross_entropy", Tensor::Scalar(sums.loss, hidden.dtype()), {hidden, table},
             [linear, log_z, kernel_options](const Tensor& dy, Gradients& gradients) {
               const Tensor dhidden = gradients.Needs(0) ? Tensor::Empty(linear.hidden.shape(), dy.dtype()) : Tensor();
               const Tensor dtable = gradients.Needs(1) ? Tensor::Empty(linear.table.shape(), dy.dtype()) : Tensor();
               if (dtable.defined() && linear.rows() == 0) dtable.Fill(0);
               if (dtable.defined()) dtable.Slice(0, linear.classes(), dtable.size(0)).Fill(0);
               DispatchFloat("linear_cross_entropy", dy.dtype(), [&](auto zero) {
                 using T = decltype(zero);
                 LinearBackward<T>(linear, kernel_options, log_z, static_cast<T>(dy.Item()), dhidden, dtable);
               });
               if (dhidden.defined()) gradients.Add(0, dhidden);
               if (dtable.defined()) gradients.Add(1, dtable);
             });
  return result;
}

}  // namespace crosstalk
