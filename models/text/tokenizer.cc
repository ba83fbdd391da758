#include "crosstalk/models/text/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <system_error>
#include <utility>

#include "crosstalk/models/text/text_rules.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
SpecialTokens WithMaskTokens(SpecialTokens tokens, int32_t first) {
  tokens.begin = first;
  tokens.separator = first + 1;
  tokens.mask = first + 2;
  return tokens;
}

const FieldTable<SpecialTokens>& SpecialTokens::Fields() {
  using T = SpecialTokens;
  static const FieldOptions id = {.range = {kNoToken, INT32_MAX}};
  static const FieldTable<T> table = {{"pad", &T::pad, id},         {"end", &T::end, id},
                                      {"unknown", &T::unknown, id}, {"decoder_start", &T::decoder_start, id},
                                      {"begin", &T::begin, id},     {"separator", &T::separator, id},
                                      {"mask", &T::mask, id}};
  return table;
}

void CheckSpecialTokens(const SpecialTokens& tokens, int64_t vocabulary,
                        std::initializer_list<int32_t SpecialTokens::*> needed) {
  for (const Field<SpecialTokens>& field : SpecialTokens::Fields()) {
    const int64_t id = field.get(tokens).AsInt();
    const auto is_it = [&field](int32_t SpecialTokens::*member) { return MemberOf(member) == field.member; };
    const bool must_be_there = std::any_of(needed.begin(), needed.end(), is_it);
    CROSSTALK_CHECK_FIELD(id != kNoToken || !must_be_there, StrCat("tokens.", field.key),
                          "is missing: the model needs such a token, and the tokenizer has none");
    CROSSTALK_CHECK_FIELD((id >= 0 && id < vocabulary) || id == kNoToken, StrCat("tokens.", field.key), "id ", id,
                          " is not in the vocabulary of ", vocabulary);
  }
}

namespace {

class ByteTokenizer : public Tokenizer {
 public:
  ByteTokenizer(int num_sentinels, MaskTokens mask_tokens)
      : Tokenizer(SpecialTokens{}, kBytesEnd, num_sentinels, mask_tokens) {}
  ByteTokenizer(const std::vector<LiteralToken>& literal, int vocab_size, std::vector<int32_t> sentinels)
      : Tokenizer(SpecialTokens{}, vocab_size, std::move(sentinels)), literal_(literal), tokens_(literal) {}

  std::vector<int32_t> Encode(std::string_view text) const override {
    std::vector<int32_t> ids(text.size());
    if (tokens_.empty()) {
      for (size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<unsigned char>(text[i]) + kSpecialIds;
      return ids;
    }
    ids.clear();
    for (const TokenSpan& span : EncodeSpans(text)) ids.push_back(span.id);
    return ids;
  }

  std::vector<TokenSpan> EncodeSpans(std::string_view text) const override {
    std::vector<TokenSpan> spans;
    spans.reserve(text.size());
    const auto add_bytes = [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        spans.push_back({static_cast<unsigned char>(text[static_cast<size_t>(at)]) + kSpecialIds, at, at + 1});
      }
    };
    if (tokens_.empty()) {
      add_bytes(0, std::ssize(text));
      return spans;
    }
    for (const LiteralTokens::Section& section : tokens_.Cut(text)) {
      if (section.id == kNoToken) {
        add_bytes(section.begin, section.end);
      } else {
        spans.push_back({section.id, section.begin, section.end});
      }
    }
    return spans;
  }

  std::string Decode(std::span<const int32_t> ids) const override {
    return DecodeEach(ids, [this](int32_t id, std::string* text) {
      if (id < kBytesEnd) {
        *text += static_cast<char>(id - kSpecialIds);
        return;
      }
      const auto token = std::find_if(literal_.begin(), literal_.end(), [&](const auto& one) { return one.id == id; });
      if (token != literal_.end()) *text += token->text;
    });
  }

  std::string TokenText(int32_t id) const override {
    const int byte = id - kSpecialIds;
    if (byte < 0 || byte >= 256 || (byte >= ' ' && byte <= '~')) return Tokenizer::TokenText(id);
    constexpr char kHex[] = "0123456789ABCDEF";
    return StrCat("<0x", std::string{kHex[byte >> 4], kHex[byte & 15]}, ">");
  }

