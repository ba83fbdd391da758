#include "crosstalk/models/bindings/c/dlpack.h"

#include <functional>
#include <memory>

#include "crosstalk/models/bindings/c/call.h"
#include "crosstalk/models/bindings/c/tensors.h"

namespace crosstalk::c {
namespace {

ct_dtype DTypeFrom(const dlpack::DataType& type) {
  if (type.lanes == 1) {
    if (type.code == dlpack::kFloat && type.bits == 32) return CT_FLOAT32;
    if (type.code == dlpack::kFloat && type.bits == 64) return CT_FLOAT64;
    if (type.code == dlpack::kInt && type.bits == 32) return CT_INT32;
    if (type.code == dlpack::kInt && type.bits == 64) return CT_INT64;
    if (type.code == dlpack::kBool && type.bits == 8) return CT_BOOL;
  }
  Fail(ErrorKind::kUsage, "DLPack: elements of type code ", int{type.code}, ", ", int{type.bits}, " bits and ",
       type.lanes, " lanes; there are float32, float64, int32, int64 and bool");
}

dlpack::DataType TypeOf(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * SizeOf(dtype));
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
      return {dlpack::kFloat, bits, 1};
    case DType::kInt32:
    case DType::kInt64:
      return {dlpack::kInt, bits, 1};
    case DType::kBool:
      return {dlpack::kBool, bits, 1};
    case DType::kBFloat16:
      return {dlpack::kBfloat, bits, 1};
  }
  return {};
}

enum class Memory { kWritable, kReadOnly };

void Take(const dlpack::Array& array, Memory memory, std::function<void()> release, ct_tensor** tensor) {
  CROSSTALK_CHECK(array.device.device_type == dlpack::kCpu, "DLPack: device type ", array.device.device_type,
                  " is not a CPU (", dlpack::kCpu, "); copy the tensor to one first");
  AdoptArray({.data = static_cast<char*>(array.data) + array.byte_offset,
              .dtype = DTypeFrom(array.dtype),
              .rank = array.ndim,
              .shape = array.shape,
              .strides = array.strides,
              .read_only = memory == Memory::kReadOnly},
             std::move(release), tensor);
}

template <typename Managed>
std::function<void()> Deleter(Managed* managed) {
  return [managed] {
    if (managed->deleter != nullptr) managed->deleter(managed);
  };
}

// A struct given out, with what it points to. Its deleter deletes it.
template <typename Managed>
struct GivenOut : Managed {
  explicit GivenOut(const TensorObject& object)
      : tensor(object.tensor), shape(tensor.shape()), strides(tensor.strides()) {
    this->manager_ctx = this;
    this->deleter = [](Managed* self) { delete static_cast<GivenOut*>(self->manager_ctx); };
    this->array = {.data = tensor.raw_data(),
                   .device = {dlpack::kCpu, 0},
                   .ndim = tensor.rank(),
                   .dtype = TypeOf(tensor.dtype()),
                   .shape = &shape[0],
                   .strides = &strides[0],
                   .byte_offset = 0};
  }
  const Tensor tensor;
  Shape shape;
  Strides strides;
};

}  // namespace
}  // namespace crosstalk::c

extern "C" {

ct_status ct_tensor_from_dlpack(void* managed, ct_dlpack form, ct_tensor** tensor) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(managed, "managed");
    CheckGiven(tensor, "tensor");
    if (form == CT_DLPACK_VERSIONED) {
      auto* const versioned = static_cast<dlpack::Versioned*>(managed);
      CROSSTALK_CHECK(versioned->version.major == dlpack::kMajor, "DLPack of version ", versioned->version.major, ".",
                      versioned->version.minor, "; ", dlpack::kMajor, ".x is read here");
      const Memory memory = (versioned->flags & dlpack::kReadOnly) != 0 ? Memory::kReadOnly : Memory::kWritable;
      Take(versioned->array, memory, Deleter(versioned), tensor);
    } else {
      CROSSTALK_CHECK(form == CT_DLPACK_UNVERSIONED, "form: ", form, " is none of ct_dlpack");
      auto* const unversioned = static_cast<dlpack::Unversioned*>(managed);
      Take(unversioned->array, Memory::kWritable, Deleter(unversioned), tensor);
    }
  });
}

ct_status ct_tensor_to_dlpack(const ct_tensor* tensor, ct_dlpack form, void** managed) {
  using namespace crosstalk::c;
  return Call([&] {
    CheckGiven(managed, "managed");
    const auto object = Find<TensorObject>(tensor, "tensor");
    const bool read_only = object->writable == Writable::kNo;
    if (form == CT_DLPACK_VERSIONED) {
      auto versioned = std::make_unique<GivenOut<dlpack::Versioned>>(*object);
      versioned->version = {dlpack::kMajor, 0};
      versioned->flags = read_only ? dlpack::kReadOnly : 0;
      *managed = static_cast<dlpack::Versioned*>(versioned.release());
    } else {
      CROSSTALK_CHECK(form == CT_DLPACK_UNVERSIONED, "form: ", form, " is none of ct_dlpack");
      CROSSTALK_CHECK(!read_only, "the tensor is read-only, which DLPack's unversioned form cannot say");
      *managed = static_cast<dlpack::Unversioned*>(std::make_unique<GivenOut<dlpack::Unversioned>>(*object).release());
    }
  });
}

}  // extern "C"
