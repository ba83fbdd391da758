#include "crosstalk/models/text/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <initializer_list>
#include <unordered_set>
#include <utility>
#include <vector>

#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/published_tokenizer.h"
#include "crosstalk/models/text/sentencepiece_model.h"
#include "crosstalk/models/text/sentencepiece_rules.h"
#include "crosstalk/models/text/text_rules.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

// Exported by the library, but declared in no installed header.
namespace sentencepiece::logging {
void SetMinLogLevel(int v);
}  // namespace sentencepiece::logging

namespace crosstalk {
namespace {

constexpr int kLogNothing = 4;
constexpr int kAddedIds = 2;  // the most that ReadVocabulary adds

struct Vocabulary {
  SpecialTokens special_tokens;
  int num_ids;  // the model's pieces and the ids added above them
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
Vocabulary ReadVocabulary(const sentencepiece::SentencePieceProcessor& processor, const SentencePieceModel& model,
                          const std::string& name) {
  // The first of the pieces that is a control piece: one that no text becomes.
  const auto control = [&](std::initializer_list<std::string_view> pieces) {
    for (const std::string_view piece : pieces) {
      const int id = processor.PieceToId(piece);
      if (processor.IsControl(id)) return id;
    }
    return static_cast<int>(kNoToken);
  };
  const auto either = [](int32_t first, int32_t second) { return first != kNoToken ? first : second; };
  int num_ids = processor.GetPieceSize();  // and at most kAddedIds more
  SpecialTokens ids;
  ids.unknown = processor.unk_id();
  ids.begin = either(processor.bos_id(), control({"[CLS]", "<cls>"}));
  ids.separator = control({"[SEP]", "<sep>"});
  ids.mask = control({"[MASK]", "<mask>"});
  ids.pad = either(processor.pad_id(), control({"[PAD]"}));
  ids.end = either(processor.eos_id(), ids.separator);
  if (ids.pad == kNoToken && !model.llama) ids.pad = num_ids++;
  if (ids.end == kNoToken && !model.llama) ids.end = num_ids++;
  ids.decoder_start = ids.pad;
  for (const int32_t other : {ids.end, ids.unknown, ids.begin, ids.separator, ids.mask}) {
    if (other == ids.pad && other != kNoToken) {
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
  if (piece.size() == 1 && !IsAsciiLetter(piece[0])) return false;
  return std::all_of(piece.begin(), piece.end(),
                     [&](char c) { return IsAsciiLetter(c) || kMarks.find(c) != std::string_view::npos; });
}

using sentencepiece::SentencePieceProcessor;

class SentencePieceTokenizer : public Tokenizer {
 public:
  // `marked` reads the model WithMark, where the rules need it.
  SentencePieceTokenizer(const Vocabulary& vocabulary, std::unique_ptr<const SentencePieceProcessor> processor,
                         std::unique_ptr<const SentencePieceProcessor> marked, SentencePieceModel model, int above)
      : Tokenizer(vocabulary.special_tokens, vocabulary.num_ids + above,
                  model.sentinels.empty() ? SentinelsOnTop(vocabulary.num_ids, above) : model.sentinels),
        processor_(std::move(processor)),
        marked_(std::move(marked)),
        model_(std::move(model)),
        line_ends_(vocabulary.line_ends),
        space_before_(marked_ != nullptr && HasSpaceBefore(model_.bytes)),
        ruled_(model_.rules.value_or(TextRules()), CharsmapOf(model_.bytes)),
        continues_word_(static_cast<size_t>(vocab_size())) {
    for (int id = 0; id < processor_->GetPieceSize(); ++id) {
      continues_word_[static_cast<size_t>(id)] = PieceContinuesWord(processor_->IdToPiece(id));
    }
  }

  std::vector<int32_t> Encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    if (!model_.rules) {
      Check(processor_->Encode(line_ends_ == LineEnds::kKept ? SpacedLines(text).text : text, &ids));
    } else if (ruled_.OnlyCuts() && marked_ == nullptr) {
      for (const LiteralTokens::Section& section : ruled_.Cut(text)) {
        if (section.id != kNoToken) {
          ids.push_back(section.id);
          continue;
        }
        std::vector<int> part;
        Check(processor_->Encode(
            text.substr(static_cast<size_t>(section.begin), static_cast<size_t>(section.end - section.begin)), &part));
        ids.insert(ids.end(), part.begin(), part.end());
      }
    } else {
      for (const TokenSpan& span : EncodeSpans(text)) ids.push_back(span.id);
    }
    return ids;
  }

  std::vector<TokenSpan> EncodeSpans(std::string_view text) const override {
    if (!model_.rules) return ModelSpans(text);
    std::vector<TokenSpan> spans;
    for (const RuledText::Part& part : ruled_.Parts(text)) {
      if (part.id != kNoToken) {
        spans.push_back({part.id, part.begin, part.end});
        continue;
      }
      const Utf8Text utf8 = ToUtf8(part.text);
      for (const TokenSpan& span : marked_ == nullptr ? ModelSpans(utf8.text) : MarkedSpans(utf8.text, part)) {
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
  PairTemplate OwnTemplate(int texts) const override {
    if (!model_.llama) return texts == 1 ? model_.single : model_.pair;
    PairTemplate form;
    for (int text = 0; text < texts; ++text) {
      const SpecialTokens& ids = special_tokens();
      if (model_.llama->begin && ids.begin != kNoToken) form.push_back({-1, ids.begin, text});
      form.push_back({text, kNoToken, text});
      if (model_.llama->end && ids.end != kNoToken) form.push_back({-1, ids.end, text});
    }
    return form;
  }
  std::vector<std::string> RuleTexts() const override { return crosstalk::RuleTexts(ruled_.rules()); }
  std::vector<PublishedFile> PublishedFiles() const override {
    if (model_.llama) {
      return {{"tokenizer.model", model_.bytes}, {"tokenizer_config.json", LlamaConfig().DumpPretty()}};
    }
    Json config = T5Config();
    if (const std::optional<AlbertRules> albert = OwnAlbertRules()) {
      config = Json::MakeObject({{"tokenizer_class", "AlbertTokenizer"},
                                 {"do_lower_case", albert->lower_case},
                                 {"keep_accents", albert->keep_accents}});
    }
    if (!config.is_null() && model_.single.empty())
      return {{"spiece.model", model_.bytes}, {"tokenizer_config.json", config.DumpPretty()}};
    const std::optional<UnigramModel> unigram = ReadUnigramModel(model_.bytes);
    CROSSTALK_CHECK(unigram, "the published form of tokenizers has no place for a SentencePiece model of this kind ",
                    "with rules about its text");
    return {{"tokenizer.json", PublishedJson(*unigram, model_.more, ruled_.rules(), *this).DumpPretty()},
            {"tokenizer_config.json", PublishedJsonConfig(*this, ruled_.rules())}};
  }
  std::string FileName() const override { return IsBare() ? "tokenizer.model" : "tokenizer.json"; }
  std::string FileContents() const override {
    if (IsBare()) return model_.bytes;
    Json ids = Json::MakeArray();
    for (const int32_t id : model_.sentinels) ids.Append(int64_t{id});
    Json json = Json::MakeObject({{"kind", kind()}});
    json.Set("sentinels", model_.sentinels.empty() ? Json(num_sentinels()) : std::move(ids));
    if (model_.rules) json.Set("rules", ToJson(*model_.rules));
    Json more = Json::MakeArray();
    for (const VocabularyPiece& piece : model_.more) {
      more.Append(Json::MakeObject({{"text", piece.text}, {"special", piece.type == kControl}}));
    }
    if (!model_.more.empty()) json.Set("more", std::move(more));
    if (model_.llama) {
      json.Set("llama", Json::MakeObject({{"begin", model_.llama->begin}, {"end", model_.llama->end}}));
    }
    if (!model_.single.empty()) json.Set("post_processor", PostProcessorJson(*this));
    return json.Set("model", EncodeBase64(model_.bytes)).DumpPretty();
  }

 private:
  // Whether the model's own format says all of it.
  bool IsBare() const {
    return !model_.rules && model_.more.empty() && model_.sentinels.empty() && !model_.sentinels_above &&
           !model_.llama && model_.single.empty();
  }
  // tokenizer_config.json of a Llama.
  Json LlamaConfig() const {
    Json config = Json::MakeObject({{"tokenizer_class", "LlamaTokenizer"},
                                    {"add_bos_token", model_.llama->begin},
                                    {"add_eos_token", model_.llama->end}});
    const TextRules& rules = ruled_.rules();
    if (rules.space_before != SpaceBefore::kModel) config.Set("legacy", false);
    if (rules.space_before == SpaceBefore::kKept) config.Set("add_prefix_space", false);
    Json added = Json::MakeObject();
    for (const LiteralToken& token : rules.literal) {
      added.Set(StrCat(token.id), AddedTokenJson(token, IsNoText(token.id)));
    }
    return added == Json::MakeObject() ? config : config.Set("added_tokens_decoder", std::move(added));
  }
  // tokenizer_config.json of a T5 whose model this is; null where its rules are others.
  Json T5Config() const {
    Json config = Json::MakeObject({{"tokenizer_class", "T5Tokenizer"}});
    if (!model_.rules) {
      return config.Set("extra_ids", num_sentinels()).Set("split_special_tokens", true);
    }
    TextRules rules = *model_.rules;
    const auto own = static_cast<int32_t>(ReadPieces(model_.bytes).size());
    const auto above = [&](const LiteralToken& token) { return token.id >= own; };
    const bool as_usual = model_.more.empty() && (num_sentinels() == 0 || Sentinel(0) >= own);
    Json added = Json::MakeObject();
    int64_t extra_ids = as_usual ? num_sentinels() : 0;
    if (!as_usual) {
      std::sort(rules.literal.begin(), rules.literal.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
      for (const LiteralToken& token : rules.literal) {
        if (!above(token)) continue;
        added.Set(StrCat(token.id), AddedTokenJson(token, IsNoText(token.id)));
        extra_ids += SentinelNumberOf(token.text) >= 0;
      }
      std::erase_if(rules.literal, above);
    }
    if (rules.space_before == SpaceBefore::kStart) {
      config.Set("legacy", false);
      rules.space_before = SpaceBefore::kModel;
    }
    if (!SameRules(rules, T5Rules(model_.bytes, as_usual ? num_sentinels() : 0))) return nullptr;
    config.Set("extra_ids", extra_ids);
    if (added != Json::MakeObject()) config.Set("added_tokens_decoder", std::move(added));
    return config;
  }
  // nullopt where its rules are others than ALBERT's.
  std::optional<AlbertRules> OwnAlbertRules() const {
    for (const bool keep_accents : {false, true}) {
      for (const bool lower_case : {false, true}) {
        const AlbertRules albert{keep_accents, lower_case};
        if (SameRules(RulesOf(albert, model_.bytes), ruled_.rules())) return albert;
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
    if (line_ends_ == LineEnds::kSpaces) return LibrarySpans(*processor_, text);
    const SpacedLines lines(text);
    std::vector<TokenSpan> spans = LibrarySpans(*processor_, lines.text);
    for (TokenSpan& span : spans) {
      span = {span.id, lines.originals[static_cast<size_t>(span.begin)],
              lines.originals[static_cast<size_t>(span.end)]};
    }
    return spans;
  }
  // The spans of a part of the text, `letters`, whose spaces at its edges the rules keep.
  std::vector<TokenSpan> MarkedSpans(std::string_view letters, const RuledText::Part& part) const {
    const TextRules& rules = ruled_.rules();
    const bool by_model = rules.space_before == SpaceBefore::kModel;
    const bool space_before = by_model ? space_before_
                                       : rules.space_before == SpaceBefore::kEach ||
                                             (rules.space_before == SpaceBefore::kStart && part.begin == 0);
    const bool space_after = rules.space_after || (!by_model && part.before_rewritten);
    std::string text(kMark);
    if (space_before) text += ' ';
    const auto begin = static_cast<int64_t>(text.size()), end = static_cast<int64_t>(letters.size());
    text += letters;
    if (space_after) text += kMark;
    std::vector<TokenSpan> spans = LibrarySpans(*marked_, text);
    spans.erase(spans.begin());
    if (space_after) spans.pop_back();
    // The space before a text that the table takes away.
    if (spans.size() == 1 && processor_->IdToPiece(spans[0].id) == kSpaceMark && IsNothing(part.text)) spans.clear();
    for (TokenSpan& span : spans) {
      // A mark that the text itself has.
      if (span.id == processor_->GetPieceSize()) span.id = special_tokens().unknown;
      span.begin = std::clamp<int64_t>(span.begin - begin, 0, end);
      span.end = std::clamp<int64_t>(span.end - begin, 0, end);
    }
    return spans;
  }
  bool IsNothing(TracedText text) const {
    ApplyTable(CharsmapOf(model_.bytes), &text);
    return text.empty();
  }
  static std::vector<TokenSpan> LibrarySpans(const SentencePieceProcessor& processor, std::string_view text) {
    sentencepiece::ImmutableSentencePieceText pieces = processor.EncodeAsImmutableProto(text);
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

  std::unique_ptr<const SentencePieceProcessor> processor_, marked_;
  SentencePieceModel model_;
  LineEnds line_ends_;
  bool space_before_;  // of the model; read where marked_ is used
  RuledText ruled_;
  std::vector<bool> continues_word_;  // by id
};

}  // namespace

std::shared_ptr<const Tokenizer> MakeSentencePieceTokenizer(SentencePieceModel model, const std::string& name,
                                                            int num_sentinels) {
  const std::string whole = WithPieces(model.bytes, model.more);
  CheckSentencePieceModel(whole, name);
  SilenceSentencePiece();
  const auto load = [&](const std::string& bytes) {
    auto processor = std::make_unique<SentencePieceProcessor>();
    const sentencepiece::util::Status status = processor->LoadFromSerializedProto(bytes);
    if (!status.ok()) {
      Fail(ErrorKind::kData, name, ": the SentencePiece library does not accept this model: ", status.ToString());
    }
    return processor;
  };
  const TextRules rules = model.rules.value_or(TextRules());
  const std::string bytes = rules.split_numbers ? WithoutNumbersBeforeCommas(whole) : whole;
  auto processor = load(bytes);
  const bool marks = rules.space_before != SpaceBefore::kModel || rules.space_after;
  auto marked = marks ? load(WithMark(bytes)) : nullptr;
  const Vocabulary vocabulary = ReadVocabulary(*processor, model, name);
  const int above = model.sentinels.empty() ? model.sentinels_above.value_or(num_sentinels) : 0;
  const SpecialTokens& special = vocabulary.special_tokens;
  if (model.single == TemplateOf(special, 1) && model.pair == TemplateOf(special, 2)) model.single = model.pair = {};
  if (!model.single.empty()) CheckTemplates(model.single, model.pair, vocabulary.num_ids, name);
  return std::make_unique<SentencePieceTokenizer>(vocabulary, std::move(processor), std::move(marked), std::move(model),
                                                  above);
}

std::shared_ptr<const Tokenizer> SentencePieceFromJson(const JsonReader& reader, const std::string& name) {
  const std::optional<std::string> bytes = DecodeBase64(reader.String("model"));
  if (!bytes) reader.FailAt("model", "is not base64");
  CheckSentencePieceModel(*bytes, name);
  SentencePieceModel model{.bytes = *bytes};
  if (reader.Has("more")) {
    for (const Json& one : reader.Array("more")) {
      if (!one.is_object()) reader.FailAt("more", "must hold objects");
      const JsonReader piece(one, name + ": more");
      model.more.push_back({piece.String("text"), 0, piece.Bool("special") ? kControl : kUnused});
      piece.RejectUnread();
    }
  }
  if (reader.Has("llama")) {
    const JsonReader form = reader.Object("llama");
    model.llama = {.begin = form.Bool("begin"), .end = form.Bool("end")};
    form.RejectUnread();
  }
  if (reader.Has("post_processor")) {
    ReadPostProcessor(reader.Object("post_processor"), name, &model.single, &model.pair);
  }
  const auto pieces = static_cast<int64_t>(ReadPieces(*bytes).size() + model.more.size());
  if (reader.Value("sentinels").is_array()) {
    std::unordered_set<int64_t> seen;
    for (const Json& id : reader.Array("sentinels")) {
      if (!id.is_int() || id.AsInt() < 0 || id.AsInt() >= pieces || !seen.insert(id.AsInt()).second) {
        reader.FailAt("sentinels", Excerpt(id.Dump()), " is no id of its own below ", pieces);
      }
      model.sentinels.push_back(static_cast<int32_t>(id.AsInt()));
    }
  } else {
    model.sentinels_above = static_cast<int>(reader.Int("sentinels", 0, kMaxSentinels));
  }
  const int64_t ids = pieces + kAddedIds + model.sentinels_above.value_or(0);
  if (reader.Has("rules")) model.rules = TextRulesFromJson(reader.Object("rules"), ids, name);
  return MakeSentencePieceTokenizer(std::move(model), name);
}

void SilenceSentencePiece() { sentencepiece::logging::SetMinLogLevel(kLogNothing); }

}  // namespace crosstalk
