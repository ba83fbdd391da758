// Tokenizer: text to ids and back, and which ids are special. Five kinds: bytes, made here, characters
// (character_tokenizer.h), SentencePiece's (sentencepiece_tokenizer.h), BERT's WordPiece (wordpiece_tokenizer.h) and
// byte-pair encoding (bpe_tokenizer.h).
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/record.h"
#include "crosstalk/runtime/visibility.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The ids with a meaning of their own. They belong to a tokenizer, which a model's configuration takes them from.

inline constexpr int32_t kNoToken = -1;
// The ids that SpecialTokens has by default: 0, 1 and 2.
inline constexpr int32_t kSpecialIds = 3;

// The defaults are T5's. kNoToken where a vocabulary has none.
struct SpecialTokens {
  int32_t pad = 0;            // fills rows up to their length
  int32_t end = 1;            // of a sequence
  int32_t unknown = 2;        // what the vocabulary cannot say
  int32_t decoder_start = 0;  // what a decoder reads before its first token
  int32_t begin = kNoToken;   // of a sequence: BERT's [CLS]
  int32_t separator = kNoToken;
  int32_t mask = kNoToken;

  static const FieldTable<SpecialTokens>& Fields();
  friend bool operator==(const SpecialTokens&, const SpecialTokens&) = default;
};

// Whether a tokenizer has what masked language modelling takes: [CLS], [SEP] and [MASK].
enum class MaskTokens { kNo, kYes };
inline constexpr int32_t kMaskTokens = 3;
// The same tokens with begin = first, separator = first + 1, mask = first + 2.
SpecialTokens WithMaskTokens(SpecialTokens tokens, int32_t first);

// Each id must be in a vocabulary of that size, or be kNoToken if it is not among those that are needed.
// Error(kUsage) of the field "tokens.NAME".
void CheckSpecialTokens(const SpecialTokens& tokens, int64_t vocabulary,
                        std::initializer_list<int32_t SpecialTokens::*> needed);

inline constexpr int kDefaultSentinels = 100;
inline constexpr int kMaxSentinels = 1'000'000;

// How published tokenizers write sentinel k: "<extra_id_0>".
CROSSTALK_LOCAL std::string SentinelText(int k);
// The inverse, which takes T5's "\u2581<extra_id_0>" too; -1 of any other text.
CROSSTALK_LOCAL int SentinelNumberOf(std::string_view text);

// The treatment of line ends in a trained SentencePiece tokenizer.
enum class LineEnds {
  kSpaces,  // spaces, as in T5's
  kKept,    // pieces of their own, so that text that is written has lines
};

// A token and the bytes [begin, end) of its text. Neither begin nor end ever falls from one token to
// the next; two ranges overlap only where one character of the text becomes several tokens (½: 1, ⁄, 2), of
// which each has its bytes.
struct TokenSpan {
  int32_t id;
  int64_t begin;
  int64_t end;

  friend bool operator==(const TokenSpan&, const TokenSpan&) = default;
};

// One text or two with the special tokens around them: what stands where.
struct TemplatePart {
  int text;  // 0: A, 1: B, -1: the special token `id`
  int32_t id;
  int32_t segment;

  friend bool operator==(const TemplatePart&, const TemplatePart&) = default;
};
using PairTemplate = std::vector<TemplatePart>;

