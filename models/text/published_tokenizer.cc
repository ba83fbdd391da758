#include "crosstalk/models/text/published_tokenizer.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/wordpiece_tokenizer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// The tokens around the text: "101:0 A:0 102:0" is the id 101, the text and the id 102, all in segment 0.
std::string TemplateText(const PairTemplate& form) {
  std::vector<std::string> parts;
  for (const TemplatePart& part : form) {
    const std::string what = part.text == 0 ? "A" : part.text == 1 ? "B" : StrCat(part.id);
    parts.push_back(StrCat(what, ":", part.segment));
  }
  return Join(parts, " ");
}

// A WordPiece has the template of its special tokens.
void CheckPostProcessor(const JsonReader& file, const Tokenizer& tokenizer, const std::string& name) {
  if (!file.Has("post_processor") || file.Value("post_processor").is_null()) return;
  const JsonReader processor = file.Object("post_processor");
  PairTemplate single = {{0, kNoToken, 0}}, pair = {{0, kNoToken, 0}, {1, kNoToken, 1}};
  ReadPostProcessor(processor, name, &single, &pair);
  const auto expect = [&](const char* key, const PairTemplate& there, int texts) {
    const PairTemplate expected = TemplateOf(tokenizer, texts);
    if (there == expected) return;
    processor.FailAt(key, "makes ", Excerpt(TemplateText(there)), " of a text, where ", TemplateText(expected),
                     " is understood");
  };
  expect("single", single, 1);
  expect("pair", pair, 2);
}

int32_t IdOfPair(const JsonReader& processor, const char* key) {
  const Json::Array& token = processor.Array(key);
  if (token.size() != 2 || !token[1].is_int() || token[1].AsInt() < 0 ||
      token[1].AsInt() > static_cast<int64_t>(kMaxVocabulary)) {
    processor.FailAt(key, "must be a token and its id");
  }
  return static_cast<int32_t>(token[1].AsInt());
}

// The member "single" or "pair" of a post_processor of the type TemplateProcessing.
PairTemplate ReadTemplate(const JsonReader& processor, const char* key, const std::string& name) {
  PairTemplate form;
  const JsonReader tokens = processor.Object("special_tokens");
  for (const Json& one : processor.Array(key)) {
    if (!one.is_object() || one.AsObject().size() != 1) processor.FailAt(key, "must hold objects of one member");
    const JsonReader part(one, name + ": post_processor." + key);
    const bool is_token = part.Has("SpecialToken");
    const JsonReader inner = part.Object(is_token ? "SpecialToken" : "Sequence");
    const std::string& what = inner.String("id");
    const auto segment = static_cast<int32_t>(inner.Int("type_id", 0, 1));
    inner.RejectUnread();
    if (!is_token) {
      if (what != "A" && what != "B") processor.FailAt(key, "the text ", Quoted(what), " is neither A nor B");
      form.push_back({what == "A" ? 0 : 1, kNoToken, segment});
      continue;
    }
    const JsonReader token = tokens.Object(what);
    const Json::Array& ids = token.Array("ids");
    token.String("id");
    token.Array("tokens");
    token.RejectUnread();
    const bool is_id = ids.size() == 1 && ids[0].is_int() && ids[0].AsInt() >= 0 &&
                       ids[0].AsInt() < static_cast<int64_t>(kMaxVocabulary);
    if (!is_id) processor.FailAt("special_tokens", Quoted(what), " is not one id");
    form.push_back({-1, static_cast<int32_t>(ids[0].AsInt()), segment});
  }
  return form;
}

BertRules ReadBertNormalizer(const JsonReader& normalizer) {
  BertRules rules;
  rules.clean = normalizer.Bool("clean_text");
  rules.space_chinese = normalizer.Bool("handle_chinese_chars");
  rules.lower_case = normalizer.Bool("lowercase");
  rules.strip_accents =
      normalizer.Value("strip_accents").is_null() ? rules.lower_case : normalizer.Bool("strip_accents");
  normalizer.RejectUnread();
  return rules;
}

// The rules of a normalizer that is BERT's; nullopt of another.
std::optional<BertRules> BertRulesIn(const Json& json, const std::string& name) {
  const Json* normalizer = json.Find("normalizer");
  if (normalizer == nullptr || !normalizer->is_object()) return std::nullopt;
  const Json* type = normalizer->Find("type");
  if (type == nullptr || *type != Json("BertNormalizer")) return std::nullopt;
  const JsonReader reader(*normalizer, name + ": normalizer");
  reader.String("type");
  return ReadBertNormalizer(reader);
}

