// SentencePiece's `.model` files as bytes: protocol buffers that are read field by field, and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/protobuf.h"

namespace crosstalk {

// The beginning of a WireReader's errors, for the model `name`.
inline std::string NotASentencePieceModel(const std::string& name) {
  return name + ": not a usable SentencePiece model";
}

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
// The pieces of a model that CheckSentencePieceModel accepts.
std::vector<VocabularyPiece> ReadPieces(std::string_view model);

// ALBERT's rule for numbers: a piece that ends with a digit and a comma is passed over where others can spell it, as
// its score falls by 100. Hugging Face's fast tokenizer does this. (Google's code, and the slow one, encode such a
// piece once more without its comma, which comes to the same for the pieces that there are, but leaves the vocabulary
// where the piece's own letters are none.)
std::string WithoutNumbersBeforeCommas(std::string_view model);

// The model with more pieces above its own.
std::string WithPieces(std::string_view model, const std::vector<VocabularyPiece>& pieces);

// The model with kMark as a piece above its own, found wherever it stands, and without a space of its own before a
// text's first word. White space beside a mark is not at the text's edge, where the model takes it away.
inline constexpr std::string_view kMark = "\uF8FE\uE0F8\uF8FE";  // private characters
std::string WithMark(std::string_view model);
// Whether it puts a space before a text's first word (add_dummy_prefix).
bool HasSpaceBefore(std::string_view model);

// The model's normalisation table (precompiled_charsmap); "" if it has none.
std::string CharsmapOf(std::string_view model);
// Whether a table has a rule for the character by itself.
bool MapsCharacter(std::string_view charsmap, std::string_view character);
// Rewrites a text as the table does, from left to right by its longest rule.
void ApplyTable(std::string_view charsmap, TracedText* text);

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

// A check of a SentencePiece `.model` before the library sees it: the library trusts what it loads.

// Published models have up to 5 MB. The library takes up to 35 times a model's size in memory, and a second a megabyte.
inline constexpr size_t kMaxSentencePieceModelBytes = size_t{64} << 20;

// Throws Error(kData) with `name` and the byte offset unless `model` is a well-formed protocol buffer of a
// SentencePiece model of kind unigram or BPE whose pieces are of bounded length, distinct, valid UTF-8 with finite
// scores, and whose normalisation tables stay within their own bounds wherever a text leads them. Also refused, because
// the library has no room: too many user-defined pieces or normalisation rules that apply at one place of a text,
// and replacements that make a text many times as long. The check itself takes three times the model's size in memory.
void CheckSentencePieceModel(std::string_view model, const std::string& name);

}  // namespace crosstalk
