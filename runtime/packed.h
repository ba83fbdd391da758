// Packed files: gzip and deflate, read front to back, and zip archives, read and written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"

namespace crosstalk {

// Files, and parts of them, read front to back and unpacked on the way: gzip (RFC 1952), and deflate (RFC 1951) as the
// members of zip archives have it.

enum class Packing { kNone, kDeflate, kGzip };

// Packed text and tensors become some ten times as long. What becomes longer than this is refused: it is made to fill a
// memory or a disk. (Deflate makes 1,032 bytes of one at most.)
inline constexpr uint64_t kMaxUnpackedGrowth = 256, kFreelyUnpackedBytes = uint64_t{64} << 20;
constexpr uint64_t MostUnpacked(uint64_t packed) {
  if (packed > UINT64_MAX / 2048) return UINT64_MAX;
  return std::min(1032 * packed + 1024, std::max(kFreelyUnpackedBytes, kMaxUnpackedGrowth * packed));
}

class PackedReader {
 public:
  // The whole file: gzip where its first bytes say so, else as it is; Error(kData) where only its name says so. The
  // file must outlive this.
  explicit PackedReader(const FileReader& file);
  // Bytes [begin, end) of it.
  PackedReader(const FileReader& file, Packing packing, uint64_t begin, uint64_t end);
  ~PackedReader();

  Packing packing() const { return packing_; }
  // Up to `size` bytes, fewer only at the end. Error(kData) naming the file where packed data is damaged, cut off,
  // followed by something else, or becomes more than MostUnpacked.
  size_t Read(void* out, size_t size);

 private:
  struct Inflater;

  size_t Inflate(void* out, size_t size);
  bool Refill();
  void EndMember();

  const FileReader& file_;
  Packing packing_;
  uint64_t begin_, at_, end_;  // at_: of what is read next from the file
  uint64_t unpacked_ = 0;
  bool ended_ = false;
  std::unique_ptr<Inflater> inflater_;
};

// The whole file, unpacked if it is gzip. Error(kData) as above, and if it is longer than `max_bytes`.
std::string ReadUnpacked(const std::string& path, uint64_t max_bytes);

// A path without ".gz": what its end says of what is in it.
std::string_view WithoutGz(std::string_view path);

// Zip archives, as NumPy's .npz are: the directory of one that is read, and one in the making. Members are stored or
// deflated; large ones and large archives have zip64's fields.

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
