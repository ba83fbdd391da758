// Byte-pair encodings as they are published: of a tokenizer.json, of a vocab.json with a merges.txt, and of the file
// that a run keeps: published_tokenizer.h.
#include <algorithm>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "crosstalk/models/text/bpe_tokenizer.h"
#include "crosstalk/models/text/published_tokenizer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

using PieceIds = std::unordered_map<std::string_view, int32_t>;

PieceIds IdsOfPieces(const std::vector<std::string>& pieces) {
  PieceIds ids;
  for (size_t id = 0; id < pieces.size(); ++id) ids.emplace(pieces[id], static_cast<int32_t>(id));
  return ids;
}

// Appends the merge of two pieces. `where` is for messages.
void AppendMerge(std::string_view left, std::string_view right, const PieceIds& ids, const std::string& where,
                 BpeModel* model) {
  const auto id_of = [&](std::string_view text) {
    const auto found = ids.find(text);
    if (found == ids.end()) {
      Fail(ErrorKind::kData, where, ": the vocabulary has no ", Quoted(text), ", of the merge of ", Quoted(left),
           " and ", Quoted(right));
    }
    return found->second;
  };
  if (model->merges.size() == kMaxVocabulary) {
    Fail(ErrorKind::kData, where, ": more than the ", kMaxVocabulary, " merges allowed");
  }
  model->merges.emplace_back(id_of(left), id_of(right));
  id_of(StrCat(left, right));
}

// "a b", the two pieces of a merge.
void AppendMergeLine(std::string_view line, const PieceIds& ids, const std::string& where, BpeModel* model) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    Fail(ErrorKind::kData, where, ": ", Quoted(line), " is not two pieces with a space between them");
  }
  AppendMerge(line.substr(0, space), line.substr(space + 1), ids, where, model);
}

void ReadMerges(const JsonReader& reader, const std::string& name, BpeModel* model) {
  const PieceIds ids = IdsOfPieces(model->pieces);
  size_t number = 0;
  for (const Json& merge : reader.Array("merges")) {
    const std::string where = StrCat(name, ": model.merges: number ", number++);
    if (merge.is_string()) {
      AppendMergeLine(merge.AsString(), ids, where, model);
      continue;
    }
    const bool is_pair = merge.is_array() && merge.AsArray().size() == 2 && merge.AsArray()[0].is_string() &&
                         merge.AsArray()[1].is_string();
    if (!is_pair) Fail(ErrorKind::kData, where, ": must be a text or a pair of them");
    AppendMerge(merge.AsArray()[0].AsString(), merge.AsArray()[1].AsString(), ids, where, model);
  }
}

// Null as false.
bool Flag(const JsonReader& reader, const char* key) {
  return reader.Has(key) && !reader.Value(key).is_null() && reader.Bool(key);
}

void ReadModel(const JsonReader& reader, const std::string& name, BpeModel* model) {
  if (reader.Has("type")) reader.String("type");
  if (reader.Has("dropout") && !reader.Value("dropout").is_null() && reader.Double("dropout") != 0) {
    reader.FailAt("dropout", reader.Double("dropout"), " is not computed; null and 0 are");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!reader.Has(key) || reader.Value(key).is_null() || reader.String(key).empty()) continue;
    reader.FailAt(key, Quoted(reader.String(key)), " is not understood; null and \"\" are");
  }
  model->byte_fallback = Flag(reader, "byte_fallback");
  model->fuse_unknown = Flag(reader, "fuse_unk");
  model->whole_pieces = Flag(reader, "ignore_merges");
  model->pieces = ReadPieceMap(reader.Value("vocab"), name + ": model.vocab");
  if (reader.Has("unk_token") && !reader.Value("unk_token").is_null()) model->unknown = reader.String("unk_token");
  const bool known = std::find(model->pieces.begin(), model->pieces.end(), model->unknown) != model->pieces.end();
  if (!model->unknown.empty() && !known) {
    reader.FailAt("unk_token", Quoted(model->unknown), " is not in the vocabulary");
  }
  ReadMerges(reader, name, model);
  reader.RejectUnread();
}

