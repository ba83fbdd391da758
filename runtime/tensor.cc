#include "crosstalk/runtime/tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

// Calls row(offset_a, offset_b) for the start of each row (the last dimension) of two equally shaped strided arrays.
template <typename Row>
void ForEachRow(const Shape& shape, const Strides& a, const Strides& b, const Row& row) {
  const int outer = shape.rank() - 1;
  Shape index = shape;
  for (int i = 0; i < shape.rank(); ++i) index[i] = 0;
  int64_t offset_a = 0;
  int64_t offset_b = 0;
  while (true) {
    row(offset_a, offset_b);
    int dim = outer - 1;
    for (; dim >= 0; --dim) {
      offset_a += a[dim];
      offset_b += b[dim];
      if (++index[dim] < shape[dim]) break;
      offset_a -= a[dim] * shape[dim];
      offset_b -= b[dim] * shape[dim];
      index[dim] = 0;
    }
    if (dim < 0) return;
  }
}

// An element of a bfloat16 tensor, as a number.
class BFloat16 {
 public:
  BFloat16() = default;
  explicit BFloat16(double value) : bits_(Narrow(HalfFormat::kBFloat16, static_cast<float>(value))) {}
  operator float() const { return Widen(HalfFormat::kBFloat16, bits_); }

 private:
  uint16_t bits_ = 0;
};

// DispatchAny, with elements that are numbers.
template <typename F>
void DispatchNumbers(DType dtype, F&& f) {
  if (dtype == DType::kBFloat16) return f(BFloat16());
  DispatchAny(dtype, f);
}

template <typename To, typename From>
To Convert(From value) {
  if constexpr (std::is_same_v<To, uint8_t>) {
    return value != From(0) ? 1 : 0;
  } else {
    return static_cast<To>(value);
  }
}

// destination = source, element by element, with conversion. Both have `shape`. Nothing where only shapes count.
template <typename To, typename From>
void CopyStrided(const Shape& shape, To* destination, const Strides& to, const From* source, const Strides& from) {
  if (shape.NumElements() == 0 || CurrentContext().shapes_only) return;
  if (shape.rank() == 0) {
    *destination = Convert<To>(*source);
    return;
  }
  const int last = shape.rank() - 1;
  const int64_t count = shape[last];
  const int64_t step_to = to[last];
  const int64_t step_from = from[last];
  ForEachRow(shape, to, from, [&](int64_t offset_to, int64_t offset_from) {
    To* d = destination + offset_to;
    const From* s = source + offset_from;
    if constexpr (std::is_same_v<To, From>) {
      if (step_to == 1 && step_from == 1) {
        std::memcpy(d, s, count * sizeof(To));
        return;
      }
    }
    for (int64_t i = 0; i < count; ++i) d[i * step_to] = Convert<To>(s[i * step_from]);
  });
}

// The strides with which elements of shape `from` and strides `from_strides` appear, in the same order, as shape `to`
// (as many elements, at least one). False where no strides can do it. Runs of dimensions with equal products are
// matched, left to right: each run of `from` must be contiguous within itself.
bool ViewStrides(const Shape& from, const Strides& from_strides, const Shape& to, Strides* to_strides) {
  int old_begin = 0;
  int new_begin = 0;
  while (old_begin < from.rank() && new_begin < to.rank()) {
    if (from[old_begin] == 1) {  // a size of 1 says nothing about memory
      ++old_begin;
      continue;
    }
    int old_end = old_begin + 1;
    int new_end = new_begin + 1;
    int64_t old_product = from[old_begin];
    int64_t new_product = to[new_begin];
    int64_t stride = from_strides[old_begin];  // of the run's last dimension that is not 1
    while (old_product != new_product) {
      if (new_product < old_product) {
        new_product *= to[new_end++];
        continue;
      }
      if (from[old_end] != 1) {
        if (stride != from[old_end] * from_strides[old_end]) return false;
        stride = from_strides[old_end];
      }
      old_product *= from[old_end++];
    }
    for (int i = new_end - 1; i >= new_begin; --i) {
      (*to_strides)[i] = stride;
      stride *= to[i];
    }
    old_begin = old_end;
    new_begin = new_end;
  }
  for (; new_begin < to.rank(); ++new_begin) (*to_strides)[new_begin] = 1;  // what is left are sizes of 1
  return true;
}

Strides ZeroStrides(int rank) {
  Strides strides;
  for (int i = 0; i < rank; ++i) strides.Append(0);
  return strides;
}

}  // namespace

Tensor Tensor::Empty(const Shape& shape, DType dtype) {
  Tensor tensor;
  tensor.num_elements_ = shape.NumElements();
  tensor.storage_ = Storage::Allocate(static_cast<size_t>(tensor.num_elements_) * SizeOf(dtype));
  tensor.shape_ = shape;
  tensor.strides_ = ContiguousStrides(shape);
  tensor.dtype_ = dtype;
  return tensor;
}

