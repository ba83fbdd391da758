#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "crosstalk/models/text/published_tokenizer.h"
#include "crosstalk/models/text/sentencepiece_model.h"
#include "crosstalk/models/text/sentencepiece_rules.h"
#include "crosstalk/models/text/sentencepiece_tokenizer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

bool IsByteName(std::string_view text) { return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">"); }

// The steps of a normalizer, and what a pre_tokenizer does to spaces.
struct Steps {
  std::vector<Rewrite> rewrites;
  std::string charsmap;
  bool has_table = false;
  bool drops_spaces = false;   // repeated ones
  bool drops_to_mark = false;  // and puts kSpaceMark there
  bool by_words = false;       // WhitespaceSplit
  Strip strip = {false, false};
  std::string scheme = "always";  // prepend_scheme
  bool splits = true;             // words are cut before pieces are looked for
};

// Whether the step takes repeated spaces away.
bool ReadSpacesRegex(const JsonReader& step) {
  const JsonReader pattern = step.Object("pattern");
  if (!pattern.Has("Regex")) return false;
  const std::string& content = step.String("content");
  if (pattern.String("Regex") != " {2,}" || (content != " " && content != kSpaceMark)) {
    pattern.FailAt("Regex", Quoted(pattern.String("Regex")), " is not understood; \" {2,}\" is");
  }
  pattern.RejectUnread();
  return true;
}

void ReadNormalizer(const JsonReader& file, const std::string& name, Steps* steps) {
  ForEachStep(file, name, [&](const JsonReader& step, const std::string& type) {
    if (steps->drops_spaces) step.FailAt("type", type, " after Replace of repeated spaces is not understood");
    if (type == "Precompiled") {
      if (steps->has_table) step.FailAt("type", "a second Precompiled is not understood");
      const std::optional<std::string> table = DecodeBase64(step.String("precompiled_charsmap"));
      if (!table) step.FailAt("precompiled_charsmap", "is not base64");
      steps->charsmap = *table;
      steps->has_table = true;
    } else if (type == "Replace" && ReadSpacesRegex(step)) {
      steps->drops_spaces = true;
      steps->drops_to_mark = step.String("content") == kSpaceMark;
    } else if (type == "Strip") {
      const Strip strip = ReadStrip(step);
      // The model takes spaces away; and other white space is there without a table.
      if (!steps->has_table) AppendStrip(strip, &steps->rewrites);
      steps->strip = {steps->strip.left || strip.left, steps->strip.right || strip.right};
    } else if (const std::optional<Rewrite> rewrite = ReadRewrite(step, type)) {
      if (steps->has_table) step.FailAt("type", type, " after Precompiled is not understood");
      steps->rewrites.push_back(*rewrite);
    } else {
      RefuseType(step, "Sequence, Precompiled, Replace, Strip, NFD, NFKD, StripAccents or Lowercase");
    }
  });
  if (steps->rewrites.size() > kMaxRewrites) file.FailAt("normalizer", "has more than ", kMaxRewrites, " steps");
}

void ReadMetaspace(const JsonReader& metaspace, Steps* steps) {
  if (metaspace.String("type") != "Metaspace") RefuseType(metaspace, "Metaspace");
  for (const char* key : {"replacement", "str_rep"}) {
    if (metaspace.Has(key) && metaspace.String(key) != kSpaceMark) metaspace.FailAt(key, "must be \u2581");
  }
  if (metaspace.Has("split")) steps->splits = metaspace.Bool("split");
  if (metaspace.Has("add_prefix_space")) steps->scheme = metaspace.Bool("add_prefix_space") ? "always" : "never";
  if (metaspace.Has("prepend_scheme")) {
    steps->scheme = metaspace.String("prepend_scheme");
    if (steps->scheme != "always" && steps->scheme != "first" && steps->scheme != "never") {
      metaspace.FailAt("prepend_scheme", Quoted(steps->scheme), " is not understood; always, first and never are");
    }
  }
  metaspace.RejectUnread();
}

