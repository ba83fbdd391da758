#include "crosstalk/models/decoding/text_writer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr size_t kKept = 4;         // tokens that the text of the next one may depend on
constexpr int kMostUnfinished = 4;  // tokens of a character, at most
constexpr std::string_view kReplacement = "\uFFFD";

// Bytes of the text without a character at its end that more bytes may finish. (SentencePiece's own decoder writes a
// replacement for each byte of one.)
size_t FinishedSize(std::string_view text) {
  size_t end = text.size();
  while (text.substr(0, end).ends_with(kReplacement)) end -= kReplacement.size();
  if (end < text.size()) return end;
  size_t begin = end;
  while (begin > 0 && end - begin < 3 && IsUtf8Continuation(text[begin - 1])) --begin;
  if (begin == 0) return end;
  const auto lead = static_cast<unsigned char>(text[begin - 1]);
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  return end - (begin - 1) < length ? begin - 1 : end;
}

}  // namespace

TextPieces::TextPieces(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<int32_t>& before)
    : tokenizer_(std::move(tokenizer)),
      ids_(before.end() - static_cast<int64_t>(std::min(before.size(), kKept)), before.end()),
      shown_(tokenizer_->Decode(ids_).size()) {}

std::string TextPieces::Take(const std::string& whole, size_t end) {
  const size_t begin = std::min(shown_, end);
  shown_ = std::max(shown_, end);
  const std::string piece = ReplaceInvalidUtf8(std::string_view(whole).substr(begin, end - begin));
  if (end == whole.size() && ids_.size() > kKept) {
    ids_.erase(ids_.begin(), ids_.end() - static_cast<int64_t>(kKept));
    shown_ = tokenizer_->Decode(ids_).size();
  }
  return piece;
}

std::string TextPieces::Add(int32_t id) {
  ids_.push_back(id);
  const std::string whole = tokenizer_->Decode(ids_);
  size_t end = FinishedSize(whole);
  if (end > shown_) unfinished_ = 0;
  if (end < whole.size()) ++unfinished_;
  if (unfinished_ == kMostUnfinished) {
    end = whole.size();
    unfinished_ = 0;
  }
  return Take(whole, end);
}

std::string TextPieces::Rest() {
  const std::string whole = tokenizer_->Decode(ids_);
  return Take(whole, whole.size());
}

void WriteText(const Model& model, const TextWriter& writer, const std::string& text, const SearchOptions& options,
               const TextBeingWritten::Emit& emit) {
  CROSSTALK_CHECK_FIELD(options.beams == 1, "beams", options.beams, " write no text before the end of all");
  SearchOptions one = options;
  one.answers = 1;
  const SearchInput input = writer.Read(text, options.max_length);
  const std::unique_ptr<TextBeingWritten> written = writer.Begin(text, emit);
  one.on_token = [&written](size_t, int64_t, int32_t id) { written->Add(id); };
  Search(model, {input}, one);
  written->End();
}

std::string TextOf(const TextWriter& writer, const std::string& text, const SearchAnswer& answer) {
  std::string whole;
  const std::unique_ptr<TextBeingWritten> written =
      writer.Begin(text, [&whole](std::string_view piece, Author) { whole += piece; });
  for (const int32_t id : answer.ids) written->Add(id);
  written->End();
  return whole;
}

}  // namespace crosstalk
