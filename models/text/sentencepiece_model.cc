#include "crosstalk/models/text/sentencepiece_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <vector>

#include "crosstalk/models/text/text_rules.h"
#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
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

// A rule of a normalisation table: how many bytes it takes, 0 if there is none, and what they become.
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

// Where a field has two messages, the parts of the second replace those of the first.
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

namespace {

constexpr size_t kMaxPieces = 2'000'000;
constexpr size_t kMaxStringBytes = 1 << 16;  // of the names and symbols beside the pieces
constexpr size_t kMaxSampleBytes = 1 << 12;  // of a self-test, which loading executes
constexpr size_t kMaxSamplesBytes = 1 << 20;
// The library's buffers for what it finds at one place of a text; it writes or reads beyond their ends.
constexpr size_t kMaxNestedSymbols = 64;  // user-defined pieces
constexpr int kMaxNestedRules = 32;       // of a normalisation table
// A text takes 300 times its normalised bytes while it is encoded. Unicode's own replacements have up to 33 bytes.
constexpr size_t kMaxReplacementBytes = 128;

// Checks a trie whose units lead only into it: how many values a text can pass on its way. From the node of base b,
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
  std::vector<int8_t> most(units, -1);  // values after a base; -1: not yet looked at
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
  std::sort(symbols.begin(), symbols.end());  // puts each right after those that it begins with
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
  const std::string subject = NotASentencePieceModel(name);
  WireReader reader(model, 0, subject);
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
    Fail(ErrorKind::kData, subject, ": ", deepest, " user-defined pieces begin with one another, more than the ",
         kMaxNestedSymbols, " that the library can bear");
  }
  if (unknown != 1 || normal == 0) {
    Fail(ErrorKind::kData, subject, ": it has ", normal, " pieces for text and ", unknown,
         " for the unknown, where exactly one is needed");
  }
}

}  // namespace crosstalk
