#include "crosstalk/models/text/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "crosstalk/models/text/published_tokenizer_writer.h"
#include "crosstalk/models/text/sentencepiece_model_check.h"
#include "crosstalk/models/text/sentencepiece_proto.h"
#include "crosstalk/models/text/text_rules.h"
#include "crosstalk/runtime/base64.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/utf8.h"

// Exported by the library, but declared in no installed header.
namespace sentencepiece::logging {
void SetMinLogLevel(int v);
}  // namespace sentencepiece::logging

namespace crosstalk {
namespace {

constexpr int kLogNothing = 4;

struct Vocabulary {
  SpecialTokens special_tokens;
  int num_text_ids;  // the model's pieces and the ids added above them
  LineEnds line_ends;
};

// Text with a space after each line end that a word follows, and without the carriage returns before line ends, which
// would be spaces.
struct SpacedLines {
  explicit SpacedLines(std::string_view lines) {
    const auto add = [this](char c, size_t original) {
      text += c;
      originals.push_back(static_cast<int64_t>(original));
    };
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool last = i + 1 == lines.size();
      if (lines[i] == '\r' && !last && lines[i + 1] == '\n') continue;
      add(lines[i], i);
      if (lines[i] == '\n' && !last && !IsAsciiSpace(lines[i + 1])) add(' ', i + 1);
    }
    originals.push_back(static_cast<int64_t>(lines.size()));
  }

