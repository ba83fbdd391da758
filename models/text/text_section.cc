#include "crosstalk/models/text/text_section.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "crosstalk/models/text/jsonl.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

constexpr size_t kMarkDistance = 64 << 10;  // bytes of the file
constexpr size_t kIndexPiece = 1 << 20;

}  // namespace

TextSection::TextSection(std::shared_ptr<const TextFile> file, size_t begin, size_t end, const StopRequest& stop)
    : file_(std::move(file)), begin_(begin), end_(end) {
  if (begin_ == 0 && file_->Read(0, kByteOrderMark.size()) == kByteOrderMark) {
    begin_ = std::min(kByteOrderMark.size(), end_);
  }
  if (file_->format() == TextFormat::kJsonl) {
    Index(stop);
  } else if (begin_ < end_) {
    size_ = static_cast<int64_t>(end_ - begin_ + kDocumentEnd.size());
  }
}

void TextSection::Index(const StopRequest& stop) {
  FileWindow window(*file_, kIndexPiece);
  JsonlDocument document;
  for (size_t at = begin_; at < end_;) {
    ThrowIfStopped(stop);
    const size_t line_begin = at;
    const std::string_view line = window.LineFrom(at);
    const size_t line_size = line.size();
    at += line_size + 1;
    if (!ParseJsonlLine(*file_, line_begin, line, &document) || document.text.empty()) continue;
    if (marks_.empty() || line_size > kMarkDistance || document.begin - marks_.back().file_offset > kMarkDistance) {
      marks_.push_back({document.begin, size_});
    }
    JsonStringDecoder decoder(window, document.begin);
    std::string part;
    for (int64_t position = size_; document.text.size() > kMarkDistance;) {
      part.clear();
      decoder.Read(kMarkDistance, &part);
      if (decoder.AtEnd()) {
        CROSSTALK_DCHECK(position + static_cast<int64_t>(part.size()) - size_ ==
                         static_cast<int64_t>(document.text.size()));
        break;
      }
      position += static_cast<int64_t>(part.size());
      marks_.push_back({decoder.offset(), position});
    }
    size_ += static_cast<int64_t>(document.text.size() + kDocumentEnd.size());
  }
}

void TextSection::Read(int64_t position, int64_t count, std::string* out, std::vector<int64_t>* document_ends) const {
  count = std::min(count, size_ - position);
  if (count <= 0) return;
  if (file_->format() == TextFormat::kJsonl) return ReadJsonl(position, count, out, document_ends);
  const auto length = static_cast<int64_t>(end_ - begin_);
  const int64_t from_file = std::min(count, std::max<int64_t>(0, length - position));
  if (from_file > 0) *out += file_->Read(begin_ + static_cast<size_t>(position), static_cast<size_t>(from_file));
  if (count > from_file) *out += kDocumentEnd.substr(std::max<int64_t>(0, position - length), count - from_file);
  if (document_ends != nullptr && position + count == size_) document_ends->push_back(std::ssize(*out));
}

void TextSection::ReadJsonl(int64_t position, int64_t count, std::string* out,
                            std::vector<int64_t>* document_ends) const {
  FileWindow window(*file_, kMarkDistance);
  JsonlDocument document;
  auto mark = std::prev(std::upper_bound(marks_.begin(), marks_.end(), position,
                                         [](int64_t at, const Mark& m) { return at < m.text_position; }));
  int64_t at = mark->text_position;  // of what is in document.text: the rest of a document from a mark on, or a whole
  size_t offset = 0;                 // in its line
  while (true) {
    document.text.clear();
    bool whole = true;
    if (mark != marks_.end() && mark->text_position == at) {
      JsonStringDecoder decoder(window, mark->file_offset);
      decoder.Read(static_cast<size_t>(position + count - at), &document.text);
      whole = decoder.AtEnd();
      offset = decoder.offset();
    } else {
      while (document.text.empty()) {
        offset += window.LineFrom(offset).size() + 1;
        ParseJsonlLine(*file_, offset, window.LineFrom(offset), &document);
      }
    }
    if (whole) document.text += kDocumentEnd;
    const int64_t end = at + static_cast<int64_t>(document.text.size());
    if (end > position) {
      const std::string_view part = std::string_view(document.text).substr(position - at, count);
      *out += part;
      position += static_cast<int64_t>(part.size());
      count -= static_cast<int64_t>(part.size());
      if (document_ends != nullptr && whole && position == end) document_ends->push_back(std::ssize(*out));
      if (count == 0) return;
    }
    at = end;
    while (mark != marks_.end() && mark->text_position < at) ++mark;
  }
}

}  // namespace crosstalk
