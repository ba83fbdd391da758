#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/published_tokenizer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr std::string_view kMetaspaceMark = "\u2581";

[[noreturn]] void RefuseToPublish(const std::string& what) {
  Fail(ErrorKind::kUsage, "the published form of tokenizers has no place for ", what);
}

Json OfType(const char* type, Json::Object members = {}) {
  Json json = Json::MakeObject({{"type", type}});
  for (auto& [key, value] : members) json.Set(key, std::move(value));
  return json;
}

// One of the list "added_tokens".
Json AddedTokenRow(const LiteralToken& token, bool special) {
  Json row = Json::MakeObject({{"id", int64_t{token.id}}});
  const Json members = AddedTokenJson(token, special);
  for (const auto& [key, value] : members.AsObject()) row.Set(key, value);
  return row;
}

// By id, as the form has them.
std::vector<LiteralToken> LiteralsInOrder(const TextRules& rules) {
  std::vector<LiteralToken> tokens = rules.literal;
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return tokens;
}

bool IsSpecialId(const Tokenizer& tokenizer, int32_t id) {
  const SpecialTokens& ids = tokenizer.special_tokens();
  return tokenizer.IsSentinel(id) || id == ids.pad || id == ids.end || id == ids.unknown || id == ids.begin ||
         id == ids.separator || id == ids.mask;
}

Json WholeFile(Json added, Json normalizer, Json pre_tokenizer, Json decoder, Json model, const Tokenizer& tokenizer) {
  return Json::MakeObject({{"version", "1.0"},
                           {"truncation", nullptr},
                           {"padding", nullptr},
                           {"added_tokens", std::move(added)},
                           {"normalizer", std::move(normalizer)},
                           {"pre_tokenizer", std::move(pre_tokenizer)},
                           {"post_processor", PostProcessorJson(tokenizer)},
                           {"decoder", std::move(decoder)},
                           {"model", std::move(model)}});
}

bool MakesSpaces(const Rewrite& rewrite) {
  if (rewrite.kind == RewriteKind::kSpaces) return true;
  return rewrite.kind == RewriteKind::kReplace && rewrite.from.size() == 1 && IsWhiteSpace(rewrite.from[0]) &&
         rewrite.by == U" ";
}

Json StepJson(const Rewrite& rewrite) {
  switch (rewrite.kind) {
    case RewriteKind::kReplace:
      return OfType("Replace", {{"pattern", Json::MakeObject({{"String", ToUtf8(rewrite.from)}})},
                                {"content", ToUtf8(rewrite.by)}});
    case RewriteKind::kDecompose:
      return OfType("NFD");
    case RewriteKind::kDecomposeCompatible:
      return OfType("NFKD");
    case RewriteKind::kCompose:
      return OfType("NFC");
    case RewriteKind::kComposeCompatible:
      return OfType("NFKC");
    case RewriteKind::kPrepend:
      return OfType("Prepend", {{"prepend", ToUtf8(rewrite.by)}});
    case RewriteKind::kRemoveMarks:
      return OfType("StripAccents");
    case RewriteKind::kLowerCase:
      return OfType("Lowercase");
    case RewriteKind::kStripBegin:
      return OfType("Strip", {{"strip_left", true}, {"strip_right", false}});
    case RewriteKind::kStripEnd:
      return OfType("Strip", {{"strip_left", false}, {"strip_right", true}});
    default:
      RefuseToPublish(StrCat("the rule ", Name(rewrite.kind)));
  }
}

// SentencePiece's models take white space away if there is more than one of it, and at both ends unless the rules
// keep it there.
Json NormalizerJson(const std::vector<Rewrite>& rewrites, const UnigramModel& model, const TextRules& rules) {
  Json steps = Json::MakeArray();
  for (const Rewrite& rewrite : rewrites) steps.Append(StepJson(rewrite));
  if (!model.charsmap.empty()) {
    steps.Append(OfType("Precompiled", {{"precompiled_charsmap", EncodeBase64(model.charsmap)}}));
  }
  if (!rules.space_after) {
    const bool left = rules.space_before == SpaceBefore::kModel && !model.space_before;
    steps.Append(OfType("Strip", {{"strip_left", left}, {"strip_right", true}}));
  }
  steps.Append(OfType("Replace", {{"pattern", Json::MakeObject({{"Regex", " {2,}"}})}, {"content", " "}}));
  return OfType("Sequence", {{"normalizers", std::move(steps)}});
}

