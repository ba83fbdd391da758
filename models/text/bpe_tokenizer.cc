#include "crosstalk/models/text/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <queue>
#include <unordered_map>
#include <utility>

#include "crosstalk/models/text/published_tokenizer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr std::string_view kReplacementText = "\uFFFD";

// The characters of the byte alphabet by byte, and the bytes by character.
struct ByteAlphabet {
  std::array<char32_t, 256> characters;
  std::array<int, 512> bytes;  // -1: none

  ByteAlphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (size_t byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      characters[byte] = prints ? static_cast<char32_t>(byte) : next++;
      bytes[characters[byte]] = static_cast<int>(byte);
    }
  }
};
const ByteAlphabet& Alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

// The byte of "<0x0A>"; -1 of any other text.
int NamedByte(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (text.size() != 6 || !text.starts_with("<0x") || !text.ends_with('>')) return -1;
  const size_t high = kDigits.find(text[3]), low = kDigits.find(text[4]);
  return high > 15 || low > 15 ? -1 : static_cast<int>(16 * high + low);
}

// Whether a byte is part of some UTF-8 text.
bool IsEverText(size_t byte) { return byte != 0xC0 && byte != 0xC1 && byte < 0xF5; }

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// The ids of a text's symbols, each with its bytes, in a list.
struct Symbol {
  int32_t id;  // kNoToken: merged with the one before it
  size_t begin, end;
  size_t previous, next;
};

// What the calls of one thread use again and again.
struct BpeMemory {
  MatchMemory matches;
  std::vector<PieceRange> pieces, cut;
  std::vector<Symbol> symbols;
  std::vector<uint64_t> queue;
};

// A section of a text as it is cut, with the places in the original of its bytes.
class SectionText {
 public:
  // text[begin, end) as it stands, with `prefix` before it.
  SectionText(std::string_view text, int64_t begin, int64_t end, std::string_view prefix)
      : text_(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin))),
        begin_(begin),
        added_(prefix.size()) {
    if (prefix.empty()) return;
    utf8_.text = StrCat(prefix, text_);
    text_ = utf8_.text;
  }
  explicit SectionText(TracedText text) : traced_(std::move(text)), utf8_(ToUtf8(traced_)), text_(utf8_.text) {}
  SectionText(const SectionText&) = delete;
  SectionText& operator=(const SectionText&) = delete;

  std::string_view text() const { return text_; }
  TokenSpan Span(int32_t id, size_t begin, size_t end) const {
    if (traced_.empty()) return {id, Before(begin), Before(end)};
    return {id, Place(begin, begin, 0), Place(end - 1, end, 1)};
  }

 private:
  int64_t Before(size_t at) const { return begin_ + static_cast<int64_t>(at - std::min(at, added_)); }
  // A byte that stands in the original as it is has its own place, or the one after it; any other has its character's
  // begin (0) or end (1).
  int64_t Place(size_t byte, size_t at, int side) const {
    const auto number = static_cast<size_t>(utf8_.character[byte]);
    const TracedCharacter& character = traced_[number];
    size_t first = byte;
    while (IsUtf8Continuation(text_[first])) --first;
    const bool shared = (number > 0 && traced_[number - 1].end > character.begin) ||
                        (number + 1 < traced_.size() && traced_[number + 1].begin < character.end);
    const auto length = static_cast<int64_t>(Utf8Length(text_, first));
    if (!shared && length == character.end - character.begin) return character.begin + static_cast<int64_t>(at - first);
    return side == 0 ? character.begin : character.end;
  }

  TracedText traced_;
  Utf8Text utf8_;
  std::string_view text_;
  int64_t begin_ = 0;
  size_t added_ = 0;
};

class BpeTokenizer : public Tokenizer {
 public:
  BpeTokenizer(BpeModel model, const std::string& name, int num_sentinels)
      : Tokenizer(model.tokens, static_cast<int>(model.pieces.size() + model.more.size()) + OnTop(model, num_sentinels),
                  model.sentinels.empty()
                      ? SentinelsOnTop(static_cast<int>(model.pieces.size() + model.more.size()), num_sentinels)
                      : model.sentinels),
        model_(std::move(model)),
        ruled_(model_.rules),
        is_special_(static_cast<size_t>(vocab_size())) {
    bytes_.reserve(is_special_.size());  // ids_ has views of them
    for (const int32_t id : model_.special) is_special_[static_cast<size_t>(id)] = true;
    for (size_t i = 0; i < model_.splits.size(); ++i) {
      splits_.emplace_back(model_.splits[i], name + ": pre_tokenizer.pattern");
    }
    byte_ids_.fill(kNoToken);
    for (size_t i = 0; i < model_.pieces.size() + model_.more.size(); ++i) AddPiece(static_cast<int32_t>(i));
    std::unordered_map<std::string_view, int32_t> by_text;
    for (size_t i = 0; i < model_.pieces.size(); ++i) by_text.emplace(model_.pieces[i], static_cast<int32_t>(i));
    if (!model_.unknown.empty()) unknown_ = by_text.at(model_.unknown);
    ranks_.reserve(model_.merges.size());
    for (size_t rank = 0; rank < model_.merges.size(); ++rank) {
      const auto [left, right] = model_.merges[rank];
      merged_.push_back(by_text.at(PieceText(left) + PieceText(right)));
      ranks_[PairKey(left, right)] = static_cast<int32_t>(rank);
    }
  }

