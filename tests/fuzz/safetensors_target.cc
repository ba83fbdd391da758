#include <optional>
#include <vector>

#include "crosstalk/runtime/safetensors.h"
#include "tests/fuzz/fuzz.h"

namespace crosstalk::fuzz {
namespace {

std::string WriteAndRead(MemoryFile& file, const TensorFile& tensors) {
  file.Write("");
  {
    FileWriter writer(file.path());
    WriteSafetensors(writer, tensors.tensors, tensors.metadata);
  }
  return file.Read();
}

}  // namespace

// What is read is written as a file that reads to the same; its tensors take at most twice the file's bytes (F16 and
// BF16 become float).
void FuzzSafetensors(std::string_view input) {
  static MemoryFile& file = *new MemoryFile;
  static MemoryFile& copy = *new MemoryFile;
  file.Write(input);
  std::optional<TensorFileHeader> header;
  if (!Accepts([&] { header = ReadSafetensorsHeader(file.path()); })) return;
  uint64_t at = 0;
  for (const TensorFileEntry& entry : header->entries) {
    Require(entry.begin == at && entry.end >= at, "tensors that do not tile the file");
    at = entry.end;
  }
  Require(header->data_begin + at == input.size(), "bytes that no tensor has");

  TensorFile tensors;
  if (!Accepts([&] { tensors = ReadSafetensors(file.path()); })) return;
  Require(tensors.tensors.size() == header->entries.size(), "a tensor is lost");
  uint64_t bytes = 0;
  for (const NamedTensor& named : tensors.tensors) bytes += BytesOf(named.tensor);
  Require(bytes <= 2 * input.size(), bytes, " bytes of tensors from ", input.size());
  for (const NamedTensor& named : tensors.tensors) {
    const std::string name[] = {named.name};
    const TensorFile one = ReadSafetensors(file.path(), name);
    Require(one.tensors.size() == 1 && one.tensors[0].tensor.shape() == named.tensor.shape(), "a tensor read alone");
    if (&named - tensors.tensors.data() >= 4) break;  // each reads the header again
  }

  const std::string written = WriteAndRead(copy, tensors);
  const TensorFile again = ReadSafetensors(copy.path());
  Require(tensors.metadata == again.metadata, "other metadata");
  RequireSameTensors(tensors.tensors, again.tensors);
  Require(WriteAndRead(copy, again) == written, "another file was written of the same tensors");
}

}  // namespace crosstalk::fuzz