Tensor Tensor::Zeros(const Shape& shape, DType dtype) {
  Tensor tensor = Empty(shape, dtype);
  constexpr int64_t kGrain = 1 << 16;  // bytes
  char* bytes = static_cast<char*>(tensor.raw_data());
  Launch([&] {
    ParallelForRange(BytesOf(tensor.num_elements_, dtype), kGrain,
                     [&](int64_t begin, int64_t end) { std::memset(bytes + begin, 0, end - begin); });
  });
  return tensor;
}

Tensor Tensor::Full(const Shape& shape, double value, DType dtype) {
  Tensor tensor = Empty(shape, dtype);
  tensor.Fill(value);
  return tensor;
}

Tensor Tensor::Over(std::shared_ptr<Storage> storage, const Shape& shape, const Strides& strides, DType dtype) {
  Tensor tensor;
  tensor.num_elements_ = shape.NumElements();
  const int64_t extent = ExtentOf(shape, strides);
  const auto room = static_cast<int64_t>(storage->bytes() / SizeOf(dtype));
  CROSSTALK_CHECK(extent <= room, "shape ", shape, " with strides ", strides, " reaches over ", extent,
                  " elements, of ", room);
  tensor.storage_ = std::move(storage);
  tensor.shape_ = shape;
  tensor.strides_ = strides;
  tensor.dtype_ = dtype;
  return tensor;
}

template <typename T>
Tensor Tensor::FromValues(const Shape& shape, std::span<const T> values) {
  CROSSTALK_CHECK(static_cast<int64_t>(values.size()) == shape.NumElements(), "a tensor of shape ", shape, " needs ",
                  shape.NumElements(), " values, got ", values.size());
  Tensor tensor = Empty(shape, DTypeOf<T>);
  if (!values.empty()) std::memcpy(tensor.raw_data(), values.data(), values.size_bytes());
  return tensor;
}
template Tensor Tensor::FromValues(const Shape&, std::span<const float>);
template Tensor Tensor::FromValues(const Shape&, std::span<const double>);
template Tensor Tensor::FromValues(const Shape&, std::span<const int32_t>);
template Tensor Tensor::FromValues(const Shape&, std::span<const int64_t>);
template Tensor Tensor::FromValues(const Shape&, std::span<const uint8_t>);

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] != 1 && strides_[i] != expected) return num_elements_ == 0;
    expected *= shape_[i];
  }
  return true;
}

Tensor Tensor::Transpose(int dim_a, int dim_b) const {
  shape_.at(dim_a);  // bounds
  shape_.at(dim_b);
  Tensor view = *this;
  const int a = dim_a < 0 ? dim_a + rank() : dim_a;
  const int b = dim_b < 0 ? dim_b + rank() : dim_b;
  std::swap(view.shape_[a], view.shape_[b]);
  std::swap(view.strides_[a], view.strides_[b]);
  return view;
}

Tensor Tensor::Permute(const std::vector<int>& order) const {
  CROSSTALK_CHECK(static_cast<int>(order.size()) == rank(), "Permute: ", order.size(), " indices for shape ", shape_);
  Tensor view = *this;
  unsigned seen = 0;
  for (int i = 0; i < rank(); ++i) {
    const int from = order[i] < 0 ? order[i] + rank() : order[i];
    CROSSTALK_CHECK(0 <= from && from < rank() && !(seen >> from & 1), "Permute: index ", order[i],
                    " is out of range or repeated for shape ", shape_);
    seen |= 1u << from;
    view.shape_[i] = shape_[from];
    view.strides_[i] = strides_[from];
  }
  return view;
}

Tensor Tensor::Slice(int dim, int64_t begin, int64_t end) const {
  const int64_t size = shape_.at(dim);
  CROSSTALK_CHECK(0 <= begin && begin <= end && end <= size, "Slice: [", begin, ", ", end, ") of dimension ", dim,
                  " is outside of shape ", shape_);
  const int d = dim < 0 ? dim + rank() : dim;
  Tensor view = *this;
  view.shape_[d] = end - begin;
  view.offset_ += begin * strides_[d];
  view.num_elements_ = view.shape_.NumElements();
  return view;
}

Tensor Tensor::Select(int dim, int64_t index) const {
  const Tensor slice = Slice(dim, index, index + 1);
  const int d = dim < 0 ? dim + rank() : dim;
  Tensor view = slice;
  view.shape_ = Shape();
  view.strides_ = Strides();
  for (int i = 0; i < rank(); ++i) {
    if (i == d) continue;
    view.shape_.Append(slice.shape_[i]);
    view.strides_.Append(slice.strides_[i]);
  }
  return view;
}

Tensor Tensor::BroadcastTo(const Shape& shape) const {
  CROSSTALK_CHECK(shape.rank() >= rank() && BroadcastShapes("BroadcastTo", shape_, shape) == shape,
                  "BroadcastTo: shape ", shape_, " does not stretch to ", shape);
  Tensor view = *this;
  view.shape_ = shape;
  view.strides_ = shape;
  const int added = shape.rank() - rank();
  for (int i = 0; i < shape.rank(); ++i) {
    const bool stretched = i < added || shape_[i - added] != shape[i];
    view.strides_[i] = stretched ? 0 : strides_[i - added];
  }
  view.num_elements_ = shape.NumElements();
  return view;
}

