#include "crosstalk/models/text/character_tokenizer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr int64_t kSegmentBytes = 64 << 10;

// Calls visit(character) for each character of the text; a byte that is none is visited alone.
template <typename Visit>
void ForEachCharacter(std::string_view text, const Visit& visit) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = std::max<size_t>(1, Utf8Length(text, i));
    visit(text.substr(i, length));
    i += length;
  }
}

class CharacterTokenizer : public Tokenizer {
 public:
  CharacterTokenizer(std::vector<std::string> characters, int num_sentinels, MaskTokens mask_tokens)
      : Tokenizer(SpecialTokens{}, kSpecialIds + static_cast<int>(characters.size()), num_sentinels, mask_tokens),
        characters_(std::move(characters)) {
    for (size_t i = 0; i < characters_.size(); ++i) ids_[characters_[i]] = kSpecialIds + static_cast<int32_t>(i);
  }

  std::vector<int32_t> Encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    ForEachCharacter(text, [&](std::string_view character) { ids.push_back(IdOf(character)); });
    return ids;
  }

  std::vector<TokenSpan> EncodeSpans(std::string_view text) const override {
    std::vector<TokenSpan> spans;
    spans.reserve(text.size());
    int64_t at = 0;
    ForEachCharacter(text, [&](std::string_view character) {
      const auto end = at + static_cast<int64_t>(character.size());
      spans.push_back({IdOf(character), at, end});
      at = end;
    });
    return spans;
  }

  std::string Decode(std::span<const int32_t> ids) const override {
    return DecodeEach(
        ids, [this](int32_t id, std::string* text) { *text += characters_[static_cast<size_t>(id - kSpecialIds)]; });
  }

  std::string kind() const override { return "characters"; }
  std::string FileName() const override { return "tokenizer.json"; }
  std::string FileContents() const override {
    std::string all;
    for (const std::string& character : characters_) all += character;
    return Descriptor({{"characters", all}}).DumpPretty();
  }

 private:
  bool ContinuesWord(int32_t before, int32_t id) const override { return !IsSpace(id) || IsSpace(before); }
  bool IsSpace(int32_t id) const {
    if (id < kSpecialIds) return false;
    const std::string& character = characters_[static_cast<size_t>(id - kSpecialIds)];
    return character.size() == 1 && IsAsciiSpace(character[0]);
  }
  int32_t IdOf(std::string_view character) const {
    const auto found = ids_.find(character);
    return found == ids_.end() ? special_tokens().unknown : found->second;
  }

  std::vector<std::string> characters_;
  std::unordered_map<std::string_view, int32_t> ids_;  // into characters_, which never changes
};

}  // namespace

std::shared_ptr<const Tokenizer> MakeCharacterTokenizer(std::string_view characters, const std::string& name,
                                                        int num_sentinels, MaskTokens mask_tokens) {
  if (FindInvalidUtf8(characters) != std::string_view::npos) Fail(ErrorKind::kData, name, ": characters: not UTF-8");
  std::vector<std::string> list;
  ForEachCharacter(characters, [&](std::string_view character) { list.emplace_back(character); });
  std::vector<std::string> sorted = list;
  std::sort(sorted.begin(), sorted.end());
  if (list.empty() || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    Fail(ErrorKind::kData, name, ": characters: ", list.empty() ? "there is none" : "one is there twice");
  }
  return std::make_unique<CharacterTokenizer>(std::move(list), num_sentinels, mask_tokens);
}

std::shared_ptr<const Tokenizer> CollectCharacterTokenizer(const TextSource& source, int64_t most, int num_sentinels,
                                                           const StopRequest& stop, MaskTokens mask_tokens) {
  CROSSTALK_CHECK(most >= 1, "character tokenizer: at most ", most, " characters; must be at least 1");
  std::unordered_map<std::string, int64_t> counts;
  SegmentSampler segments = SegmentSampler::Covering(source, kSegmentBytes);
  for (std::string text; segments.Next(&text);) {
    ThrowIfStopped(stop);
    ForEachCharacter(text, [&](std::string_view character) { ++counts[std::string(character)]; });
  }
  std::vector<std::pair<std::string, int64_t>> found(counts.begin(), counts.end());
  // UTF-8 sorts by code points.
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (static_cast<int64_t>(found.size()) > most) found.resize(static_cast<size_t>(most));
  std::sort(found.begin(), found.end());
  std::string characters;
  for (const auto& [character, count] : found) characters += character;
  return MakeCharacterTokenizer(characters, "the text's characters", num_sentinels, mask_tokens);
}

}  // namespace crosstalk
