#include "crosstalk/models/text/published_tokenizer_writer.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "crosstalk/models/text/pair_encoding.h"
#include "crosstalk/runtime/base64.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr std::string_view kMetaspaceMark = "\u2581";
constexpr std::string_view kNextLine = "\u0085";  // the white space that only WhitespaceSplit takes away

[[noreturn]] void RefuseToPublish(const std::string& what) {
  Fail(ErrorKind::kUsage, "the published form of tokenizers has no place for ", what);
}

Json OfType(const char* type, Json::Object members = {}) {
  Json json = Json::MakeObject({{"type", type}});
  for (auto& [key, value] : members) json.Set(key, std::move(value));
  return json;
}

Json AddedTokenJson(const LiteralToken& token, bool special) {
  return Json::MakeObject({{"id", int64_t{token.id}},
                           {"content", token.text},
                           {"single_word", false},
                           {"lstrip", token.takes_space_before},
                           {"rstrip", token.takes_space_behind},
                           {"normalized", token.rewritten},
                           {"special", special}});
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

// The tokens around one text or two.
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

std::string WholeFile(Json added, Json normalizer, Json pre_tokenizer, Json decoder, Json model,
                      const Tokenizer& tokenizer) {
  return Json::MakeObject({{"version", "1.0"},
                           {"truncation", nullptr},
                           {"padding", nullptr},
                           {"added_tokens", std::move(added)},
                           {"normalizer", std::move(normalizer)},
                           {"pre_tokenizer", std::move(pre_tokenizer)},
                           {"post_processor", PostProcessorJson(tokenizer)},
                           {"decoder", std::move(decoder)},
                           {"model", std::move(model)}})
      .DumpPretty();
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
    case RewriteKind::kRemoveMarks:
      return OfType("StripAccents");
    case RewriteKind::kLowerCase:
      return OfType("Lowercase");
    default:
      RefuseToPublish(StrCat("the rule ", Name(rewrite.kind)));
  }
}

// SentencePiece's models take white space away where there is more than one of it, and at both ends.
Json NormalizerJson(const std::vector<Rewrite>& rewrites, const std::string& charsmap) {
  Json steps = Json::MakeArray();
  for (const Rewrite& rewrite : rewrites) steps.Append(StepJson(rewrite));
  if (!charsmap.empty()) steps.Append(OfType("Precompiled", {{"precompiled_charsmap", EncodeBase64(charsmap)}}));
  steps.Append(OfType("Strip", {{"strip_left", true}, {"strip_right", true}}));
  steps.Append(OfType("Replace", {{"pattern", Json::MakeObject({{"Regex", " {2,}"}})}, {"content", " "}}));
  return OfType("Sequence", {{"normalizers", std::move(steps)}});
}

}  // namespace

std::string PublishedJson(const WordPieceModel& model, const Tokenizer& tokenizer) {
  const std::optional<BertRules> rules = BertRulesOf(model.rules.rewrites);
  if (!rules) RefuseToPublish("rules of a WordPiece tokenizer other than BERT's");
  Json added = Json::MakeArray();
  for (const LiteralToken& token : LiteralsInOrder(model.rules)) {
    added.Append(AddedTokenJson(token, IsSpecialId(tokenizer, token.id)));
  }
  Json::Object pieces;
  for (const std::string& piece : model.pieces) pieces.emplace_back(piece, static_cast<int64_t>(pieces.size()));
  return WholeFile(std::move(added),
                   OfType("BertNormalizer", {{"clean_text", rules->clean},
                                             {"handle_chinese_chars", rules->space_chinese},
                                             {"strip_accents", rules->strip_accents},
                                             {"lowercase", rules->lower_case}}),
                   OfType("BertPreTokenizer"),
                   OfType("WordPiece", {{"prefix", model.prefix}, {"cleanup", model.clean_up}}),
                   OfType("WordPiece", {{"unk_token", model.unknown},
                                        {"continuing_subword_prefix", model.prefix},
                                        {"max_input_chars_per_word", model.longest_word},
                                        {"vocab", Json::MakeObject(std::move(pieces))}}),
                   tokenizer);
}

std::string PublishedJson(const UnigramModel& model, const TextRules& rules, const Tokenizer& tokenizer) {
  if (rules.split_numbers) RefuseToPublish("the rule of numbers before commas beside rules other than ALBERT's");
  // Pieces that are found whole are added tokens above the model's, and so is all that follows them.
  const auto own = std::find_if(model.pieces.begin(), model.pieces.end(),
                                [](const VocabularyPiece& piece) { return piece.type == kUserDefined; });
  Json pieces = Json::MakeArray();
  int64_t unknown = 0;
  for (auto piece = model.pieces.begin(); piece != own; ++piece) {
    if (piece->type == kUnknown) unknown = piece - model.pieces.begin();
    pieces.Append(Json::MakeArray({piece->text, static_cast<double>(piece->score)}));
  }
  Json added = Json::MakeArray();
  for (const LiteralToken& token : LiteralsInOrder(rules)) {
    const auto id = static_cast<size_t>(token.id);
    const bool special =
        id < model.pieces.size() ? model.pieces[id].type == kControl || model.pieces[id].type == kUnknown : true;
    added.Append(AddedTokenJson(token, special));
  }
  std::vector<Rewrite> rewrites = rules.rewrites;
  const bool splits = !rewrites.empty() && rewrites.back().kind == RewriteKind::kReplace &&
                      ToUtf8(rewrites.back().from) == kNextLine && ToUtf8(rewrites.back().by) == " ";
  if (splits) rewrites.pop_back();
  const Json metaspace = OfType(
      "Metaspace",
      {{"replacement", kMetaspaceMark}, {"prepend_scheme", model.space_before ? "always" : "never"}, {"split", true}});
  Json splitter = metaspace;
  if (splits) {
    splitter = OfType("Sequence", {{"pretokenizers", Json::MakeArray({OfType("WhitespaceSplit"), metaspace})}});
  }
  return WholeFile(
      std::move(added), NormalizerJson(rewrites, model.charsmap), std::move(splitter), metaspace,
      OfType("Unigram", {{"unk_id", unknown}, {"vocab", std::move(pieces)}, {"byte_fallback", model.byte_fallback}}),
      tokenizer);
}

std::string PublishedJsonConfig(const Tokenizer& tokenizer) {
  const SpecialTokens& ids = tokenizer.special_tokens();
  Json config = Json::MakeObject({{"tokenizer_class", "PreTrainedTokenizerFast"}});
  const std::pair<const char*, int32_t> named[] = {{"unk_token", ids.unknown}, {"pad_token", ids.pad},
                                                   {"cls_token", ids.begin},   {"sep_token", ids.separator},
                                                   {"mask_token", ids.mask},   {"eos_token", ids.end}};
  for (const auto& [key, id] : named) {
    const bool again = id == ids.separator && std::string_view(key) == "eos_token";
    if (id != kNoToken && !again) config.Set(key, tokenizer.TokenText(id));
  }
  return config.DumpPretty();
}

}  // namespace crosstalk