// Thread-safe once made: all calls are const. Ids run from 0 to vocab_size() - 1. Sentinels mark hidden spans; they
// stand above all other ids, the first one highest (T5: 32,099, falling), unless a published tokenizer has them
// elsewhere.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The ids of UTF-8 text, without an end token.
  virtual std::vector<int32_t> Encode(std::string_view text) const = 0;
  // The same ids, each with its bytes.
  virtual std::vector<TokenSpan> EncodeSpans(std::string_view text) const = 0;
  // Sentinel k becomes "<extra_id_k>", and the unknown token U+2047; all other special tokens are left out. Throws
  // Error(kUsage) on an id outside [0, vocab_size()).
  virtual std::string Decode(std::span<const int32_t> ids) const = 0;
  // How a token is written where tokens are shown: "▁the", "##ing", "[CLS]", "<extra_id_0>"; a byte that is no printing
  // character of ASCII is "<0x0A>", a special token without a name of its own "<pad>" or "</s>". Throws Error(kUsage)
  // on an id outside [0, vocab_size()).
  virtual std::string TokenText(int32_t id) const;
  // Which ids of a row begin a word: the first one; each special token and each token after one (the unknown token
  // counts as text); and of the rest
  //   bytes, characters  white space after what is none: " word" is one word, as it is in SentencePiece's pieces
  //   SentencePiece      as ALBERT's n-gram masking has it: a piece that begins with a space ("\u2581"), each piece of
  //                      one punctuation mark, and each with anything but ASCII letters and punctuation in it;
  //                      pieces for single bytes that follow each other are in one word
  // Throws Error(kUsage) on an id outside [0, vocab_size()).
  std::vector<bool> WordStarts(std::span<const int32_t> ids) const;

  // pad, end, unknown and decoder_start are always there, except in published byte-pair encodings and Llama's; the rest
  // may be kNoToken. pad differs from all others but decoder_start.
  const SpecialTokens& special_tokens() const { return special_tokens_; }
  // Number of ids, sentinels counted.
  int vocab_size() const { return vocab_size_; }
  // May be 0: only span corruption takes sentinels.
  int num_sentinels() const { return static_cast<int>(sentinels_.size()); }
  // The id of sentinel k. Throws Error(kUsage) unless 0 ≤ k < num_sentinels().
  int32_t Sentinel(int k) const;
  bool IsSentinel(int32_t id) const { return SentinelNumber(id) >= 0; }

  // "bytes", "characters", "sentencepiece", "wordpiece" or "bpe".
  virtual std::string kind() const = 0;
  // The file that keeps it with a run, by name and contents: LoadTokenizer makes the same tokenizer from it.
  // "tokenizer.json", a descriptor {"kind": …}; of SentencePiece without rules about its text (text_rules.h)
  // "tokenizer.model", its own format, which says nothing of sentinels.
  virtual std::string FileName() const = 0;
  virtual std::string FileContents() const = 0;
  // Texts that show rules of its own, which no one list of texts for all tokenizers would: a tokenizer without one of
  // these rules reads one of these texts otherwise. See TokenizerDifference.
  virtual std::vector<std::string> RuleTexts() const { return {}; }
  // The template for 1 or 2 texts that its publisher gave it; empty where the special tokens say it: TemplateOf
  // (encoding.h), which is to be asked.
  virtual PairTemplate OwnTemplate(int /*texts*/) const { return {}; }
  // The files that publish it as Hugging Face's folders have them, which OpenTokenizer reads: with
  // tokenizer_config.json, spiece.model, tokenizer.model or vocab.txt where one of them says all of it, else
  // tokenizer.json. None if there is no such form: bytes and characters. Error(kUsage) where the form has no place for
  // one of its rules.
  struct PublishedFile {
    std::string name, contents;
  };
  virtual std::vector<PublishedFile> PublishedFiles() const { return {}; }

 protected:
  // num_text_ids: the ids below the mask tokens and the sentinels, special tokens counted. The mask tokens, where asked
  // for, follow them.
  Tokenizer(const SpecialTokens& special_tokens, int num_text_ids, int num_sentinels,
            MaskTokens mask_tokens = MaskTokens::kNo);
  // The same with the sentinels' ids, by number: distinct ones below `vocab_size`.
  Tokenizer(const SpecialTokens& special_tokens, int vocab_size, std::vector<int32_t> sentinels);
  // Ids above `others`, falling. Error(kUsage) unless 0 ≤ count ≤ kMaxSentinels.
  static std::vector<int32_t> SentinelsOnTop(int others, int count);
  // For WordStarts: whether a token of text goes on with the word of the token of text before it.
  virtual bool ContinuesWord(int32_t before, int32_t id) const = 0;
  // For Decode.
  static constexpr std::string_view kUnknownText = "\u2047";
  void CheckId(int32_t id) const;
  // A special token other than unknown, or a sentinel.
  bool IsNoText(int32_t id) const;
  // Decode where each token of text adds its own: append_text(id, &text).
  std::string DecodeEach(std::span<const int32_t> ids,
                         const std::function<void(int32_t id, std::string* text)>& append_text) const;
  std::string SentinelText(int32_t id) const;
  // The FileContents of a tokenizer without a file format of its own: its kind, `own` members, its sentinels.
  Json Descriptor(const std::vector<Json::Member>& own) const;

 private:
  int SentinelNumber(int32_t id) const;  // -1 of an id that is none

  SpecialTokens special_tokens_;
  int vocab_size_;
  std::vector<int32_t> sentinels_;  // by number
  std::vector<int32_t> by_id_;      // the numbers from the lowest sentinel on; -1 of the ids between them that are none
  int32_t lowest_ = 0;
};

// As in ByT5: pad 0, end 1, unknown 2, byte b is b + 3; then, where asked for, [CLS] 259, [SEP] 260, [MASK] 261; then
// the sentinels (vocabulary 259 or 262, and sentinels).
std::shared_ptr<const Tokenizer> MakeByteTokenizer(int num_sentinels = kDefaultSentinels,
                                                   MaskTokens mask_tokens = MaskTokens::kNo);

// The most that is read: of the largest model, the descriptor that keeps it, which is 4/3 as large.
inline constexpr uint64_t kMaxTokenizerFileBytes = uint64_t{96} << 20;

// From the contents of a file alone, by what they are: a descriptor kept with a run (FileName() and FileContents()), a
// published `tokenizer.json` (published_tokenizer.h), a `.model`, or the lines of a `vocab.txt`, which is uncased
// unless one of its pieces has an upper-case letter. One that does not say its number of sentinels gets
// `num_sentinels`. Throws Error(kData) with `name`.
std::shared_ptr<const Tokenizer> LoadTokenizer(std::string_view contents, const std::string& name,
                                               int num_sentinels = kDefaultSentinels);
std::shared_ptr<const Tokenizer> LoadTokenizerFile(const std::string& path, int num_sentinels = kDefaultSentinels);

// A path from the user: such a file, or a folder, a published model's, a run's or a checkpoint's, that holds one or
// more of tokenizer.json, vocab.txt, spiece.model, tokenizer.model and sentencepiece.model. tokenizer_config.json,
// special_tokens_map.json, added_tokens.json and config.json beside it say whose tokenizer it is, its rules and its
// added tokens (tokenizer_settings.h); what is read of them and not computed is in `remarks`.
//
// All files of a folder that make a tokenizer must make the same: a set of texts that show their rules is cut by
// each. Error(kData) names the files and an example where two differ, and a file that cannot be read beside others; a
// path to one of them chooses it. What came of it all is in the descriptor that a run keeps.
std::shared_ptr<const Tokenizer> OpenTokenizer(const std::string& path, int num_sentinels = kDefaultSentinels,
                                               std::vector<std::string>* remarks = nullptr);
// Whether a folder has a file that OpenTokenizer reads.
CROSSTALK_LOCAL bool HoldsTokenizer(const std::string& folder);

}  // namespace crosstalk
#pragma GCC visibility pop
