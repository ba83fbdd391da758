// TextSource: where raw text comes from, as a stream that can be entered anywhere; and the corpus of files on disk,
// which is read where it is, never loaded. The built-in corpus is synthetic_corpus.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/op_context.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The built-in corpora: what is read where no text is given.

// Stories are those of synthetic/stories.h; the others are the puzzles of synthetic/puzzles.h.
enum class CorpusKind { kStories, kRetrieval, kCopying, kLetterBlocks };
template <>
struct EnumNames<CorpusKind> {
  static constexpr EnumName<CorpusKind> kTable[] = {{CorpusKind::kStories, "stories"},
                                                    {CorpusKind::kRetrieval, "retrieval"},
                                                    {CorpusKind::kCopying, "copying"},
                                                    {CorpusKind::kLetterBlocks, "letter-blocks"}};
};

// A chunk's tokens, each with its bytes in `text`, which begins with the chunk.
struct ChunkLocation {
  std::string text;
  std::vector<TokenSpan> tokens;
};

// A piece of a source's text. A document is a file, in JSONL a line; a built-in story is one without an end.
struct TextSegment {
  std::string text;
  // The bytes of `text` at which documents begin, ascending: 0 too where the segment begins with one. Between two
  // documents of files stands a blank line.
  std::vector<int64_t> document_begins;
};

// One part (training or validation) of a corpus. Thread-safe: all calls are const.
//
// Examples are segments of text about `stride` bytes apart. ReadDocuments(seed, example, stride, min_bytes) is a pure
// function, and a longer segment begins with the shorter one, so a reader that needs more tokens asks for more bytes.
class TextSource {
 public:
  enum class Order { kShuffled, kSequential };

  virtual ~TextSource() = default;

  // For logs: "3 files, 2,034,112 bytes".
  virtual std::string Describe() const = 0;
  // Bytes of text, or nothing if it has no end.
  virtual std::optional<int64_t> num_bytes() const = 0;
  // A checksum of all of the text: equal for two texts in one case in 2^64. Nothing if the text has no end.
  virtual std::optional<uint64_t> checksum() const { return std::nullopt; }
  // The text at example number `example` ≥ 0, at least min_bytes long, valid UTF-8, starting at a word.
  // kShuffled: every epoch visits all segments of `stride` bytes once, in an order and from an offset that depend on
  // (seed, epoch). kSequential: example i starts at byte i·stride, wrapping round, whatever the seed.
  // Throws Error(kData) if the whole source is shorter than min_bytes.
  virtual TextSegment ReadDocuments(uint64_t seed, int64_t example, int64_t stride, int64_t min_bytes,
                                    Order order) const = 0;
  // Its text alone.
  std::string ReadSegment(uint64_t seed, int64_t example, int64_t stride, int64_t min_bytes, Order order) const {
    return ReadDocuments(seed, example, stride, min_bytes, order).text;
  }
  // All of it, with a blank line between documents. Error(kUsage) where it has no end, or is made of ids.
  virtual std::string WholeText() const;
  // In nats: a lower bound, in expectation over examples, on the summed -ln p that any model can reach on the hidden
  // tokens of a chunk, whatever it is shown of the others. `chunk` is cut from the text of `example`, hidden[i] says
  // whether chunk.tokens[i] is hidden. Nothing where no bound is known: the default, for text that people wrote.
  virtual std::optional<double> EntropyBound(int64_t /*example*/, const ChunkLocation& /*chunk*/,
                                             const std::vector<bool>& /*hidden*/,
                                             const Tokenizer& /*tokenizer*/) const {
    return std::nullopt;
  }
  // Whether a model of next tokens learns all of it: the default.
  virtual bool asks_for_all() const { return true; }
  // Otherwise: which tokens of a chunk it learns; `chunk` is cut from the text of `example`.
  virtual std::vector<bool> AskedFor(int64_t /*example*/, const ChunkLocation& chunk) const {
    return std::vector<bool>(chunk.tokens.size(), true);
  }
  // Its tokens, where it is made of these and has no text: ReadDocuments is then Error(kUsage). Else null.
  virtual const std::vector<int32_t>* ids() const { return nullptr; }
};

// A corpus and its two parts. `validation` holds text that `training` never gives.
struct TextCorpus {
  std::shared_ptr<const TextSource> training;
  std::shared_ptr<const TextSource> validation;
  std::string description;
};

// What a line of JSONL has its text in, where nothing else is said.
inline constexpr char kTextField[] = "text";
inline constexpr double kValidationShare = 0.05;

struct FileCorpusOptions {
  std::string path;                  // a .jsonl or .json file, any other as plain text, each may be a .gz; or a folder
  std::string validation_path = {};  // the same; empty: part of `path` is held out
  uint64_t seed = 0;                 // chooses the files that are held out
  double validation_share = kValidationShare;
  std::string text_field = kTextField;  // of a line of JSONL: the name of the string that is its text
};

// Opens and checks text files: UTF-8 text, or JSONL (one object a line, its string `text_field` is the document). A
// file may be packed by gzip: the same text gives the same bits, packed or not. A folder gives its files named *.txt,
// *.jsonl, *.txt.gz and *.jsonl.gz, sorted by path; hidden ones are left out. Documents (files, lines of JSONL) follow
// each other with a blank line between. A byte-order mark is left out. Held out without a validation_path: of several
// files, whole files in the order of a hash of (seed, path in the folder) until they are validation_share of the bytes,
// at least one; a file that would make them more than twice the share is skipped, and if all are skipped, the smallest
// is taken; of a single file, the end, from the first paragraph (blank line, else line, else word, else character; in
// JSONL the line) after 1 - validation_share of the bytes. Reads all bytes, JSONL twice. Takes 16 bytes of memory per
// 64 KiB of JSONL, none for plain text, and while it opens three times the longest line of JSONL; keeps a few files
// open at a time, however many there are. Throws Error(kData) naming the file and the byte (line in JSONL): missing,
// unreadable, empty, NUL byte, invalid UTF-8, a line that is not an object with a string `text_field`; a file of
// another kind (text_file.h); in a folder, such a name that is no regular file, and a link to a folder; and of
// ReadSegment, a file that has been written to, cut or replaced since. A usage error of text_field if it is not "text"
// and no file is JSONL. Throws Interrupted where `stop` says so.
TextCorpus OpenFileCorpus(const FileCorpusOptions& options, const StopRequest& stop = {});
// The tokens of a text that somebody has tokenised, at least two; the last kValidationShare of them are held out.
TextCorpus MakeIdCorpus(const std::vector<int32_t>& ids);
// One path as a whole: nothing held out. For evaluation.
std::shared_ptr<const TextSource> OpenTextSource(const std::string& path, const StopRequest& stop = {},
                                                 const std::string& text_field = kTextField);

}  // namespace crosstalk
#pragma GCC visibility pop