std::vector<Rewrite> ReadNormalizerOfBpe(const JsonReader& file, const std::string& name) {
  std::vector<Rewrite> rewrites;
  ForEachStep(file, name, [&](const JsonReader& step, const std::string& type) {
    if (type == "NFC") {
      rewrites.push_back({RewriteKind::kCompose});
    } else if (type == "NFKC") {
      rewrites.push_back({RewriteKind::kComposeCompatible});
    } else if (type == "Prepend") {
      const std::string& text = step.String("prepend");
      if (text.empty() || text.size() > kMaxReplaced) step.FailAt("prepend", "must be 1 to ", kMaxReplaced, " bytes");
      rewrites.push_back({RewriteKind::kPrepend, {}, ToUtf32(text)});
    } else if (type == "Strip") {
      AppendStrip(ReadStrip(step), &rewrites);
    } else if (const std::optional<Rewrite> rewrite = ReadRewrite(step, type)) {
      rewrites.push_back(*rewrite);
    } else {
      RefuseType(step, "Sequence, NFC, NFKC, NFD, NFKD, StripAccents, Lowercase, Replace of a text, Strip or Prepend");
    }
  });
  if (rewrites.size() > kMaxRewrites) file.FailAt("normalizer", "has more than ", kMaxRewrites, " steps");
  return rewrites;
}

template <typename E>
E ReadName(const JsonReader& step, const char* key) {
  const std::string& name = step.String(key);
  for (const EnumName<E>& entry : EnumNames<E>::kTable) {
    if (name == entry.name) return entry.value;
  }
  step.FailAt(key, Quoted(name), " is none of ", Join(crosstalk::NamesOf<E>(), ", "));
}

SplitRule ReadSplit(const JsonReader& step) {
  const JsonReader pattern = step.Object("pattern");
  SplitRule rule;
  rule.literal = pattern.Has("String");
  rule.pattern = pattern.String(rule.literal ? "String" : "Regex");
  pattern.RejectUnread();
  rule.behavior = ReadName<SplitBehavior>(step, "behavior");
  rule.invert = step.Bool("invert");
  return rule;
}

