#include "crosstalk/models/text/corpus.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <numeric>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/messages.h"
#include "tests/support/packed.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::corpus_test {

namespace fs = std::filesystem;

// "tag0 tag1 tag2 …": words that say where they are.
std::string Words(const std::string& tag, int count, int per_line = 10) {
  std::string text;
  for (int i = 0; i < count; ++i) text += StrCat(tag, i, i % per_line == per_line - 1 ? "\n" : " ");
  return text;
}

std::vector<std::string> Split(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

// All the text, from its beginning, without the end of the last document.
std::string All(const TextSource& source) {
  const int64_t size = *source.num_bytes();
  return source.ReadSegment(0, 0, 1, size, TextSource::Order::kSequential).substr(0, size - 2);
}

std::string MessageOf(const FileCorpusOptions& options) {
  return testing::MessageOf([&] { OpenFileCorpus(options); }, ErrorKind::kData);
}

struct BadFile {
  std::string name, bytes;
};

TEST(CorpusTest, BadFilesAreRefusedWithNameAndByte) {
  const std::string good = "{\"text\": \"one two\"}\n", words = Words("w", 5000);
  std::vector<testing::Refusal<BadFile>> rows = {
      {"nothing", {"empty.txt", ""}, {"empty"}},
      {"white space", {"blank.txt", "\n \n\t\n"}, {"too short"}},
      {"a word", {"word.txt", "word"}, {"too short"}},
      {"a long word", {"long.txt", std::string(250, 'w')}, {"too short"}},
      {"a NUL", {"nul.txt", std::string("some\0text", 9)}, {"byte 4 "}},
      {"Latin-1", {"latin.txt", "a long caf\xE9 line"}, {"byte 10 "}},
      {"a cut character", {"cut.txt", "one two \xE2\x82"}, {"byte 8 "}},
      {"a surrogate", {"surrogate.txt", "one two \xED\xA0\x80"}, {"byte 8 "}},
      {"a late byte", {"late.txt", words + "\xFF"}, {StrCat("byte ", words.size(), " ")}},
      {"packed", {"bad.txt.gz", Gzip(words + "\xFF")}, {"is not valid UTF-8"}},
      {"nothing packed", {"empty.txt.gz", Gzip("")}, {"the file is empty"}},
  };
  for (const std::string bad :
       {"{\"text\": \"x\"", "[1]", "3", "{\"txt\": \"x\"}", "{\"text\": 3}", "{\"text\": [\"x\"]}", "{\"text\": {}}",
        "{\"text\": \"x\", \"text\": \"y\"}", "{\"text\": \"\\ud800\"}", "{\"text\": \"\\u0000\"}", "plain words",
        "{\"text\": \"x\"} {\"text\": \"y\"}", "{\"a\": {\"text\": \"x\"}}", "null"}) {
    rows.push_back({bad, {"bad.jsonl", good + bad + "\n" + good}, {StrCat("line 2 at byte ", good.size())}});
  }
  for (auto& row : rows) row.words.push_back(row.input.name);
  const auto open = [](const BadFile& file) {
    const TempDir dir;
    OpenFileCorpus({dir.Put(file.name, file.bytes)});
  };
  testing::ExpectRefused(rows, open, ErrorKind::kData);
  const TempDir dir;
  EXPECT_PRED2(testing::Contains, MessageOf({dir / "missing.txt"}), "missing.txt");
  EXPECT_PRED2(testing::Contains, MessageOf({dir.path()}), "no .txt or .jsonl");
  dir.Put(".hidden.txt", "x"), dir.Put("other.csv", "x");
  EXPECT_PRED2(testing::Contains, MessageOf({dir.path()}), "no .txt or .jsonl");
  // A bad file in a folder of good ones is named.
  const std::string fine = dir.Put("good.txt", Words("w", 100));
  EXPECT_PRED2(testing::Contains, MessageOf({fine, dir.Put("sub/bad.txt", std::string("ab\0", 3))}),
               "sub/bad.txt: byte 2 ");
  EXPECT_PRED2(testing::Contains, MessageOf({dir.path()}), "sub/bad.txt: byte 2 ");
}

TEST(CorpusTest, AFolderIsItsTextFilesInTheOrderOfTheirNames) {
  const TempDir dir;
  dir.Put("b/2.txt", "second\n");
  dir.Put("a.txt",
          "\xEF\xBB\xBF"
          "first");
  dir.Put(
      "c.jsonl",
      "{\"id\": 18446744073709551615, \"tags\": [1, [\"x\"]], \"text\": \"third\"}\n\n{\"text\": \"\"}\r\n{\"text\": "
      "\"\\u00e9\\n\"}");
  dir.Put("skipped.md", "skipped");
  dir.Put(".git/x.txt", "skipped");
  const auto source = OpenTextSource(dir.path());
  EXPECT_EQ(All(*source), "first\n\nsecond\n\n\nthird\n\n\xC3\xA9\n");
  EXPECT_NE(source->Describe().find("3 files"), std::string::npos) << source->Describe();
}

TEST(CorpusTest, SegmentsStartAtAWordAndWrapRound) {
  const TempDir dir;
  dir.Put("a.txt", Words("alpha", 300));
  dir.Put("b.jsonl", "{\"text\": \"" + Words("beta", 200, 1000) + "\"}\n{\"text\": \"gamma delta\"}\n");
  const auto source = OpenTextSource(dir.path());
  const std::string all = All(*source) + "\n\n";
  ASSERT_LE(static_cast<int64_t>(all.size()), *source->num_bytes() + 2);
  const std::string ring = all + all;
  std::set<std::string> words;
  for (const std::string& word : Split(all)) words.insert(word);
  for (int64_t i = 0; i < *source->num_bytes(); i += 13) {
    const std::string text = source->ReadSegment(0, i, 1, 100, TextSource::Order::kSequential);
    EXPECT_GE(text.size(), 100u);
    for (const std::string& word : Split(text)) EXPECT_TRUE(words.count(word)) << word;
    const size_t at = ring.find(text, i);
    EXPECT_LT(at, i + 20) << text;
    const std::string longer = source->ReadSegment(0, i, 1, 300, TextSource::Order::kSequential);
    EXPECT_EQ(longer.substr(0, text.size()), text);
  }
  EXPECT_THROW(source->ReadSegment(0, 0, 1, *source->num_bytes() + 1, TextSource::Order::kSequential), Error);
}

// Every document opens with "<tag>", so that the text itself says where documents begin.
TEST(CorpusTest, ASegmentSaysWhereDocumentsBegin) {
  const TempDir dir;
  dir.Put("a.txt", "<a> " + Words("alpha", 30) + "\n\n" + Words("a", 20));
  std::string lines, long_line = "<long> ";
  for (int i = 0; i < 40; ++i) lines += StrCat("{\"text\": \"<", i, "> ", Words("w", i % 4, 1000), "\"}\n");
  for (int i = 0; i < 30'000; ++i) long_line += StrCat("\\u0041", i, " ");  // several marks
  dir.Put("b.jsonl", lines + "{\"text\": \"\"}\n{\"text\": \"" + long_line + "\"}\n{\"text\": \"<tail>\"}\n");
  dir.Put("c.txt", "<c> the last");
  const auto source = OpenTextSource(dir.path());
  const auto check = [&](int64_t example, int64_t stride, int64_t bytes, TextSource::Order order) {
    const TextSegment segment = source->ReadDocuments(3, example, stride, bytes, order);
    std::vector<int64_t> expected;
    for (size_t at = segment.text.find('<'); at != std::string::npos; at = segment.text.find('<', at + 1)) {
      expected.push_back(static_cast<int64_t>(at));
    }
    EXPECT_EQ(segment.document_begins, expected) << "example " << example << ", " << bytes << " bytes:\n"
                                                 << segment.text.substr(0, 400);
  };
  for (int64_t at = 0; at < 1200; ++at) check(at, 1, 100 + at % 37, TextSource::Order::kSequential);
  for (int64_t at = *source->num_bytes() - 400; at < *source->num_bytes() + 20; ++at) {
    check(at, 1, 90, TextSource::Order::kSequential);  // over the end, where the ring is joined
  }
  for (int64_t i = 0; i < 300; ++i) check(i, 500, 700, TextSource::Order::kShuffled);
  const std::vector<int64_t> all =
      source->ReadDocuments(0, 0, 1, *source->num_bytes(), TextSource::Order::kSequential).document_begins;
  EXPECT_EQ(all.size(), 45u);  // the first again, whose first word ends the ring

  // Blank lines that a document opens with are no words.
  const TempDir blank;
  blank.Put("a.txt", "one");
  blank.Put("b.txt", "\n \n<b> two");
  const TextSegment segment = OpenTextSource(blank.path())->ReadDocuments(0, 5, 1, 6, TextSource::Order::kSequential);
  EXPECT_EQ(segment.text, "<b> two");
  EXPECT_EQ(segment.document_begins, std::vector<int64_t>{0});
}

TEST(CorpusTest, ATextWithoutSpacesOrLinesIsCutAtCharacters) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += i % 3 == 0 ? "\xE6\x97\xA5" : i % 3 == 1 ? "\xF0\xA0\x80\x8B" : "\xC3\xA9";
  for (size_t cut = text.size(); cut > text.size() - 90; cut -= 9) {  // on which byte the share falls varies
    const TextCorpus corpus = OpenFileCorpus({dir.Put("chinese.txt", text.substr(0, cut))});
    const std::string training = All(*corpus.training), validation = All(*corpus.validation);
    EXPECT_EQ(training + validation, text.substr(0, cut));
    EXPECT_EQ(FindInvalidUtf8(training), std::string::npos);
    EXPECT_EQ(FindInvalidUtf8(validation), std::string::npos);
    EXPECT_NEAR(static_cast<double>(validation.size()), 0.05 * static_cast<double>(cut), 5.0);
  }
  EXPECT_NO_THROW(OpenFileCorpus({dir.Put("signs.txt", std::string(260, 'w'))}));  // no word is that long
  const auto source = OpenTextSource(dir / "chinese.txt");
  for (int64_t i = 1; i < 200; ++i) {
    const std::string segment = source->ReadSegment(0, i, 7, 500 + i, TextSource::Order::kSequential);
    EXPECT_GE(static_cast<int64_t>(segment.size()), 500 + i);
    EXPECT_EQ(FindInvalidUtf8(segment), std::string::npos);
  }
}

// Packed or not, the text is the same, and so are its parts, its checksums and its segments.
TEST(CorpusTest, PackedTextIsTheText) {
  const TempDir plain, packed;
  for (int i = 0; i < 6; ++i) {
    const std::string name = StrCat("part", i, i % 2 == 0 ? ".txt" : ".jsonl"), words = Words(StrCat("p", i, "w"), 300);
    const std::string text = i % 2 == 0 ? words : Json::MakeObject({{"text", words}}).Dump() + "\n";
    plain.Put(name, text);
    if (i == 4) {
      packed.Put(name, text);  // beside packed ones
    } else {
      packed.Put(name + ".gz", Gzip(text.substr(0, 50)) + Gzip(text.substr(50)));
    }
  }
  plain.Put("part0.txt-b/x.txt", Words("x", 100));  // which comes before part0.txt, and after part0.txt.gz
  packed.Put("part0.txt-b/x.txt", Words("x", 100));
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const TextCorpus a = OpenFileCorpus({plain.path(), "", seed, 0.4}),
                     b = OpenFileCorpus({packed.path(), "", seed, 0.4});
    for (const auto& [of_plain, of_packed] :
         {std::pair(a.training, b.training), std::pair(a.validation, b.validation)}) {
      EXPECT_EQ(All(*of_packed), All(*of_plain));
      EXPECT_EQ(of_packed->checksum(), of_plain->checksum());
      EXPECT_EQ(of_packed->ReadSegment(seed, 3, 50, 200, TextSource::Order::kShuffled),
                of_plain->ReadSegment(seed, 3, 50, 200, TextSource::Order::kShuffled));
    }
  }
  packed.Put("part4.txt.gz", Gzip("again"));
  EXPECT_PRED2(testing::Contains, MessageOf({packed.path()}), "has part4.txt and part4.txt.gz, the same text twice");
  // What was unpacked is kept: the file may go.
  const auto source = OpenTextSource(packed / "part0.txt.gz");
  std::filesystem::remove(packed / "part0.txt.gz");
  EXPECT_EQ(All(*source), Words("p0w", 300));
}

