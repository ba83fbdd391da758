#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

namespace crosstalk::fuzz {

MemoryFile::MemoryFile() : descriptor_(memfd_create("input", MFD_CLOEXEC)) {
  if (descriptor_ < 0) throw std::runtime_error("memfd_create failed");
  path_ = "/proc/self/fd/" + std::to_string(descriptor_);
}

MemoryFile::~MemoryFile() { close(descriptor_); }

void MemoryFile::Write(std::string_view bytes) {
  if (ftruncate(descriptor_, 0) != 0 ||
      pwrite(descriptor_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("a file in memory cannot be written");
  }
}

std::string MemoryFile::Read() const {
  std::string bytes(static_cast<size_t>(lseek(descriptor_, 0, SEEK_END)), '\0');
  if (pread(descriptor_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("a file in memory cannot be read");
  }
  return bytes;
}

void WriteBytes(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error(path + " cannot be written");
}

FirstLine SplitFirstLine(std::string_view input) {
  const size_t end = input.find('\n');
  if (end == std::string_view::npos) return {input, {}};
  return {input.substr(0, end), input.substr(end + 1)};
}

}  // namespace crosstalk::fuzz