  std::vector<int32_t> Encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    const std::vector<TokenSpan> spans = EncodeSpans(text);
    ids.reserve(spans.size());
    for (const TokenSpan& span : spans) ids.push_back(span.id);
    return ids;
  }

  std::vector<TokenSpan> EncodeSpans(std::string_view text) const override {
    BpeMemory memory;
    std::vector<TokenSpan> spans;
    for (size_t at = 0; at < text.size();) {
      const size_t valid = std::min(FindInvalidUtf8(text.substr(at)), text.size() - at);
      AppendValid(text, at, at + valid, &memory, &spans);
      at += valid;
      if (at == text.size()) break;
      AppendByte(text, at++, &memory, &spans);
    }
    return spans;
  }

  std::string Decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      CheckId(id);
      if (IsSentinel(id)) {
        text += SentinelText(id);
      } else if (!model_.byte_level && id == special_tokens().unknown) {
        text += kUnknownText;
      } else if (!is_special_[static_cast<size_t>(id)]) {
        text += bytes_[static_cast<size_t>(id)];
      }
    }
    if (model_.strips_space && text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  std::string TokenText(int32_t id) const override {
    CheckId(id);
    return static_cast<size_t>(id) < bytes_.size() ? PieceText(id) : SentinelText(id);
  }

  std::string kind() const override { return "bpe"; }
  PairTemplate OwnTemplate(int texts) const override { return texts == 1 ? model_.single : model_.pair; }
  std::string FileName() const override { return "tokenizer.json"; }
  std::string FileContents() const override {
    return Json::MakeObject({{"kind", kind()},
                             {"sentinels", model_.sentinels.empty() ? num_sentinels() : 0},
                             {"tokens", ToJson(special_tokens())},
                             {"published", PublishedJson(model_, *this)}})
        .DumpPretty();
  }
  std::vector<PublishedFile> PublishedFiles() const override {
    return {{"tokenizer.json", PublishedJson(model_, *this).DumpPretty()},
            {"tokenizer_config.json", PublishedJsonConfig(*this, model_.rules)}};
  }
  // The vocabulary as text has it, which its pieces do not show.
  std::vector<std::string> RuleTexts() const override {
    constexpr size_t kPiecesPerText = 64;
    std::vector<std::string> texts = crosstalk::RuleTexts(model_.rules);
    std::string text, spaced;
    for (size_t id = 0; id < bytes_.size(); ++id) {
      text += bytes_[id];
      spaced += StrCat(bytes_[id], " ");
      if (id % kPiecesPerText + 1 < kPiecesPerText && id + 1 < bytes_.size()) continue;
      texts.insert(texts.end(), {std::exchange(text, ""), std::exchange(spaced, "")});
    }
    return texts;
  }

 private:
  static int OnTop(const BpeModel& model, int num_sentinels) { return model.sentinels.empty() ? num_sentinels : 0; }

  const std::string& PieceText(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return i < model_.pieces.size() ? model_.pieces[i] : model_.more[i - model_.pieces.size()];
  }

  // The piece of the next id, as text has it.
  void AddPiece(int32_t id) {
    const std::string& piece = PieceText(id);
    const bool own = static_cast<size_t>(id) < model_.pieces.size();
    const int byte = model_.byte_fallback && own ? NamedByte(piece) : -1;
    bytes_.push_back(model_.byte_level ? BytesOf(piece)
                     : byte >= 0       ? std::string(1, static_cast<char>(byte))
                                       : Replaced(piece, kSpaceMark, " "));
    if (byte >= 0) byte_ids_[static_cast<size_t>(byte)] = id;
    if (!own) return;
    if (!model_.byte_level) return void(ids_.emplace(piece, id));
    if (ToByteAlphabet(bytes_.back()) != piece) return;  // a literal token that no bytes are
    ids_.emplace(bytes_.back(), id);
    if (bytes_.back().size() == 1) byte_ids_[static_cast<unsigned char>(bytes_.back()[0])] = id;
  }

  bool ContinuesWord(int32_t before, int32_t id) const override {
    const std::string& text = bytes_[static_cast<size_t>(id)];
    const std::string& last = bytes_[static_cast<size_t>(before)];
    return (!text.empty() && !IsAsciiSpace(text[0])) || (!last.empty() && IsAsciiSpace(last.back()));
  }

  // The bytes [begin, end) of text, which are UTF-8.
  void AppendValid(std::string_view text, size_t begin, size_t end, BpeMemory* memory,
                   std::vector<TokenSpan>* spans) const {
    const std::string_view valid = text.substr(begin, end - begin);
    const auto shift = static_cast<int64_t>(begin);
    const size_t before = spans->size();
    // A section after a byte that is no text goes on with what stands before it.
    const auto has_prefix = [&](int64_t at) {
      return model_.prefix != PrefixScheme::kNever && (at > 0 || begin == 0) &&
             (model_.prefix == PrefixScheme::kAlways || at == 0);
    };
    if (ruled_.OnlyCuts() && !model_.marks_spaces) {
      for (const LiteralTokens::Section& section : ruled_.Cut(valid)) {
        if (section.id != kNoToken) {
          spans->push_back({section.id, section.begin, section.end});
          continue;
        }
        const bool prefix = has_prefix(section.begin) && valid[static_cast<size_t>(section.begin)] != ' ';
        AppendSection(SectionText(valid, section.begin, section.end, prefix ? " " : ""), memory, spans);
      }
    } else {
      for (RuledText::Part& part : ruled_.Parts(valid)) {
        if (part.id != kNoToken) {
          spans->push_back({part.id, part.begin, part.end});
          continue;
        }
        const char32_t space = model_.marks_spaces ? kMark : U' ';
        if (model_.marks_spaces) Apply({RewriteKind::kReplace, U" ", {kMark}}, &part.text);
        const bool prefix = has_prefix(part.begin) && !part.text.empty() && part.text[0].code != space;
        if (prefix) Apply({RewriteKind::kPrepend, {}, {space}}, &part.text);
        AppendSection(SectionText(std::move(part.text)), memory, spans);
      }
    }
    if (shift == 0) return;
    for (size_t i = before; i < spans->size(); ++i) (*spans)[i].begin += shift, (*spans)[i].end += shift;
  }

  // A byte that is part of no character.
  void AppendByte(std::string_view text, size_t at, BpeMemory* memory, std::vector<TokenSpan>* spans) const {
    const auto begin = static_cast<int64_t>(at);
    const int32_t id = byte_ids_[static_cast<unsigned char>(text[at])];
    if (id != kNoToken) return void(spans->push_back({id, begin, begin + 1}));
    AppendSection(SectionText(TracedText{{ToUtf32(kReplacementText)[0], begin, begin + 1}}), memory, spans);
  }

  void AppendSection(const SectionText& section, BpeMemory* memory, std::vector<TokenSpan>* spans) const {
    const std::string_view text = section.text();
    std::vector<PieceRange>& pieces = memory->pieces;
    pieces.clear();
    if (!text.empty()) pieces.push_back({0, text.size()});
    for (const SplitPattern& split : splits_) {
      memory->cut.clear();
      for (const PieceRange& piece : pieces) split.Cut(text, piece, &memory->matches, &memory->cut);
      std::swap(pieces, memory->cut);
    }
    for (const PieceRange& piece : pieces) AppendPiece(section, piece, memory, spans);
  }

  void AppendPiece(const SectionText& section, const PieceRange& piece, BpeMemory* memory,
                   std::vector<TokenSpan>* spans) const {
    if (model_.whole_pieces) {
      const auto whole = ids_.find(section.text().substr(piece.begin, piece.end - piece.begin));
      if (whole != ids_.end()) return spans->push_back(section.Span(whole->second, piece.begin, piece.end));
    }
    std::vector<Symbol>& symbols = memory->symbols;
    symbols.clear();
    if (model_.byte_level) {
      SpellInBytes(section.text(), piece, &symbols);
    } else {
      SpellInCharacters(section.text(), piece, &symbols);
    }
    if (symbols.size() > 1) Merge(memory);
    for (size_t i = 0; i < symbols.size(); i = symbols[i].next) {
      spans->push_back(section.Span(symbols[i].id, symbols[i].begin, symbols[i].end));
    }
  }

  static void Add(int32_t id, size_t begin, size_t end, std::vector<Symbol>* symbols) {
    const size_t i = symbols->size();
    symbols->push_back({id, begin, end, i - 1, i + 1});
  }
  void AddUnknown(size_t begin, size_t end, std::vector<Symbol>* symbols) const {
    if (unknown_ == kNoToken) return;
    const bool fused = model_.fuse_unknown && !symbols->empty() && symbols->back().id == unknown_;
    if (!fused) return Add(unknown_, begin, end, symbols);
    symbols->back().end = end;
  }

  void SpellInBytes(std::string_view text, const PieceRange& piece, std::vector<Symbol>* symbols) const {
    for (size_t at = piece.begin; at < piece.end; ++at) {
      const int32_t id = byte_ids_[static_cast<unsigned char>(text[at])];
      id != kNoToken ? Add(id, at, at + 1, symbols) : AddUnknown(at, at + 1, symbols);
    }
  }

  void SpellInCharacters(std::string_view text, const PieceRange& piece, std::vector<Symbol>* symbols) const {
    for (size_t at = piece.begin, end; at < piece.end; at = end) {
      end = at + Utf8Length(text, at);
      const auto found = ids_.find(text.substr(at, end - at));
      if (found != ids_.end()) {
        Add(found->second, at, end, symbols);
      } else if (model_.byte_fallback) {
        for (; at < end; ++at) Add(byte_ids_[static_cast<unsigned char>(text[at])], at, at + 1, symbols);
      } else {
        AddUnknown(at, end, symbols);
      }
    }
  }

  // Merges the symbols. A queue holds rank and place of each pair that a merge applies to, the next one on top; a pair
  // that no longer stands there is passed over. Of n symbols O(n log n).
  void Merge(BpeMemory* memory) const {
    constexpr int kPlaceBits = 40;
    std::vector<Symbol>& symbols = memory->symbols;
    std::vector<uint64_t>& queue = memory->queue;
    const auto offer = [&](size_t left) {
      const size_t right = symbols[left].next;
      if (right >= symbols.size()) return;
      const auto found = ranks_.find(PairKey(symbols[left].id, symbols[right].id));
      if (found == ranks_.end()) return;
      queue.push_back(static_cast<uint64_t>(found->second) << kPlaceBits | left);
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    };
    queue.clear();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) offer(i);
    while (!queue.empty()) {
      std::pop_heap(queue.begin(), queue.end(), std::greater<>());
      const auto rank = static_cast<size_t>(queue.back() >> kPlaceBits);
      const auto place = static_cast<size_t>(queue.back() & ((uint64_t{1} << kPlaceBits) - 1));
      queue.pop_back();
      Symbol& left = symbols[place];
      if (left.id != model_.merges[rank].first || left.next >= symbols.size()) continue;
      Symbol& right = symbols[left.next];
      if (right.id != model_.merges[rank].second) continue;
      left.id = merged_[rank];
      left.end = right.end;
      left.next = right.next;
      right.id = kNoToken;
      if (left.next < symbols.size()) symbols[left.next].previous = place;
      offer(place);
      if (place > 0) offer(left.previous);
    }
  }

  static constexpr char32_t kMark = 0x2581;  // kSpaceMark

  const BpeModel model_;
  const RuledText ruled_;
  std::vector<SplitPattern> splits_;
  std::vector<std::string> bytes_;  // by id, what it is in a text
  std::vector<bool> is_special_;
  std::unordered_map<std::string_view, int32_t> ids_;  // of the pieces, as text has them; into bytes_ and model_
  std::array<int32_t, 256> byte_ids_;                  // kNoToken: none
  int32_t unknown_ = kNoToken;
  std::unordered_map<uint64_t, int32_t> ranks_;  // by PairKey
  std::vector<int32_t> merged_;                  // by rank
};