TEST(CorpusTest, NoRoomToUnpackIsAnErrorThatSaysWhere) {
  const TempDir dir;
  dir.Put("a.txt.gz", Gzip(Words("w", 300)));
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", (dir / "nowhere").c_str(), 1);
  testing::ExpectError([&] { OpenTextSource(dir / "a.txt.gz"); }, ErrorKind::kFailure, {"nowhere", "TMPDIR"});
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
}

// What has the name of a text is one, or is named.
TEST(CorpusTest, NothingInAFolderIsSkippedInSilence) {
  const std::pair<const char*, void (*)(const std::string&)> kCases[] = {
      {"is a link to a file that is not there", [](const auto& path) { fs::create_symlink("nowhere.txt", path); }},
      {"is a folder under the name of a text", [](const auto& path) { fs::create_directory(path); }},
      {"is no regular file", [](const auto& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); }},
      {": cannot be read: Too many levels of symbolic links",
       [](const auto& path) { fs::create_symlink(fs::path(path).filename(), path); }},
  };
  for (const std::string name : {"sub/x.txt", "sub/x.jsonl", "sub/x.txt.gz"}) {
    for (const auto& [says, make] : kCases) {
      const TempDir dir;
      dir.Put("sub/good.txt", Words("w", 100));
      make(dir / name);
      testing::ExpectError([&] { OpenTextSource(dir.path()); }, ErrorKind::kData, {name, says});
    }
  }
  const TempDir dir, other;
  dir.Put("good.txt", Words("w", 100));
  fs::create_symlink(other.Put("more.txt", Words("m", 100)), dir / "linked.txt");
  fs::create_symlink("nowhere", dir / "notes");  // no text is named so
  EXPECT_EQ(All(*OpenTextSource(dir.path())), Words("w", 100) + "\n\n" + Words("m", 100));
  fs::create_directory_symlink(other.path(), dir / "books");
  EXPECT_PRED2(testing::Contains, MessageOf({dir.path()}),
               "books: is a link to a folder, whose texts would be left out");
}

