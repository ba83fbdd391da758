#include "crosstalk/models/text/sentencepiece_model_check.h"

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

constexpr size_t kMaxModelBytes = size_t{256} << 20;
constexpr size_t kMaxPieces = 2'000'000;
constexpr size_t kMaxPieceBytes = 512;
constexpr size_t kMaxStringBytes = 1 << 16;  // of the names, symbols and samples beside the pieces

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

}  // namespace

void CheckSentencePieceModel(std::string_view model, const std::string& name) {
  if (model.empty()) Fail(ErrorKind::kData, name, ": the SentencePiece model is empty");
  if (model.size() > kMaxModelBytes) {
    Fail(ErrorKind::kData, name, ": ", model.size(), " bytes are more than a SentencePiece model may have (",
         kMaxModelBytes, ")");
  }
  WireReader reader(model, 0, name);
  std::unordered_set<std::string_view> pieces;
  size_t unknown = 0, normal = 0;
  while (reader.Next()) {
    switch (reader.field()) {
      case model_proto::kPieces: {
        const Piece piece = CheckPiece(reader.AsMessage());
        if (piece.text.empty()) reader.FailHere("a piece without text");
        if (!pieces.insert(piece.text).second) reader.FailHere("a piece that was there before");
        if (pieces.size() > kMaxPieces) reader.FailHere("more than ", kMaxPieces, " pieces");
        unknown += piece.type == kUnknown;
        normal += piece.type == kNormal || piece.type == kUserDefined;
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
            if (sample.field() <= self_test_data::kSampleExpected) sample.AsText(kMaxStringBytes);
          }
        }
        break;
      }
      default:
        break;
    }
  }
  if (unknown != 1 || normal == 0) {
    Fail(ErrorKind::kData, name, ": not a usable SentencePiece model: it has ", normal, " pieces for text and ",
         unknown, " for the unknown, where exactly one is needed");
  }
}

}  // namespace crosstalk
