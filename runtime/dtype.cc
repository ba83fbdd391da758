#include "crosstalk/runtime/dtype.h"

#include "crosstalk/runtime/check.h"

namespace crosstalk {

size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kBool:
      return 1;
    case DType::kBFloat16:
      return 2;
  }
  CROSSTALK_DCHECK(false);
  return 0;
}

const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kBool:
      return "bool";
    case DType::kBFloat16:
      return "bfloat16";
  }
  return "?";
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << Name(dtype); }

void FailNotFloating(const char* op, DType dtype) {
  Fail(ErrorKind::kUsage, op, ": needs float32 or float64, got ", dtype);
}

}  // namespace crosstalk
