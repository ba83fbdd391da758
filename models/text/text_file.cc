#include "crosstalk/models/text/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/file_calls.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/packed.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";
constexpr size_t kTarMagicAt = 257;
constexpr size_t kLongestColumnName = 64;

struct Kind {
  std::string_view what;
  std::string_view begin;  // of its bytes; empty: none is known
  std::string_view end;    // of its name; empty: none
  std::string_view remedy;
};

using namespace std::string_view_literals;

constexpr std::string_view kOfParquet =
    "write it as JSON lines (pandas: read_parquet(FILE).to_json(NEW, "
    "orient=\"records\", lines=True))";
constexpr std::string_view kOfArrow = "write it as JSON lines (datasets: Dataset.from_file(FILE).to_json(NEW))";
constexpr std::string_view kOfZip = "unpack it (unzip) and give what was in it";
constexpr std::string_view kOfZst = "unpack it (unzstd), or pack it by gzip, which is read as it is";
constexpr std::string_view kOfBz2 = "unpack it (bunzip2), or pack it by gzip, which is read as it is";
constexpr std::string_view kOfXz = "unpack it (unxz), or pack it by gzip, which is read as it is";
constexpr std::string_view kOfTar = "unpack it (tar -xf) and give the folder";
constexpr std::string_view kOfPdf = "extract its text (pdftotext)";
constexpr std::string_view kOfUtf16 = "convert it (iconv -f UTF-16 -t UTF-8 FILE > NEW)";
constexpr std::string_view kOfUtf32 = "convert it (iconv -f UTF-32 -t UTF-8 FILE > NEW)";

// A kind of whose beginning another's is a part comes first.
constexpr Kind kNoText[] = {
    {"a Parquet file", "PAR1", ".parquet", kOfParquet},
    {"an Arrow file", "ARROW1", ".arrow", kOfArrow},
    {"an Arrow file", "\xFF\xFF\xFF\xFF"sv, ".feather", kOfArrow},
    {"a zip archive", "PK\3\4", ".zip", kOfZip},
    {"an empty zip archive", "PK\5\6", "", kOfZip},
    {"packed by zstd", "\x28\xB5\x2F\xFD", ".zst", kOfZst},
    {"packed by bzip2", "BZh", ".bz2", kOfBz2},
    {"packed by xz",
     "\xFD"
     "7zXZ\0"sv,
     ".xz", kOfXz},
    {"a tar archive", "", ".tar", kOfTar},
    {"a tar archive, packed", "", ".tgz", kOfTar},
    {"a PDF", "%PDF-", ".pdf", kOfPdf},
    {"text in UTF-32", "\xFF\xFE\0\0"sv, "", kOfUtf32},
    {"text in UTF-16", "\xFF\xFE", "", kOfUtf16},
    {"text in UTF-16", "\xFE\xFF", "", kOfUtf16},
};

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return lower;
}

[[noreturn]] void Refuse(const std::string& path, std::string_view what, std::string_view remedy) {
  Fail(ErrorKind::kData, path, ": is ", what, ": ", remedy);
}

std::string_view WithoutMark(std::string_view head) {
  return head.starts_with(kByteOrderMark) ? head.substr(kByteOrderMark.size()) : head;
}

// ---- rows ----

// "id", "sentence 1": the name of a column, and no part of a sentence.
bool IsColumnName(std::string_view name) {
  if (name.size() >= 2 && name.front() == '"' && name.back() == '"') name = name.substr(1, name.size() - 2);
  return !name.empty() && name.size() <= kLongestColumnName && name.front() != ' ' && name.back() != ' ' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return IsAsciiLetter(c) || IsAsciiDigit(c) || c == ' ' || c == '_' || c == '-' || c == '#';
         });
}

// The fields of the record that begins at `at`, which is then after it. A field in quotation marks may hold separators
// and line ends. The last record may be cut off.
std::vector<std::string_view> TakeRecord(std::string_view text, char separator, size_t* at) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t begin = *at;
    const bool may_quote = text.substr(begin).starts_with('"');
    for (bool quoted = false; *at < text.size(); ++*at) {
      if (may_quote && text[*at] == '"') quoted = !quoted;
      if (!quoted && (text[*at] == separator || text[*at] == '\n')) break;
    }
    std::string_view field = text.substr(begin, *at - begin);
    const bool last = *at == text.size() || text[*at] == '\n';
    if (last && field.ends_with('\r')) field.remove_suffix(1);
    fields.push_back(field);
    *at = std::min(*at + 1, text.size());
    if (last) return fields;
  }
}