// What the settings say of them.
BertRules Adjusted(BertRules rules, const TokenizerSettings& settings) {
  if (settings.lower_case) rules.lower_case = rules.strip_accents = *settings.lower_case;
  rules.strip_accents = settings.strip_accents.value_or(rules.strip_accents);
  rules.space_chinese = settings.space_chinese.value_or(rules.space_chinese);
  return rules;
}

void NameRoles(const TokenizerSettings& settings, WordPieceModel* model) {
  const std::pair<const char*, std::string*> named[] = {{"unk_token", &model->unknown},
                                                        {"pad_token", &model->pad},
                                                        {"cls_token", &model->begin},
                                                        {"sep_token", &model->separator},
                                                        {"mask_token", &model->mask}};
  for (const auto& [role, text] : named) {
    if (const auto said = settings.roles.find(role); said != settings.roles.end()) *text = said->second.literal.text;
  }
}

std::shared_ptr<const Tokenizer> WithTokens(WordPieceModel model, std::vector<LiteralToken> base,
                                            const std::vector<AddedToken>& tokens, const TokenizerSettings& settings,
                                            const std::string& name, int num_sentinels) {
  LiteralsAndMore resolved = ResolveTokens(std::move(base), tokens, model.pieces, settings);
  model.rules.literal = std::move(resolved.literal);
  for (const AddedToken& token : resolved.more) model.more.push_back(token.literal.text);
  return MakeWordPieceTokenizer(std::move(model), name, num_sentinels);
}

// Whether text between white space is cut at punctuation, or where else words begin.
WordSplit ReadWordSplit(const JsonReader& splitter, const std::string& name) {
  constexpr const char* kUnderstood =
      "BertPreTokenizer, Whitespace, WhitespaceSplit, or a Sequence of that and Punctuation";
  const std::string& type = splitter.String("type");
  WordSplit split = WordSplit::kPunctuation;
  if (type == "Sequence") {
    const Json::Array& list = splitter.Array("pretokenizers");
    if (list.size() != 2 || !list[0].is_object() || !list[1].is_object()) {
      splitter.FailAt("pretokenizers", "must be WhitespaceSplit and Punctuation");
    }
    const JsonReader first(list[0], name + ": pre_tokenizer"), second(list[1], name + ": pre_tokenizer");
    if (first.String("type") != "WhitespaceSplit") RefuseType(first, kUnderstood);
    if (second.String("type") != "Punctuation") RefuseType(second, kUnderstood);
    if (second.Has("behavior") && second.String("behavior") != "Isolated") {
      second.FailAt("behavior", Quoted(second.String("behavior")), " is not understood; \"Isolated\" is");
    }
    first.RejectUnread();
    second.RejectUnread();
  } else if (type == "Whitespace") {
    split = WordSplit::kRuns;
  } else if (type == "WhitespaceSplit") {
    split = WordSplit::kSpace;
  } else if (type != "BertPreTokenizer") {
    RefuseType(splitter, kUnderstood);
  }
  splitter.RejectUnread();
  return split;
}

std::vector<Rewrite> WordPieceRewrites(const JsonReader& file, const std::string& name) {
  std::vector<Rewrite> rewrites;
  ForEachStep(file, name, [&](const JsonReader& step, const std::string& type) {
    if (type == "BertNormalizer") {
      for (const Rewrite& rewrite : RewritesOf(ReadBertNormalizer(step))) rewrites.push_back(rewrite);
    } else if (type == "Strip") {
      AppendStrip(ReadStrip(step), &rewrites);
    } else if (const std::optional<Rewrite> rewrite = ReadRewrite(step, type)) {
      rewrites.push_back(*rewrite);
    } else {
      RefuseType(step, "BertNormalizer, Sequence, NFD, NFKD, StripAccents, Lowercase, Replace of a text or Strip");
    }
  });
  if (rewrites.size() > kMaxRewrites) file.FailAt("normalizer", "has more than ", kMaxRewrites, " steps");
  return rewrites;
}

