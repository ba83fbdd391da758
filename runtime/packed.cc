#include "crosstalk/runtime/packed.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr size_t kInputBytes = 64 << 10;
constexpr size_t kMostAtOnce = size_t{1} << 30;  // zlib counts in 32 bits
constexpr std::string_view kGzipBegin = "\x1F\x8B";
constexpr std::string_view kGzEnd = ".gz";

Packing PackingOf(const FileReader& file) {
  char begin[2] = {};
  if (file.size() >= sizeof begin) file.ReadAt(0, begin, sizeof begin);
  if (std::string_view(begin, sizeof begin) == kGzipBegin) return Packing::kGzip;
  if (file.path().ends_with(kGzEnd)) {
    Fail(ErrorKind::kData, file.path(), ": is named .gz, but its first bytes are not gzip's");
  }
  return Packing::kNone;
}

}  // namespace

struct PackedReader::Inflater {
  explicit Inflater(Packing packing) {
    // zlib's numbers for a window of 32 KiB, of deflate alone and in gzip's frame.
    const int status = inflateInit2(&stream, packing == Packing::kGzip ? 15 + 16 : -15);
    if (status != Z_OK) throw std::bad_alloc();  // there is no other reason
  }
  ~Inflater() { inflateEnd(&stream); }

  z_stream stream = {};
  std::array<unsigned char, kInputBytes> input;
};

PackedReader::PackedReader(const FileReader& file) : PackedReader(file, PackingOf(file), 0, file.size()) {}

PackedReader::PackedReader(const FileReader& file, Packing packing, uint64_t begin, uint64_t end)
    : file_(file), packing_(packing), begin_(begin), at_(begin), end_(end) {
  if (packing != Packing::kNone) inflater_ = std::make_unique<Inflater>(packing);
}

PackedReader::~PackedReader() = default;

size_t PackedReader::Read(void* out, size_t size) {
  auto* const bytes = static_cast<char*>(out);
  if (packing_ == Packing::kNone) {
    const size_t count = static_cast<size_t>(std::min<uint64_t>(size, end_ - at_));
    file_.ReadAt(at_, bytes, count);
    at_ += count;
    return count;
  }
  size_t done = 0;
  while (done < size && !ended_) {
    done += Inflate(bytes + done, std::min(size - done, kMostAtOnce));
    if (unpacked_ > MostUnpacked(end_ - begin_)) {
      Fail(ErrorKind::kData, file_.path(), ": its ", end_ - begin_, " packed bytes become more than ",
           MostUnpacked(end_ - begin_), ", which no ordinary text or tensor does; unpack it yourself if that is meant");
    }
  }
  return done;
}

bool PackedReader::Refill() {
  z_stream& stream = inflater_->stream;
  if (stream.avail_in > 0) return true;
  const auto count = static_cast<size_t>(std::min<uint64_t>(kInputBytes, end_ - at_));
  file_.ReadAt(at_, inflater_->input.data(), count);
  at_ += count;
  stream.next_in = inflater_->input.data();
  stream.avail_in = static_cast<uInt>(count);
  return count > 0;
}

// Once or more often up to `size` bytes; at least one, but at the end of the data.
size_t PackedReader::Inflate(void* out, size_t size) {
  z_stream& stream = inflater_->stream;
  stream.next_out = static_cast<unsigned char*>(out);
  stream.avail_out = static_cast<uInt>(size);
  while (stream.avail_out == size && !ended_) {
    if (!Refill()) {
      Fail(ErrorKind::kData, file_.path(), ": the packed data is cut off, after ", unpacked_, " unpacked bytes");
    }
    const int status = inflate(&stream, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status == Z_STREAM_END) {
      EndMember();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      Fail(ErrorKind::kData, file_.path(), ": the packed data is damaged, after ", unpacked_, " unpacked bytes",
           stream.msg == nullptr ? "" : ": ", stream.msg == nullptr ? "" : stream.msg);
    }
  }
  unpacked_ += size - stream.avail_out;
  return size - stream.avail_out;
}

// A gzip file may hold several members, one after the other, and zeros after the last, as tapes have them.
void PackedReader::EndMember() {
  z_stream& stream = inflater_->stream;
  ended_ = true;
  if (packing_ == Packing::kGzip && Refill() && *stream.next_in != 0) {
    ended_ = false;
    inflateReset(&stream);
    return;
  }
  while (Refill()) {
    const std::string_view rest(reinterpret_cast<const char*>(stream.next_in), stream.avail_in);
    if (packing_ != Packing::kGzip || rest.find_first_not_of('\0') != std::string_view::npos) {
      Fail(ErrorKind::kData, file_.path(), ": other bytes follow the packed data");
    }
    stream.avail_in = 0;
  }
}

