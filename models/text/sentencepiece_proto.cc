#include "crosstalk/models/text/sentencepiece_proto.h"

#include <algorithm>
#include <cstring>

#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/text.h"

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

// A rule of a normalisation table: how many bytes it takes, 0 where there is none, and what they become.
struct TableRule {
  size_t bytes = 0;
  std::string_view by = {};
};

// The longest for whole characters at the beginning of `text`. The table's layout: CheckSentencePieceModel. One that it
// refuses has no rule here.
TableRule LongestRule(std::string_view charsmap, std::string_view text) {
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
  TableRule longest;
  size_t at = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at = base_of(at) ^ byte;
    if (at >= units || (unit_at(at) & 0x800000FF) != byte) break;
    const bool is_whole = i + 1 == text.size() || !IsUtf8Continuation(text[i + 1]);
    if ((unit_at(at) >> 8 & 1) == 0 || !is_whole) continue;
    const std::string_view texts = charsmap.substr(4 + 4 * units);
    const size_t begin = std::min<size_t>(unit_at(base_of(at)) & 0x7FFFFFFF, texts.size());
    longest = {i + 1, texts.substr(begin, texts.find('\0', begin) - begin)};
  }
  return longest;
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

std::string CharsmapOf(std::string_view model) {
  std::string charsmap;
  for (WireReader reader(model, 0, AnyModel()); reader.Next();) {
    if (reader.field() != model_proto::kNormalizerSpec) continue;
    for (WireReader normalizer = reader.AsMessage(); normalizer.Next();) {
      if (normalizer.field() == normalizer_spec::kPrecompiledCharsmap) charsmap = normalizer.AsBytes();
    }
  }
  return charsmap;
}

bool MapsCharacter(std::string_view charsmap, std::string_view character) {
  return LongestRule(charsmap, character).bytes == character.size();
}

void ApplyTable(std::string_view charsmap, TracedText* text) {
  if (charsmap.empty()) return;
  const Utf8Text utf8 = ToUtf8(*text);
  TracedText rewritten;
  rewritten.reserve(text->size());
  for (size_t at = 0; at < utf8.text.size();) {
    const auto first = static_cast<size_t>(utf8.character[at]);
    const TableRule rule = LongestRule(charsmap, std::string_view(utf8.text).substr(at));
    if (rule.bytes == 0) {
      rewritten.push_back((*text)[first]);
      at += Utf8Length(utf8.text, at);
      continue;
    }
    at += rule.bytes;
    const int64_t end = (*text)[static_cast<size_t>(utf8.character[at - 1])].end;
    for (const char32_t code : ToUtf32(rule.by)) rewritten.push_back({code, (*text)[first].begin, end});
  }
  *text = std::move(rewritten);
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
  model.charsmap = CharsmapOf(bytes);
  model.space_before = HasSpaceBefore(bytes);
  for (WireReader reader(bytes, 0, AnyModel()); reader.Next();) {
    if (reader.field() == model_proto::kTrainerSpec) {
      for (WireReader trainer = reader.AsMessage(); trainer.Next();) {
        if (trainer.field() == trainer_spec::kByteFallback) model.byte_fallback = trainer.AsVarint() != 0;
      }
    }
  }
  if (WriteModel(model) != bytes) return std::nullopt;
  return model;
}

}  // namespace crosstalk