std::shared_ptr<const Tokenizer> ReadWordPiece(const JsonReader& file, const JsonReader& model, const std::string& name,
                                               const std::vector<AddedToken>& tokens, int num_sentinels,
                                               const TokenizerSettings& settings, Precedence precedence) {
  WordPieceModel wordpiece;
  wordpiece.pieces = ReadPieceMap(model.Value("vocab"), name + ": model.vocab");
  NameRoles(settings, &wordpiece);
  const std::string& unknown = model.String("unk_token");
  if (settings.roles.contains("unk_token") && wordpiece.unknown != unknown) {
    model.FailAt("unk_token", "is ", Quoted(unknown), ", but ", Quoted(wordpiece.unknown), " is the unk_token of ",
                 settings.roles.at("unk_token").source);
  }
  wordpiece.unknown = unknown;
  wordpiece.prefix = model.String("continuing_subword_prefix");
  wordpiece.longest_word = model.Int("max_input_chars_per_word", 1, kMaxWordCharacters);
  model.RejectUnread();
  wordpiece.rules.rewrites = WordPieceRewrites(file, name);
  const std::optional<BertRules> rules = BertRulesOf(wordpiece.rules.rewrites);
  if (rules && precedence == Precedence::kSettings) wordpiece.rules.rewrites = RewritesOf(Adjusted(*rules, settings));
  wordpiece.split = ReadWordSplit(file.Object("pre_tokenizer"), name);
  if (file.Has("decoder") && !file.Value("decoder").is_null()) {
    const JsonReader decoder = file.Object("decoder");
    if (decoder.String("type") != "WordPiece") RefuseType(decoder, "WordPiece");
    if (decoder.String("prefix") != wordpiece.prefix) decoder.FailAt("prefix", "is not the model's");
    wordpiece.clean_up = decoder.Bool("cleanup");
    decoder.RejectUnread();
  }
  return WithTokens(std::move(wordpiece), {}, tokens, settings, name, num_sentinels);
}

// "type", which files of older versions do not have.
std::string TypeOf(const JsonReader& model) {
  if (model.Has("type")) return model.String("type");
  if (model.Has("merges")) return "BPE";
  return model.Has("continuing_subword_prefix") ? "WordPiece" : model.Has("unk_id") ? "Unigram" : "";
}

}  // namespace

void RefuseType(const JsonReader& reader, std::string_view understood) {
  reader.FailAt("type", "is ", Quoted(reader.String("type")), "; understood is ", understood);
}

LiteralsAndMore ResolveTokens(std::vector<LiteralToken> base, const std::vector<AddedToken>& tokens,
                              const std::vector<std::string>& pieces, const TokenizerSettings& settings) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t id = 0; id < pieces.size(); ++id) ids.emplace(pieces[id], static_cast<int32_t>(id));
  LiteralsAndMore resolved{std::move(base), {}, {}};
  std::vector<LiteralToken>& literal = resolved.literal;
  if (settings.special_tokens_are_text) literal.clear();
  for (AddedToken token : tokens) {
    const std::string& text = token.literal.text;
    int32_t& id = token.literal.id;
    if (id == kNoToken) {
      const auto found = ids.find(text);
      if (found == ids.end()) {
        Fail(ErrorKind::kData, token.source, ": ", Quoted(text), " has no id: it is neither in the vocabulary nor an ",
             "added token");
      }
      id = found->second;
    } else if (static_cast<size_t>(id) < pieces.size() && pieces[static_cast<size_t>(id)] != text) {
      Fail(ErrorKind::kData, token.source, ": ", Quoted(text), " has the id ", id, ", which is ",
           Quoted(pieces[static_cast<size_t>(id)]), " in the vocabulary");
    }
    if (static_cast<size_t>(id) >= pieces.size()) resolved.more.push_back(token);
    resolved.tokens.push_back(token);
    if (settings.special_tokens_are_text && token.special) continue;
    const auto same = std::find_if(literal.begin(), literal.end(), [&](const auto& one) { return one.text == text; });
    (same == literal.end() ? literal.emplace_back() : *same) = token.literal;
  }
  std::sort(resolved.more.begin(), resolved.more.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.literal.id < b.literal.id; });
  for (size_t i = 0; i < resolved.more.size(); ++i) {
    const AddedToken& token = resolved.more[i];
    if (static_cast<size_t>(token.literal.id) == pieces.size() + i) continue;
    Fail(ErrorKind::kData, token.source, ": ", Quoted(token.literal.text), " has the id ", token.literal.id,
         ", but the next one is ", pieces.size() + i);
  }
  if (const std::string wrong = WhatIsWrong(literal); !wrong.empty()) {
    Fail(ErrorKind::kData, tokens.empty() ? "added tokens" : tokens.front().source, ": ", wrong);
  }
  return resolved;
}

