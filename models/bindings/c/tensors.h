// The objects of the handles of tensors and lists.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/bindings/c/crosstalk.h"
#include "crosstalk/models/bindings/c/handles.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk::c {

enum class Writable { kNo, kYes };

class TensorObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kTensor;
  explicit TensorObject(Tensor elements, Writable may_write = Writable::kYes)
      : Object(kKind), tensor(std::move(elements)), writable(may_write) {}

  const Tensor tensor;
  const Writable writable;
};

class TensorsObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kTensors;
  TensorsObject() : Object(kKind) {}
  explicit TensorsObject(const std::vector<NamedTensor>& named);

  struct Entry {
    std::string name;
    std::shared_ptr<TensorObject> tensor;
  };
  const Entry* Find(std::string_view name) const;

  std::vector<Entry> entries;
};

// The host's memory as a tensor, or a usage error that says what of it cannot be. `release` is called once: when
// nothing refers to the memory any more, but not if this, or giving out its handle, fails.
void AdoptArray(const ct_array& array, std::function<void()> release, ct_tensor** to);

// The tensors of a list, which the call uses for itself. Null is an empty list.
std::vector<NamedTensor> TensorsOf(const ct_tensors* tensors, const char* argument);

}  // namespace crosstalk::c

namespace crosstalk::c::dlpack {

// DLPack's structs, laid out as https://dmlc.github.io/dlpack publishes them: the ABI of version 1, and that of the
// unversioned form before it. In our own namespace, so that a host's <dlpack/dlpack.h> cannot clash with them.

inline constexpr int32_t kCpu = 1;  // DLDevice::device_type
enum TypeCode : uint8_t { kInt = 0, kFloat = 2, kBfloat = 4, kBool = 6 };
inline constexpr uint64_t kReadOnly = 1;  // DLManagedTensorVersioned::flags
inline constexpr uint32_t kMajor = 1;     // of the version: another has another layout

struct Device {
  int32_t device_type;
  int32_t device_id;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Array {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major without gaps
  uint64_t byte_offset;
};

struct Unversioned {
  Array array;
  void* manager_ctx;
  void (*deleter)(Unversioned* self);  // may be null
};

struct Versioned {
  struct {
    uint32_t major;
    uint32_t minor;
  } version;
  void* manager_ctx;
  void (*deleter)(Versioned* self);  // may be null
  uint64_t flags;
  Array array;
};

}  // namespace crosstalk::c::dlpack