TEST(CorpusTest, AnEpochVisitsAllOfTheTextAndTheNextOneInAnotherOrder) {
  const TempDir dir;
  dir.Put("a.txt", Words("w", 2000));
  const auto source = OpenTextSource(dir / "a.txt");
  const int64_t stride = 50, per_epoch = *source->num_bytes() / stride;
  std::vector<std::set<std::string>> seen(2);
  std::vector<std::vector<std::string>> firsts(2);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    for (int64_t i = 0; i < per_epoch; ++i) {
      const std::vector<std::string> words =
          Split(source->ReadSegment(5, epoch * per_epoch + i, stride, stride, TextSource::Order::kShuffled));
      seen[epoch].insert(words.begin(), words.end());
      firsts[epoch].push_back(words[0]);
    }
    // All but what is left over at the end of the last segment.
    EXPECT_GE(seen[epoch].size(), 1985u) << "epoch " << epoch;
  }
  EXPECT_NE(firsts[0], firsts[1]);
  EXPECT_EQ(source->ReadSegment(5, 3, stride, 80, TextSource::Order::kShuffled),
            source->ReadSegment(5, 3, stride, 80, TextSource::Order::kShuffled));
  EXPECT_NE(source->ReadSegment(5, 3, stride, 80, TextSource::Order::kShuffled),
            source->ReadSegment(6, 3, stride, 80, TextSource::Order::kShuffled));
}

