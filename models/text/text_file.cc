#include "crosstalk/models/text/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/file_calls.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr size_t kMostOpen = 32;
constexpr size_t kPiece = 1 << 20;
constexpr int kNameAttempts = 1000;
constexpr size_t kLongestCharacter = 4;  // of UTF-8, in bytes
constexpr size_t npos = std::string_view::npos;

TextFormat FormatOf(std::string_view path) {
  path = WithoutGz(path);
  return path.ends_with(".jsonl") || path.ends_with(".json") ? TextFormat::kJsonl : TextFormat::kPlain;
}

}  // namespace

UnnamedFile::~UnnamedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void UnnamedFile::Append(std::string_view bytes) {
  if (descriptor_ < 0) {
    const char* const named = std::getenv("TMPDIR");
    folder_ = named == nullptr || *named == '\0' ? "/tmp" : named;
    for (int i = 0; descriptor_ < 0 && i < kNameAttempts; ++i) {
      const std::string path = StrCat(folder_, "/.crosstalk-text-", getpid(), "-", i);
      descriptor_ = OpenFile(path, O_RDWR | O_CREAT | O_EXCL, 0600);
      if (descriptor_ < 0 && errno != EEXIST) break;
      if (descriptor_ >= 0) RetryInterrupted([&] { return unlink(path.c_str()); });
    }
    if (descriptor_ < 0) FailWriting("make a file to unpack into (TMPDIR names the folder)", folder_, errno);
  }
  if (!WriteAll(descriptor_, bytes.data(), bytes.size())) {
    FailWriting("unpack into it (TMPDIR names the folder)", folder_, errno);
  }
  size_ += bytes.size();
}

void UnnamedFile::ReadAt(uint64_t offset, void* out, size_t size) const {
  auto* bytes = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = RetryInterrupted([&] { return pread(descriptor_, bytes, size, static_cast<off_t>(offset)); });
    if (got < 0) FailReading("read what was unpacked into it", folder_, errno);
    CROSSTALK_DCHECK(got > 0);
    bytes += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
}

OpenFiles::Unpacked OpenFiles::Unpack(PackedReader& packed, const StopRequest& stop) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Unpacked text{unpacked_.size(), 0};
  std::string piece(kPiece, '\0');
  while (const size_t count = packed.Read(piece.data(), piece.size())) {
    ThrowIfStopped(stop);
    unpacked_.Append(std::string_view(piece).substr(0, count));
    text.size += count;
  }
  return text;
}

std::shared_ptr<const FileReader> OpenFiles::Open(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto file = files_.begin(); file != files_.end(); ++file) {
    if ((*file)->path() != path) continue;
    std::rotate(files_.begin(), file, file + 1);
    return files_.front();
  }
  files_.push_front(std::make_shared<FileReader>(path));
  if (files_.size() > kMostOpen) files_.pop_back();
  return files_.front();
}

TextFile::TextFile(std::string path, std::shared_ptr<OpenFiles> open_files, const StopRequest& stop)
    : path_(std::move(path)), open_files_(std::move(open_files)), format_(FormatOf(path_)) {
  const std::shared_ptr<const FileReader> file = open_files_->Open(path_);
  stamp_ = file->Stamp();
  size_ = stamp_.size;
  PackedReader reader(*file);
  if (reader.packing() != Packing::kNone) {
    const OpenFiles::Unpacked text = open_files_->Unpack(reader, stop);
    size_ = text.size;
    unpacked_at_ = text.begin;
  }
  if (size_ == 0) Fail(ErrorKind::kData, path_, ": the file is empty");
  Check(stop);
}

void TextFile::Check(const StopRequest& stop) {
  Crc64 checksum;
  std::string text;  // the piece, after a character that the one before it may have cut
  for (size_t at = 0; at < size();) {
    ThrowIfStopped(stop);
    const std::string piece = Read(at, kPiece);
    if (at == 0) {
      RefuseIfNoText(path_, piece);
      RefuseIfRows(path_, piece, format_);
    }
    checksum.Update(piece);
    const size_t begin = at - text.size();
    text += piece;
    at += piece.size();
    size_t invalid = FindInvalidUtf8(text);
    // Of a NUL byte and bad UTF-8, the first tells better what the file is.
    const size_t nul = std::string_view(text).substr(0, invalid).find('\0');
    if (nul != npos) Fail(ErrorKind::kData, path_, ": byte ", begin + nul, " is NUL: a binary file, not text");
    if (invalid != npos && (at == size() || text.size() - invalid >= kLongestCharacter)) {
      Fail(ErrorKind::kData, path_, ": byte ", begin + invalid,
           " is not valid UTF-8: convert the file (iconv -t UTF-8), or leave it out");
    }
    text.erase(0, invalid);
  }
  checksum_ = checksum.value();
}