void ReadPreTokenizer(const JsonReader& splitter, const std::string& name, Steps* steps) {
  if (splitter.String("type") != "Sequence") {
    ReadMetaspace(splitter, steps);
    if (!steps->drops_spaces) splitter.FailAt("type", "keeps repeated spaces, which is not understood");
    return;
  }
  const Json::Array& list = splitter.Array("pretokenizers");
  if (list.size() != 2 || !list[0].is_object() || !list[1].is_object()) {
    splitter.FailAt("pretokenizers", "must be WhitespaceSplit and Metaspace");
  }
  splitter.RejectUnread();
  const JsonReader first(list[0], name + ": pre_tokenizer");
  if (first.String("type") != "WhitespaceSplit") RefuseType(first, "WhitespaceSplit before Metaspace");
  first.RejectUnread();
  if (steps->drops_to_mark) first.FailAt("type", "WhitespaceSplit after Replace by \u2581 is not understood");
  steps->by_words = true;
  steps->strip = {true, true};
  // White space that the table leaves as it is.
  if (!steps->has_table) {
    steps->rewrites.push_back({RewriteKind::kSpaces});
  } else {
    for (const char32_t space : kWhiteSpace) {
      if (space == U' ' || MapsCharacter(steps->charsmap, ToUtf8(std::u32string(1, space)))) continue;
      steps->rewrites.push_back({RewriteKind::kReplace, std::u32string(1, space), U" "});
    }
  }
  const JsonReader metaspace(list[1], name + ": pre_tokenizer");
  ReadMetaspace(metaspace, steps);
  if (steps->scheme != "always") {
    metaspace.FailAt("prepend_scheme", Quoted(steps->scheme), " after WhitespaceSplit is not understood; always is");
  }
}

// The library finds rewritten tokens in a text whose spaces the steps have taken away; here the model takes them away
// later.
void CheckRewrittenTokens(const Steps& steps, const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) {
    const std::string& content = token.literal.text;
    if (!token.literal.rewritten) continue;
    const auto refuse = [&](const auto&... parts) {
      Fail(ErrorKind::kData, token.source, ": ", Quoted(content), " with normalized: true ", parts...,
           " is not understood");
    };
    if (steps.strip.left && !steps.by_words) refuse("beside Strip at the left");
    if (steps.drops_to_mark && (token.literal.takes_space_before || token.literal.takes_space_behind)) {
      refuse("and lstrip or rstrip beside Replace by \u2581");
    }
    TracedText text = TraceText(content, 0, std::ssize(content));
    for (const Rewrite& rewrite : steps.rewrites) Apply(rewrite, &text);
    ApplyTable(steps.charsmap, &text);
    const auto is_space = [](const TracedCharacter& c) { return IsWhiteSpace(c.code); };
    const bool kept = steps.by_words && steps.has_table && !steps.drops_spaces;
    if (!kept && std::any_of(text.begin(), text.end(), is_space)) refuse("and white space in it");
  }
}

// What the steps make of spaces at a text's edges.
void SetSpaces(const Steps& steps, const JsonReader& file, TextRules* rules, bool* space_before) {
  const bool keeps_left = !steps.strip.left;
  if ((steps.strip.left && !steps.strip.right) || (steps.strip.left && steps.scheme == "first")) {
    file.FailAt("normalizer", "Strip at the left ", steps.strip.right ? "before prepend_scheme first" : "alone",
                " is not understood");
  }
  *space_before = steps.scheme != "never";
  if (steps.scheme == "first") rules->space_before = SpaceBefore::kStart;
  if (steps.scheme == "never" && keeps_left) rules->space_before = SpaceBefore::kKept;
  rules->space_after = !steps.strip.right;
  const bool has_rewritten = std::any_of(rules->literal.begin(), rules->literal.end(),
                                         [](const LiteralToken& token) { return token.rewritten; });
  if (steps.scheme == "always" && has_rewritten && !rules->space_after && !steps.by_words) {
    rules->space_before = SpaceBefore::kEach;
  }
}

