// Zip archives, as NumPy's .npz are: the directory of one that is read, and one in the making. Members are stored or
// deflated; large ones and large archives have zip64's fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/packed_reader.h"

namespace crosstalk {

struct ZipMember {
  std::string name;
  Packing packing;      // kNone or kDeflate
  uint64_t begin, end;  // its packed bytes in the file
  uint64_t size;        // unpacked
  uint32_t crc32;       // of the unpacked bytes
};

// Reads and checks the directory and the members' own headers, and allocates nothing for what they hold. Error(kData)
// naming the file and the member: a directory that is not at the end of the file, or of another length; an archive in
// several files; members encrypted, packed in another way, overlapping, or named as another is; a member, or all of
// them, that would become more than MostUnpacked.
std::vector<ZipMember> ReadZipDirectory(const FileReader& file);

// Writes stored members without times: the bytes are a function of the members.
class ZipWriter {
 public:
  explicit ZipWriter(FileWriter& file) : file_(file) {}
  // One whose bytes are those of `head` and then those of `body`.
  void Add(const std::string& name, std::string_view head, std::string_view body);
  // The directory. Nothing can be added after it.
  void Finish();

 private:
  struct Written {
    std::string name;
    uint64_t offset, size;
    uint32_t crc32;
  };

  FileWriter& file_;
  std::vector<Written> members_;
};

}  // namespace crosstalk