// BERT's rules as one step where they are that, else each rule as one.
Json NormalizerJson(const std::vector<Rewrite>& rewrites) {
  if (const std::optional<BertRules> rules = BertRulesOf(rewrites)) {
    return OfType("BertNormalizer", {{"clean_text", rules->clean},
                                     {"handle_chinese_chars", rules->space_chinese},
                                     {"strip_accents", rules->strip_accents},
                                     {"lowercase", rules->lower_case}});
  }
  Json steps = Json::MakeArray();
  for (const Rewrite& rewrite : rewrites) steps.Append(StepJson(rewrite));
  return OfType("Sequence", {{"normalizers", std::move(steps)}});
}

Json PreTokenizerJson(WordSplit split) {
  switch (split) {
    case WordSplit::kPunctuation:
      return OfType("BertPreTokenizer");
    case WordSplit::kSpace:
      return OfType("WhitespaceSplit");
    case WordSplit::kRuns:
      return OfType("Whitespace");
  }
  return {};
}

// Steps as one of "normalizers", "pretokenizers" or "decoders"; null if there is none.
Json InSequence(const char* list, Json::Array steps) {
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return std::move(steps[0]);
  return OfType("Sequence", {{list, Json(std::move(steps))}});
}

Json SplitJson(const SplitRule& rule) {
  return OfType("Split", {{"pattern", Json::MakeObject({{rule.literal ? "String" : "Regex", rule.pattern}})},
                          {"behavior", Name(rule.behavior)},
                          {"invert", rule.invert}});
}