std::vector<VocabularyPiece> ReadScoredPieces(const JsonReader& model) {
  const Json::Array& list = model.Array("vocab");
  if (list.size() > kMaxVocabulary) model.FailAt("vocab", "more than the ", kMaxVocabulary, " pieces allowed");
  std::vector<VocabularyPiece> pieces;
  std::unordered_set<std::string_view> seen;
  for (const Json& one : list) {
    const auto refuse = [&](const auto&... parts) {
      model.FailAt("vocab", "the piece of id ", pieces.size(), parts...);
    };
    if (!one.is_array() || one.AsArray().size() != 2 || !one.AsArray()[0].is_string() ||
        !one.AsArray()[1].is_number()) {
      refuse(" must be a text and its score");
    }
    const std::string& text = one.AsArray()[0].AsString();
    const double score = one.AsArray()[1].AsDouble();
    if (text.empty()) refuse(" is empty");
    if (text.size() > kMaxPieceBytes)
      refuse(" has ", text.size(), " bytes, more than the ", kMaxPieceBytes, " allowed");
    if (!(std::abs(score) < 1e9)) refuse(" has a score that is not usable");
    if (!seen.insert(text).second) refuse(", ", Quoted(text), ", is there twice");
    pieces.push_back({text, static_cast<float>(score), kNormal});
  }
  return pieces;
}

// How many of `ids` ids the sentinels are, if they stand above all others and fall; else 0.
int SentinelsOnTop(const std::vector<int32_t>& sentinels, size_t ids) {
  for (size_t k = 0; k < sentinels.size(); ++k) {
    if (static_cast<size_t>(sentinels[k]) + k + 1 != ids) return 0;
  }
  return static_cast<int>(sentinels.size());
}

std::vector<std::string> TextsOf(const std::vector<VocabularyPiece>& pieces) {
  std::vector<std::string> texts;
  for (const VocabularyPiece& piece : pieces) texts.push_back(piece.text);
  return texts;
}

void CheckExtraIds(const TokenizerSettings& settings, int64_t sentinels, const std::string& name) {
  if (!settings.extra_ids || *settings.extra_ids == sentinels) return;
  Fail(ErrorKind::kData, name, ": has ", sentinels, " tokens <extra_id_0>, <extra_id_1>, \u2026, but extra_ids is ",
       *settings.extra_ids, " in tokenizer_config.json");
}

// The sentinels of a T5's model where neither its pieces nor added tokens are any: extra_ids above its pieces, falling.
std::vector<AddedToken> SentinelsOfT5(const std::vector<AddedToken>& tokens, const std::vector<VocabularyPiece>& pieces,
                                      const TokenizerSettings& settings, const std::string& name) {
  const bool in_model = std::any_of(pieces.begin(), pieces.end(),
                                    [](const VocabularyPiece& piece) { return SentinelNumberOf(piece.text) >= 0; });
  const auto named = std::count_if(tokens.begin(), tokens.end(), [&](const AddedToken& token) {
    return token.literal.id >= static_cast<int32_t>(pieces.size()) && SentinelNumberOf(token.literal.text) >= 0;
  });
  if (named > 0) CheckExtraIds(settings, named, name);
  std::vector<AddedToken> sentinels;
  if (in_model || named > 0) return sentinels;
  const int count = settings.extra_ids.value_or(kDefaultSentinels);
  for (int k = 0; k < count; ++k) {
    const auto id = static_cast<int32_t>(pieces.size()) + count - 1 - k;
    sentinels.push_back({{SentinelText(k), id}, true, name});
  }
  return sentinels;
}

