#include "crosstalk/models/text/sentencepiece_model_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/utf8.h"

namespace crosstalk {
namespace {

constexpr size_t kMaxPieces = 2'000'000;
constexpr size_t kMaxPieceBytes = 512;
constexpr size_t kMaxStringBytes = 1 << 16;  // of the names and symbols beside the pieces
constexpr size_t kMaxSampleBytes = 1 << 12;  // of a self-test, which loading executes
constexpr size_t kMaxSamplesBytes = 1 << 20;
// The library's buffers for what it finds at one place of a text; it writes or reads beyond their ends.
constexpr size_t kMaxNestedSymbols = 64;  // user-defined pieces
constexpr int kMaxNestedRules = 32;       // of a normalisation table
// A text takes 300 times its normalised bytes while it is encoded. Unicode's own replacements have up to 33 bytes.
constexpr size_t kMaxReplacementBytes = 128;

// Field numbers and values of SentencePiece's published schema, src/sentencepiece_model.proto of its repository.
namespace model_proto {
enum : uint64_t { kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3, kSelfTestData = 4, kDenormalizerSpec = 5 };
}
namespace piece_proto {  // ModelProto.SentencePiece
enum : uint64_t { kPiece = 1, kScore = 2, kType = 3 };
}
enum PieceType : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
namespace trainer_spec {
enum : uint64_t { kModelType = 3, kUnkSurface = 44, kUnkPiece = 45, kBosPiece = 46, kEosPiece = 47, kPadPiece = 48 };
}
enum ModelType : uint64_t { kUnigram = 1, kBpe = 2 };
namespace normalizer_spec {
enum : uint64_t {
  kName = 1,
  kPrecompiledCharsmap = 2,
  kAddDummyPrefix = 3,
  kRemoveExtraWhitespaces = 4,
  kEscapeWhitespaces = 5,
  kNormalizationRuleTsv = 6,
};
}
namespace self_test_data {
enum : uint64_t { kSamples = 1, kSampleInput = 1, kSampleExpected = 2 };
}

// Wire types of protocol buffers.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Reads the fields of one message. Groups (wire types 3 and 4), which SentencePiece never writes, are refused.
class WireReader {
 public:
  WireReader(std::string_view bytes, size_t offset, const std::string& name)
      : bytes_(bytes), offset_(offset), name_(name) {}

  bool Next() {
    if (at_ == bytes_.size()) return false;
    field_begin_ = at_;
    const uint64_t tag = Varint();
    field_ = tag >> 3;
    type_ = static_cast<int>(tag & 7);
    if (field_ == 0 || field_ > 536870911) FailHere("a field number that is not allowed");
    switch (type_) {
      case kVarint:
        varint_ = Varint();
        break;
      case kFixed64:
        Take(8);
        break;
      case kFixed32:
        Take(4);
        break;
      case kBytes: {
        const uint64_t length = Varint();
        if (length > bytes_.size() - at_) FailHere("a field that is longer than what is left");
        Take(length);
        break;
      }
      default:
        FailHere("a field of unknown type");
    }
    return true;
  }

  uint64_t field() const { return field_; }
  // The value, by the type it must have.
  uint64_t AsVarint() const { return Expect(kVarint), varint_; }
  float AsFloat() const {
    Expect(kFixed32);
    uint32_t bits;
    std::memcpy(&bits, value_.data(), 4);
    return std::bit_cast<float>(bits);
  }
  std::string_view AsBytes() const { return Expect(kBytes), value_; }
  WireReader AsMessage() const { return WireReader(AsBytes(), offset_ + (at_ - value_.size()), name_); }
  std::string_view AsText(size_t max_bytes) const {
    const std::string_view text = AsBytes();
    if (text.size() > max_bytes) FailHere("a text of ", text.size(), " bytes, more than the ", max_bytes, " allowed");
    if (FindInvalidUtf8(text) != std::string_view::npos) FailHere("a text that is not valid UTF-8");
    if (text.find('\0') != std::string_view::npos) FailHere("a text with a NUL byte");
    return text;
  }

  template <typename... Parts>
  [[noreturn]] void FailHere(const Parts&... parts) const {
    Fail(ErrorKind::kData, name_, ": not a usable SentencePiece model: byte ", offset_ + field_begin_, " begins ",
         parts...);
  }

 private:
  void Expect(int type) const {
    if (type_ != type) FailHere("a field of the wrong type");
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == bytes_.size()) FailHere("a number that is cut off");
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      if (shift == 63 && byte > 1) FailHere("a number that is too long");
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    FailHere("a number that is too long");
  }
  void Take(size_t count) {
    if (count > bytes_.size() - at_) FailHere("a field that is cut off");
    value_ = bytes_.substr(at_, count);
    at_ += count;
  }

