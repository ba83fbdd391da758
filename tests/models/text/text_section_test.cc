// Text is read from files in parts: the same bytes whatever the parts are, at a cost that the parts decide, and never
// from a file that is no longer the one that was checked, or that is no text.
#include "crosstalk/models/text/text_section.h"

#include <sys/resource.h>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/messages.h"
#include "tests/support/packed.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::text_section_test {

using namespace std::string_literals;

using testing::Contains;

std::shared_ptr<const TextFile> Open(const std::string& path) {
  return std::make_shared<TextFile>(path, std::make_shared<OpenFiles>(), kTextField, StopRequest());
}

TextSection Whole(const std::string& path) {
  const std::shared_ptr<const TextFile> file = Open(path);
  return TextSection(file, 0, file->size(), {});
}

// Characters of one to four bytes, and all that JSON escapes.
std::string RandomText(size_t size, RandomSequence& random) {
  const std::string parts[] = {"word ",
                               "\n",
                               "\"",
                               "\\",
                               "/",
                               "\b\f\r\t",
                               "\x01\x1F\x7F",
                               "\xC3\xA9",
                               "\xE6\x97\xA5",
                               "\xF0\x9F\x99\x82",
                               "\u07FF\u0800\uFFFF\U00010000",
                               "u0041"};
  std::string text;
  while (text.size() < size) text += parts[random.UniformInt(std::size(parts))];
  return text;
}

