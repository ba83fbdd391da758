// DLPack's structs, laid out as https://dmlc.github.io/dlpack publishes them: the ABI of version 1, and that of the
// unversioned form before it. In our own namespace, so that a host's <dlpack/dlpack.h> cannot clash with them.
#pragma once

#include <cstdint>

namespace crosstalk::c::dlpack {

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
