// NumPy's files of arrays: .npy, one array, and .npz, a zip archive of them by name; and the choice between these and
// safetensors.
#pragma once

#include <span>
#include <string>

#include "crosstalk/runtime/safetensors.h"

namespace crosstalk {

// Reads an .npy or an .npz, which its first bytes tell. The tensor of an .npy has the file's name without its end.
// Versions 1 to 3 of the format; arrays in C or Fortran order, little- or big-endian; f4, f8, i4, i8 and b1 (each byte
// 0 or 1) map to our dtypes, f2 is converted to float32, exactly. Members of an .npz are stored or deflated, and their
// checksums are checked. Error(kData) naming the file, the member and the reason for any other dtype (objects, which
// NumPy would unpickle, structures, strings, complex and unsigned numbers), a header that is not of the format, an
// array that is shorter or longer than its shape says, rank > 8, and what runtime/packed.h refuses.
TensorFile ReadNumpy(const std::string& path);

// Writes the file atomically, as NumPy reads it, its bytes a function of the arguments: version 1, C order,
// little-endian; the members of an .npz stored, in the order of their names. An .npy where the path ends so:
// Error(kUsage) unless there is one tensor. Error(kUsage) also for a name twice, and for bfloat16, which NumPy has not.
void WriteNumpy(const std::string& path, std::span<const NamedTensor> tensors);

// Tensors in any of the three forms: the first bytes tell which is read, the path's end which is written (.npy, .npz,
// else safetensors).
TensorFile ReadTensors(const std::string& path);
void WriteTensors(const std::string& path, std::span<const NamedTensor> tensors);

}  // namespace crosstalk