std::optional<AlbertRules> AlbertRulesBy(const TokenizerSettings& settings, const std::string& model) {
  std::optional<AlbertRules> rules = LooksLikeAlbert(model);
  if (settings.family == TokenizerFamily::kAlbert) {
    if (!rules) rules = AlbertRules();
  } else if (settings.family != TokenizerFamily::kUnsaid && settings.family != TokenizerFamily::kGeneral) {
    return std::nullopt;
  }
  if (!rules) return std::nullopt;
  rules->lower_case = settings.lower_case.value_or(rules->lower_case);
  rules->keep_accents = settings.keep_accents.value_or(rules->keep_accents);
  return rules;
}

// The settings' special tokens must be the tokenizer's own, whose template and rows they make up.
void CheckRoles(const TokenizerSettings& settings, const Tokenizer& tokenizer, const std::vector<AddedToken>& tokens) {
  const SpecialTokens& ids = tokenizer.special_tokens();
  const std::pair<const char*, int32_t> own[] = {{"unk_token", ids.unknown},   {"pad_token", ids.pad},
                                                 {"eos_token", ids.end},       {"cls_token", ids.begin},
                                                 {"sep_token", ids.separator}, {"mask_token", ids.mask}};
  for (const auto& [role, own_id] : own) {
    const int32_t id = own_id;
    const auto said = settings.roles.find(role);
    if (said == settings.roles.end() || id == kNoToken) continue;
    const std::string& text = said->second.literal.text;
    const bool same = std::any_of(tokens.begin(), tokens.end(), [&](const AddedToken& token) {
      return token.literal.text == text && token.literal.id == id;
    });
    if (same) continue;
    Fail(ErrorKind::kData, said->second.source, ": is ", Quoted(text), ", but the vocabulary's own is ",
         Quoted(tokenizer.TokenText(id)), ", of id ", id);
  }
}

// The tokens above the pieces and the sentinels. Those of `more` that are the topmost sentinels, falling, stand above
// all else instead; so may the last of the pieces be, up to `removable` of them. Returns how many ids there are on top.
int SetSentinels(const LiteralsAndMore& resolved, size_t pieces, size_t removable, SentencePieceModel* model) {
  model->sentinels = SentinelsAmong(resolved);
  for (const AddedToken& token : resolved.more) {
    model->more.push_back({token.literal.text, 0, token.special ? kControl : kUnused});
  }
  const int on_top = SentinelsOnTop(model->sentinels, pieces + model->more.size());
  if (on_top == 0 || static_cast<size_t>(on_top) > model->more.size() + removable) return 0;
  model->more.resize(model->more.size() - std::min(model->more.size(), static_cast<size_t>(on_top)));
  model->sentinels.clear();
  model->sentinels_above = on_top;
  return on_top;
}

std::shared_ptr<const Tokenizer> Finished(SentencePieceModel model, size_t ids, const LiteralsAndMore& resolved,
                                          const TokenizerSettings& settings, const std::string& name,
                                          int num_sentinels) {
  const bool has_sentinels = !model.sentinels.empty() || model.sentinels_above.value_or(0) > 0;
  std::shared_ptr<const Tokenizer> tokenizer = MakeSentencePieceTokenizer(std::move(model), name, num_sentinels);
  if (has_sentinels && static_cast<size_t>(tokenizer->vocab_size()) != ids) {
    Fail(ErrorKind::kData, name, ": has <extra_id_0>, but no special token for padding or none for the end");
  }
  CheckRoles(settings, *tokenizer, resolved.tokens);
  return tokenizer;
}

}  // namespace

std::vector<int32_t> SentinelsAmong(const LiteralsAndMore& resolved) {
  std::unordered_map<int, int32_t> ids;
  const auto add = [&](const LiteralToken& token) {
    if (const int number = SentinelNumberOf(token.text); number >= 0) ids.emplace(number, token.id);
  };
  for (const AddedToken& token : resolved.tokens) add(token.literal);
  for (const LiteralToken& token : resolved.literal) add(token);
  std::vector<int32_t> sentinels;
  for (auto found = ids.find(0); found != ids.end(); found = ids.find(static_cast<int>(sentinels.size()))) {
    sentinels.push_back(found->second);
  }
  return sentinels;
}

