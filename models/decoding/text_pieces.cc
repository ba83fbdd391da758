#include "crosstalk/models/decoding/text_pieces.h"

#include <algorithm>
#include <span>
#include <utility>

#include "crosstalk/runtime/utf8.h"

namespace crosstalk {
namespace {

constexpr size_t kKept = 4;      // tokens that the text of the next one may depend on
constexpr size_t kHeldBack = 4;  // tokens that one character can have, at most
constexpr char kReplacement[] = "\uFFFD";

// Whether the text ends within a character. (SentencePiece's own decoder writes a replacement there.)
bool EndsWithinCharacter(const std::string& text) {
  if (text.ends_with(kReplacement)) return true;
  size_t begin = text.size();
  while (begin > 0 && text.size() - begin < 4 && IsUtf8Continuation(text[begin - 1])) --begin;
  if (begin == 0) return false;
  --begin;
  return static_cast<unsigned char>(text[begin]) >= 0xC0 && Utf8Length(text, begin) == 0;
}

}  // namespace

TextPieces::TextPieces(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<int32_t>& before)
    : tokenizer_(std::move(tokenizer)),
      ids_(before.end() - static_cast<int64_t>(std::min(before.size(), kKept)), before.end()),
      begun_(ids_.size()) {}

std::string TextPieces::Take(const std::string& whole) {
  const std::string stood = tokenizer_->Decode(std::span(ids_).first(begun_));
  std::string piece = whole.substr(std::min(whole.size(), stood.size()));
  if (begun_ > 0 && ids_.size() > kKept) ids_.erase(ids_.begin(), ids_.end() - static_cast<int64_t>(kKept));
  begun_ = ids_.size();
  return ReplaceInvalidUtf8(piece);
}

std::string TextPieces::Add(int32_t id) {
  ids_.push_back(id);
  const std::string whole = tokenizer_->Decode(ids_);
  if (EndsWithinCharacter(whole) && ids_.size() - begun_ < kHeldBack) return "";
  return Take(whole);
}

std::string TextPieces::Rest() { return begun_ == ids_.size() ? "" : Take(tokenizer_->Decode(ids_)); }

}  // namespace crosstalk
