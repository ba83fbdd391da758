#include "tools/cli/lines.h"

#include "crosstalk/models/text/text_file.h"

namespace crosstalk {
namespace {

constexpr size_t kMaxLine = size_t{64} << 20, kInputPiece = size_t{1} << 16;

}  // namespace

LineReader::LineReader(const std::string& path) : name_(path == "-" ? "standard input" : path) {
  if (path == "-") return;
  if (KindOf(path) == PathKind::kOther) {  // a pipe of a shell's, say
    pipe_.open(path, std::ios::binary);
    if (!pipe_) Fail(ErrorKind::kData, path, ": cannot be read");
    stream_ = &pipe_;
    return;
  }
  stream_ = nullptr;
  file_.emplace(path);
  reader_.emplace(*file_);
  FillPiece();
  RefuseIfNoText(path, piece_);
}

bool LineReader::Next(std::string* line) {
  line->clear();
  ++number_;
  for (char c; Get(&c);) {
    if (c == '\n') return true;
    line->push_back(c);
    if (line->size() > kMaxLine) Refuse("is longer than ", kMaxLine, " bytes");
  }
  return !line->empty();
}

bool LineReader::Get(char* c) {
  if (stream_ != nullptr) {
    if (stream_->get(*c)) return true;
    if (stream_->bad()) Fail(ErrorKind::kData, name_, ": cannot be read to its end");
    return false;
  }
  if (at_ == piece_.size()) FillPiece();
  if (piece_.empty()) return false;
  *c = piece_[at_++];
  return true;
}

void LineReader::FillPiece() {
  piece_.resize(kInputPiece);
  piece_.resize(reader_->Read(piece_.data(), piece_.size()));
  at_ = 0;
}

}  // namespace crosstalk