void TextFile::CheckUnchanged(const FileReader& file) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const FileStamp now = file.Stamp();
  if (now == stamp_) return;
  if (now.size != size_) {
    Fail(ErrorKind::kData, path_, ": has changed since it was opened: it had ", size_, " bytes and has ", now.size,
         "; do not change a text that is in use");
  }
  Crc64 checksum;
  std::string piece;
  for (size_t at = 0; at < size_; at += piece.size()) {
    piece.resize(std::min(kPiece, size_ - at));
    file.ReadAt(at, piece.data(), piece.size());
    checksum.Update(piece);
  }
  if (checksum.value() != checksum_ || file.Stamp() != now) {
    Fail(ErrorKind::kData, path_, ": has changed since it was opened: its bytes are others; do not change a text that ",
         "is in use");
  }
  stamp_ = now;
}

std::string TextFile::Read(size_t offset, size_t count) const {
  std::string bytes(offset < size_ ? std::min(count, size_ - offset) : 0, '\0');
  if (unpacked_at_) {
    open_files_->ReadUnpacked(*unpacked_at_ + offset, bytes.data(), bytes.size());
    return bytes;
  }
  const std::shared_ptr<const FileReader> file = open_files_->Open(path_);
  CheckUnchanged(*file);
  file->ReadAt(offset, bytes.data(), bytes.size());
  return bytes;
}

size_t TextFile::Find(std::string_view text, size_t from) const {
  for (; from < size(); from += kPiece) {
    const size_t found = Read(from, kPiece + text.size() - 1).find(text);
    if (found != npos) return from + found;
  }
  return npos;
}

size_t TextFile::FindFirstNotOf(std::string_view characters, size_t from) const {
  for (; from < size(); from += kPiece) {
    const size_t found = Read(from, kPiece).find_first_not_of(characters);
    if (found != npos) return from + found;
  }
  return npos;
}

template <typename FindIn>
size_t TextFile::FindBackward(size_t last, const FindIn& find_in) const {
  for (size_t end = std::min(size(), last == npos ? npos : last + 1); end > 0;) {
    const size_t begin = end - std::min(end, kPiece);
    const size_t found = find_in(Read(begin, end - begin));
    if (found != npos) return begin + found;
    end = begin;
  }
  return npos;
}

size_t TextFile::FindLastOf(std::string_view characters, size_t last) const {
  return FindBackward(last, [&](const std::string& piece) { return piece.find_last_of(characters); });
}

size_t TextFile::FindLastNotOf(std::string_view characters, size_t last) const {
  return FindBackward(last, [&](const std::string& piece) { return piece.find_last_not_of(characters); });
}

size_t TextFile::CountLines(size_t end) const {
  size_t lines = 0;
  for (size_t at = 0; at < end; at += kPiece) {
    const std::string piece = Read(at, std::min(kPiece, end - at));
    lines += static_cast<size_t>(std::count(piece.begin(), piece.end(), '\n'));
  }
  return lines;
}

std::string_view FileWindow::From(size_t offset, size_t count) {
  const size_t wanted = std::min(count, file_.size() - std::min(offset, file_.size()));
  if (offset < begin_ || offset + wanted > begin_ + bytes_.size()) {
    bytes_ = file_.Read(offset, std::max(count, piece_));
    begin_ = offset;
  }
  return std::string_view(bytes_).substr(offset - begin_);
}

std::string_view FileWindow::LineFrom(size_t offset) {
  for (size_t count = 1;;) {
    const std::string_view bytes = From(offset, count);
    const size_t end = bytes.find('\n');
    if (end != npos || offset + bytes.size() == file_.size()) return bytes.substr(0, end);
    if (bytes.size() > kMaxLine) {
      Fail(ErrorKind::kData, file_.path(), ": the line at byte ", offset, " is longer than ", kMaxLine, " bytes");
    }
    count = std::max(2 * bytes.size(), piece_);
  }
}

}  // namespace crosstalk