  std::string text;
  std::vector<int64_t> originals;  // the place in `lines` of each of its bytes, and of its end
};

// Takes these spaces away.
void RemoveSpacesBehindLineEnds(std::string* text) {
  size_t kept = 0;
  for (size_t i = 0; i < text->size(); ++i) {
    if ((*text)[i] == ' ' && i > 0 && (*text)[i - 1] == '\n') continue;
    (*text)[kept++] = (*text)[i];
  }
  text->resize(kept);
}

// See MakeSentencePieceTokenizer.
Vocabulary ReadVocabulary(const sentencepiece::SentencePieceProcessor& processor, const std::string& name) {
  // The first of the pieces that is a control piece: one that no text becomes.
  const auto control = [&](std::initializer_list<std::string_view> pieces) {
    for (const std::string_view piece : pieces) {
      const int id = processor.PieceToId(piece);
      if (processor.IsControl(id)) return id;
    }
    return static_cast<int>(kNoToken);
  };
  const auto either = [](int32_t first, int32_t second) { return first != kNoToken ? first : second; };
  int num_ids = processor.GetPieceSize();
  SpecialTokens ids;
  ids.unknown = processor.unk_id();
  ids.begin = either(processor.bos_id(), control({"[CLS]", "<cls>"}));
  ids.separator = control({"[SEP]", "<sep>"});
  ids.mask = control({"[MASK]", "<mask>"});
  ids.pad = either(processor.pad_id(), control({"[PAD]"}));
  ids.end = either(processor.eos_id(), ids.separator);
  if (ids.pad == kNoToken) ids.pad = num_ids++;
  if (ids.end == kNoToken) ids.end = num_ids++;
  ids.decoder_start = ids.pad;
  for (const int32_t other : {ids.end, ids.unknown, ids.begin, ids.separator, ids.mask}) {
    if (other == ids.pad) {
      Fail(ErrorKind::kData, name, ": this SentencePiece model uses \"", processor.IdToPiece(ids.pad),
           "\" both for padding and for another special token");
    }
  }
  return {ids, num_ids, control({kLinesPiece}) == kNoToken ? LineEnds::kSpaces : LineEnds::kKept};
}

// ALBERT's rule, see Tokenizer::WordStarts. Its list of punctuation has no ' = >, and its test for "<" is for pieces
// such as "<unk>": all of them begin words.
bool PieceContinuesWord(std::string_view piece) {
  constexpr std::string_view kMarks = "!\"#$%&()*+,-./:;?@[\\]^_`{|}~";
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (piece.size() == 1 && !is_letter(piece[0])) return false;
  return std::all_of(piece.begin(), piece.end(),
                     [&](char c) { return is_letter(c) || kMarks.find(c) != std::string_view::npos; });
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(const Vocabulary& vocabulary, std::unique_ptr<sentencepiece::SentencePieceProcessor> processor,
                         std::string model, int num_sentinels, std::optional<TextRules> rules)
      : Tokenizer(vocabulary.special_tokens, vocabulary.num_text_ids, num_sentinels),
        processor_(std::move(processor)),
        model_(std::move(model)),
        line_ends_(vocabulary.line_ends),
        has_rules_(rules.has_value()),
        ruled_(std::move(rules).value_or(TextRules())),
        continues_word_(static_cast<size_t>(vocab_size())) {
    for (int id = 0; id < processor_->GetPieceSize(); ++id) {
      continues_word_[static_cast<size_t>(id)] = PieceContinuesWord(processor_->IdToPiece(id));
    }
  }

  std::vector<int32_t> Encode(std::string_view text) const override {
    std::vector<int> ids;
    if (has_rules_) {
      for (const TokenSpan& span : EncodeSpans(text)) ids.push_back(span.id);
    } else {
      Check(processor_->Encode(line_ends_ == LineEnds::kKept ? SpacedLines(text).text : text, &ids));
    }
    return ids;
  }

  std::vector<TokenSpan> EncodeSpans(std::string_view text) const override {
    if (!has_rules_) return ModelSpans(text);
    std::vector<TokenSpan> spans;
    for (const RuledText::Part& part : ruled_.Parts(text)) {
      if (part.id != kNoToken) {
        spans.push_back({part.id, part.begin, part.end});
        continue;
      }
      const Utf8Text utf8 = ToUtf8(part.text);
      for (const TokenSpan& span : ModelSpans(utf8.text)) {
        auto first = static_cast<size_t>(utf8.character[static_cast<size_t>(span.begin)]);
        auto end = static_cast<size_t>(utf8.character[static_cast<size_t>(span.end)]);
        // A character that the model's table makes several of is the library's last token of them alone.
        if (first == end && end < part.text.size() && processor_->IdToPiece(span.id) != kSpaceMark) ++end;
        while (first < end && IsWhiteSpace(part.text[first].code)) ++first;
        const int64_t begin = first < part.text.size() ? part.text[first].begin : part.end;
        spans.push_back({span.id, begin, end > first ? part.text[end - 1].end : begin});
      }
    }
    return spans;
  }

  std::string Decode(std::span<const int32_t> ids) const override {
    std::string text;
    std::vector<int> run;  // between sentinels
    const auto flush = [&] {
      std::string part;
      if (!run.empty()) Check(processor_->Decode(run, &part));
      if (line_ends_ == LineEnds::kKept) RemoveSpacesBehindLineEnds(&part);
      if (!text.empty() && !part.empty()) text += ' ';
      text += part;
      run.clear();
    };
    for (const int32_t id : ids) {
      CheckId(id);
      if (IsSentinel(id)) {
        flush();
        if (!text.empty()) text += ' ';
        text += SentinelText(id);
      } else if (id != special_tokens().pad && id != special_tokens().end) {
        run.push_back(id);
      }
    }
    flush();
    return text;
  }

  std::string TokenText(int32_t id) const override {
    return id >= 0 && id < processor_->GetPieceSize() ? processor_->IdToPiece(id) : Tokenizer::TokenText(id);
  }

  std::string kind() const override { return "sentencepiece"; }
  std::vector<std::string> RuleTexts() const override { return crosstalk::RuleTexts(ruled_.rules()); }
  std::vector<PublishedFile> PublishedFiles() const override {
    Json config = Json::MakeObject();
    if (!has_rules_) {
      config.Set("tokenizer_class", "T5Tokenizer").Set("extra_ids", num_sentinels());
    } else if (const std::optional<AlbertRules> albert = OwnAlbertRules()) {
      config.Set("tokenizer_class", "AlbertTokenizer").Set("do_lower_case", albert->lower_case);
      config.Set("keep_accents", albert->keep_accents);
    } else {
      const std::optional<UnigramModel> unigram = ReadUnigramModel(model_);
      CROSSTALK_CHECK(unigram, "the published form of tokenizers has no place for a SentencePiece model of this kind ",
                      "with rules about its text");
      return {{"tokenizer.json", PublishedJson(*unigram, ruled_.rules(), *this)},
              {"tokenizer_config.json", PublishedJsonConfig(*this)}};
    }
    return {{"spiece.model", model_}, {"tokenizer_config.json", config.DumpPretty()}};
  }
  std::string FileName() const override { return has_rules_ ? "tokenizer.json" : "tokenizer.model"; }
  std::string FileContents() const override {
    if (!has_rules_) return model_;
    return Json::MakeObject({{"kind", kind()},
                             {"sentinels", num_sentinels()},
                             {"rules", ToJson(ruled_.rules())},
                             {"model", EncodeBase64(model_)}})
        .DumpPretty();
  }

 private:
  // nullopt where its rules are others than ALBERT's.
  std::optional<AlbertRules> OwnAlbertRules() const {
    for (const bool keep_accents : {false, true}) {
      for (const bool lower_case : {false, true}) {
        const AlbertRules albert{keep_accents, lower_case};
        if (RulesOf(albert, model_) == ruled_.rules()) return albert;
      }
    }
    return std::nullopt;
  }
  bool ContinuesWord(int32_t before, int32_t id) const override {
    return continues_word_[static_cast<size_t>(id)] || (IsByte(before) && IsByte(id));
  }
  bool IsByte(int32_t id) const { return id < processor_->GetPieceSize() && processor_->IsByte(id); }
  // With the rule for line ends.
  std::vector<TokenSpan> ModelSpans(std::string_view text) const {
    if (line_ends_ == LineEnds::kSpaces) return LibrarySpans(text);
    const SpacedLines lines(text);
    std::vector<TokenSpan> spans = LibrarySpans(lines.text);
    for (TokenSpan& span : spans) {
      span = {span.id, lines.originals[static_cast<size_t>(span.begin)],
              lines.originals[static_cast<size_t>(span.end)]};
    }
    return spans;
  }
  std::vector<TokenSpan> LibrarySpans(std::string_view text) const {
    sentencepiece::ImmutableSentencePieceText pieces = processor_->EncodeAsImmutableProto(text);
    std::vector<TokenSpan> spans;
    spans.reserve(pieces.pieces_size());
    for (const auto& piece : pieces.pieces()) {
      spans.push_back({static_cast<int32_t>(piece.id()), piece.begin(), piece.end()});
    }
    return spans;
  }
  static void Check(const sentencepiece::util::Status& status) {
    if (!status.ok()) Fail(ErrorKind::kFailure, "SentencePiece: ", status.ToString());
  }

  std::unique_ptr<const sentencepiece::SentencePieceProcessor> processor_;
  std::string model_;
  LineEnds line_ends_;
  bool has_rules_;
  RuledText ruled_;
  std::vector<bool> continues_word_;  // by id
};

}  // namespace