void CheckBpePieces(const BpeModel& model, const std::string& name) {
  std::array<bool, 256> bytes = {};
  CheckPieces(model.pieces, model.more, name, [&](const std::string& piece, size_t) {
    if (const std::string text = BytesOf(piece); model.byte_level && text.size() == 1) {
      bytes[static_cast<unsigned char>(text[0])] = true;
    }
    if (const int byte = NamedByte(piece); model.byte_fallback && byte >= 0) bytes[static_cast<size_t>(byte)] = true;
  });
  if (!model.byte_fallback && (!model.byte_level || !model.unknown.empty())) return;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (bytes[byte] || !IsEverText(byte)) continue;
    Fail(ErrorKind::kData, name, ": the vocabulary has no piece for the byte ", byte);
  }
}

}  // namespace

std::string ToByteAlphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) AppendUtf8(Alphabet().characters[static_cast<unsigned char>(byte)], &text);
  return text;
}

std::string BytesOf(std::string_view text) {
  std::string bytes;
  for (const char32_t code : ToUtf32(text)) {
    const int byte = code < Alphabet().bytes.size() ? Alphabet().bytes[code] : -1;
    if (byte < 0) return std::string(text);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::shared_ptr<const Tokenizer> MakeBpeTokenizer(BpeModel model, const std::string& name, int num_sentinels) {
  CheckBpePieces(model, name);
  return std::make_shared<BpeTokenizer>(std::move(model), name, num_sentinels);
}

}  // namespace crosstalk