std::string ReadUnpacked(const std::string& path, uint64_t max_bytes) {
  const FileReader file(path);
  PackedReader reader(file);
  const auto refuse = [&](uint64_t bytes) {
    Fail(ErrorKind::kData, path, ": has ", bytes, " bytes", reader.packing() == Packing::kNone ? "" : " or more",
         ", more than the ", max_bytes, " that are read here");
  };
  std::string bytes;
  if (reader.packing() == Packing::kNone) {
    if (file.size() > max_bytes) refuse(file.size());
    bytes.resize(file.size());
    file.ReadAt(0, bytes.data(), bytes.size());
    return bytes;
  }
  constexpr size_t kPiece = 1 << 20;
  for (size_t count = kPiece; count == kPiece;) {
    const size_t before = bytes.size();
    bytes.resize(before + kPiece);
    count = reader.Read(bytes.data() + before, kPiece);
    bytes.resize(before + count);
    if (bytes.size() > max_bytes) refuse(bytes.size());
  }
  return bytes;
}

std::string_view WithoutGz(std::string_view path) {
  return path.ends_with(kGzEnd) ? path.substr(0, path.size() - kGzEnd.size()) : path;
}

namespace {

// The records, little-endian, each with its signature first (PKWARE's APPNOTE, 4.3).
constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryHeader = 0x02014b50, kDirectoryEnd = 0x06054b50,
                   kZip64End = 0x06064b50, kZip64Locator = 0x07064b50;
constexpr size_t kLocalBytes = 30, kDirectoryBytes = 46, kEndBytes = 22, kZip64EndBytes = 56, kLocatorBytes = 20;
constexpr uint16_t kZip64Field = 1, kEncrypted = 1, kNameIsUtf8 = 1 << 11;
constexpr uint16_t kVersion = 20, kVersionOfZip64 = 45;
constexpr uint16_t kFirstDay = 1 << 5 | 1;  // 1 January 1980: where times begin
constexpr uint16_t kIn64Of16 = 0xFFFF;      // "the zip64 field has it"
constexpr uint32_t kIn64Of32 = 0xFFFFFFFF;
constexpr uint64_t kMostMembers = 100'000;
constexpr uint64_t kMostDirectoryBytes = uint64_t{64} << 20;
constexpr size_t kMostCommentBytes = 0xFFFF;

template <typename T>
T Take(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <typename... T>
void Append(std::string* out, T... values) {
  (out->append(reinterpret_cast<const char*>(&values), sizeof values), ...);
}

std::string Bytes(const FileReader& file, uint64_t begin, size_t count) {
  std::string bytes(count, '\0');
  file.ReadAt(begin, bytes.data(), count);
  return bytes;
}

template <typename... Parts>
[[noreturn]] void Reject(const FileReader& file, const Parts&... parts) {
  Fail(ErrorKind::kData, file.path(), ": ", parts...);
}

// Where the directory is, and how many members it has.
struct Directory {
  uint64_t begin, bytes, members;
};

Directory FindDirectory(const FileReader& file) {
  const uint64_t tail_bytes = std::min<uint64_t>(file.size(), kEndBytes + kMostCommentBytes);
  const uint64_t tail_begin = file.size() - tail_bytes;
  const std::string tail = Bytes(file, tail_begin, tail_bytes);
  for (size_t at = tail.size() < kEndBytes ? 0 : tail.size() - kEndBytes + 1; at-- > 0;) {
    if (Take<uint32_t>(tail, at) != kDirectoryEnd) continue;
    if (Take<uint16_t>(tail, at + 20) != tail.size() - at - kEndBytes) continue;  // the comment goes to the end
    if (Take<uint32_t>(tail, at + 4) != 0) Reject(file, "is one of several files of an archive");
    Directory directory{Take<uint32_t>(tail, at + 16), Take<uint32_t>(tail, at + 12), Take<uint16_t>(tail, at + 10)};
    uint64_t end = tail_begin + at;
    if (directory.begin == kIn64Of32 || directory.bytes == kIn64Of32 || directory.members == kIn64Of16) {
      const auto locator = end < kLocatorBytes ? "" : Bytes(file, end - kLocatorBytes, kLocatorBytes);
      if (!locator.empty() && Take<uint32_t>(locator, 0) == kZip64Locator) {
        const auto record_at = Take<uint64_t>(locator, 8);
        if (end < kLocatorBytes + kZip64EndBytes || record_at != end - kLocatorBytes - kZip64EndBytes) {
          Reject(file, "the zip64 record is not before its locator");
        }
        const std::string record = Bytes(file, record_at, kZip64EndBytes);
        if (Take<uint32_t>(record, 0) != kZip64End) Reject(file, "has no zip64 record where its locator says");
        directory = {Take<uint64_t>(record, 48), Take<uint64_t>(record, 40), Take<uint64_t>(record, 32)};
        end = record_at;
      }
    }
    if (directory.begin > end || directory.bytes != end - directory.begin) {
      Reject(file, "the archive's directory, ", directory.bytes, " bytes from byte ", directory.begin,
             " on, does not end at byte ", end);
    }
    if (directory.members > kMostMembers || directory.bytes > kMostDirectoryBytes) {
      Reject(file, "has ", directory.members, " members and a directory of ", directory.bytes, " bytes, more than ",
             kMostMembers, " and ", kMostDirectoryBytes);
    }
    return directory;
  }
  Reject(file, "has no zip directory at its end: truncated, or no archive");
}

// Sizes and places of 32 bits that are all ones stand in the zip64 field, in this order.
void ApplyZip64(std::string_view extra, std::initializer_list<uint64_t*> values) {
  while (extra.size() >= 4) {
    const auto id = Take<uint16_t>(extra, 0), bytes = Take<uint16_t>(extra, 2);
    extra.remove_prefix(4);
    if (bytes > extra.size()) return;
    if (id == kZip64Field) {
      std::string_view field = extra.substr(0, bytes);
      for (uint64_t* const value : values) {
        if (*value != kIn64Of32 || field.size() < 8) continue;
        *value = Take<uint64_t>(field, 0);
        field.remove_prefix(8);
      }
      return;
    }
    extra.remove_prefix(bytes);
  }
}

// A member's packed bytes begin after its own header, whose name must be that of the directory. Gives the header's end.
uint64_t LocalHeaderEnd(const FileReader& file, uint64_t at, const std::string& name) {
  const std::string shown = Quoted(name);
  if (at > file.size() || file.size() - at < kLocalBytes) Reject(file, "member ", shown, ": is not in the file");
  const std::string header = Bytes(file, at, kLocalBytes);
  const auto name_bytes = Take<uint16_t>(header, 26), extra_bytes = Take<uint16_t>(header, 28);
  if (Take<uint32_t>(header, 0) != kLocalHeader ||
      file.size() - at - kLocalBytes < name_bytes + uint64_t{extra_bytes} || name_bytes != name.size() ||
      Bytes(file, at + kLocalBytes, name_bytes) != name) {
    Reject(file, "member ", shown, ": its own header is another");
  }
  return at + kLocalBytes + name_bytes + extra_bytes;
}

ZipMember ReadMember(const FileReader& file, std::string_view header, std::string_view name, std::string_view extra,
                     uint64_t directory_begin) {
  const std::string shown = Quoted(name);
  uint64_t packed = Take<uint32_t>(header, 20), size = Take<uint32_t>(header, 24), at = Take<uint32_t>(header, 42);
  ApplyZip64(extra, {&size, &packed, &at});
  const auto method = Take<uint16_t>(header, 10);
  if (Take<uint16_t>(header, 8) & kEncrypted) Reject(file, "member ", shown, ": is encrypted");
  if (method != 0 && method != 8) {
    Reject(file, "member ", shown, ": is packed by method ", method, "; stored and deflated ones are read");
  }
  ZipMember member{std::string(name),         method == 0 ? Packing::kNone : Packing::kDeflate, 0, 0, size,
                   Take<uint32_t>(header, 16)};
  member.begin = LocalHeaderEnd(file, at, member.name);
  if (member.begin > directory_begin || packed > directory_begin - member.begin) {
    Reject(file, "member ", shown, ": ", packed, " packed bytes from byte ", member.begin, " on leave the archive");
  }
  member.end = member.begin + packed;
  if (member.packing == Packing::kNone && size != packed) {
    Reject(file, "member ", shown, ": is stored, but ", packed, " bytes are to be ", size);
  }
  if (member.packing == Packing::kDeflate && size > MostUnpacked(packed)) {
    Reject(file, "member ", shown, ": ", packed, " packed bytes are to become ", size, ", more than ",
           MostUnpacked(packed), "; unpack it yourself if that is meant");
  }
  return member;
}

void CheckTogether(const FileReader& file, std::vector<ZipMember>& members) {
  std::unordered_set<std::string_view> names;
  uint64_t size = 0;
  for (const ZipMember& member : members) {
    if (!names.insert(member.name).second) Reject(file, "member ", Quoted(member.name), ": is there twice");
    size += std::min(member.size, UINT64_MAX - size);
  }
  std::vector<const ZipMember*> ordered;
  for (const ZipMember& member : members) ordered.push_back(&member);
  std::sort(ordered.begin(), ordered.end(), [](const ZipMember* a, const ZipMember* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < ordered.size(); ++i) {
    // Its own header stands between.
    if (ordered[i]->begin >= ordered[i - 1]->end + kLocalBytes) continue;
    Reject(file, "member ", Quoted(ordered[i]->name), ": overlaps ", Quoted(ordered[i - 1]->name));
  }
  if (size > MostUnpacked(file.size())) {
    Reject(file, "its ", file.size(), " bytes are to become ", size, ", more than ", MostUnpacked(file.size()),
           "; unpack it yourself if that is meant");
  }
}

}  // namespace

std::vector<ZipMember> ReadZipDirectory(const FileReader& file) {
  const Directory directory = FindDirectory(file);
  const std::string bytes = Bytes(file, directory.begin, directory.bytes);
  std::string_view rest = bytes;
  std::vector<ZipMember> members;
  while (!rest.empty()) {
    if (rest.size() < kDirectoryBytes || Take<uint32_t>(rest, 0) != kDirectoryHeader) {
      Reject(file, "entry ", members.size(), " of the archive's directory is damaged");
    }
    const std::string_view header = rest.substr(0, kDirectoryBytes);
    const size_t name = Take<uint16_t>(header, 28), extra = Take<uint16_t>(header, 30),
                 all = name + extra + Take<uint16_t>(header, 32);
    rest.remove_prefix(kDirectoryBytes);
    if (all > rest.size()) Reject(file, "entry ", members.size(), " of the archive's directory is cut off");
    members.push_back(ReadMember(file, header, rest.substr(0, name), rest.substr(name, extra), directory.begin));
    rest.remove_prefix(all);
    if (members.size() > directory.members) break;
  }
  if (members.size() != directory.members) {
    Reject(file, "the archive's directory has other than the ", directory.members, " members that its end says");
  }
  CheckTogether(file, members);
  return members;
}

void ZipWriter::Add(const std::string& name, std::string_view head, std::string_view body) {
  Crc32 crc;
  crc.Add(head);
  crc.Add(body);
  const uint64_t size = head.size() + body.size();
  members_.push_back({name, file_.bytes_written(), size, crc.value()});
  const bool large = size >= kIn64Of32;
  const auto size32 = static_cast<uint32_t>(large ? kIn64Of32 : size);
  std::string header;
  Append(&header, kLocalHeader, large ? kVersionOfZip64 : kVersion, kNameIsUtf8, uint16_t{0}, uint16_t{0}, kFirstDay,
         crc.value(), size32, size32, static_cast<uint16_t>(name.size()), static_cast<uint16_t>(large ? 20 : 0));
  header += name;
  if (large) Append(&header, kZip64Field, uint16_t{16}, size, size);
  file_.Write(header);
  file_.Write(head);
  file_.Write(body);
}

void ZipWriter::Finish() {
  const uint64_t begin = file_.bytes_written();
  std::string directory;
  for (const Written& member : members_) {
    std::string extra;
    const auto field = [&](uint64_t value) {
      if (value < kIn64Of32) return static_cast<uint32_t>(value);
      Append(&extra, value);
      return kIn64Of32;
    };
    const uint32_t size = field(member.size);
    if (size == kIn64Of32) field(member.size);  // packed
    const uint32_t offset = field(member.offset);
    const bool large = !extra.empty();
    const uint16_t version = large ? kVersionOfZip64 : kVersion;
    Append(&directory, kDirectoryHeader, version, version, kNameIsUtf8, uint16_t{0}, uint16_t{0}, kFirstDay,
           member.crc32, size, size, static_cast<uint16_t>(member.name.size()),
           static_cast<uint16_t>(large ? extra.size() + 4 : 0), uint16_t{0}, uint16_t{0}, uint16_t{0}, uint32_t{0},
           offset);
    directory += member.name;
    if (large) Append(&directory, kZip64Field, static_cast<uint16_t>(extra.size()));
    directory += extra;
  }
  const uint64_t count = members_.size(), bytes = directory.size(), end = begin + bytes;
  const bool large = count >= kIn64Of16 || begin >= kIn64Of32 || bytes >= kIn64Of32;
  if (large) {
    Append(&directory, kZip64End, uint64_t{kZip64EndBytes - 12}, kVersionOfZip64, kVersionOfZip64, uint32_t{0},
           uint32_t{0}, count, count, bytes, begin);
    Append(&directory, kZip64Locator, uint32_t{0}, end, uint32_t{1});
  }
  const auto count16 = static_cast<uint16_t>(large ? kIn64Of16 : count);
  Append(&directory, kDirectoryEnd, uint16_t{0}, uint16_t{0}, count16, count16,
         static_cast<uint32_t>(large ? kIn64Of32 : bytes), static_cast<uint32_t>(large ? kIn64Of32 : begin),
         uint16_t{0});
  file_.Write(directory);
}

}  // namespace crosstalk