// Columns under names, the first of which may lack one: a first line of names, and then rows of as many fields. With
// tabs, which text does not have within its lines, three rows without names are enough.
bool IsTable(std::string_view head, char separator) {
  size_t at = 0;
  const std::vector<std::string_view> first = TakeRecord(head, separator, &at);
  const bool named = std::all_of(first.begin() + 1, first.end(), IsColumnName) &&
                     (IsColumnName(first[0]) || (first[0].empty() && separator != '\t'));
  if (first.size() < 2 || (!named && separator != '\t')) return false;
  size_t rows = named ? 0 : 1;
  for (; at < head.size(); ++rows) {
    const std::vector<std::string_view> row = TakeRecord(head, separator, &at);
    const bool cut_off = at == head.size() && !head.ends_with('\n');
    if (cut_off && row.size() < first.size()) break;
    if (row.size() != first.size() || (separator == '\t' && row[0].empty())) return false;
  }
  return rows >= (named ? 1 : 3);
}

// A list of objects or of strings, by its first bytes.
bool IsJsonList(std::string_view head) {
  const auto skip = [&head] { head.remove_prefix(std::min(head.find_first_not_of(kSpaces), head.size())); };
  const auto take = [&](char c) {
    skip();
    const bool next = head.starts_with(c);
    head.remove_prefix(next);
    return next;
  };
  if (!take('[')) return false;
  if (take('{')) return take('"') || take('}');
  if (!take('"')) return false;
  size_t close = head.find('"');
  while (close != std::string_view::npos && close > 0 && head[close - 1] == '\\') close = head.find('"', close + 1);
  if (close == std::string_view::npos) return false;
  head.remove_prefix(close + 1);
  return take(',') ? take('"') : take(']') && (skip(), head.empty());
}

// Whether the first line is an object with a string of that name.
bool IsJsonLines(std::string_view head, const std::string& text_field) {
  const std::string_view line = head.substr(0, head.find('\n'));
  if (!line.starts_with('{')) return false;
  try {
    const Json object = ParseJson(line, "line");
    const Json* const text = object.is_object() ? object.Find(text_field) : nullptr;
    return text != nullptr && text->is_string();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void RefuseIfNoText(const std::string& path, std::string_view head) {
  for (const Kind& kind : kNoText) {
    if (!kind.begin.empty() && head.starts_with(kind.begin)) Refuse(path, kind.what, kind.remedy);
  }
  if (head.size() > kTarMagicAt && head.substr(kTarMagicAt).starts_with("ustar")) {
    Refuse(path, "a tar archive", kOfTar);
  }
  const std::string name = LowerCase(WithoutGz(path));
  for (const Kind& kind : kNoText) {
    if (!kind.end.empty() && name.ends_with(kind.end)) {
      Refuse(path, StrCat("named ", kind.end, ", as ", kind.what, " is"), kind.remedy);
    }
  }
}

void RefuseIfRows(const std::string& path, std::string_view head, TextFormat format, const std::string& text_field) {
  constexpr std::string_view kOfRows =
      "write its text to a file of its own, or as JSON lines: {\"text\": \"…\"}, an object a line, in a file named "
      ".jsonl";
  const std::string name = LowerCase(WithoutGz(path));
  head = WithoutMark(head);
  for (const auto& [end, what] : {std::pair(".csv", "CSV"), std::pair(".tsv", "TSV")}) {
    if (name.ends_with(end)) Refuse(path, StrCat(what, ", rows of columns"), kOfRows);
  }
  const size_t first = head.find_first_not_of(kSpaces);
  if (format == TextFormat::kJsonl ? first != std::string_view::npos && head[first] == '[' : IsJsonList(head)) {
    Refuse(path, "a JSON list",
           "write it as JSON lines, an object with a string \"text\" a line (jq -c '.[]' FILE > NEW)");
  }
  if (format == TextFormat::kJsonl) return;
  for (const auto& [separator, what] : {std::pair('\t', "TSV"), std::pair(',', "CSV"), std::pair(';', "CSV")}) {
    if (IsTable(head, separator)) Refuse(path, StrCat(what, " by its content, rows of columns"), kOfRows);
  }
  if (IsJsonLines(head, text_field)) Refuse(path, "JSON lines by its content", "rename it to .jsonl");
}

std::string ReadText(const std::string& path, uint64_t max_bytes) {
  std::string text = ReadUnpacked(path, max_bytes);
  RefuseIfNoText(path, text);
  return text;
}

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

TextFile::TextFile(std::string path, std::shared_ptr<OpenFiles> open_files, std::string text_field,
                   const StopRequest& stop)
    : path_(std::move(path)),
      open_files_(std::move(open_files)),
      text_field_(std::move(text_field)),
      format_(FormatOf(path_)) {
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
      RefuseIfRows(path_, piece, format_, text_field_);
    }
    checksum.Update(piece);
    const size_t begin = at - text.size();
    text += piece;
    at += piece.size();
    size_t invalid = FindInvalidUtf8(text);
    // A NUL byte tells better than bad UTF-8 after it what the file is.
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
