#include <optional>
#include <vector>

#include "crosstalk/runtime/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::fuzz {
namespace {

std::string WriteAndRead(const std::string& path, const TensorFile& tensors) {
  WriteSafetensors(path, tensors.tensors, tensors.metadata);
  return ReadFile(path);
}

}  // namespace

// What is read is written as a file that reads to the same; its tensors take at most twice the file's bytes (F16 and
// BF16 become float).
void FuzzSafetensors(std::string_view input) {
  static const TempDir directory;
  const std::string file = directory.Put("file", input), copy = directory / "copy";
  std::optional<TensorFileHeader> header;
  if (!Accepts([&] { header = ReadSafetensorsHeader(file); })) return;
  uint64_t at = 0;
  for (const TensorFileEntry& entry : header->entries) {
    Require(entry.begin == at && entry.end >= at, "tensors that do not tile the file");
    at = entry.end;
  }
  Require(header->data_begin + at == input.size(), "bytes that no tensor has");

  TensorFile tensors;
  if (!Accepts([&] { tensors = ReadSafetensors(file); })) return;
  Require(tensors.tensors.size() == header->entries.size(), "a tensor is lost");
  uint64_t bytes = 0;
  for (const NamedTensor& named : tensors.tensors) bytes += BytesOf(named.tensor);
  Require(bytes <= 2 * input.size(), bytes, " bytes of tensors from ", input.size());
  for (const NamedTensor& named : tensors.tensors) {
    const std::string name[] = {named.name};
    const TensorFile one = ReadSafetensors(file, name);
    Require(one.tensors.size() == 1 && one.tensors[0].tensor.shape() == named.tensor.shape(), "a tensor read alone");
    if (&named - tensors.tensors.data() >= 4) break;  // each reads the header again
  }

  const std::string written = WriteAndRead(copy, tensors);
  const TensorFile again = ReadSafetensors(copy);
  Require(tensors.metadata == again.metadata, "other metadata");
  RequireSameTensors(tensors.tensors, again.tensors);
  Require(WriteAndRead(copy, again) == written, "another file was written of the same tensors");
}

}  // namespace crosstalk::fuzz