void ForEachStep(const JsonReader& file, const std::string& name,
                 const std::function<void(const JsonReader& step, const std::string& type)>& visit) {
  if (file.Value("normalizer").is_null()) return;
  const std::function<void(const JsonReader&)> enter = [&](const JsonReader& step) {
    const std::string& type = step.String("type");
    if (type == "Sequence") {
      for (const Json& one : step.Array("normalizers")) {
        if (!one.is_object()) step.FailAt("normalizers", "must hold objects");
        enter(JsonReader(one, name + ": normalizer"));
      }
    } else {
      visit(step, type);
    }
    step.RejectUnread();
  };
  enter(file.Object("normalizer"));
}

std::optional<Rewrite> ReadRewrite(const JsonReader& step, const std::string& type) {
  if (type == "NFKD") return Rewrite{RewriteKind::kDecomposeCompatible};
  if (type == "NFD") return Rewrite{RewriteKind::kDecompose};
  if (type == "StripAccents") return Rewrite{RewriteKind::kRemoveMarks};
  if (type == "Lowercase") return Rewrite{RewriteKind::kLowerCase};
  if (type != "Replace") return std::nullopt;
  const JsonReader pattern = step.Object("pattern");
  Rewrite replacement{RewriteKind::kReplace, ToUtf32(pattern.String("String")), ToUtf32(step.String("content"))};
  if (const std::string wrong = WhatIsWrong(replacement); !wrong.empty()) step.FailAt("content", wrong);
  pattern.RejectUnread();
  return replacement;
}

Strip ReadStrip(const JsonReader& step) { return {step.Bool("strip_left"), step.Bool("strip_right")}; }

void AppendStrip(const Strip& strip, std::vector<Rewrite>* rewrites) {
  if (strip.left) rewrites->push_back({RewriteKind::kStripBegin});
  if (strip.right) rewrites->push_back({RewriteKind::kStripEnd});
}

std::shared_ptr<const Tokenizer> ReadUnigram(const JsonReader& file, const JsonReader& model, const std::string& name,
                                             const std::vector<AddedToken>& tokens, int num_sentinels,
                                             const TokenizerSettings& settings) {
  UnigramModel unigram;
  unigram.pieces = ReadScoredPieces(model);
  const int64_t unknown = model.Int("unk_id", 0, static_cast<int64_t>(unigram.pieces.size()) - 1);
  unigram.byte_fallback = model.Has("byte_fallback") && model.Bool("byte_fallback");
  model.RejectUnread();

  Steps steps;
  ReadNormalizer(file, name, &steps);
  ReadPreTokenizer(file.Object("pre_tokenizer"), name, &steps);
  unigram.charsmap = steps.charsmap;
  if (file.Has("decoder") && !file.Value("decoder").is_null()) {
    Steps ignored;
    ReadMetaspace(file.Object("decoder"), &ignored);
  }

  LiteralsAndMore resolved = ResolveTokens({}, tokens, TextsOf(unigram.pieces), settings);
  CheckRewrittenTokens(steps, resolved.tokens);
  // Else unknown words beside each other would be one.
  const auto is_mark = [](const VocabularyPiece& piece) { return piece.text == kSpaceMark; };
  if (steps.splits && std::none_of(unigram.pieces.begin(), unigram.pieces.end(), is_mark)) {
    model.FailAt("vocab", "has no piece ", Quoted(std::string(kSpaceMark)), ", which words begin with");
  }
  TextRules rules{.rewrites = steps.rewrites, .literal = resolved.literal};
  SetSpaces(steps, file, &rules, &unigram.space_before);
  for (const AddedToken& token : resolved.tokens) {
    const auto id = static_cast<size_t>(token.literal.id);
    if (token.special && id < unigram.pieces.size()) unigram.pieces[id].type = kControl;
  }
  for (VocabularyPiece& piece : unigram.pieces) {
    if (piece.type != kNormal) continue;
    if (unigram.byte_fallback && IsByteName(piece.text)) piece.type = kByte;
    // Words are cut before pieces are looked for, so that none has a space within.
    if (steps.splits && piece.text.find(kSpaceMark, 1) != std::string::npos) piece.type = kUnused;
  }
  unigram.pieces[static_cast<size_t>(unknown)].type = kUnknown;
  SentencePieceModel made;
  const int on_top = SetSentinels(resolved, unigram.pieces.size(), unigram.pieces.size(), &made);
  CheckExtraIds(settings, made.sentinels.empty() ? on_top : std::ssize(made.sentinels), name);
  if (settings.extra_ids && !made.sentinels_above) made.sentinels_above = 0;
  // The rest of the tokens on top are pieces.
  const auto in_pieces = static_cast<size_t>(on_top) - (resolved.more.size() - made.more.size());
  const size_t ids = unigram.pieces.size() + resolved.more.size();
  unigram.pieces.resize(unigram.pieces.size() - in_pieces);
  if (file.Has("post_processor") && !file.Value("post_processor").is_null()) {
    made.single = {{0, kNoToken, 0}};
    made.pair = {{0, kNoToken, 0}, {1, kNoToken, 1}};
    ReadPostProcessor(file.Object("post_processor"), name, &made.single, &made.pair);
  }
  file.RejectUnread();
  made.bytes = WriteModel(unigram);
  made.rules = std::move(rules);
  return Finished(std::move(made), ids, resolved, settings, name, num_sentinels);
}

