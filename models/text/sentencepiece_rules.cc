#include "crosstalk/models/text/sentencepiece_rules.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "crosstalk/models/text/sentencepiece_model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/traced_text.h"

namespace crosstalk {

TextRules T5Rules(std::string_view model, int num_sentinels) {
  TextRules rules;
  int32_t id = 0;
  for (const VocabularyPiece& piece : ReadPieces(model)) {
    for (const char* text : {"<pad>", "</s>", "<unk>"}) {
      if (piece.text == text) rules.literal.push_back({text, id});
    }
    if (SentinelNumberOf(piece.text) >= 0) rules.literal.push_back({piece.text, id});
    ++id;
  }
  for (int k = 0; k < num_sentinels; ++k) rules.literal.push_back({SentinelText(k), id + num_sentinels - 1 - k});
  return rules;
}

TextRules RulesOf(const AlbertRules& albert, std::string_view model) {
  TextRules rules{.split_numbers = true};
  rules.rewrites = {
      {RewriteKind::kSpaces}, {RewriteKind::kReplace, U"``", U"\""}, {RewriteKind::kReplace, U"''", U"\""}};
  if (!albert.keep_accents) {
    rules.rewrites.push_back({RewriteKind::kDecomposeCompatible});
    rules.rewrites.push_back({RewriteKind::kRemoveCombining});
  }
  if (albert.lower_case) rules.rewrites.push_back({RewriteKind::kLowerCase});
  int32_t id = 0;
  for (const VocabularyPiece& piece : ReadPieces(model)) {
    for (const char* text : {"<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"}) {
      if (piece.text == text) rules.literal.push_back({text, id, piece.text == "[MASK]"});
    }
    ++id;
  }
  return rules;
}

std::optional<AlbertRules> LooksLikeAlbert(std::string_view model) {
  int special = 0;
  AlbertRules rules;
  for (const VocabularyPiece& piece : ReadPieces(model)) {
    if (piece.type == kByte) return std::nullopt;
    if (piece.type == kControl) {
      special += piece.text == "[CLS]" || piece.text == "[SEP]" || piece.text == "[MASK]";
    } else if (piece.type == kNormal) {
      const std::u32string codes = ToUtf32(piece.text);
      if (std::any_of(codes.begin(), codes.end(), IsUpperCase)) rules.lower_case = false;
    }
  }
  if (special != 3) return std::nullopt;
  return rules;
}

}  // namespace crosstalk