void ReadPostProcessor(const JsonReader& processor, const std::string& name, PairTemplate* single, PairTemplate* pair) {
  const std::string& type = processor.String("type");
  for (const char* key :
       {"add_prefix_space", "trim_offsets", "use_regex"}) {  // of the bytes that tokens are said to have
    if (processor.Has(key)) processor.Bool(key);
  }
  if (type == "Sequence") {
    for (const Json& one : processor.Array("processors")) {
      if (!one.is_object()) processor.FailAt("processors", "must hold objects");
      const JsonReader step(one, name + ": post_processor");
      if (step.String("type") == "Sequence") RefuseType(step, "ByteLevel or a template");
      ReadPostProcessor(step, name, single, pair);
    }
  } else if (type == "TemplateProcessing") {
    *single = ReadTemplate(processor, "single", name);
    *pair = ReadTemplate(processor, "pair", name);
    processor.Object("special_tokens");
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    const int32_t begin = IdOfPair(processor, "cls"), end = IdOfPair(processor, "sep");
    const bool bert = type == "BertProcessing";
    *single = {{-1, begin, 0}, {0, kNoToken, 0}, {-1, end, 0}};
    *pair = *single;
    if (!bert) pair->push_back({-1, end, 0});
    pair->push_back({1, kNoToken, bert ? 1 : 0});
    pair->push_back({-1, end, bert ? 1 : 0});
  } else if (type != "ByteLevel") {
    RefuseType(processor, "ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing or a Sequence of these");
  }
  processor.RejectUnread();
}

void CheckTemplates(const PairTemplate& single, const PairTemplate& pair, int64_t ids, const std::string& name) {
  for (const auto& [form, texts] : {std::pair(&single, std::vector<int>{0}), {&pair, {0, 1}}}) {
    std::vector<int> found;
    for (const TemplatePart& part : *form) {
      if (part.text >= 0) found.push_back(part.text);
      if (part.text >= 0 || part.id < ids) continue;
      Fail(ErrorKind::kData, name, ": post_processor: the id ", part.id, " is not in the vocabulary");
    }
    if (found == texts) continue;
    Fail(ErrorKind::kData, name, ": post_processor: its form of ", texts.size(), texts.size() == 1 ? " text" : " texts",
         " must have each of them once, in order");
  }
}

std::vector<std::string> ReadPieceMap(const Json& map, const std::string& source) {
  const auto refuse = [&](const auto&... parts) { Fail(ErrorKind::kData, source, ": ", parts...); };
  if (!map.is_object()) refuse("must be an object of pieces and ids");
  const size_t ids = map.AsObject().size();
  if (ids > kMaxVocabulary) refuse("more than the ", kMaxVocabulary, " pieces allowed");
  std::vector<std::string> pieces(ids);
  std::vector<bool> taken(ids);
  for (const auto& [piece, id] : map.AsObject()) {
    if (!id.is_int() || id.AsInt() < 0 || static_cast<size_t>(id.AsInt()) >= ids) {
      refuse(Quoted(piece), " has no id from 0 to ", ids - 1, ", the number of pieces less 1");
    }
    const auto at = static_cast<size_t>(id.AsInt());
    if (taken[at]) refuse(Quoted(piece), " and ", Quoted(pieces[at]), " have the same id, ", at);
    taken[at] = true;
    pieces[at] = piece;
  }
  return pieces;
}