TEST(CorpusTest, WholeFilesAreHeldOut) {
  const TempDir dir;
  for (int i = 0; i < 20; ++i) dir.Put(StrCat("file", i, ".txt"), Words(StrCat("f", i + 10, "w"), 100));
  std::set<std::string> held_out;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const TextCorpus corpus = OpenFileCorpus({dir.path(), "", seed});
    const std::vector<std::string> training = Split(All(*corpus.training)), validation = Split(All(*corpus.validation));
    EXPECT_EQ(training.size(), 1900u);
    EXPECT_EQ(validation.size(), 100u);  // 5 %, whole
    const std::set<std::string> seen(training.begin(), training.end());
    for (const std::string& word : validation) EXPECT_FALSE(seen.count(word)) << word;
    EXPECT_EQ(All(*OpenFileCorpus({dir.path(), "", seed}).validation), All(*corpus.validation));
    held_out.insert(validation[0]);
  }
  EXPECT_GT(held_out.size(), 1u);  // the seed chooses
  // One large and one small file: the small one.
  const TempDir pair;
  pair.Put("large.txt", Words("l", 900));
  pair.Put("small.txt", Words("s", 100));
  for (uint64_t seed = 0; seed < 6; ++seed) {
    EXPECT_EQ(All(*OpenFileCorpus({pair.path(), "", seed}).validation), Words("s", 100));
  }
}