std::unique_ptr<Tokenizer> MakeSentencePieceTokenizer(std::string_view model, const std::string& name,
                                                      int num_sentinels, std::optional<TextRules> rules) {
  CheckSentencePieceModel(model, name);
  SilenceSentencePiece();
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const sentencepiece::util::Status status = processor->LoadFromSerializedProto(
      rules && rules->split_numbers ? WithoutNumbersBeforeCommas(model) : std::string(model));
  if (!status.ok()) {
    Fail(ErrorKind::kData, name, ": the SentencePiece library does not accept this model: ", status.ToString());
  }
  const Vocabulary vocabulary = ReadVocabulary(*processor, name);
  return std::make_unique<SentencePieceTokenizer>(vocabulary, std::move(processor), std::string(model), num_sentinels,
                                                  std::move(rules));
}

std::unique_ptr<Tokenizer> SentencePieceFromJson(const JsonReader& reader, const std::string& name, int num_sentinels) {
  const std::optional<std::string> model = DecodeBase64(reader.String("model"));
  if (!model) reader.FailAt("model", "is not base64");
  CheckSentencePieceModel(*model, name);
  const auto ids = static_cast<int64_t>(ReadPieces(*model).size()) + num_sentinels;
  return MakeSentencePieceTokenizer(*model, name, num_sentinels, TextRulesFromJson(reader.Object("rules"), ids, name));
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

void SilenceSentencePiece() { sentencepiece::logging::SetMinLogLevel(kLogNothing); }

}  // namespace crosstalk