// Steps that cut, as patterns; false of another.
bool AppendCut(const JsonReader& step, const std::string& type, BpeModel* model) {
  constexpr const char* kPunctuation = R"([\p{P}$+<=>^`|~])";
  // Two runs, of IsWordOrMark and of all others but white space.
  constexpr std::string_view kWordOrMark =
      R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\u200c\u200d\u24b6-\u24e9\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
  std::vector<SplitRule>& splits = model->splits;
  if (type == "Split") {
    splits.push_back(ReadSplit(step));
  } else if (type == "Digits") {
    const bool each = step.Bool("individual_digits");
    splits.push_back({R"(\p{N})", false, each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
  } else if (type == "Punctuation") {
    splits.push_back({kPunctuation, false,
                      step.Has("behavior") ? ReadName<SplitBehavior>(step, "behavior") : SplitBehavior::kIsolated});
  } else if (type == "Whitespace") {
    splits.push_back({StrCat("[", kWordOrMark, "]+|[^", kWordOrMark, "\\s]+"), false, SplitBehavior::kRemoved, true});
  } else if (type == "WhitespaceSplit") {
    splits.push_back({R"(\s)", false, SplitBehavior::kRemoved});
  } else {
    return false;
  }
  return true;
}

void ReadMetaspaceOfBpe(const JsonReader& step, BpeModel* model) {
  for (const char* key : {"replacement", "str_rep"}) {
    if (step.Has(key) && step.String(key) != kSpaceMark) step.FailAt(key, "must be \u2581");
  }
  model->marks_spaces = true;
  model->prefix = PrefixScheme::kAlways;
  if (step.Has("add_prefix_space") && !step.Bool("add_prefix_space")) model->prefix = PrefixScheme::kNever;
  if (step.Has("prepend_scheme")) model->prefix = ReadName<PrefixScheme>(step, "prepend_scheme");
  if (step.Has("split") && !step.Bool("split")) return;
  model->splits.push_back({std::string(kSpaceMark), true, SplitBehavior::kMergedWithNext});
}

void ReadByteLevel(const JsonReader& step, BpeModel* model) {
  if (step.Has("trim_offsets")) step.Bool("trim_offsets");
  if (step.Bool("add_prefix_space")) {
    if (!model->splits.empty()) step.FailAt("add_prefix_space", "true after a step that cuts is not understood");
    model->prefix = PrefixScheme::kAlways;
  }
  if (!step.Has("use_regex") || step.Bool("use_regex")) model->splits.push_back({std::string(kGpt2Pattern)});
  model->byte_level = true;
}

void ReadPreTokenizerOfBpe(const JsonReader& file, const std::string& name, BpeModel* model) {
  constexpr size_t kMostSteps = 32;
  model->byte_level = false;
  if (!file.Has("pre_tokenizer") || file.Value("pre_tokenizer").is_null()) return;
  const auto read = [&](const JsonReader& step) {
    const std::string& type = step.String("type");
    if (model->byte_level || model->marks_spaces)
      step.FailAt("type", type, " after ByteLevel or Metaspace is not understood");
    if (type == "ByteLevel") {
      ReadByteLevel(step, model);
    } else if (type == "Metaspace" && model->splits.empty()) {
      ReadMetaspaceOfBpe(step, model);
    } else if (!AppendCut(step, type, model)) {
      RefuseType(step,
                 "ByteLevel, Metaspace before all that cuts, Split, Digits, Punctuation, Whitespace, WhitespaceSplit "
                 "or a Sequence of these");
    }
    step.RejectUnread();
  };
  const JsonReader splitter = file.Object("pre_tokenizer");
  if (splitter.String("type") != "Sequence") return read(splitter);
  for (const Json& one : splitter.Array("pretokenizers")) {
    if (!one.is_object()) splitter.FailAt("pretokenizers", "must hold objects");
    read(JsonReader(one, name + ": pre_tokenizer"));
    if (model->splits.size() > kMostSteps) splitter.FailAt("pretokenizers", "more than ", kMostSteps, " steps");
  }
  splitter.RejectUnread();
}

// Whether it makes ▁ a space; what it does beyond is in the model.
bool ReadDecoderStep(const JsonReader& step, BpeModel* model) {
  const std::string& type = step.String("type");
  bool makes_spaces = false;
  if (type == "Replace") {
    const JsonReader pattern = step.Object("pattern");
    makes_spaces = pattern.String("String") == kSpaceMark && step.String("content") == " ";
    if (!makes_spaces) step.FailAt("pattern", "is understood for \u2581 by a space");
    pattern.RejectUnread();
  } else if (type == "Strip") {
    const bool one = step.String("content") == " " && step.Int("start") == 1 && step.Int("stop") == 0;
    if (!one) step.FailAt("content", "is understood for one space at the start");
    model->strips_space = true;
  } else if (type == "ByteFallback") {
    if (!model->byte_fallback) step.FailAt("type", "ByteFallback, but the model has no byte_fallback");
  } else if (type != "Fuse") {
    RefuseType(step, "ByteLevel, or a Sequence of Replace, ByteFallback, Fuse and Strip");
  }
  step.RejectUnread();
  return makes_spaces;
}

void ReadDecoder(const JsonReader& file, const std::string& name, BpeModel* model) {
  const bool none = !file.Has("decoder") || file.Value("decoder").is_null();
  if (none) file.FailAt("decoder", "is missing: ids could not become text");
  const JsonReader decoder = file.Object("decoder");
  if (model->byte_level) {
    if (decoder.String("type") != "ByteLevel") RefuseType(decoder, "ByteLevel, as in pre_tokenizer");
    for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) {
      if (decoder.Has(key)) decoder.Bool(key);
    }
    decoder.RejectUnread();
    return;
  }
  if (decoder.String("type") != "Sequence") RefuseType(decoder, "a Sequence of Replace, ByteFallback, Fuse and Strip");
  bool makes_spaces = false;
  for (const Json& one : decoder.Array("decoders")) {
    if (!one.is_object()) decoder.FailAt("decoders", "must hold objects");
    makes_spaces |= ReadDecoderStep(JsonReader(one, name + ": decoder"), model);
  }
  if (!makes_spaces) decoder.FailAt("decoders", "have no Replace of \u2581 by a space");
  decoder.RejectUnread();
}

// The special tokens by the names of tokenizer_config.json; where these say none, the usual ones among the tokens.
SpecialTokens RolesOf(const TokenizerSettings& settings, const std::vector<AddedToken>& tokens) {
  const auto id_of = [&](std::string_view text) {
    const auto found = std::find_if(tokens.begin(), tokens.end(), [&](const AddedToken& token) {
      return token.special && token.literal.text == text;
    });
    return found == tokens.end() ? kNoToken : found->literal.id;
  };
  const auto role = [&](const char* name, std::initializer_list<const char*> usual) {
    if (const auto said = settings.roles.find(name); said != settings.roles.end()) {
      return id_of(said->second.literal.text);
    }
    if (!settings.roles.empty()) return kNoToken;
    for (const char* text : usual) {
      if (const int32_t id = id_of(text); id != kNoToken) return id;
    }
    return kNoToken;
  };
  const auto either = [](int32_t first, int32_t second) { return first != kNoToken ? first : second; };
  SpecialTokens ids;
  ids.separator = role("sep_token", {});
  ids.mask = role("mask_token", {"<mask>", "[MASK]"});
  ids.begin = either(role("cls_token", {}), role("bos_token", {"<s>", "<|begin_of_text|>"}));
  ids.end = either(role("eos_token", {"</s>", "<|end_of_text|>", "<|endoftext|>"}), ids.separator);
  ids.unknown = role("unk_token", {"<unk>"});
  ids.pad = role("pad_token", {"<pad>", "[PAD]"});
  // One id for several things is the others': GPT-2 calls its one special token all of them.
  for (const int32_t other : {ids.separator, ids.mask, ids.begin, ids.end}) {
    if (ids.unknown == other) ids.unknown = kNoToken;
    if (ids.pad == other) ids.pad = kNoToken;
  }
  if (ids.pad == ids.unknown) ids.pad = kNoToken;
  ids.decoder_start = ids.pad;
  return ids;
}

std::shared_ptr<const Tokenizer> FinishedBpe(BpeModel model, std::vector<LiteralToken> base,
                                             const std::vector<AddedToken>& tokens, const std::string& name,
                                             int num_sentinels, const TokenizerSettings& settings) {
  LiteralsAndMore resolved = ResolveTokens(std::move(base), tokens, model.pieces, settings);
  model.rules.literal = resolved.literal;
  for (const AddedToken& token : resolved.more) model.more.push_back(token.literal.text);
  for (const AddedToken& token : resolved.tokens) {
    if (token.special) model.special.push_back(token.literal.id);
  }
  model.tokens = settings.tokens ? *settings.tokens : RolesOf(settings, resolved.tokens);
  for (const AddedToken& token : resolved.more) {
    const auto is_it = [&](const LiteralToken& literal) { return literal.id == token.literal.id; };
    if (std::any_of(resolved.literal.begin(), resolved.literal.end(), is_it)) continue;
    Fail(ErrorKind::kData, token.source, ": ", Quoted(token.literal.text),
         " is above the vocabulary, and split_special_tokens makes it text, which is not understood");
  }
  const SpecialTokens& roles = model.tokens;
  for (const int32_t other : {roles.end, roles.unknown, roles.begin, roles.separator, roles.mask}) {
    if (roles.pad == other && other != kNoToken)
      Fail(ErrorKind::kData, name, ": tokens.pad: is another special token too");
  }
  const auto ids = static_cast<int32_t>(model.pieces.size() + model.more.size());
  for (const Field<SpecialTokens>& field : SpecialTokens::Fields()) {
    if (field.get(model.tokens).AsInt() < ids) continue;
    Fail(ErrorKind::kData, name, ": tokens.", field.key, ": is not in the vocabulary of ", ids);
  }
  model.sentinels = SentinelsAmong(resolved);
  CheckTemplates(model.single, model.pair, ids, name);
  return MakeBpeTokenizer(std::move(model), name, num_sentinels);
}

// The space before words, where its class takes it from the settings.
void TakePrefix(const TokenizerSettings& settings, BpeModel* model) {
  const bool takes = settings.family == TokenizerFamily::kGpt2 || settings.family == TokenizerFamily::kRoberta;
  if (takes && settings.no_space) model->prefix = *settings.no_space ? PrefixScheme::kNever : PrefixScheme::kAlways;
}

}  // namespace