Tensor Tensor::Reshape(const Shape& requested) const {
  Shape shape = requested;
  int inferred = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1) {
      CROSSTALK_CHECK(inferred < 0, "Reshape: more than one -1 in ", requested);
      inferred = i;
      shape[i] = 1;
    } else {
      CROSSTALK_CHECK(shape[i] >= 0, "Reshape: negative size in ", requested);
    }
  }
  if (inferred >= 0) {
    const int64_t known = shape.NumElements();
    CROSSTALK_CHECK(known > 0 && num_elements_ % known == 0, "Reshape: ", shape_, " does not fit ", requested);
    shape[inferred] = num_elements_ / known;
  }
  CROSSTALK_CHECK(shape.NumElements() == num_elements_, "Reshape: ", shape_, " has ", num_elements_,
                  " elements, which do not fit ", requested);
  if (is_contiguous()) {
    Tensor view = *this;
    view.shape_ = shape;
    view.strides_ = ContiguousStrides(shape);
    return view;
  }
  Tensor view = *this;
  view.shape_ = shape;
  view.strides_ = shape;
  return ViewStrides(shape_, strides_, shape, &view.strides_) ? view : Contiguous().Reshape(shape);
}

Tensor Tensor::Contiguous() const { return is_contiguous() ? *this : Clone(); }

Tensor Tensor::Clone() const {
  Tensor copy = Empty(shape_, dtype_);
  copy.CopyFrom(*this);
  return copy;
}

Tensor Tensor::To(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor result = Empty(shape_, dtype);
  DispatchNumbers(dtype, [&](auto to) {
    DispatchNumbers(dtype_, [&](auto from) {
      CopyStrided(shape_, static_cast<decltype(to)*>(result.raw_data()), result.strides_,
                  static_cast<const decltype(from)*>(raw_data()), strides_);
    });
  });
  return result;
}

void Tensor::CopyFrom(const Tensor& source) const {
  CROSSTALK_CHECK(source.shape_ == shape_ && source.dtype_ == dtype_, "CopyFrom: ", source.dtype_, source.shape_,
                  " into ", dtype_, shape_);
  DispatchAny(dtype_, [&](auto zero) {
    using T = decltype(zero);
    CopyStrided(shape_, static_cast<T*>(raw_data()), strides_, static_cast<const T*>(source.raw_data()),
                source.strides_);
  });
}

void Tensor::Fill(double value) const {
  DispatchNumbers(dtype_, [&](auto zero) {
    using T = decltype(zero);
    const T element = Convert<T>(value);
    CopyStrided(shape_, static_cast<T*>(raw_data()), strides_, &element, ZeroStrides(rank()));
  });
}

double Tensor::At(std::initializer_list<int64_t> index) const {
  CROSSTALK_CHECK(static_cast<int>(index.size()) == rank(), "At: ", index.size(), " indices for shape ", shape_);
  int64_t offset = 0;
  int dim = 0;
  for (int64_t i : index) {
    CROSSTALK_CHECK(0 <= i && i < shape_[dim], "At: index ", i, " in dimension ", dim, " of shape ", shape_);
    offset += i * strides_[dim++];
  }
  double value = 0;
  DispatchNumbers(dtype_, [&](auto zero) {
    using T = decltype(zero);
    value = static_cast<double>(static_cast<const T*>(raw_data())[offset]);
  });
  return value;
}

double Tensor::Item() const {
  CROSSTALK_CHECK(num_elements_ == 1, "Item: the tensor has shape ", shape_, ", not one element");
  double value = 0;
  DispatchNumbers(dtype_, [&](auto zero) {
    using T = decltype(zero);
    value = static_cast<double>(*static_cast<const T*>(raw_data()));
  });
  return value;
}

template <typename T>
std::vector<T> Tensor::ToVector() const {
  const Tensor plain = Contiguous();
  const T* begin = plain.data<T>();
  return std::vector<T>(begin, begin + num_elements_);
}
template std::vector<float> Tensor::ToVector() const;
template std::vector<double> Tensor::ToVector() const;
template std::vector<int32_t> Tensor::ToVector() const;
template std::vector<int64_t> Tensor::ToVector() const;
template std::vector<uint8_t> Tensor::ToVector() const;

std::string ToString(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined tensor";
  std::string text = StrCat(tensor.dtype(), tensor.shape(), " = {");
  const Tensor plain = tensor.To(DType::kFloat64).Contiguous();
  constexpr int64_t kShown = 8;
  for (int64_t i = 0; i < std::min(kShown, plain.num_elements()); ++i) {
    text += StrCat(i > 0 ? ", " : "", plain.data<double>()[i]);
  }
  return text + (plain.num_elements() > kShown ? ", …}" : "}");
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << ToString(tensor); }

}  // namespace crosstalk