std::shared_ptr<const Tokenizer> TokenizerOfBytes(const std::string& name, const TokenizerSettings& settings) {
  constexpr std::pair<const char*, const char*> kSpecials[] = {
      {"pad_token", "<pad>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
  std::vector<LiteralToken> specials, others;
  for (const auto& [role, usual] : kSpecials) {
    const auto said = settings.roles.find(role);
    specials.push_back(said == settings.roles.end() ? LiteralToken{usual, kNoToken, true, true} : said->second.literal);
    specials.back().id = static_cast<int32_t>(specials.size() - 1);
  }
  constexpr int kFirst = kSpecialIds + 256;
  for (const AddedToken& token : Merged(settings.added, settings.listed)) {
    const auto same = std::find_if(specials.begin(), specials.end(),
                                   [&](const LiteralToken& one) { return one.text == token.literal.text; });
    LiteralToken& place = same == specials.end() ? others.emplace_back(token.literal) : *same;
    if (same == specials.end()) {
      if (place.id == kNoToken) place.id = kFirst + static_cast<int32_t>(others.size()) - 1;
    } else if (token.literal.id != kNoToken) {
      if (token.literal.id != place.id) {
        Fail(ErrorKind::kData, token.source, ": ", Quoted(place.text), " has the id ", token.literal.id, ", not ",
             place.id);
      }
      place = token.literal;
    }
  }
  constexpr int kUsualSentinels = 125;
  for (int k = 0; others.empty() && k < settings.extra_ids.value_or(kUsualSentinels); ++k) {
    specials.push_back({SentinelText(k), kFirst + k});
  }
  specials.insert(specials.end(), others.begin(), others.end());
  for (LiteralToken& token : specials) token.rewritten = false;  // nothing is rewritten
  if (settings.special_tokens_are_text) {
    Fail(ErrorKind::kData, settings.family_source, ": split_special_tokens: true is not computed for bytes");
  }
  return MakeByteTokenizer(specials, name);
}

std::vector<AddedToken> PublishedAddedTokens(const Json& json, const std::string& name) {
  const JsonReader file(json, name);
  std::vector<AddedToken> tokens;
  std::unordered_set<std::string_view> texts;
  for (const Json& one : file.Array("added_tokens")) {
    if (!one.is_object()) file.FailAt("added_tokens", "must hold objects");
    const std::string source = name + ": added_tokens";
    const JsonReader reader(one, source);
    const auto id = static_cast<int32_t>(reader.Int("id", 0, static_cast<int64_t>(kMaxVocabulary)));
    tokens.push_back(ReadAddedToken(reader, id, source));
  }
  for (const AddedToken& token : tokens) {
    if (!texts.insert(token.literal.text).second) {
      file.FailAt("added_tokens", "the token ", Quoted(token.literal.text), " twice");
    }
  }
  return tokens;
}

std::shared_ptr<const Tokenizer> PublishedTokenizerFromJson(const Json& json, const std::string& name,
                                                            int num_sentinels, const TokenizerSettings& settings,
                                                            Precedence precedence) {
  const JsonReader file(json, name);
  if (file.Has("version") && file.String("version") != "1.0") file.FailAt("version", "is not \"1.0\"");
  for (const char* key : {"truncation", "padding"}) {
    if (file.Has(key)) file.Value(key);
  }
  file.Value("added_tokens");
  const std::vector<AddedToken> own = PublishedAddedTokens(json, name);
  const bool file_first = precedence == Precedence::kFile;
  const std::vector<AddedToken> tokens =
      Merged(Merged(file_first ? own : settings.added, file_first ? settings.added : own), settings.listed);
  const JsonReader model = file.Object("model");
  const std::string type = TypeOf(model);
  if (type == "BPE") return ReadBpe(file, model, name, tokens, num_sentinels, settings, precedence);
  if (type != "WordPiece" && type != "Unigram") {
    model.FailAt("type", Quoted(type), " is not understood; WordPiece, Unigram and BPE are");
  }
  if (type == "Unigram") return ReadUnigram(file, model, name, tokens, num_sentinels, settings);
  std::shared_ptr<const Tokenizer> tokenizer =
      ReadWordPiece(file, model, name, tokens, num_sentinels, settings, precedence);
  CheckPostProcessor(file, *tokenizer, name);
  file.RejectUnread();
  return tokenizer;
}

std::shared_ptr<const Tokenizer> TokenizerFromVocabulary(std::string_view contents, const std::string& name,
                                                         int num_sentinels, const TokenizerSettings& settings,
                                                         const Json* json) {
  WordPieceModel model;
  model.pieces = ReadVocabularyLines(contents, name);
  NameRoles(settings, &model);
  BertRules rules;
  rules.lower_case = rules.strip_accents = IsUncased(model.pieces);
  if (json != nullptr) rules = BertRulesIn(*json, name).value_or(rules);
  model.rules.rewrites = RewritesOf(Adjusted(rules, settings));
  if (!settings.split_punctuation.value_or(true)) {
    model.rules.rewrites.clear();
    model.split = WordSplit::kSpace;
  }
  std::vector<LiteralToken> base = BertLiteralTokens(model);
  return WithTokens(std::move(model), std::move(base), Merged(settings.added, settings.listed), settings, name,
                    num_sentinels);
}

}  // namespace crosstalk
