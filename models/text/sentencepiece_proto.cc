#include "crosstalk/models/text/sentencepiece_proto.h"

#include <algorithm>
#include <cstring>

#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/utf8.h"

namespace crosstalk {
namespace {

constexpr float kPassedOver = 100;

const std::string& AnyModel() {
  static const std::string& name = *new std::string(NotASentencePieceModel("SentencePiece model"));
  return name;
}

std::string PieceField(const VocabularyPiece& piece) {
  return BytesField(model_proto::kPieces, BytesField(piece_proto::kPiece, piece.text) +
                                              FloatField(piece_proto::kScore, piece.score) +
                                              IntField(piece_proto::kType, piece.type));
}

VocabularyPiece ReadPiece(WireReader reader) {
  VocabularyPiece piece;
  while (reader.Next()) {
    if (reader.field() == piece_proto::kPiece) piece.text = reader.AsBytes();
    if (reader.field() == piece_proto::kScore) piece.score = reader.AsFloat();
    if (reader.field() == piece_proto::kType) piece.type = static_cast<PieceType>(reader.AsVarint());
  }
  return piece;
}

bool IsNumberBeforeComma(std::string_view piece) {
  if (!piece.ends_with(',')) return false;
  const std::u32string codes = ToUtf32(piece);
  return codes.size() >= 2 && IsDigit(codes[codes.size() - 2]);
}

}  // namespace

std::vector<VocabularyPiece> ReadPieces(std::string_view model) {
  std::vector<VocabularyPiece> pieces;
  for (WireReader reader(model, 0, AnyModel()); reader.Next();) {
    if (reader.field() == model_proto::kPieces) pieces.push_back(ReadPiece(reader.AsMessage()));
  }
  return pieces;
}

std::string WithoutNumbersBeforeCommas(std::string_view model) {
  std::string changed;
  for (WireReader reader(model, 0, AnyModel()); reader.Next();) {
    if (reader.field() == model_proto::kPieces) {
      VocabularyPiece piece = ReadPiece(reader.AsMessage());
      if (piece.type == kNormal && IsNumberBeforeComma(piece.text)) {
        piece.score -= kPassedOver;
        changed += PieceField(piece);
        continue;
      }
    }
    changed += reader.raw();
  }
  return changed;
}

// The table's layout: CheckSentencePieceModel. One that it refuses maps nothing here.
bool MapsCharacter(std::string_view charsmap, std::string_view character) {
  uint32_t trie_bytes = 0;
  if (charsmap.size() > 4) std::memcpy(&trie_bytes, charsmap.data(), 4);
  const size_t units = std::min<size_t>(trie_bytes, charsmap.size() - std::min<size_t>(4, charsmap.size())) / 4;
  const auto unit_at = [&](size_t i) {
    uint32_t unit = 0;
    if (i < units) std::memcpy(&unit, charsmap.data() + 4 + 4 * i, 4);
    return unit;
  };
  const auto base_of = [&](size_t i) {
    return i ^ static_cast<size_t>(unit_at(i) >> 10) << ((unit_at(i) & (1u << 9)) >> 6);
  };
  size_t at = 0;
  for (const char c : character) {
    const auto byte = static_cast<unsigned char>(c);
    at = base_of(at) ^ byte;
    if (at >= units || (unit_at(at) & 0x800000FF) != byte) return false;
  }
  return (unit_at(at) >> 8 & 1) != 0;
}

std::string WithPieces(std::string_view model, const std::vector<VocabularyPiece>& pieces) {
  std::string more(model);
  for (const VocabularyPiece& piece : pieces) more += PieceField(piece);
  return more;
}

// Of two messages in one field, the parts of the second replace those of the first.
std::string WithMark(std::string_view model) {
  return WithPieces(model, {{std::string(kMark), 0, kUserDefined}}) +
         BytesField(model_proto::kNormalizerSpec, IntField(normalizer_spec::kAddDummyPrefix, 0));
}

bool HasSpaceBefore(std::string_view model) {
  bool has = true;
  for (WireReader reader(model, 0, AnyModel()); reader.Next();) {
    if (reader.field() != model_proto::kNormalizerSpec) continue;
    for (WireReader normalizer = reader.AsMessage(); normalizer.Next();) {
      if (normalizer.field() == normalizer_spec::kAddDummyPrefix) has = normalizer.AsVarint() != 0;
    }
  }
  return has;
}

std::string WriteModel(const UnigramModel& model) {
  std::string bytes;
  for (const VocabularyPiece& piece : model.pieces) bytes += PieceField(piece);
  std::string trainer = IntField(trainer_spec::kModelType, kUnigram);
  if (model.byte_fallback) trainer += IntField(trainer_spec::kByteFallback, 1);
  std::string normalizer = BytesField(normalizer_spec::kName, model.charsmap.empty() ? "identity" : "precompiled");
  if (!model.charsmap.empty()) normalizer += BytesField(normalizer_spec::kPrecompiledCharsmap, model.charsmap);
  normalizer += IntField(normalizer_spec::kAddDummyPrefix, model.space_before ? 1 : 0) +
                IntField(normalizer_spec::kRemoveExtraWhitespaces, 1) +
                IntField(normalizer_spec::kEscapeWhitespaces, 1);
  return bytes + BytesField(model_proto::kTrainerSpec, trainer) + BytesField(model_proto::kNormalizerSpec, normalizer);
}

std::optional<UnigramModel> ReadUnigramModel(std::string_view bytes) {
  UnigramModel model;
  model.pieces = ReadPieces(bytes);
  model.space_before = HasSpaceBefore(bytes);
  for (WireReader reader(bytes, 0, AnyModel()); reader.Next();) {
    if (reader.field() == model_proto::kTrainerSpec) {
      for (WireReader trainer = reader.AsMessage(); trainer.Next();) {
        if (trainer.field() == trainer_spec::kByteFallback) model.byte_fallback = trainer.AsVarint() != 0;
      }
    } else if (reader.field() == model_proto::kNormalizerSpec) {
      for (WireReader normalizer = reader.AsMessage(); normalizer.Next();) {
        if (normalizer.field() == normalizer_spec::kPrecompiledCharsmap) model.charsmap = normalizer.AsBytes();
      }
    }
  }
  if (WriteModel(model) != bytes) return std::nullopt;
  return model;
}

}  // namespace crosstalk
