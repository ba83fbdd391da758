#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/sentences.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/packed.h"
#include "crosstalk/runtime/text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::fuzz {
namespace {

constexpr size_t kMaxFiles = 4;
constexpr uint64_t kMaxUnpacked = uint64_t{256} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kDocumentEnd = "\n\n";

struct InputFile {
  bool jsonl;
  std::string bytes;
};

std::vector<InputFile> SplitFiles(std::string_view input) {
  std::vector<InputFile> files;
  while (files.size() < kMaxFiles) {
    const size_t end = files.size() + 1 == kMaxFiles ? std::string_view::npos : input.find('\x1C');
    const FirstLine file = SplitFirstLine(input.substr(0, end));
    files.push_back({file.line == "jsonl", std::string(file.rest)});
    if (end == std::string_view::npos) break;
    input.remove_prefix(end + 1);
  }
  return files;
}

// The documents of a file as the format says it, with the parser of JSON values. Nothing where that parser refuses a
// line: the reader of text looks at fewer of a line's members.
std::optional<std::string> TextOf(const InputFile& file) {
  std::string_view bytes = file.bytes;
  if (bytes.substr(0, kByteOrderMark.size()) == kByteOrderMark) bytes.remove_prefix(kByteOrderMark.size());
  if (!file.jsonl) return bytes.empty() ? std::string() : StrCat(bytes, kDocumentEnd);
  std::string text;
  while (!bytes.empty()) {
    const FirstLine line = SplitFirstLine(bytes);
    bytes = line.rest;
    if (line.line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      const Json object = ParseJson(line.line, "line");
      const std::string& document = object.At("text").AsString();
      if (!document.empty()) text += StrCat(document, kDocumentEnd);
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  return text;
}

void RequireSegments(const TextSource& source) {
  const int64_t size = *source.num_bytes();
  for (const TextSource::Order order : {TextSource::Order::kSequential, TextSource::Order::kShuffled}) {
    for (const int64_t example : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{1} << 40}) {
      const int64_t count = std::min<int64_t>(size, 20);
      const std::string text = source.ReadSegment(3, example, 16, count, order);
      const TextSegment segment = source.ReadDocuments(3, example, 16, std::min<int64_t>(size, 100), order);
      for (size_t i = 0; i < segment.document_begins.size(); ++i) {
        const int64_t begin = segment.document_begins[i];
        Require(begin >= 0 && begin < std::ssize(segment.text) && (i == 0 || begin > segment.document_begins[i - 1]),
                "document ", i, " begins at byte ", begin, " of ", segment.text.size());
        // White space may be cut in front of it.
        const std::string_view before = std::string_view(segment.text).substr(0, begin);
        Require(begin == 1 ? before == "\n" : begin == 0 || before.ends_with(kDocumentEnd), "document ", i,
                " begins after no end of one");
      }
      Require(static_cast<int64_t>(text.size()) >= count, "a segment of ", text.size(), " bytes where ", count,
              " are asked for");
      Require(FindInvalidUtf8(text) == std::string_view::npos, "a segment that is not UTF-8");
      const std::string longer = source.ReadSegment(3, example, 16, std::min<int64_t>(size, 300), order);
      Require(longer.starts_with(text), "a longer segment that does not begin with the shorter one");
    }
  }
}

void RequireExamples(const std::shared_ptr<const TextSource>& source) {
  static const std::shared_ptr<const Tokenizer>& bytes = *new std::shared_ptr<const Tokenizer>(MakeByteTokenizer());
  Accepts([&] {
    const ChunkDataset dataset(source, bytes, 12, 5, TextSource::Order::kShuffled);
    for (const int64_t example : {int64_t{0}, int64_t{9}}) {
      const ChunkLocation chunk = dataset.LocateChunk(example);
      Require(chunk.tokens.size() == 12, "a chunk of ", chunk.tokens.size(), " tokens");
      const std::vector<int32_t> ids = dataset.Chunk(example);
      for (size_t i = 0; i < ids.size(); ++i) {
        Require(ids[i] == chunk.tokens[i].id && chunk.tokens[i].begin >= 0 &&
                    chunk.tokens[i].end <= static_cast<int64_t>(chunk.text.size()),
                "token ", i, " of a chunk");
      }
    }
  });
  Accepts([&] {
    const SentenceDataset dataset(source, bytes, 12, 5, TextSource::Order::kShuffled);
    for (const int64_t example : {int64_t{0}, int64_t{9}}) {
      for (const int64_t tokens : {int64_t{1}, int64_t{40}, int64_t{5000}}) {
        const std::vector<EncodedSentence> sentences = dataset.Read(example, tokens);
        Require(!sentences.empty(), "no sentence at example ", example);
        for (const EncodedSentence& sentence : sentences) {
          Require(!sentence.ids.empty() && FindInvalidUtf8(sentence.text) == std::string_view::npos,
                  "an empty sentence, or one that is not UTF-8");
        }
      }
    }
  });
}

}  // namespace

// "txt" or "jsonl" in the first line, and then a file, packed by gzip or not; several with \x1C between are a folder.
// What is opened is the text that the parser of JSON values finds there, its segments, chunks and sentences are as
// promised, and the two parts of a corpus are together no more than the whole.
void FuzzCorpus(std::string_view input) {
  static const TempDir directory;
  std::vector<InputFile> files = SplitFiles(input);
  std::string path;
  const std::string folder = directory / "folder";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  int64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    path = StrCat(folder, "/", i, files[i].jsonl ? ".jsonl" : ".txt");
    PutFile(path, files[i].bytes);
    Accepts([&] { files[i].bytes = ReadUnpacked(path, kMaxUnpacked); });
    bytes += static_cast<int64_t>(files[i].bytes.size());
  }
  if (files.size() > 1) path = folder;

  std::shared_ptr<const TextSource> source;
  if (Accepts([&] { source = OpenTextSource(path); })) {
    const int64_t size = *source->num_bytes();
    Require(size > 0 && size <= 2 * (bytes + std::ssize(files)) + 8, size, " bytes of text from ", bytes);
    std::optional<std::string> expected = "";
    for (const InputFile& file : files) {
      const std::optional<std::string> text = TextOf(file);
      if (!text) expected.reset();
      if (expected) *expected += *text;
    }
    const std::string all = source->ReadSegment(0, 0, 1, size, TextSource::Order::kSequential).substr(0, size);
    Require(!expected || all == *expected, "not the text of the files");
    RequireSegments(*source);
    RequireExamples(source);
  }

  TextCorpus corpus;
  FileCorpusOptions options;
  options.path = path;
  if (!Accepts([&] { corpus = OpenFileCorpus(options); })) return;
  Require(source != nullptr, "a corpus of files that are no text");
  const int64_t training = *corpus.training->num_bytes(), validation = *corpus.validation->num_bytes();
  const auto ends = static_cast<int64_t>(kDocumentEnd.size());  // one more where a file is cut in two
  Require(training > 0 && validation > 0 && training + validation <= *source->num_bytes() + ends, training, " + ",
          validation, " bytes of ", *source->num_bytes());
  RequireSegments(*corpus.training);
  RequireSegments(*corpus.validation);
}

}  // namespace crosstalk::fuzz