TEST(CorpusTest, TheEndOfASingleFileIsHeldOut) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 100; ++i) text += Words(StrCat("p", i, "w"), 20) + "\n";  // paragraphs
  dir.Put("a.txt", text);
  const TextCorpus corpus = OpenFileCorpus({dir / "a.txt"});
  EXPECT_EQ(All(*corpus.training) + All(*corpus.validation), text);
  EXPECT_EQ(All(*corpus.validation).substr(0, 5), "p96w0");

  std::string lines;
  for (int i = 0; i < 100; ++i) lines += StrCat("{\"text\": \"word", i + 100, "\"}\n");
  dir.Put("b.jsonl", lines);
  const TextCorpus jsonl = OpenFileCorpus({dir / "b.jsonl"});
  EXPECT_EQ(Split(All(*jsonl.training)).size(), 96u);
  EXPECT_EQ(Split(All(*jsonl.validation)).front(), "word196");

  dir.Put("two.txt", "one two");
  EXPECT_EQ(All(*OpenFileCorpus({dir / "two.txt"}).validation), "two");
  // A validation path leaves the whole for training.
  const TextCorpus both = OpenFileCorpus({dir / "a.txt", dir / "two.txt"});
  EXPECT_EQ(All(*both.training), text);
  EXPECT_EQ(All(*both.validation), "one two");
}

