// Tensor: a value type over shared storage, with a shape and strides. Copying a Tensor shares its elements;
// Clone() copies them. No mathematics here: that is kernels/ and autograd/.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/storage.h"

#pragma GCC visibility push(default)
namespace crosstalk {

class Tensor {
 public:
  // Undefined: defined() is false, and nothing else may be asked of it.
  Tensor() = default;

  static Tensor Empty(const Shape& shape, DType dtype);  // uninitialised
  static Tensor Zeros(const Shape& shape, DType dtype);
  static Tensor Full(const Shape& shape, double value, DType dtype);
  // values.size() must be the number of elements.
  template <typename T>
  static Tensor FromValues(const Shape& shape, std::span<const T> values);
  template <typename T>
  static Tensor FromValues(const Shape& shape, const std::vector<T>& values) {
    return FromValues(shape, std::span<const T>(values));
  }
  static Tensor Scalar(double value, DType dtype) { return Full({}, value, dtype); }
  // The elements of a storage, from its beginning, with strides ≥ 0 under which all of them are in it, else a usage
  // error.
  static Tensor Over(std::shared_ptr<Storage> storage, const Shape& shape, const Strides& strides, DType dtype);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  int rank() const { return shape_.rank(); }
  int64_t size(int dim) const { return shape_.at(dim); }
  int64_t num_elements() const { return num_elements_; }
  DType dtype() const { return dtype_; }
  bool is_contiguous() const;
  bool SharesStorageWith(const Tensor& other) const { return storage_ == other.storage_; }
  // True if no other Tensor holds this storage, and no host: its elements may be overwritten in place.
  bool unique() const { return storage_.use_count() == 1 && !storage_->adopted(); }

  // The first element. Throws std::logic_error if T is not the dtype. Strided: see strides(). `data` of a contiguous
  // tensor is a plain row-major array.
  template <typename T>
  T* data() const {
    CROSSTALK_DCHECK(defined() && DTypeOf<T> == dtype_);
    return static_cast<T*>(raw_data());
  }
  void* raw_data() const { return static_cast<char*>(storage_->data()) + offset_ * SizeOf(dtype_); }

  // Views: they share elements.
  Tensor Transpose(int dim_a, int dim_b) const;
  Tensor Permute(const std::vector<int>& order) const;      // result dimension i is dimension order[i]
  Tensor Slice(int dim, int64_t begin, int64_t end) const;  // [begin, end), bounds checked
  Tensor Select(int dim, int64_t index) const;              // Slice of one, dimension dropped
  Tensor BroadcastTo(const Shape& shape) const;             // stride 0 where stretched
  // A view where the strides allow it, else a copy. One size may be -1: it is inferred.
  Tensor Reshape(const Shape& shape) const;

  Tensor Contiguous() const;     // itself if contiguous, else a copy
  Tensor Clone() const;          // always a contiguous copy
  Tensor To(DType dtype) const;  // converted copy; itself if the dtype is the same

  // Copies the elements of `source` (same shape and dtype, any strides) into this one's (any strides).
  void CopyFrom(const Tensor& source) const;
  void Fill(double value) const;

  // One element as a double; for tests and messages, not for loops.
  double At(std::initializer_list<int64_t> index) const;
  // The only element of a tensor of one.
  double Item() const;
  // All elements in row-major order.
  template <typename T>
  std::vector<T> ToVector() const;

 private:
  std::shared_ptr<Storage> storage_;
  int64_t offset_ = 0;  // in elements
  Shape shape_;
  Strides strides_;
  int64_t num_elements_ = 0;
  DType dtype_ = DType::kFloat32;
};

// "float32[2, 3] = {1, 2, 3, 4, …}", at most 8 elements shown.
std::string ToString(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace crosstalk
#pragma GCC visibility pop
