#include "crosstalk/models/bindings/c/tensors.h"

#include <functional>
#include <memory>

#include "crosstalk/models/bindings/c/handles.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk::c {
namespace {

static_assert(static_cast<int>(DType::kFloat32) == CT_FLOAT32 && static_cast<int>(DType::kFloat64) == CT_FLOAT64 &&
              static_cast<int>(DType::kInt32) == CT_INT32 && static_cast<int>(DType::kInt64) == CT_INT64 &&
              static_cast<int>(DType::kBool) == CT_BOOL && static_cast<int>(DType::kBFloat16) == CT_BFLOAT16);

constexpr int64_t kMostBytes = int64_t{1} << 56;  // of which a process has addresses

DType DTypeOfArray(const ct_array& array) {
  CROSSTALK_CHECK(array.dtype >= CT_FLOAT32 && array.dtype <= CT_BOOL, "dtype: ", array.dtype,
                  " is none of CT_FLOAT32 to CT_BOOL");
  return static_cast<DType>(array.dtype);
}

Shape ShapeOfArray(const ct_array& array) {
  CROSSTALK_CHECK(array.rank >= 0 && array.rank <= kMaxRank, "rank: ", array.rank, " is not 0 to ", kMaxRank);
  CROSSTALK_CHECK(array.rank == 0 || array.shape != nullptr, "shape is NULL");
  Shape shape;
  for (int i = 0; i < array.rank; ++i) shape.Append(array.shape[i]);
  shape.NumElements();  // throws if there is none
  return shape;
}

}  // namespace

TensorsObject::TensorsObject(const std::vector<NamedTensor>& named) : Object(kKind) {
  for (const NamedTensor& one : named) entries.push_back({one.name, std::make_shared<TensorObject>(one.tensor)});
}

