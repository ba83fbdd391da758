#include "crosstalk/models/text/published_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>
#include <vector>

#include "crosstalk/models/text/pair_encoding.h"
#include "crosstalk/models/text/sentencepiece_proto.h"
#include "crosstalk/models/text/sentencepiece_tokenizer.h"
#include "crosstalk/runtime/base64.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

struct AddedToken {
  LiteralToken literal;
  bool special;
};

bool BoolOr(const JsonReader& reader, const char* key, bool otherwise) {
  return reader.Has(key) ? reader.Bool(key) : otherwise;
}

// A value that must be of one of the kinds that are understood.
[[noreturn]] void RefuseType(const JsonReader& reader, std::string_view understood) {
  reader.FailAt("type", "is ", Quoted(reader.String("type")), "; understood is ", understood);
}

std::vector<AddedToken> ReadAddedTokens(const JsonReader& file, const std::string& name) {
  std::vector<AddedToken> tokens;
  for (const Json& one : file.Array("added_tokens")) {
    if (!one.is_object()) file.FailAt("added_tokens", "must hold objects");
    const JsonReader reader(one, name + ": added_tokens");
    AddedToken token;
    token.literal.id = static_cast<int32_t>(reader.Int("id", 0, static_cast<int64_t>(kMaxVocabulary)));
    token.literal.text = reader.String("content");
    const std::string& text = token.literal.text;
    if (reader.Bool("single_word"))
      file.FailAt("added_tokens", Quoted(text), " has single_word, which is not understood");
    token.literal.takes_space_before = reader.Bool("lstrip");
    token.literal.takes_space_behind = reader.Bool("rstrip");
    token.literal.rewritten = reader.Bool("normalized");
    token.special = reader.Bool("special");
    reader.RejectUnread();
    tokens.push_back(std::move(token));
  }
  std::vector<LiteralToken> literal;
  for (const AddedToken& token : tokens) literal.push_back(token.literal);
  if (const std::string wrong = WhatIsWrong(literal); !wrong.empty()) file.FailAt("added_tokens", wrong);
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.literal.id < b.literal.id; });
  return tokens;
}

// The tokens above the model's ids, which they go on.
std::vector<AddedToken> TokensAbove(const std::vector<AddedToken>& tokens, size_t ids, const JsonReader& file) {
  std::vector<AddedToken> above;
  for (const AddedToken& token : tokens) {
    if (static_cast<size_t>(token.literal.id) < ids) continue;
    if (static_cast<size_t>(token.literal.id) != ids + above.size()) {
      file.FailAt("added_tokens", Quoted(token.literal.text), " has the id ", token.literal.id,
                  ", but the next one is ", ids + above.size());
    }
    above.push_back(token);
  }
  return above;
}

void CheckInVocabulary(const AddedToken& token, const std::string& piece, const JsonReader& file) {
  if (token.literal.text != piece) {
    file.FailAt("added_tokens", Quoted(token.literal.text), " has the id ", token.literal.id, ", which is ",
                Quoted(piece), " in the vocabulary");
  }
}

// The tokens around the text: "101:0 A:0 102:0" is the id 101, the text and the id 102, all in segment 0.
std::string TemplateText(const JsonReader& processor, const char* key, const std::string& name) {
  std::vector<std::string> parts;
  const JsonReader tokens = processor.Object("special_tokens");
  for (const Json& one : processor.Array(key)) {
    if (!one.is_object() || one.AsObject().size() != 1) processor.FailAt(key, "must hold objects of one member");
    const JsonReader part(one, name + ": post_processor." + key);
    const bool is_token = part.Has("SpecialToken");
    const JsonReader inner = part.Object(is_token ? "SpecialToken" : "Sequence");
    std::string what = inner.String("id");
    const int64_t segment = inner.Int("type_id", 0, 1);
    inner.RejectUnread();
    if (is_token) {
      const JsonReader token = tokens.Object(what);
      const Json::Array& ids = token.Array("ids");
      token.String("id");
      token.Array("tokens");
      token.RejectUnread();
      if (ids.size() != 1 || !ids[0].is_int()) processor.FailAt("special_tokens", Quoted(what), " is not one id");
      what = StrCat(ids[0].AsInt());
    }
    parts.push_back(StrCat(what, ":", segment));
  }
  return Join(parts, " ");
}

std::string TemplateText(const PairTemplate& form) {
  std::vector<std::string> parts;
  for (const TemplatePart& part : form) {
    const std::string what = part.text == 0 ? "A" : part.text == 1 ? "B" : StrCat(part.id);
    parts.push_back(StrCat(what, ":", part.segment));
  }
  return Join(parts, " ");
}

