#include "crosstalk/runtime/packed_reader.h"

#include <zlib.h>

#include <array>
#include <new>
#include <string>

#include "crosstalk/runtime/check.h"

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

}  // namespace crosstalk