const TensorsObject::Entry* TensorsObject::Find(std::string_view name) const {
  for (const Entry& entry : entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

void AdoptArray(const ct_array& array, std::function<void()> release, ct_tensor** to) {
  const DType dtype = DTypeOfArray(array);
  const Shape shape = ShapeOfArray(array);
  Strides strides = ContiguousStrides(shape);
  if (array.strides != nullptr) {
    for (int i = 0; i < array.rank; ++i) strides[i] = array.strides[i];
  }
  const int64_t elements = ExtentOf(shape, strides);
  const int64_t bytes = SaturatingProduct(elements, static_cast<int64_t>(SizeOf(dtype)));
  CROSSTALK_CHECK(bytes <= kMostBytes, "shape ", shape, " with strides ", strides, " is more than any memory");
  CROSSTALK_CHECK(elements == 0 || array.data != nullptr, "data is NULL, of a tensor of shape ", shape);
  CROSSTALK_CHECK(reinterpret_cast<uintptr_t>(array.data) % SizeOf(dtype) == 0, "data is not aligned to an element of ",
                  dtype);
  const auto given_out = std::make_shared<bool>(false);
  const auto storage = Storage::Adopt(array.data, static_cast<size_t>(bytes), [given_out, release] {
    if (*given_out && release) release();
  });
  GiveHandle(std::make_shared<TensorObject>(Tensor::Over(storage, shape, strides, dtype),
                                            array.read_only != 0 ? Writable::kNo : Writable::kYes),
             to);
  *given_out = true;
}

std::vector<NamedTensor> TensorsOf(const ct_tensors* tensors, const char* argument) {
  std::vector<NamedTensor> named;
  if (tensors == nullptr) return named;
  const auto list = Find<TensorsObject>(tensors, argument);
  const Use use(*list, Access::kShared);
  for (const TensorsObject::Entry& entry : list->entries) named.push_back({entry.name, entry.tensor->tensor});
  return named;
}

}  // namespace crosstalk::c

using crosstalk::c::Access;
using crosstalk::c::Call;
using crosstalk::c::CheckGiven;
using crosstalk::c::Find;
using crosstalk::c::GiveHandle;
using crosstalk::c::TensorObject;
using crosstalk::c::TensorsObject;
using crosstalk::c::Use;

extern "C" {

ct_status ct_tensor_create(const ct_array* array, ct_tensor** tensor) {
  return Call([&] {
    CheckGiven(array, "array");
    CheckGiven(tensor, "tensor");
    GiveHandle(std::make_shared<TensorObject>(
                   crosstalk::Tensor::Zeros(crosstalk::c::ShapeOfArray(*array), crosstalk::c::DTypeOfArray(*array))),
               tensor);
  });
}

ct_status ct_tensor_wrap(const ct_array* array, void (*release)(void* context), void* context, ct_tensor** tensor) {
  return Call([&] {
    CheckGiven(array, "array");
    CheckGiven(tensor, "tensor");
    std::function<void()> give_back;
    if (release != nullptr) give_back = [release, context] { release(context); };
    crosstalk::c::AdoptArray(*array, give_back, tensor);
  });
}

ct_status ct_tensor_array(const ct_tensor* tensor, ct_array* array) {
  return Call([&] {
    CheckGiven(array, "array");
    const auto object = Find<TensorObject>(tensor, "tensor");
    const crosstalk::Tensor& elements = object->tensor;
    *array = {.data = elements.raw_data(),
              .dtype = static_cast<ct_dtype>(elements.dtype()),
              .rank = elements.rank(),
              .shape = elements.shape().begin(),
              .strides = elements.strides().begin(),
              .read_only = object->writable == crosstalk::c::Writable::kNo};
  });
}

ct_status ct_tensors_create(ct_tensors** tensors) {
  return Call([&] {
    CheckGiven(tensors, "tensors");
    GiveHandle(std::make_shared<TensorsObject>(), tensors);
  });
}

ct_status ct_tensors_add(ct_tensors* tensors, const char* name, const ct_tensor* tensor) {
  return Call([&] {
    CheckGiven(name, "name");
    const auto added = Find<TensorObject>(tensor, "tensor");
    const auto list = Find<TensorsObject>(tensors, "tensors");
    const Use use(*list, Access::kAlone);
    CROSSTALK_CHECK(list->Find(name) == nullptr, "there is a tensor ", crosstalk::Excerpt(name), " already");
    list->entries.push_back({name, added});
  });
}

ct_status ct_tensors_size(const ct_tensors* tensors, size_t* size) {
  return Call([&] {
    CheckGiven(size, "size");
    const auto list = Find<TensorsObject>(tensors, "tensors");
    const Use use(*list, Access::kShared);
    *size = list->entries.size();
  });
}

ct_status ct_tensors_at(const ct_tensors* tensors, size_t index, const char** name, ct_tensor** tensor) {
  return Call([&] {
    const auto list = Find<TensorsObject>(tensors, "tensors");
    const Use use(*list, Access::kShared);
    CROSSTALK_CHECK(index < list->entries.size(), "index ", index, ": there are ", list->entries.size(), " tensors");
    const TensorsObject::Entry& entry = list->entries[index];
    std::string text = entry.name;
    if (tensor != nullptr) GiveHandle(entry.tensor, tensor);
    if (name != nullptr) crosstalk::c::GiveText(std::move(text), name);
  });
}

ct_status ct_tensors_find(const ct_tensors* tensors, const char* name, ct_tensor** tensor) {
  return Call([&] {
    CheckGiven(name, "name");
    CheckGiven(tensor, "tensor");
    const auto list = Find<TensorsObject>(tensors, "tensors");
    const Use use(*list, Access::kShared);
    const TensorsObject::Entry* const entry = list->Find(name);
    if (entry == nullptr) {
      std::vector<std::string> names;
      for (const TensorsObject::Entry& one : list->entries) names.push_back(one.name);
      crosstalk::Fail(crosstalk::ErrorKind::kUsage, "there is no tensor ", crosstalk::Excerpt(name), "; there are ",
                      crosstalk::Excerpt(crosstalk::Join(names, ", ")));
    }
    GiveHandle(entry->tensor, tensor);
  });
}

}  // extern "C"

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
  constexpr const char* kCodes[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  const std::string name = type.code < std::size(kCodes) ? kCodes[type.code] : StrCat("code ", int{type.code}, " of ");
  Fail(ErrorKind::kUsage, "DLPack: elements are ", name, int{type.bits}, type.lanes == 1 ? "" : " in lanes",
       "; there are float32, float64, int32, int64 and bool: convert them first");
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
