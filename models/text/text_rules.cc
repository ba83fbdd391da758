#include "crosstalk/models/text/text_rules.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "crosstalk/models/text/sentencepiece_model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// The byte at which the white space that ends after `end` begins, at least `least`.
size_t WhiteSpaceBefore(std::string_view text, size_t least, size_t end) {
  while (end > least) {
    size_t begin = end - 1;
    while (begin > least && IsUtf8Continuation(text[begin])) --begin;
    const size_t length = Utf8Length(text, begin);
    if (begin + length != end || !IsWhiteSpace(ToUtf32(text.substr(begin, length))[0])) break;
    end = begin;
  }
  return end;
}

size_t WhiteSpaceBehind(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const size_t length = Utf8Length(text, begin);
    if (length == 0 || !IsWhiteSpace(ToUtf32(text.substr(begin, length))[0])) break;
    begin += length;
  }
  return begin;
}

// Whether a character that words are made of ends at `end`, or begins at `begin`.
bool WordEndsAt(std::string_view text, size_t end) {
  if (end == 0) return false;
  size_t begin = end - 1;
  while (begin > 0 && IsUtf8Continuation(text[begin])) --begin;
  return begin + Utf8Length(text, begin) == end && IsWordOrMark(ToUtf32(text.substr(begin, end - begin))[0]);
}

bool WordBeginsAt(std::string_view text, size_t begin) {
  const size_t length = begin < text.size() ? Utf8Length(text, begin) : 0;
  return length > 0 && IsWordOrMark(ToUtf32(text.substr(begin, length))[0]);
}

}  // namespace

LiteralTokens::LiteralTokens(const std::vector<LiteralToken>& tokens) {
  for (const LiteralToken& token : tokens) {
    tokens_.emplace(token.text, token);
    lengths_.push_back(token.text.size());
    begins_[static_cast<unsigned char>(token.text[0])] = true;
  }
  std::sort(lengths_.begin(), lengths_.end(), std::greater<>());
  lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
}

const LiteralToken* LiteralTokens::LongestAt(std::string_view text, size_t at) const {
  if (!begins_[static_cast<unsigned char>(text[at])]) return nullptr;
  for (const size_t length : lengths_) {
    if (length > text.size() - at) continue;
    const auto found = tokens_.find(std::string(text.substr(at, length)));
    if (found != tokens_.end()) return &found->second;
  }
  return nullptr;
}