  std::string_view bytes_;
  size_t offset_;  // of bytes_ in the file
  const std::string& name_;
  size_t at_ = 0;
  size_t field_begin_ = 0;
  uint64_t field_ = 0;
  int type_ = 0;
  uint64_t varint_ = 0;
  std::string_view value_;
};

// Of a trie whose units lead nowhere but into it: how many values a text can pass on its way. From the node of base b,
// which is i ^ offset(unit i) of the unit i that led there, text leads on to the units j = b ^ label(unit j).
void CheckNesting(std::string_view trie, const WireReader& where) {
  constexpr uint32_t kNone = UINT32_MAX;
  const auto units = static_cast<uint32_t>(trie.size() / 4);
  const auto unit_at = [&](uint32_t i) {
    uint32_t unit;
    std::memcpy(&unit, trie.data() + 4 * size_t{i}, 4);
    return unit;
  };
  const auto base_of = [&](uint32_t i) {
    const uint32_t unit = unit_at(i);
    return i ^ (unit >> 10) << ((unit & (1u << 9)) >> 6);
  };
  std::vector<uint32_t> first(units, kNone), next(units, kNone);  // of each base, its units as a list
  for (uint32_t j = 0; j < units; ++j) {
    if (unit_at(j) >> 31 != 0) continue;  // a value
    uint32_t& head = first[j ^ (unit_at(j) & 0xFF)];
    next[j] = std::exchange(head, j);
  }
  struct Step {
    uint32_t base;
    uint32_t unit;  // of those from there on, the one that is looked at
  };
  std::vector<Step> path = {{base_of(0), first[base_of(0)]}};
  std::vector<int8_t> most(units, -1);  // values behind a base; -1: not yet looked at
  std::vector<bool> on_path(units, false);
  most[path[0].base] = 0;
  while (!path.empty()) {
    Step& step = path.back();
    on_path[step.base] = step.unit != kNone;
    if (step.unit == kNone) {
      path.pop_back();
      continue;
    }
    const uint32_t base = base_of(step.unit);
    if (on_path[base]) where.FailHere("a normalisation table that leads back to where it was (unit ", step.unit, ")");
    if (most[base] < 0) {
      most[base] = 0;
      path.push_back({base, first[base]});
      continue;
    }
    const int values = most[base] + static_cast<int>(unit_at(step.unit) >> 8 & 1);
    if (values > kMaxNestedRules) {
      where.FailHere("a normalisation table with more than ", kMaxNestedRules, " rules for one place of a text");
    }
    most[step.base] = std::max(most[step.base], static_cast<int8_t>(values));
    step.unit = next[step.unit];
  }
}

// precompiled_charsmap: 4 bytes little-endian T, a double-array trie of T/4 units (Darts-clone's layout), then the
// replacement texts, each ended by NUL. A step from node i on byte c goes to i ^ offset(unit i) ^ c; a unit with a leaf
// bit has its value, an offset into the replacements, at i ^ offset.
void CheckCharsMap(std::string_view map, const WireReader& where) {
  if (map.empty()) return;
  uint32_t trie_bytes = 0;
  if (map.size() > 4) std::memcpy(&trie_bytes, map.data(), 4);
  if (map.size() <= 4 || trie_bytes >= map.size() - 4 || trie_bytes < 1024 || trie_bytes % 1024 != 0) {
    where.FailHere("a normalisation table of impossible sizes");
  }
  const size_t units = trie_bytes / 4;
  const std::string_view texts = map.substr(4 + trie_bytes);
  if (texts.back() != '\0') where.FailHere("a normalisation table whose last text has no end");
  if (FindInvalidUtf8(texts) != std::string_view::npos) {
    where.FailHere("a normalisation table whose texts are not valid UTF-8");
  }
  for (size_t begin = 0; begin < texts.size();) {
    const size_t end = texts.find('\0', begin);
    if (end - begin > kMaxReplacementBytes) {
      where.FailHere("a normalisation table with a replacement of ", end - begin, " bytes, more than the ",
                     kMaxReplacementBytes, " allowed");
    }
    begin = end + 1;
  }
  const auto unit_at = [&](size_t i) {
    uint32_t unit;
    std::memcpy(&unit, map.data() + 4 + 4 * i, 4);
    return unit;
  };
  // Every unit that is not a value is held to the rules, reachable or not: cheaper than walking, and true of what
  // the library's own builder writes.
  for (size_t i = 0; i < units; ++i) {
    const uint32_t unit = unit_at(i);
    if (i != 0 && (unit >> 31) != 0) continue;  // a value
    const size_t offset = static_cast<size_t>(unit >> 10) << ((unit & (1u << 9)) >> 6);
    const size_t next = i ^ offset;
    if ((next | 0xFF) >= units) where.FailHere("a normalisation table that leads outside itself (unit ", i, ")");
    if ((unit >> 8 & 1) != 0 && (unit_at(next) & 0x7FFFFFFF) >= texts.size()) {
      where.FailHere("a normalisation table with a text outside itself (unit ", i, ")");
    }
  }
  CheckNesting(map.substr(4, trie_bytes), where);
}

void CheckNormalizer(WireReader reader) {
  while (reader.Next()) {
    switch (reader.field()) {
      case normalizer_spec::kName:
        reader.AsText(kMaxStringBytes);
        break;
      case normalizer_spec::kPrecompiledCharsmap:
        CheckCharsMap(reader.AsBytes(), reader);
        break;
      case normalizer_spec::kAddDummyPrefix:
      case normalizer_spec::kRemoveExtraWhitespaces:
      case normalizer_spec::kEscapeWhitespaces:
        reader.AsVarint();
        break;
      case normalizer_spec::kNormalizationRuleTsv:
        reader.AsText(kMaxStringBytes);
        break;
      default:
        break;
    }
  }
}

void CheckTrainer(WireReader reader) {
  while (reader.Next()) {
    switch (reader.field()) {
      case trainer_spec::kModelType:
        if (reader.AsVarint() != kUnigram && reader.AsVarint() != kBpe) {
          reader.FailHere("a model that is neither unigram nor BPE");
        }
        break;
      case trainer_spec::kUnkSurface:
      case trainer_spec::kUnkPiece:
      case trainer_spec::kBosPiece:
      case trainer_spec::kEosPiece:
      case trainer_spec::kPadPiece:
        reader.AsText(kMaxPieceBytes);
        break;
      default:
        break;
    }
  }
}

struct Piece {
  std::string_view text;
  uint64_t type;
};

Piece CheckPiece(WireReader reader) {
  Piece piece{{}, kNormal};
  while (reader.Next()) {
    switch (reader.field()) {
      case piece_proto::kPiece:
        piece.text = reader.AsText(kMaxPieceBytes);
        break;
      case piece_proto::kScore:
        if (!std::isfinite(reader.AsFloat()) || std::abs(reader.AsFloat()) > 1e9f) {
          reader.FailHere("a piece whose score is not a usable number");
        }
        break;
      case piece_proto::kType:
        piece.type = reader.AsVarint();
        if (piece.type < kNormal || piece.type > kByte) reader.FailHere("a piece of unknown type");
        break;
      default:
        break;
    }
  }
  return piece;
}

// The most of `symbols` that begin at one place of a text: the longest chain of them, each the beginning of the next.
size_t DeepestNesting(std::vector<std::string_view> symbols) {
  std::sort(symbols.begin(), symbols.end());  // puts each right behind those that it begins with
  std::vector<std::string_view> chain;
  size_t deepest = 0;
  for (const std::string_view symbol : symbols) {
    while (!chain.empty() && !symbol.starts_with(chain.back())) chain.pop_back();
    chain.push_back(symbol);
    deepest = std::max(deepest, chain.size());
  }
  return deepest;
}

}  // namespace