std::shared_ptr<const Tokenizer> ReadBpe(const JsonReader& file, const JsonReader& model, const std::string& name,
                                         const std::vector<AddedToken>& tokens, int num_sentinels,
                                         const TokenizerSettings& settings, Precedence precedence) {
  BpeModel bpe;
  ReadModel(model, name, &bpe);
  bpe.rules.rewrites = ReadNormalizerOfBpe(file, name);
  ReadPreTokenizerOfBpe(file, name, &bpe);
  if (bpe.byte_level && precedence == Precedence::kSettings) TakePrefix(settings, &bpe);
  ReadDecoder(file, name, &bpe);
  if (file.Has("post_processor") && !file.Value("post_processor").is_null()) {
    ReadPostProcessor(file.Object("post_processor"), name, &bpe.single, &bpe.pair);
  }
  file.RejectUnread();
  return FinishedBpe(std::move(bpe), {}, tokens, name, num_sentinels, settings);
}

std::shared_ptr<const Tokenizer> TokenizerFromMerges(const Tokenizer::PublishedFile& vocabulary,
                                                     const Tokenizer::PublishedFile& merges, int num_sentinels,
                                                     const TokenizerSettings& settings) {
  const bool roberta = settings.family == TokenizerFamily::kRoberta, qwen = settings.family == TokenizerFamily::kQwen;
  BpeModel model;
  model.pieces = ReadPieceMap(ParseJson(vocabulary.contents, vocabulary.name), vocabulary.name);
  const PieceIds ids = IdsOfPieces(model.pieces);
  size_t number = 0;
  for (const std::string& line : Split(merges.contents, '\n')) {
    const std::string where = StrCat(merges.name, ": line ", ++number);
    if (FindInvalidUtf8(line) != std::string::npos) Fail(ErrorKind::kData, where, ": is not UTF-8: ", Quoted(line));
    const std::string_view pair = std::string_view(line).substr(0, line.size() - (line.ends_with('\r') ? 1 : 0));
    if (!pair.empty() && !pair.starts_with("#version")) AppendMergeLine(pair, ids, where, &model);
  }
  if (qwen) model.rules.rewrites = {{RewriteKind::kCompose}};
  model.splits = {{std::string(qwen ? kQwenPattern : kGpt2Pattern)}};
  TakePrefix(settings, &model);
  // What its class has where the files beside it do not say it.
  std::vector<AddedToken> usual;
  TokenizerSettings said = settings;
  const auto add = [&](const char* text, std::initializer_list<const char*> roles, bool takes_space_before = false) {
    if (!ids.contains(text)) return;
    AddedToken token{{text, ids.at(text), takes_space_before}, true, vocabulary.name};
    for (const char* role : roles) said.roles.emplace(role, token);
    usual.push_back(std::move(token));
  };
  if (roberta) {
    add("<s>", {"bos_token", "cls_token"});
    add("</s>", {"eos_token", "sep_token"});
    add("<unk>", {"unk_token"});
    add("<pad>", {"pad_token"});
    add("<mask>", {"mask_token"}, true);
  } else {
    add("<|endoftext|>", {"eos_token", qwen ? "pad_token" : "bos_token"});
  }
  const std::vector<AddedToken> tokens = Merged(Merged(settings.added, usual), settings.listed);
  if (roberta) {
    const SpecialTokens roles = RolesOf(said, ResolveTokens({}, tokens, model.pieces, settings).tokens);
    if (roles.begin == kNoToken || roles.separator == kNoToken) {
      Fail(ErrorKind::kData, vocabulary.name, ": has no <s> or no </s>, which texts begin and end with");
    }
    model.single = {{-1, roles.begin, 0}, {0, kNoToken, 0}, {-1, roles.separator, 0}};
    model.pair = model.single;
    model.pair.insert(model.pair.end(), {{-1, roles.separator, 0}, {1, kNoToken, 0}, {-1, roles.separator, 0}});
  }
  return FinishedBpe(std::move(model), {}, tokens, vocabulary.name, num_sentinels, said);
}

std::shared_ptr<const Tokenizer> BpeFromJson(const JsonReader& reader, const std::string& name) {
  TokenizerSettings settings;
  settings.tokens = FromJson<SpecialTokens>(reader.Value("tokens"), name + ": tokens");
  const auto sentinels = static_cast<int>(reader.Int("sentinels", 0, kMaxSentinels));
  std::shared_ptr<const Tokenizer> tokenizer =
      PublishedTokenizerFromJson(reader.Value("published"), name + ": published", sentinels, settings);
  if (tokenizer->kind() != "bpe") reader.FailAt("published", "is no byte-pair encoding");
  return tokenizer;
}

}  // namespace crosstalk