void CheckPostProcessor(const JsonReader& file, const Tokenizer& tokenizer, const std::string& name) {
  if (!file.Has("post_processor") || file.Value("post_processor").is_null()) return;
  const JsonReader processor = file.Object("post_processor");
  const std::string& type = processor.String("type");
  const std::string single = TemplateText(TemplateOf(tokenizer, 1)), pair = TemplateText(TemplateOf(tokenizer, 2));
  const auto expect = [&](const char* key, const std::string& there, const std::string& expected) {
    if (there != expected) {
      processor.FailAt(key, "makes ", Excerpt(there), " of a text, where ", expected, " is understood");
    }
  };
  if (type == "TemplateProcessing") {
    expect("single", TemplateText(processor, "single", name), single);
    expect("pair", TemplateText(processor, "pair", name), pair);
  } else if (type == "BertProcessing") {
    const auto id_of = [&](const char* key) {
      const Json::Array& token = processor.Array(key);
      if (token.size() != 2 || !token[1].is_int()) processor.FailAt(key, "must be a token and its id");
      return token[1].AsInt();
    };
    const int64_t begin = id_of("cls"), end = id_of("sep");
    expect("cls", StrCat(begin, ":0 A:0 ", end, ":0"), single);
  } else {
    RefuseType(processor, "TemplateProcessing or BertProcessing");
  }
  processor.RejectUnread();
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

// {"[PAD]": 0, …} by id.
std::vector<std::string> ReadPieceMap(const JsonReader& model) {
  const Json& map = model.Value("vocab");
  if (!map.is_object()) model.FailAt("vocab", "must be an object of pieces and ids");
  const size_t ids = map.AsObject().size();
  if (ids > kMaxVocabulary) model.FailAt("vocab", "more than the ", kMaxVocabulary, " pieces allowed");
  std::vector<std::string> pieces(ids);
  std::vector<bool> taken(ids);
  for (const auto& [piece, id] : map.AsObject()) {
    if (!id.is_int() || id.AsInt() < 0 || static_cast<size_t>(id.AsInt()) >= ids) {
      model.FailAt("vocab", Quoted(piece), " has no id from 0 to ", ids - 1, ", the number of pieces less 1");
    }
    const auto at = static_cast<size_t>(id.AsInt());
    if (taken[at]) model.FailAt("vocab", Quoted(piece), " and ", Quoted(pieces[at]), " have the same id, ", at);
    taken[at] = true;
    pieces[at] = piece;
  }
  return pieces;
}

std::unique_ptr<Tokenizer> ReadWordPiece(const JsonReader& file, const JsonReader& model, const std::string& name,
                                         int num_sentinels) {
  WordPieceModel wordpiece;
  wordpiece.pieces = ReadPieceMap(model);
  wordpiece.unknown = model.String("unk_token");
  wordpiece.prefix = model.String("continuing_subword_prefix");
  wordpiece.longest_word = model.Int("max_input_chars_per_word", 1, kMaxWordCharacters);
  model.RejectUnread();

  if (!file.Value("normalizer").is_null()) {
    const JsonReader normalizer = file.Object("normalizer");
    if (normalizer.String("type") != "BertNormalizer") RefuseType(normalizer, "BertNormalizer");
    wordpiece.rules.rewrites = RewritesOf(ReadBertNormalizer(normalizer));
  }
  const JsonReader splitter = file.Object("pre_tokenizer");
  if (splitter.String("type") != "BertPreTokenizer") RefuseType(splitter, "BertPreTokenizer");
  splitter.RejectUnread();
  if (file.Has("decoder") && !file.Value("decoder").is_null()) {
    const JsonReader decoder = file.Object("decoder");
    if (decoder.String("type") != "WordPiece") RefuseType(decoder, "WordPiece");
    if (decoder.String("prefix") != wordpiece.prefix) decoder.FailAt("prefix", "is not the model's");
    wordpiece.clean_up = decoder.Bool("cleanup");
    decoder.RejectUnread();
  }
  const std::vector<AddedToken> added = ReadAddedTokens(file, name);
  for (const AddedToken& token : added) {
    const auto id = static_cast<size_t>(token.literal.id);
    if (id < wordpiece.pieces.size()) CheckInVocabulary(token, wordpiece.pieces[id], file);
    wordpiece.rules.literal.push_back(token.literal);
  }
  for (const AddedToken& token : TokensAbove(added, wordpiece.pieces.size(), file)) {
    wordpiece.more.push_back(token.literal.text);
  }
  return MakeWordPieceTokenizer(std::move(wordpiece), name, num_sentinels);
}

struct UnigramRules {
  std::vector<Rewrite> rewrites;
  std::string charsmap;
  bool has_table = false;
  bool drops_spaces = false;  // repeated ones
};

void ReadReplace(const JsonReader& step, UnigramRules* rules) {
  const JsonReader pattern = step.Object("pattern");
  const std::string& content = step.String("content");
  if (pattern.Has("Regex")) {
    if (pattern.String("Regex") != " {2,}" || (content != " " && content != kSpaceMark)) {
      pattern.FailAt("Regex", Quoted(pattern.String("Regex")), " is not understood; \" {2,}\" is");
    }
    rules->drops_spaces = true;
  } else {
    Rewrite replacement{RewriteKind::kReplace, ToUtf32(pattern.String("String")), ToUtf32(content)};
    if (const std::string wrong = WhatIsWrong(replacement); !wrong.empty()) step.FailAt("content", wrong);
    if (rules->has_table) step.FailAt("type", "Replace of a text after Precompiled is not understood");
    rules->rewrites.push_back(std::move(replacement));
  }
  pattern.RejectUnread();
}

void ReadNormalizer(const JsonReader& step, const std::string& name, UnigramRules* rules) {
  const std::string& type = step.String("type");
  const auto before_table = [&](RewriteKind kind) {
    if (rules->has_table) step.FailAt("type", type, " after Precompiled is not understood");
    rules->rewrites.push_back({kind});
  };
  if (type == "Sequence") {
    for (const Json& one : step.Array("normalizers")) {
      if (!one.is_object()) step.FailAt("normalizers", "must hold objects");
      const JsonReader inner(one, name + ": normalizer");
      if (inner.String("type") == "Sequence") inner.FailAt("type", "a Sequence within a Sequence is not understood");
      ReadNormalizer(inner, name, rules);
    }
  } else if (type == "Precompiled") {
    if (rules->has_table) step.FailAt("type", "a second Precompiled is not understood");
    const std::optional<std::string> table = DecodeBase64(step.String("precompiled_charsmap"));
    if (!table) step.FailAt("precompiled_charsmap", "is not base64");
    rules->charsmap = *table;
    rules->has_table = true;
  } else if (type == "Replace") {
    ReadReplace(step, rules);
  } else if (type == "Strip") {
    step.Bool("strip_left");
    step.Bool("strip_right");
  } else if (type == "NFKD") {
    before_table(RewriteKind::kDecomposeCompatible);
  } else if (type == "NFD") {
    before_table(RewriteKind::kDecompose);
  } else if (type == "StripAccents") {
    before_table(RewriteKind::kRemoveMarks);
  } else if (type == "Lowercase") {
    before_table(RewriteKind::kLowerCase);
  } else {
    RefuseType(step, "Sequence, Precompiled, Replace, Strip, NFD, NFKD, StripAccents or Lowercase");
  }
  step.RejectUnread();
}

// Whether a space is put before the first word.
bool ReadMetaspace(const JsonReader& metaspace) {
  if (metaspace.String("type") != "Metaspace") RefuseType(metaspace, "Metaspace");
  for (const char* key : {"replacement", "str_rep"}) {
    if (metaspace.Has(key) && metaspace.String(key) != kSpaceMark) metaspace.FailAt(key, "must be \u2581");
  }
  if (!BoolOr(metaspace, "split", true)) metaspace.FailAt("split", "false is not understood");
  bool before = BoolOr(metaspace, "add_prefix_space", true);
  if (metaspace.Has("prepend_scheme")) {
    const std::string& scheme = metaspace.String("prepend_scheme");
    if (scheme != "always" && scheme != "never") {
      metaspace.FailAt("prepend_scheme", Quoted(scheme), " is not understood; always and never are");
    }
    before = scheme == "always";
  }
  metaspace.RejectUnread();
  return before;
}

bool ReadPreTokenizer(const JsonReader& splitter, const std::string& name, UnigramRules* rules) {
  if (splitter.String("type") != "Sequence") return ReadMetaspace(splitter);
  const Json::Array& list = splitter.Array("pretokenizers");
  if (list.size() != 2 || !list[0].is_object() || !list[1].is_object()) {
    splitter.FailAt("pretokenizers", "must be WhitespaceSplit and Metaspace");
  }
  splitter.RejectUnread();
  const JsonReader first(list[0], name + ": pre_tokenizer");
  if (first.String("type") != "WhitespaceSplit") RefuseType(first, "WhitespaceSplit before Metaspace");
  first.RejectUnread();
  rules->drops_spaces = true;
  // The one white-space character that the tables of published models leave as it is.
  rules->rewrites.push_back({RewriteKind::kReplace, U"\u0085", U" "});
  return ReadMetaspace(JsonReader(list[1], name + ": pre_tokenizer"));
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

bool IsByteName(std::string_view text) { return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">"); }

std::unique_ptr<Tokenizer> ReadUnigram(const JsonReader& file, const JsonReader& model, const std::string& name,
                                       int num_sentinels) {
  UnigramModel unigram;
  unigram.pieces = ReadScoredPieces(model);
  const int64_t unknown = model.Int("unk_id", 0, static_cast<int64_t>(unigram.pieces.size()) - 1);
  unigram.byte_fallback = BoolOr(model, "byte_fallback", false);
  model.RejectUnread();

  UnigramRules rules;
  if (!file.Value("normalizer").is_null()) ReadNormalizer(file.Object("normalizer"), name, &rules);
  unigram.charsmap = rules.charsmap;
  unigram.space_before = ReadPreTokenizer(file.Object("pre_tokenizer"), name, &rules);
  if (rules.rewrites.size() > kMaxRewrites) file.FailAt("normalizer", "has more than ", kMaxRewrites, " steps");
  if (!rules.drops_spaces) file.FailAt("pre_tokenizer", "keeps repeated spaces, which is not understood");
  if (file.Has("decoder") && !file.Value("decoder").is_null()) ReadMetaspace(file.Object("decoder"));

  TextRules text_rules{std::move(rules.rewrites), {}};
  const std::vector<AddedToken> added = ReadAddedTokens(file, name);
  for (const AddedToken& token : added) {
    const auto id = static_cast<size_t>(token.literal.id);
    text_rules.literal.push_back(token.literal);
    if (id >= unigram.pieces.size()) continue;
    CheckInVocabulary(token, unigram.pieces[id].text, file);
    if (token.special) unigram.pieces[id].type = kControl;
  }
  for (const AddedToken& token : TokensAbove(added, unigram.pieces.size(), file)) {
    unigram.pieces.push_back({token.literal.text, 0, token.special ? kControl : kUserDefined});
  }
  for (VocabularyPiece& piece : unigram.pieces) {
    if (unigram.byte_fallback && piece.type == kNormal && IsByteName(piece.text)) piece.type = kByte;
  }
  unigram.pieces[static_cast<size_t>(unknown)].type = kUnknown;

  int own_sentinels = 0;
  while (!unigram.pieces.empty() && unigram.pieces.back().type == kControl &&
         unigram.pieces.back().text == StrCat("<extra_id_", own_sentinels, ">")) {
    unigram.pieces.pop_back();
    ++own_sentinels;
  }
  const auto ids = static_cast<int>(unigram.pieces.size()) + own_sentinels;
  std::unique_ptr<Tokenizer> tokenizer = MakeSentencePieceTokenizer(
      WriteModel(unigram), name, own_sentinels > 0 ? own_sentinels : num_sentinels, std::move(text_rules));
  if (own_sentinels > 0 && tokenizer->vocab_size() != ids) {
    file.FailAt("added_tokens", "has <extra_id_0>, but no special token for padding or none for the end");
  }
  return tokenizer;
}

// "type", which files of older versions do not have.
std::string TypeOf(const JsonReader& model) {
  if (model.Has("type")) return model.String("type");
  return model.Has("continuing_subword_prefix") ? "WordPiece" : model.Has("unk_id") ? "Unigram" : "";
}

}  // namespace