void CheckSentencePieceModel(std::string_view model, const std::string& name) {
  if (model.empty()) Fail(ErrorKind::kData, name, ": the SentencePiece model is empty");
  if (model.size() > kMaxSentencePieceModelBytes) {
    Fail(ErrorKind::kData, name, ": ", model.size(), " bytes are more than a SentencePiece model may have (",
         kMaxSentencePieceModelBytes, ")");
  }
  WireReader reader(model, 0, name);
  std::unordered_set<std::string_view> pieces;
  std::vector<std::string_view> user_defined;
  size_t unknown = 0, normal = 0, samples_bytes = 0;
  while (reader.Next()) {
    switch (reader.field()) {
      case model_proto::kPieces: {
        const Piece piece = CheckPiece(reader.AsMessage());
        if (piece.text.empty()) reader.FailHere("a piece without text");
        if (!pieces.insert(piece.text).second) reader.FailHere("a piece that was there before");
        if (pieces.size() > kMaxPieces) reader.FailHere("more than ", kMaxPieces, " pieces");
        unknown += piece.type == kUnknown;
        normal += piece.type == kNormal || piece.type == kUserDefined;
        if (piece.type == kUserDefined) user_defined.push_back(piece.text);
        break;
      }
      case model_proto::kTrainerSpec:
        CheckTrainer(reader.AsMessage());
        break;
      case model_proto::kNormalizerSpec:
      case model_proto::kDenormalizerSpec:
        CheckNormalizer(reader.AsMessage());
        break;
      case model_proto::kSelfTestData: {
        for (WireReader samples = reader.AsMessage(); samples.Next();) {
          if (samples.field() != self_test_data::kSamples) continue;
          for (WireReader sample = samples.AsMessage(); sample.Next();) {
            if (sample.field() > self_test_data::kSampleExpected) continue;
            samples_bytes += sample.AsText(kMaxSampleBytes).size();
            if (samples_bytes > kMaxSamplesBytes) sample.FailHere("more than ", kMaxSamplesBytes, " bytes of samples");
          }
        }
        break;
      }
      default:
        break;
    }
  }
  if (const size_t deepest = DeepestNesting(std::move(user_defined)); deepest > kMaxNestedSymbols) {
    Fail(ErrorKind::kData, name, ": not a usable SentencePiece model: ", deepest,
         " user-defined pieces begin with one another, more than the ", kMaxNestedSymbols,
         " that the library can bear");
  }
  if (unknown != 1 || normal == 0) {
    Fail(ErrorKind::kData, name, ": not a usable SentencePiece model: it has ", normal, " pieces for text and ",
         unknown, " for the unknown, where exactly one is needed");
  }
}

}  // namespace crosstalk
