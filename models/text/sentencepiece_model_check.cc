#include "crosstalk/models/text/sentencepiece_model_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <unordered_set>
#include <utility>
#include <vector>

#include "crosstalk/models/text/sentencepiece_proto.h"
#include "crosstalk/models/text/text_rules.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
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
