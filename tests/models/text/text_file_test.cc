#include "crosstalk/models/text/text_file.h"

#include "crosstalk/models/text/corpus.h"
#include "tests/support/messages.h"
#include "tests/support/packed.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::text_file_test {

using namespace std::string_literals;

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
    testing::ExpectError([&] { ReadText(dir_ / name, 10'000); }, ErrorKind::kData, {what});
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

}  // namespace crosstalk::text_file_test