std::shared_ptr<const Tokenizer> TokenizerFromModel(const std::string& contents, const std::string& name,
                                                    int num_sentinels, const TokenizerSettings& settings) {
  CheckSentencePieceModel(contents, name);
  const std::vector<VocabularyPiece> pieces = ReadPieces(contents);
  const bool said = settings.family != TokenizerFamily::kUnsaid && settings.family != TokenizerFamily::kGeneral;
  const bool is_t5 = settings.family == TokenizerFamily::kT5, is_llama = settings.family == TokenizerFamily::kLlama;
  std::vector<AddedToken> tokens = Merged(settings.added, settings.listed);
  if (is_t5) tokens = Merged(std::move(tokens), SentinelsOfT5(tokens, pieces, settings, name));
  TextRules rules;
  if (const std::optional<AlbertRules> albert = AlbertRulesBy(settings, contents)) {
    rules = RulesOf(*albert, contents);
  } else if (said) {
    if (is_t5) rules = T5Rules(contents, 0);
    for (size_t id = 0; id < pieces.size() && is_llama; ++id) {
      const std::string& text = pieces[id].text;
      if (text != "<unk>" && text != "<s>" && text != "</s>") continue;
      rules.literal.push_back({text, static_cast<int32_t>(id)});
    }
    if (settings.first_space_only.value_or(false)) {
      rules.space_before = settings.no_space.value_or(false) ? SpaceBefore::kKept : SpaceBefore::kStart;
    } else if (settings.no_space.value_or(false)) {
      Fail(ErrorKind::kData, settings.family_source, ": add_prefix_space: false is computed beside legacy: false only");
    }
  }
  LiteralsAndMore resolved = ResolveTokens(std::move(rules.literal), tokens, TextsOf(pieces), settings);
  rules.literal = resolved.literal;
  SentencePieceModel model{.bytes = contents};
  SetSentinels(resolved, pieces.size(), 0, &model);
  if (is_t5 && !model.sentinels_above) model.sentinels_above = 0;
  if (!(rules == TextRules())) model.rules = std::move(rules);
  if (is_llama) {
    model.llama = {.begin = settings.adds_begin.value_or(true), .end = settings.adds_end.value_or(false)};
  }
  return Finished(std::move(model), pieces.size() + resolved.more.size(), resolved, settings, name, num_sentinels);
}

}  // namespace crosstalk
