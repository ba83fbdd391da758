// Bytes packed as other programs pack them: gzip files, and zip archives of members that are stored or deflated.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/protobuf.h"

namespace crosstalk {

// zlib's numbers for a window of 32 KiB: deflate alone, and in gzip's frame.
inline std::string Packed(std::string_view bytes, int window_bits) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}
inline std::string Gzip(std::string_view bytes) { return Packed(bytes, 15 + 16); }
inline std::string Deflate(std::string_view bytes) { return Packed(bytes, -15); }

// A member as its headers describe it, which need not be so.
struct ZipEntry {
  std::string name, bytes;         // packed
  uint16_t method = 0, flags = 0;  // 8: deflated
  uint32_t crc = 0;
  uint64_t size = 0;  // unpacked
};
inline ZipEntry Stored(const std::string& name, const std::string& bytes) {
  const auto* const data = reinterpret_cast<const Bytef*>(bytes.data());
  return {.name = name,
          .bytes = bytes,
          .crc = static_cast<uint32_t>(crc32(0, data, static_cast<uInt>(bytes.size()))),
          .size = bytes.size()};
}
inline ZipEntry Deflated(const std::string& name, const std::string& bytes) {
  ZipEntry entry = Stored(name, bytes);
  entry.bytes = Deflate(bytes);
  entry.method = 8;
  return entry;
}

// `zip64`: sizes and places are in fields of 64 bits, as NumPy writes them.
inline std::string Zip(const std::vector<ZipEntry>& entries, bool zip64 = false) {
  std::string file, directory;
  const auto field = [&](uint64_t value) { return LittleEndian(zip64 ? 0xFFFFFFFF : value, 4); };
  for (const ZipEntry& entry : entries) {
    const uint64_t at = file.size(), packed = entry.bytes.size();
    const std::string sizes = LittleEndian(entry.size, 8) + LittleEndian(packed, 8);
    const auto extra = [&](const std::string& values) {
      return zip64 ? LittleEndian(1, 2) + LittleEndian(values.size(), 2) + values : std::string();
    };
    const std::string local = extra(sizes), central = extra(sizes + LittleEndian(at, 8));
    const std::string common = LittleEndian(20, 2) + LittleEndian(entry.flags, 2) + LittleEndian(entry.method, 2) +
                               LittleEndian(0, 4) + LittleEndian(entry.crc, 4) + field(packed) + field(entry.size) +
                               LittleEndian(entry.name.size(), 2);
    file += "PK\3\4" + common + LittleEndian(local.size(), 2) + entry.name + local + entry.bytes;
    directory += "PK\1\2" + LittleEndian(20, 2) + common + LittleEndian(central.size(), 2) + std::string(10, '\0') +
                 field(at) + entry.name + central;
  }
  const uint64_t begin = file.size(), end = begin + directory.size();
  file += directory;
  if (zip64) {
    file += "PK\6\6" + LittleEndian(44, 8) + LittleEndian(45, 2) + LittleEndian(45, 2) + LittleEndian(0, 8) +
            LittleEndian(entries.size(), 8) + LittleEndian(entries.size(), 8) + LittleEndian(directory.size(), 8) +
            LittleEndian(begin, 8);
    file += "PK\6\7" + LittleEndian(0, 4) + LittleEndian(end, 8) + LittleEndian(1, 4);
  }
  const std::string count = LittleEndian(zip64 ? 0xFFFF : entries.size(), 2);
  return file + "PK\5\6" + LittleEndian(0, 4) + count + count + field(directory.size()) + field(begin) +
         LittleEndian(0, 2);
}

}  // namespace crosstalk