  std::string kind() const override { return "bytes"; }
  std::string FileName() const override { return "tokenizer.json"; }
  std::string FileContents() const override {
    if (literal_.empty()) return Descriptor({}).DumpPretty();
    return Descriptor({{"rules", ToJson(TextRules{.literal = literal_})}}).DumpPretty();
  }
  std::vector<std::string> RuleTexts() const override { return crosstalk::RuleTexts(TextRules{.literal = literal_}); }

 private:
  static constexpr int kBytesEnd = kSpecialIds + 256;

  bool ContinuesWord(int32_t before, int32_t id) const override { return !IsSpace(id) || IsSpace(before); }
  static bool IsSpace(int32_t id) {
    return id >= kSpecialIds && id < kBytesEnd && IsAsciiSpace(static_cast<char>(id - kSpecialIds));
  }

  std::vector<LiteralToken> literal_;  // ByT5's
  LiteralTokens tokens_;
};

}  // namespace

std::string SentinelText(int k) { return StrCat("<extra_id_", k, ">"); }

int SentinelNumberOf(std::string_view text) {
  constexpr std::string_view kStart = "<extra_id_", kSpace = "\u2581";
  if (text.starts_with(kSpace)) text.remove_prefix(kSpace.size());
  if (!text.starts_with(kStart) || !text.ends_with('>')) return -1;
  text.remove_prefix(kStart.size());
  text.remove_suffix(1);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return whole && StrCat(number) == text && number < kMaxSentinels ? number : -1;
}

Tokenizer::Tokenizer(const SpecialTokens& special_tokens, int num_text_ids, int num_sentinels, MaskTokens mask_tokens)
    : Tokenizer(mask_tokens == MaskTokens::kYes ? WithMaskTokens(special_tokens, num_text_ids) : special_tokens,
                num_text_ids + (mask_tokens == MaskTokens::kYes ? kMaskTokens : 0) + num_sentinels,
                SentinelsOnTop(num_text_ids + (mask_tokens == MaskTokens::kYes ? kMaskTokens : 0), num_sentinels)) {}

Tokenizer::Tokenizer(const SpecialTokens& special_tokens, int vocab_size, std::vector<int32_t> sentinels)
    : special_tokens_(special_tokens), vocab_size_(vocab_size), sentinels_(std::move(sentinels)) {
  if (sentinels_.empty()) return;
  const auto [lowest, highest] = std::minmax_element(sentinels_.begin(), sentinels_.end());
  CROSSTALK_CHECK(*lowest >= 0 && *highest < vocab_size, "tokenizer: a sentinel is outside its vocabulary of ",
                  vocab_size);
  lowest_ = *lowest;
  by_id_.assign(static_cast<size_t>(*highest - *lowest) + 1, -1);
  for (size_t k = 0; k < sentinels_.size(); ++k) {
    int32_t& number = by_id_[static_cast<size_t>(sentinels_[k] - lowest_)];
    CROSSTALK_CHECK(number < 0, "tokenizer: the id ", sentinels_[k], " is two sentinels");
    number = static_cast<int32_t>(k);
  }
}

std::vector<int32_t> Tokenizer::SentinelsOnTop(int others, int count) {
  CROSSTALK_CHECK(count >= 0 && count <= kMaxSentinels, "tokenizer: ", count, " sentinels; must be 0 to ",
                  kMaxSentinels);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int k = 0; k < count; ++k) ids[static_cast<size_t>(k)] = others + count - 1 - k;
  return ids;
}

int32_t Tokenizer::Sentinel(int k) const {
  CROSSTALK_CHECK(k >= 0 && k < num_sentinels(), "tokenizer: there is no sentinel ", k, ", it has ", num_sentinels());
  return sentinels_[static_cast<size_t>(k)];
}

int Tokenizer::SentinelNumber(int32_t id) const {
  const bool among = id >= lowest_ && id - lowest_ < static_cast<int64_t>(by_id_.size());
  return among ? by_id_[static_cast<size_t>(id - lowest_)] : -1;
}