TEST(CorpusTest, AFileLargerThanTheMemoryAllowedIsStreamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a limit on memory does not go with a sanitizer";
#else
  std::ifstream statm("/proc/self/statm");
  if (!statm) GTEST_SKIP() << "without /proc nothing says how much data the process has";
  const TempDir dir;
  constexpr int kBlocks = 200;
  const std::string block = Words("word", 10'000);  // about 90 kB
  {
    std::ofstream text(dir / "a.txt", std::ios::binary), jsonl(dir / "b.jsonl", std::ios::binary),
        packed(dir / "c.txt.gz", std::ios::binary);
    const std::string member = Gzip(block);
    for (int i = 0; i < kBlocks; ++i) {
      text << block;
      packed << member;
      jsonl << Json::MakeObject({{"text", block}}).Dump() << '\n';
    }
  }
  // 12 MB of memory for data beyond what the process has: far less than either file.
  int64_t pages[6] = {};
  for (int64_t& field : pages) statm >> field;
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = static_cast<rlim_t>(pages[5]) * 4096 + (12 << 20);
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
  for (const char* name : {"a.txt", "b.jsonl", "c.txt.gz"}) {
    ASSERT_GT(std::filesystem::file_size(dir / name), name[0] == 'c' ? 2u << 20 : 16u << 20);
    try {
      const TextCorpus corpus = OpenFileCorpus({dir / name, "", 0, 0.3});
      for (int64_t i = 0; i < 200; ++i) {
        const std::string text = corpus.training->ReadSegment(1, i, 3000, 3000, TextSource::Order::kShuffled);
        EXPECT_EQ(text.substr(0, 4), "word");
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << name << ": " << error.what();
    }
  }
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
#endif
}

TEST(SegmentSamplerTest, AShortTextIsCoveredAndALongOneIsSampledEvenly) {
  constexpr int kWords = 4000, kFirst = 10000;  // all of five digits: a word's number says where it stands
  const TempDir dir;
  std::string numbers;
  for (int i = 0; i < kWords; ++i) numbers += StrCat(kFirst + i, i % 10 == 9 ? "\n" : " ");
  dir.Put("text.txt", numbers);
  dir.Put("held_out.txt", Words("v", 100));
  FileCorpusOptions options;
  options.path = dir / "text.txt";
  options.validation_path = dir / "held_out.txt";
  const TextCorpus corpus = OpenFileCorpus(options);
  const int64_t size = *corpus.training->num_bytes();

  std::string text;
  std::set<std::string> seen;
  int64_t count = 0;
  for (SegmentSampler all(*corpus.training, 1000, 700); all.Next(&text); ++count) {
    EXPECT_GE(static_cast<int64_t>(text.size()), 700);
    for (const std::string& word : Split(text)) seen.insert(word);
  }
  EXPECT_EQ(count, (size + 699) / 700);
  EXPECT_GE(seen.size(), kWords - 2u);  // the last word is cut where the text begins again

  count = 0;
  for (SegmentSampler quarters(*corpus.training, 4, 60); quarters.Next(&text); ++count) {
    EXPECT_NEAR(std::stoi(Split(text)[0]), kFirst + count * kWords / 4, 2) << text;
  }
  EXPECT_EQ(count, 4);
}

TEST(IdCorpusTest, APassShowsEachChunkOnceAndTheEndIsHeldOut) {
  std::vector<int32_t> ids(1000);
  std::iota(ids.begin(), ids.end(), 0);
  const TextCorpus corpus = MakeIdCorpus(ids);
  EXPECT_EQ((*corpus.validation->ids())[0], 950);
  const ChunkDataset chunks(corpus.training, nullptr, 9, /*seed=*/3, TextSource::Order::kShuffled);
  EXPECT_EQ(chunks.chunks_per_epoch(), 105);
  std::set<int32_t> begins;
  for (int64_t example = 0; example < 105; ++example) {
    const std::vector<int32_t> chunk = chunks.Chunk(example);
    ASSERT_EQ(chunk.size(), 9u);
    for (size_t i = 1; i < chunk.size(); ++i) EXPECT_EQ(chunk[i], (chunk[0] + static_cast<int32_t>(i)) % 950);
    begins.insert(chunk[0]);
  }
  EXPECT_EQ(begins.size(), 105u);
  EXPECT_NE(chunks.Chunk(0), chunks.Chunk(105)) << "another order in the next pass";
  const ChunkDataset all(corpus.validation, nullptr, 25, 0, TextSource::Order::kSequential);
  EXPECT_EQ(all.Chunk(1)[0], 975);
  EXPECT_THROW(ChunkDataset(corpus.validation, nullptr, 51, 0, TextSource::Order::kSequential), Error);
  EXPECT_THROW(MakeIdCorpus({1}), Error);
  EXPECT_EQ(testing::MessageOf([&] { corpus.training->ReadSegment(0, 0, 1, 1, TextSource::Order::kSequential); },
                               ErrorKind::kUsage),
            "token ids have no text, which is read here; give text");
}

}  // namespace crosstalk::corpus_test