std::unique_ptr<Tokenizer> PublishedTokenizerFromJson(const Json& json, const std::string& name, int num_sentinels) {
  const JsonReader file(json, name);
  if (file.Has("version") && file.String("version") != "1.0") file.FailAt("version", "is not \"1.0\"");
  for (const char* key : {"truncation", "padding"}) {
    if (file.Has(key)) file.Value(key);
  }
  const JsonReader model = file.Object("model");
  const std::string type = TypeOf(model);
  if (type != "WordPiece" && type != "Unigram") {
    model.FailAt("type", Quoted(type), " is not understood; WordPiece and Unigram are");
  }
  std::unique_ptr<Tokenizer> tokenizer = type == "WordPiece" ? ReadWordPiece(file, model, name, num_sentinels)
                                                             : ReadUnigram(file, model, name, num_sentinels);
  CheckPostProcessor(file, *tokenizer, name);
  file.RejectUnread();
  return tokenizer;
}

std::optional<BertRules> PublishedBertRules(const Json& json, const std::string& name) {
  const Json* normalizer = json.is_object() ? json.Find("normalizer") : nullptr;
  if (normalizer == nullptr || !normalizer->is_object()) return std::nullopt;
  const Json* type = normalizer->Find("type");
  if (type == nullptr || *type != Json("BertNormalizer")) return std::nullopt;
  const JsonReader reader(*normalizer, name + ": normalizer");
  reader.String("type");
  return ReadBertNormalizer(reader);
}

}  // namespace crosstalk