void Tokenizer::CheckId(int32_t id) const {
  CROSSTALK_CHECK(id >= 0 && id < vocab_size(), "tokenizer: id ", id, " is outside its vocabulary of ", vocab_size());
}

bool Tokenizer::IsNoText(int32_t id) const {
  const SpecialTokens& special = special_tokens_;
  if (id == special.unknown) return false;
  return IsSentinel(id) || id == special.pad || id == special.end || id == special.decoder_start ||
         id == special.begin || id == special.separator || id == special.mask;
}

std::vector<bool> Tokenizer::WordStarts(std::span<const int32_t> ids) const {
  std::vector<bool> starts(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    CheckId(ids[i]);
    starts[i] = i == 0 || IsNoText(ids[i]) || IsNoText(ids[i - 1]) || !ContinuesWord(ids[i - 1], ids[i]);
  }
  return starts;
}

std::string Tokenizer::DecodeEach(std::span<const int32_t> ids,
                                  const std::function<void(int32_t id, std::string* text)>& append_text) const {
  const SpecialTokens& special = special_tokens_;
  std::string text;
  for (const int32_t id : ids) {
    CheckId(id);
    if (IsSentinel(id)) {
      text += SentinelText(id);
    } else if (id == special.unknown) {
      text += kUnknownText;
    } else if (!IsNoText(id)) {
      append_text(id, &text);
    }
  }
  return text;
}

std::string Tokenizer::SentinelText(int32_t id) const { return crosstalk::SentinelText(SentinelNumber(id)); }

Json Tokenizer::Descriptor(const std::vector<Json::Member>& own) const {
  Json json = Json::MakeObject({{"kind", kind()}});
  for (const auto& [key, value] : own) json.Set(key, value);
  json.Set("sentinels", num_sentinels());
  if (special_tokens_.mask != kNoToken) json.Set("mask_tokens", true);
  return json;
}

std::string Tokenizer::TokenText(int32_t id) const {
  CheckId(id);
  if (IsSentinel(id)) return SentinelText(id);
  if (id == special_tokens_.pad) return "<pad>";
  if (id == special_tokens_.end) return "</s>";
  if (id == special_tokens_.unknown) return "<unk>";
  if (id == special_tokens_.begin) return "[CLS]";
  if (id == special_tokens_.separator) return "[SEP]";
  if (id == special_tokens_.mask) return "[MASK]";
  return Decode(std::span<const int32_t>(&id, 1));
}

std::shared_ptr<const Tokenizer> MakeByteTokenizer(int num_sentinels, MaskTokens mask_tokens) {
  return std::make_unique<ByteTokenizer>(num_sentinels, mask_tokens);
}

std::shared_ptr<const Tokenizer> MakeByteTokenizer(const std::vector<LiteralToken>& literal, const std::string& name) {
  const auto refuse = [&](const auto&... parts) { Fail(ErrorKind::kData, name, ": ", parts...); };
  if (const std::string wrong = WhatIsWrong(literal); !wrong.empty()) refuse(wrong);
  std::map<int32_t, std::string> above;
  std::map<int, int32_t> sentinels;
  for (const LiteralToken& token : literal) {
    const int number = SentinelNumberOf(token.text);
    if (number >= 0) sentinels.emplace(number, token.id);
    if (token.id < kSpecialIds && number < 0) continue;
    if (token.id < kSpecialIds + 256 || !above.emplace(token.id, token.text).second) {
      refuse(Quoted(token.text), " has the id ", token.id, ", which is another token's");
    }
  }
  int vocab_size = kSpecialIds + 256;
  for (const auto& [id, text] : above) {
    if (id != vocab_size) refuse(Quoted(text), " has the id ", id, ", but the next one is ", vocab_size);
    ++vocab_size;
  }
  std::vector<int32_t> by_number;
  for (const auto& [number, id] : sentinels) {
    if (number != static_cast<int>(by_number.size()))
      refuse("there is no ", SentinelText(static_cast<int>(by_number.size())));
    by_number.push_back(id);
  }
  return std::make_unique<ByteTokenizer>(literal, vocab_size, std::move(by_number));
}

}  // namespace crosstalk