// As a JSON string, with every character as \uXXXX, also those that need none.
std::string Escaped(const std::string& text) {
  std::string out = "\"";
  const auto unit = [&](unsigned code) {
    char digits[8];
    snprintf(digits, sizeof digits, code % 2 == 0 ? "\\u%04x" : "\\u%04X", code);
    out += digits;
  };
  for (const TracedCharacter& character : TraceText(text, 0, std::ssize(text))) {
    const char32_t code = character.code;
    if (code == U'/') {
      out += "\\/";
    } else if (code < 0x10000) {
      unit(code);
    } else {
      unit(0xD800 + ((code - 0x10000) >> 10));
      unit(0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }
  return out + "\"";
}

TEST(TextSectionTest, JsonlIsTheSameTextWhateverPartIsRead) {
  const TempDir dir;
  RandomSequence random({.seed = 3, .stream = StreamId("text_section_test")});
  std::string lines, all;
  std::vector<int64_t> ends;
  const auto add = [&](const std::string& before, const std::string& text, const std::string& after, bool escaped) {
    lines += "{" + before + "\"text\" :\t" + (escaped ? Escaped(text) : Json(text).Dump()) + after + "}\n";
    if (text.empty()) return;
    all += text + "\n\n";
    ends.push_back(std::ssize(all));
  };
  const std::string long_field = "\"other\": {\"text\": \"" + std::string(300'000, 'x') + "\"}";
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 300; ++i) add("\"id\": 3, ", RandomText(random.UniformInt(400), random), "", i % 3 == 0);
    lines += "  \r\n\n";
    add("", RandomText(200'000, random), "", round == 1);  // several marks within
    add("", "short", "", false);
    add(long_field + ", ", RandomText(70'000, random), ", " + long_field, true);
    add(long_field + ", ", "", "", false);
    add("", RandomText(100, random), ", " + long_field, false);
    for (int i = 0; i < 50; ++i) add(long_field.substr(0, 2000) + "\"}, ", "a little", "", false);
  }
  dir.Put("text.jsonl", lines);
  const TextSection section = Whole(dir / "text.jsonl");
  const auto size = static_cast<int64_t>(all.size());
  ASSERT_EQ(section.size(), size);
  std::string text;
  section.Read(0, size, &text);
  EXPECT_TRUE(text == all);
  for (int i = 0; i < 500; ++i) {
    const auto position = static_cast<int64_t>(random.UniformInt(size));
    const auto count = static_cast<int64_t>(random.UniformInt(i % 20 == 0 ? 200'000 : 3000));
    text = "before ";
    std::vector<int64_t> ends_here, expected;
    section.Read(position, count, &text, &ends_here);
    ASSERT_TRUE(text == "before " + all.substr(position, count)) << position << ", " << count;
    for (const int64_t end : ends) {
      if (count > 0 && end > position && end <= position + count) expected.push_back(end - position + 7);
    }
    ASSERT_EQ(ends_here, expected) << position << ", " << count;
  }
}

int64_t BytesReadByThisProcess() {
  std::ifstream io("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  io >> name >> bytes;
  return name == "rchar:" ? bytes : -1;
}

TEST(TextSectionTest, APartCostsWhatItsLengthSaysNotItsDocuments) {
  const TempDir dir;
  const std::string filler(1'000'000, 'x');
  const auto with_filler = [&](const std::string& text) {
    return "{\"a\": \"" + filler + "\", \"text\": \"" + text + "\"}\n";
  };
  std::string tiny;
  for (int i = 0; i < 20'000; ++i) tiny += "{\"text\": \"\"}\n";
  dir.Put("long.jsonl", "{\"text\": \"" + filler + filler + "\"}\n{\"text\": \"end\"}\n");
  dir.Put("others.jsonl", with_filler("one") + with_filler("") + with_filler("two") + tiny + with_filler("three"));
  const std::string text_first = "{\"text\": \"a\"}\n{\"text\": \"b\", \"more\": \"" + filler + "\"}\n";
  dir.Put("first.jsonl", text_first + text_first + text_first);
  dir.Put("plain.txt", filler);
  for (const char* name : {"long.jsonl", "others.jsonl", "first.jsonl", "plain.txt"}) {
    const TextSection section = Whole(dir / name);
    const int64_t before = BytesReadByThisProcess();
    if (before < 0) GTEST_SKIP() << "the system does not count what a process reads";
    constexpr int kReads = 20;
    std::string text;
    for (int64_t i = 0; i < kReads; ++i) section.Read(i * section.size() / kReads, 100, &text);
    EXPECT_LT(BytesReadByThisProcess() - before, kReads * 600'000) << name;
  }
}

TEST(TextSectionTest, AFileThatChangesIsNamedInsteadOfRead) {
  namespace fs = std::filesystem;
  const std::string text(300'000, 'x');
  const std::pair<const char*, void (*)(const std::string& path)> kChanges[] = {
      {"cut", [](const std::string& path) { fs::resize_file(path, 100); }},
      {"longer", [](const std::string& path) { std::ofstream(path, std::ios::app) << "more"; }},
      {"other bytes, as many",
       [](const std::string& path) {
         std::fstream(path, std::ios::in | std::ios::out) << "other";
         // The clock of a file system may stand still for some milliseconds.
         fs::last_write_time(path, fs::last_write_time(path) + std::chrono::milliseconds(50));
       }},
  };
  const TempDir dir;
  std::string out;
  for (const auto& [what, change] : kChanges) {
    for (const auto& [name, bytes] : {std::pair("text.txt", text), {"text.jsonl", "{\"text\": \"" + text + "\"}"}}) {
      SCOPED_TRACE(StrCat(what, ", ", name));
      const TextSection section = Whole(dir.Put(name, bytes));
      change(dir / name);
      testing::ExpectError([&] { section.Read(250'000, 10'000, &out); }, ErrorKind::kData,
                           {dir / name, "has changed since it was opened"});
      EXPECT_EQ(out, "");
    }
  }
  // One that is only touched is still that file, and one that another replaces is there for who has it open.
  const TextSection section = Whole(dir.Put("text.txt", text));
  fs::last_write_time(dir / "text.txt", fs::file_time_type::clock::now());
  section.Read(250'000, 10, &out);
  fs::rename(dir.Put("new.txt", std::string(300'000, 'y')), dir / "text.txt");
  section.Read(250'000, 10, &out);
  EXPECT_EQ(out, std::string(20, 'x'));
}

int64_t LinesOf(const char* path) {
  std::ifstream file(path);
  int64_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

TEST(TextSectionTest, AFolderMayHoldMoreFilesThanAProcessMayOpenOrMap) {
  const TempDir dir;
  constexpr int kFiles = 300;
  for (int i = 0; i < kFiles; ++i) dir.Put(StrCat(1000 + i, ".txt"), StrCat("file ", 1000 + i));
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const int64_t maps = LinesOf("/proc/self/maps");
  try {
    const TextCorpus corpus = OpenFileCorpus({dir.path()});
    EXPECT_LT(LinesOf("/proc/self/maps"), maps + 50);
    EXPECT_TRUE(Contains(corpus.description, " more (")) << corpus.description;  // names do not fill the terminal
    const std::string all =
        corpus.training->ReadSegment(0, 0, 1, *corpus.training->num_bytes(), TextSource::Order::kSequential);
    int found = 0;
    for (int i = 0; i < kFiles; ++i) found += Contains(all, StrCat("file ", 1000 + i, "\n\n"));
    EXPECT_GE(found, kFiles * 9 / 10);
    EXPECT_LT(found, kFiles);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(TextSectionTest, OpeningEndsWhereItIsAskedTo) {
  const TempDir dir;
  dir.Put("text.txt", std::string(5'000'000, 'x') + " end");
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "{\"text\": \"some words\"}\n";
  dir.Put("text.jsonl", lines);
  for (const std::string& path : {dir / "text.txt", dir / "text.jsonl", dir.path()}) {
    for (const int asked : {1, 3}) {
      int left = asked;
      EXPECT_THROW(OpenFileCorpus({path}, [&] { return --left <= 0; }), Interrupted) << path;
      EXPECT_EQ(left, 0) << "work went on after it was asked to end";
    }
    EXPECT_NO_THROW(OpenFileCorpus({path}, [] { return false; }));
  }
}

TEST(TextSectionTest, TheTextOfALineIsTheStringThatIsAskedFor) {
  const TempDir dir;
  const std::string lines =
      "{\"title\": \"one\", \"content\": \"first text\", \"n\": 1, \"of\": {\"content\": \"no\"}}\n"
      "{\"content\": \"second\", \"title\": \"two\"}\n";
  const std::string path = dir.Put("a.jsonl", lines), plain = dir.Put("a.txt", "plain words");
  const auto all = [](const TextSource& source) {
    return source.ReadSegment(0, 0, 1, *source.num_bytes(), TextSource::Order::kSequential);
  };
  const auto content = OpenTextSource(path, {}, "content"), title = OpenTextSource(path, {}, "title");
  EXPECT_EQ(all(*content), "first text\n\nsecond\n\nfirst");  // a source is a ring
  EXPECT_EQ(all(*title), "one\n\ntwo\n\none");
  const std::string twins = dir.Put("twins.jsonl", "{\"a\": \"one\", \"b\": \"two\"}\n");
  EXPECT_NE(OpenTextSource(twins, {}, "a")->checksum(), OpenTextSource(twins, {}, "b")->checksum());

  testing::ExpectRefused(
      {{"the default",
        [&] { OpenTextSource(path); },
        {"a.jsonl: line 1 at byte 0: the object has no \"text\", but \"title\", \"content\", \"n\", "
         "\"of\"; text_field = title would read its first string"}},
       {"no string",
        [&] { OpenTextSource(dir.Put("n.jsonl", "{\"n\": 1}")); },
        {"n.jsonl: line 1 at byte 0: the object has no \"text\", but \"n\""}},
       {"a number", [&] { OpenTextSource(path, {}, "n"); }, {"a.jsonl: line 1 at byte 0: \"n\" is not a string"}},
       {"another name", [&] { OpenTextSource(dir.Put("b.txt", lines), {}, "content"); }, {".jsonl"}}},
      ErrorKind::kData);
  testing::ExpectError([&] { OpenFileCorpus({.path = plain, .text_field = "content"}); }, ErrorKind::kUsage,
                       {"text_field", "content is a field of JSON lines"});
}

// ---- What a file is, by its name and its content ----

class TextKindTest : public ::testing::Test {
 protected:
  void ExpectRefused(const std::string& name, const std::string& bytes, const std::vector<std::string>& says) {
    SCOPED_TRACE(name);
    testing::ExpectError([&] { OpenTextSource(dir_.Put(name, bytes)); }, ErrorKind::kData, says);
  }
  TempDir dir_;
};

TEST_F(TextKindTest, WhatIsNoTextIsNamedWithWhatToDo) {
  const std::string rest(300, '\0');
  std::string tar = "novel.txt" + rest;
  tar.replace(257, 5, "ustar");
  const struct {
    std::string name, bytes, what, remedy;
  } kCases[] = {
      {"a.parquet", "PAR1" + rest, "is a Parquet file", "read_parquet"},
      {"a.arrow", "ARROW1" + rest, "is an Arrow file", "Dataset.from_file"},
      {"b.arrow", "\xFF\xFF\xFF\xFF" + rest, "is an Arrow file", "Dataset.from_file"},
      {"a.zip", "PK\3\4" + rest, "is a zip archive", "unzip"},
      {"a.zst", "\x28\xB5\x2F\xFD" + rest, "is packed by zstd", "unzstd"},
      {"a.bz2", "BZh9" + rest, "is packed by bzip2", "bunzip2"},
      {"a.xz", "\xFD\x37zXZ\0"s + rest, "is packed by xz", "unxz"},
      {"a.tar", tar, "is a tar archive", "tar -xf"},
      {"a.pdf", "%PDF-1.7\n" + rest, "is a PDF", "pdftotext"},
      {"a16.txt", "\xFF\xFEw\0o\0"s, "is text in UTF-16", "iconv -f UTF-16"},
      {"b16.txt", "\xFE\xFF\0w\0o"s, "is text in UTF-16", "iconv -f UTF-16"},
      {"a32.txt", "\xFF\xFE\0\0w\0\0\0"s, "is text in UTF-32", "iconv -f UTF-32"},
  };
  for (const auto& [name, bytes, what, remedy] : kCases) {
    ExpectRefused(name, bytes, {name, what, remedy});
    ExpectRefused("text.jsonl", bytes, {"text.jsonl", what, remedy});  // by content alone
    ExpectRefused("text.txt.gz", Gzip(bytes), {"text.txt.gz", what, remedy});
    if (name.ends_with(".txt")) continue;
    const std::string end = std::filesystem::path(name).extension();
    ExpectRefused("WORDS" + end, "words and more words", {"is named " + end + ", as ", remedy});  // by name alone
    testing::ExpectError([&, path = dir_ / name] { ReadText(path, 10'000); }, ErrorKind::kData, {what});
  }
  EXPECT_EQ(ReadText(dir_.Put("fine.txt.gz", Gzip("a,b\n1,2\n")), 100), "a,b\n1,2\n");  // who reads rows
}

TEST_F(TextKindTest, RowsAreNamedByNameAndByContent) {
  const std::string prose = "It was a dark night, and\nthe rain fell, in torrents,\n";
  const struct {
    const char *name, *bytes, *says;
  } kRefused[] = {
      {"a.csv", "just words\n", "is CSV, rows of columns"},
      {"A.CSV", "just words\n", "is CSV, rows of columns"},
      {"a.tsv", "just words\n", "is TSV, rows of columns"},
      {"a.txt", "text,label\n\"one, two\nthree \"\"four\"\"\",1\nfive,0\n", "is CSV by its content"},
      {"a.txt", ",text,label\r\n0,one,1\r\n1,two,0", "is CSV by its content"},
      {"a.txt", "text,label\none,1\ntw", "is CSV by its content"},  // cut off
      {"a.txt", "\xEF\xBB\xBF\"id\";\"text\"\n1;one, two\n", "is CSV by its content"},
      {"a.txt", "index\tsentence\n0\tit's 5\" long\n1\ttwo", "is TSV by its content"},
      {"a.txt", "one\teins\ntwo\tzwei\nthree\tdrei\n", "is TSV by its content"},
      {"a.json", "[{\"text\": \"one\"}]", "is a JSON list"},
      {"a.jsonl", " \n [1]", "is a JSON list"},
      {"a.txt", "[\n  {\"text\": \"one\"},\n  {\"text\": \"two\"}\n]", "is a JSON list"},
      {"a.txt", "[\"one \\\" two\", \"three\"]", "is a JSON list"},
      {"a.txt", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n", "is JSON lines by its content: rename it to .jsonl"},
  };
  for (const auto& [name, bytes, says] : kRefused) {
    ExpectRefused(name, bytes, {name, says});
    ExpectRefused(name + ".gz"s, Gzip(bytes), {name, says});
  }
  for (const std::string& text :
       {prose, "Romeo, Juliet\nand others\n"s, "one,two\nthree\n"s, "\tan indented line\n\tanother\n\tand one\n"s,
        "[Illustration]\n\nChapter 1\n"s, "[\"Yes,\" he said.]\n\"No.\"\n"s, "{not json}\nat all\n"s,
        "Milk,\nEggs,\nand bread\n"s, "a\tb\nno tab here\nc\td\n"s, "{\"name\": \"x\"}\n"s,
        "Words, words,words\nwords, words,words\n"s}) {
    EXPECT_NO_THROW(OpenTextSource(dir_.Put("prose.txt", text))) << text;
  }
}

}  // namespace crosstalk::text_section_test