std::vector<LiteralTokens::Section> LiteralTokens::Cut(std::string_view text) const {
  std::vector<Section> sections;
  size_t done = 0;  // what is in sections
  const auto add = [&](size_t end, int32_t id) {
    if (end > done) sections.push_back({static_cast<int64_t>(done), static_cast<int64_t>(end), id});
    done = end;
  };
  for (size_t at = 0; at < text.size() && !tokens_.empty();) {
    const LiteralToken* token = LongestAt(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    const size_t begin = at, end = at + token->text.size();
    at = end;
    if (token->whole_word && (WordEndsAt(text, begin) || WordBeginsAt(text, end))) continue;
    add(token->takes_space_before ? std::max(done, WhiteSpaceBefore(text, done, begin)) : begin, kNoToken);
    add(token->takes_space_behind ? WhiteSpaceBehind(text, end) : end, token->id);
  }
  add(text.size(), kNoToken);
  return sections;
}

RuledText::RuledText(TextRules rules, std::string charsmap) : rules_(std::move(rules)), charsmap_(std::move(charsmap)) {
  std::vector<LiteralToken> original, rewritten;
  for (const LiteralToken& token : rules_.literal) {
    if (!token.rewritten) {
      original.push_back(token);
      continue;
    }
    TracedText text = TraceText(token.text, 0, static_cast<int64_t>(token.text.size()));
    Rewrite(&text);
    ApplyTable(charsmap_, &text);
    LiteralToken changed = token;
    changed.text = ToUtf8(text).text;
    if (!changed.text.empty()) rewritten.push_back(std::move(changed));
  }
  original_ = LiteralTokens(original);
  rewritten_ = LiteralTokens(rewritten);
}

std::vector<LiteralTokens::Section> RuledText::Cut(std::string_view text) const {
  std::vector<LiteralTokens::Section> sections = original_.Cut(text);
  if (rewritten_.empty()) return sections;
  std::vector<LiteralTokens::Section> cut;
  for (const LiteralTokens::Section& section : sections) {
    if (section.id != kNoToken) {
      cut.push_back(section);
      continue;
    }
    const auto begin = static_cast<size_t>(section.begin), end = static_cast<size_t>(section.end);
    for (const LiteralTokens::Section& within : rewritten_.Cut(text.substr(begin, end - begin))) {
      cut.push_back({section.begin + within.begin, section.begin + within.end, within.id});
    }
  }
  return cut;
}

void RuledText::Rewrite(TracedText* text) const {
  for (const crosstalk::Rewrite& rewrite : rules_.rewrites) Apply(rewrite, text);
}

std::vector<RuledText::Part> RuledText::Parts(std::string_view text) const {
  std::vector<Part> parts;
  for (const LiteralTokens::Section& section : original_.Cut(text)) {
    if (section.id != kNoToken) {
      parts.push_back({section.id, section.begin, section.end, {}});
      continue;
    }
    TracedText traced = TraceText(text, section.begin, section.end);
    Rewrite(&traced);
    if (rewritten_.empty()) {
      parts.push_back({kNoToken, section.begin, section.end, std::move(traced)});
      continue;
    }
    // The model applies its table itself, and to these parts once more, which changes no text that it has made.
    TracedText tabled = traced;
    ApplyTable(charsmap_, &tabled);
    const Utf8Text utf8 = ToUtf8(tabled);
    const std::vector<LiteralTokens::Section> sections = rewritten_.Cut(utf8.text);
    if (sections.size() == 1 && sections[0].id == kNoToken) {
      parts.push_back({kNoToken, section.begin, section.end, std::move(traced)});
      continue;
    }
    for (size_t i = 0; i < sections.size(); ++i) {
      const LiteralTokens::Section& within = sections[i];
      const auto first = utf8.character[static_cast<size_t>(within.begin)];
      const auto last = utf8.character[static_cast<size_t>(within.end)];
      const auto begin = tabled.begin() + first, end = tabled.begin() + last;
      const bool is_text = within.id == kNoToken;
      parts.push_back({within.id, is_text && i == 0 ? section.begin : begin->begin, std::prev(end)->end,
                       is_text ? TracedText(begin, end) : TracedText(), is_text && i + 1 < sections.size()});
    }
  }
  return parts;
}

bool SameRules(TextRules a, TextRules b) {
  for (TextRules* rules : {&a, &b}) {
    std::sort(rules->literal.begin(), rules->literal.end(),
              [](const LiteralToken& one, const LiteralToken& other) { return one.text < other.text; });
  }
  return a == b;
}

Json ToJson(const TextRules& rules) {
  Json rewrites = Json::MakeArray();
  for (const Rewrite& rewrite : rules.rewrites) {
    if (rewrite.kind == RewriteKind::kReplace) {
      rewrites.Append(Json::MakeObject({{"from", ToUtf8(rewrite.from)}, {"by", ToUtf8(rewrite.by)}}));
    } else {
      rewrites.Append(Name(rewrite.kind));
    }
  }
  Json literal = Json::MakeArray();
  for (const LiteralToken& token : rules.literal) {
    literal.Append(Json::MakeObject({{"text", token.text},
                                     {"id", int64_t{token.id}},
                                     {"takes_space_before", token.takes_space_before},
                                     {"takes_space_behind", token.takes_space_behind},
                                     {"rewritten", token.rewritten},
                                     {"whole_word", token.whole_word}}));
  }
  return Json::MakeObject({{"rewrites", std::move(rewrites)},
                           {"literal", std::move(literal)},
                           {"split_numbers", rules.split_numbers},
                           {"space_before", Name(rules.space_before)},
                           {"space_after", rules.space_after}});
}

TextRules TextRulesFromJson(const JsonReader& reader, int64_t vocabulary, const std::string& name) {
  TextRules rules;
  for (const Json& one : reader.Array("rewrites")) {
    if (rules.rewrites.size() == kMaxRewrites) reader.FailAt("rewrites", "more than ", kMaxRewrites, " of them");
    if (one.is_object()) {
      const JsonReader replace(one, name + ": rewrites");
      rules.rewrites.push_back({RewriteKind::kReplace, ToUtf32(replace.String("from")), ToUtf32(replace.String("by"))});
      replace.RejectUnread();
      if (const std::string wrong = WhatIsWrong(rules.rewrites.back()); !wrong.empty()) {
        reader.FailAt("rewrites", wrong);
      }
    } else {
      if (!one.is_string()) reader.FailAt("rewrites", "must hold names and replacements");
      const auto* found =
          std::find_if(std::begin(EnumNames<RewriteKind>::kTable), std::end(EnumNames<RewriteKind>::kTable),
                       [&](const EnumName<RewriteKind>& entry) { return one.AsString() == entry.name; });
      if (found == std::end(EnumNames<RewriteKind>::kTable) || found->value == RewriteKind::kReplace ||
          found->value == RewriteKind::kPrepend) {
        reader.FailAt("rewrites", Quoted(one.AsString()), " is none of ", Join(NamesOf<RewriteKind>(), ", "));
      }
      rules.rewrites.push_back({found->value});
    }
  }
  for (const Json& one : reader.Array("literal")) {
    if (!one.is_object()) reader.FailAt("literal", "must hold objects");
    const JsonReader token(one, name + ": literal");
    rules.literal.push_back({token.String("text"), static_cast<int32_t>(token.Int("id", 0, vocabulary - 1)),
                             token.Bool("takes_space_before"), token.Bool("takes_space_behind"),
                             token.Bool("rewritten"), token.Has("whole_word") && token.Bool("whole_word")});
    token.RejectUnread();
  }
  // Files of version 0.1 may lack these.
  rules.split_numbers = reader.Has("split_numbers") && reader.Bool("split_numbers");
  if (reader.Has("space_before")) {
    rules.space_before = ParseName<SpaceBefore>("space_before", reader.String("space_before"), ErrorKind::kData);
  }
  rules.space_after = reader.Has("space_after") && reader.Bool("space_after");
  if (const std::string wrong = WhatIsWrong(rules.literal); !wrong.empty()) reader.FailAt("literal", wrong);
  return rules;
}

std::string WhatIsWrong(const Rewrite& replacement) {
  const size_t taken = replacement.from.size();
  const std::string from = Quoted(ToUtf8(replacement.from));
  if (taken == 0) return "a replacement of no text";
  if (taken > kMaxReplaced) return StrCat("the replacement of ", from, ", more than ", kMaxReplaced, " characters");
  if (replacement.by.size() > taken) return StrCat("what replaces ", from, " is longer than it");
  return "";
}

std::string WhatIsWrong(const std::vector<LiteralToken>& tokens) {
  std::unordered_set<std::string_view> texts;
  for (const LiteralToken& token : tokens) {
    if (token.text.empty()) return "a token without text";
    if (token.text.size() > kMaxPieceBytes) {
      return StrCat("the token ", Quoted(token.text), ", more than the ", kMaxPieceBytes, " bytes allowed");
    }
    if (FindInvalidUtf8(token.text) != std::string::npos) return "a token that is not UTF-8";
    if (!texts.insert(token.text).second) return StrCat("the token ", Quoted(token.text), " twice");
  }
  return "";
}

void CheckPieces(const std::vector<std::string>& pieces, const std::vector<std::string>& more, const std::string& name,
                 const std::function<void(const std::string& piece, size_t id)>& also) {
  if (pieces.size() + more.size() > kMaxVocabulary) {
    Fail(ErrorKind::kData, name, ": more than the ", kMaxVocabulary, " pieces allowed");
  }
  size_t id = 0;
  for (const std::vector<std::string>* list : {&pieces, &more}) {
    for (const std::string& piece : *list) {
      const auto refuse = [&](const auto&... parts) {
        Fail(ErrorKind::kData, name, ": the piece of id ", id, " ", parts...);
      };
      if (piece.empty()) refuse("is empty");
      if (FindInvalidUtf8(piece) != std::string::npos) refuse("is not UTF-8: ", Quoted(piece));
      if (piece.size() > kMaxPieceBytes)
        refuse("has ", piece.size(), " bytes, more than the ", kMaxPieceBytes, " allowed");
      also(piece, id++);
    }
  }
}

std::vector<std::string> RuleTexts(const TextRules& rules) {
  std::vector<std::string> texts;
  for (const Rewrite& rewrite : rules.rewrites) {
    if (rewrite.kind != RewriteKind::kReplace) continue;
    const std::string from = ToUtf8(rewrite.from);
    texts.push_back(from);
    texts.push_back(StrCat("a", from, from, "b ", from, " c"));
  }
  for (const LiteralToken& token : rules.literal) {
    texts.push_back(
        StrCat(token.text, "  a", token.text, "b  ", token.text, "  c", token.text, ". ", token.text, "d "));
  }
  return texts;
}

}  // namespace crosstalk
