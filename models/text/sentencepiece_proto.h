// SentencePiece's `.model` files as bytes: protocol buffers that are read field by field, and written.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/utf8.h"

namespace crosstalk {

// Field numbers and values of SentencePiece's published schema, src/sentencepiece_model.proto of its repository.
namespace model_proto {
enum : uint64_t { kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3, kSelfTestData = 4, kDenormalizerSpec = 5 };
}
namespace piece_proto {  // ModelProto.SentencePiece
enum : uint64_t { kPiece = 1, kScore = 2, kType = 3 };
}
namespace trainer_spec {
enum : uint64_t {
  kModelType = 3,
  kByteFallback = 35,
  kUnkSurface = 44,
  kUnkPiece = 45,
  kBosPiece = 46,
  kEosPiece = 47,
  kPadPiece = 48
};
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

enum PieceType : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
struct VocabularyPiece {
  std::string text;
  float score = 0;
  PieceType type = kNormal;
};
// Of a model that CheckSentencePieceModel accepts.
std::vector<VocabularyPiece> ReadPieces(std::string_view model);

// ALBERT's rule for numbers: a piece that ends with a digit and a comma is passed over where others can spell it, as
// its score falls by 100. Hugging Face's fast tokenizer does this. (Google's code, and the slow one, encode such a
// piece once more without its comma, which comes to the same for the pieces that there are, but leaves the vocabulary
// where the piece's own letters are none.)
std::string WithoutNumbersBeforeCommas(std::string_view model);

// A unigram model with the normalisation that SentencePiece's models have by default.
struct UnigramModel {
  std::vector<VocabularyPiece> pieces;
  std::string charsmap;      // precompiled_charsmap
  bool space_before = true;  // of the first word: add_dummy_prefix
  bool byte_fallback = false;
};
std::string WriteModel(const UnigramModel& model);
// The inverse, of a model that CheckSentencePieceModel accepts; nullopt of one that says more or has another form.
std::optional<UnigramModel> ReadUnigramModel(std::string_view bytes);

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
  // The bytes of the whole field.
  std::string_view raw() const { return bytes_.substr(field_begin_, at_ - field_begin_); }
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

}  // namespace crosstalk