// Its own split of spaces is a step of its own, as the steps that a published file has as one pattern are.
Json PreTokenizerJson(const BpeModel& model) {
  Json::Array steps;
  if (model.marks_spaces) {
    // No other step comes beside it; the one that cuts at its marks is its own.
    return OfType(
        "Metaspace",
        {{"replacement", kMetaspaceMark}, {"prepend_scheme", Name(model.prefix)}, {"split", !model.splits.empty()}});
  }
  if (model.byte_level && model.prefix != PrefixScheme::kNever) {
    const bool gpt2 = model.splits.size() == 1 && model.splits[0].pattern == kGpt2Pattern && !model.splits[0].literal;
    if (!gpt2 && !model.splits.empty()) RefuseToPublish("a space before a section that is then cut by patterns");
    return OfType("ByteLevel", {{"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", gpt2}});
  }
  for (const SplitRule& rule : model.splits) steps.push_back(SplitJson(rule));
  if (model.byte_level) {
    steps.push_back(OfType("ByteLevel", {{"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}));
  }
  return InSequence("pretokenizers", std::move(steps));
}

Json DecoderJson(const BpeModel& model) {
  if (model.byte_level) {
    return OfType("ByteLevel", {{"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}});
  }
  Json steps = Json::MakeArray(
      {OfType("Replace", {{"pattern", Json::MakeObject({{"String", kMetaspaceMark}})}, {"content", " "}})});
  if (model.byte_fallback) steps.Append(OfType("ByteFallback"));
  steps.Append(OfType("Fuse"));
  if (model.strips_space) steps.Append(OfType("Strip", {{"content", " "}, {"start", 1}, {"stop", 0}}));
  return OfType("Sequence", {{"decoders", std::move(steps)}});
}

}  // namespace

Json PostProcessorJson(const Tokenizer& tokenizer) {
  Json::Object tokens;
  const auto form_of = [&](int texts) {
    Json list = Json::MakeArray();
    for (const TemplatePart& part : TemplateOf(tokenizer, texts)) {
      const bool is_token = part.text < 0;
      const std::string name = is_token ? tokenizer.TokenText(part.id) : part.text == 0 ? "A" : "B";
      list.Append(Json::MakeObject({{is_token ? "SpecialToken" : "Sequence",
                                     Json::MakeObject({{"id", name}, {"type_id", int64_t{part.segment}}})}}));
      const bool known = std::any_of(tokens.begin(), tokens.end(), [&](const auto& one) { return one.first == name; });
      if (!is_token || known) continue;
      tokens.emplace_back(
          name, Json::MakeObject(
                    {{"id", name}, {"ids", Json::MakeArray({int64_t{part.id}})}, {"tokens", Json::MakeArray({name})}}));
    }
    return list;
  };
  Json single = form_of(1), pair = form_of(2);
  return OfType("TemplateProcessing", {{"single", std::move(single)},
                                       {"pair", std::move(pair)},
                                       {"special_tokens", Json::MakeObject(std::move(tokens))}});
}

Json AddedTokenJson(const LiteralToken& token, bool special) {
  return Json::MakeObject({{"content", token.text},
                           {"single_word", token.whole_word},
                           {"lstrip", token.takes_space_before},
                           {"rstrip", token.takes_space_behind},
                           {"normalized", token.rewritten},
                           {"special", special}});
}

Json PublishedJson(const WordPieceModel& model, const Tokenizer& tokenizer) {
  Json added = Json::MakeArray();
  for (const LiteralToken& token : LiteralsInOrder(model.rules)) {
    added.Append(AddedTokenRow(token, IsSpecialId(tokenizer, token.id)));
  }
  Json::Object pieces;
  for (const std::string& piece : model.pieces) pieces.emplace_back(piece, static_cast<int64_t>(pieces.size()));
  return WholeFile(std::move(added), NormalizerJson(model.rules.rewrites), PreTokenizerJson(model.split),
                   OfType("WordPiece", {{"prefix", model.prefix}, {"cleanup", model.clean_up}}),
                   OfType("WordPiece", {{"unk_token", model.unknown},
                                        {"continuing_subword_prefix", model.prefix},
                                        {"max_input_chars_per_word", model.longest_word},
                                        {"vocab", Json::MakeObject(std::move(pieces))}}),
                   tokenizer);
}

Json PublishedJson(const UnigramModel& model, const std::vector<VocabularyPiece>& more, const TextRules& rules,
                   const Tokenizer& tokenizer) {
  if (rules.split_numbers) RefuseToPublish("the rule of numbers before commas beside rules other than ALBERT's");
  // A piece that is found whole, and all that follows it, are added tokens above the model's own.
  const auto own = std::find_if(model.pieces.begin(), model.pieces.end(),
                                [](const VocabularyPiece& piece) { return piece.type == kUserDefined; });
  Json pieces = Json::MakeArray();
  int64_t unknown = 0;
  for (auto piece = model.pieces.begin(); piece != own; ++piece) {
    if (piece->type == kUnknown) unknown = piece - model.pieces.begin();
    pieces.Append(Json::MakeArray({piece->text, static_cast<double>(piece->score)}));
  }
  std::vector<VocabularyPiece> all = model.pieces;
  all.insert(all.end(), more.begin(), more.end());
  Json added = Json::MakeArray();
  for (const LiteralToken& token : LiteralsInOrder(rules)) {
    const auto id = static_cast<size_t>(token.id);
    const bool special = id < all.size() ? all[id].type == kControl || all[id].type == kUnknown : true;
    added.Append(AddedTokenRow(token, special));
  }
  std::vector<Rewrite> rewrites = rules.rewrites;
  // WhitespaceSplit makes white space spaces, after all else.
  bool splits = false;
  for (; !rules.space_after && !rewrites.empty() && MakesSpaces(rewrites.back()); rewrites.pop_back()) splits = true;
  const bool first = rules.space_before == SpaceBefore::kStart;
  const bool always =
      rules.space_before == SpaceBefore::kEach || (rules.space_before == SpaceBefore::kModel && model.space_before);
  // Whether words are cut before pieces are looked for: pieces with spaces within are of no use then.
  const bool cut = std::none_of(model.pieces.begin(), model.pieces.end(), [](const VocabularyPiece& piece) {
    return piece.type == kNormal && piece.text.find(kMetaspaceMark, 1) != std::string::npos;
  });
  const Json metaspace = OfType("Metaspace", {{"replacement", kMetaspaceMark},
                                              {"prepend_scheme", first    ? "first"
                                                                 : always ? "always"
                                                                          : "never"},
                                              {"split", cut}});
  Json splitter = metaspace;
  if (splits) {
    splitter = OfType("Sequence", {{"pretokenizers", Json::MakeArray({OfType("WhitespaceSplit"), metaspace})}});
  }
  return WholeFile(
      std::move(added), NormalizerJson(rewrites, model, rules), std::move(splitter), metaspace,
      OfType("Unigram", {{"unk_id", unknown}, {"vocab", std::move(pieces)}, {"byte_fallback", model.byte_fallback}}),
      tokenizer);
}

Json PublishedJson(const BpeModel& model, const Tokenizer& tokenizer) {
  const std::unordered_set<int32_t> special(model.special.begin(), model.special.end());
  Json added = Json::MakeArray();
  for (const LiteralToken& token : LiteralsInOrder(model.rules)) {
    added.Append(AddedTokenRow(token, special.contains(token.id)));
  }
  Json::Array normalizer;
  for (const Rewrite& rewrite : model.rules.rewrites) normalizer.push_back(StepJson(rewrite));
  Json::Object pieces;
  for (const std::string& piece : model.pieces) pieces.emplace_back(piece, static_cast<int64_t>(pieces.size()));
  // Older versions of the library read texts alone; a piece with a space in it needs a pair.
  const bool spaced = std::any_of(model.pieces.begin(), model.pieces.end(),
                                  [](const std::string& piece) { return piece.find(' ') != std::string::npos; });
  Json merges = Json::MakeArray();
  for (const auto& [left, right] : model.merges) {
    const std::string &first = model.pieces[static_cast<size_t>(left)],
                      &second = model.pieces[static_cast<size_t>(right)];
    merges.Append(spaced ? Json::MakeArray({first, second}) : Json(StrCat(first, " ", second)));
  }
  return WholeFile(std::move(added), InSequence("normalizers", std::move(normalizer)), PreTokenizerJson(model),
                   DecoderJson(model),
                   OfType("BPE", {{"dropout", nullptr},
                                  {"unk_token", model.unknown.empty() ? Json() : Json(model.unknown)},
                                  {"continuing_subword_prefix", nullptr},
                                  {"end_of_word_suffix", nullptr},
                                  {"fuse_unk", model.fuse_unknown},
                                  {"byte_fallback", model.byte_fallback},
                                  {"ignore_merges", model.whole_pieces},
                                  {"vocab", Json::MakeObject(std::move(pieces))},
                                  {"merges", std::move(merges)}}),
                   tokenizer);
}

std::string PublishedJsonConfig(const Tokenizer& tokenizer, const TextRules& rules) {
  const SpecialTokens& ids = tokenizer.special_tokens();
  Json config = Json::MakeObject({{"tokenizer_class", "PreTrainedTokenizerFast"}});
  const char* const begin = ids.separator == kNoToken ? "bos_token" : "cls_token";
  const std::pair<const char*, int32_t> named[] = {{"unk_token", ids.unknown}, {"pad_token", ids.pad},
                                                   {begin, ids.begin},         {"sep_token", ids.separator},
                                                   {"mask_token", ids.mask},   {"eos_token", ids.end}};
  for (const auto& [key, own_id] : named) {
    const int32_t id = own_id;
    const bool again = id == ids.separator && std::string_view(key) == "eos_token";
    const bool literal = std::any_of(rules.literal.begin(), rules.literal.end(),
                                     [&](const LiteralToken& token) { return token.id == id; });
    if (literal && !again) config.Set(key, tokenizer.TokenText(id));
  }
  return config.DumpPretty();
}

}  // namespace crosstalk
