#include "crosstalk/models/text/sentences.h"

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::sentences_test {

using Texts = std::vector<std::string>;

Texts Split(const std::string& text) {
  Texts sentences;
  for (const TextRange& range : SplitSentences(text)) sentences.push_back(SentenceText(text, range));
  return sentences;
}

// Sentences with " | " between.
TEST(SentencesTest, EachTextHasItsSentences) {
  const std::pair<const char*, const char*> kCases[] = {
      // A mark and a space end a sentence.
      {"He came. She went! Why? Nobody… Well.", "He came. | She went! | Why? | Nobody… | Well."},
      {"  One line\nand its\t end.  Two. \n", "One line and its end. | Two."},
      {"Version 3.14 of www.site.org. It runs... Fast?! Yes",
       "Version 3.14 of www.site.org. | It runs... | Fast?! | Yes"},
      {"", ""},
      {" \n\n ", ""},
      // Closing marks belong to the sentence, and opening ones to the next.
      {"\"Stop!\" He did. (And then?) \"Go.\" 'Why?' [Sic.] «Non.» “So.”",
       "\"Stop!\" | He did. | (And then?) | \"Go.\" | 'Why?' | [Sic.] | «Non.» | “So.”"},
      {"\"Stop!\" he cried. \"Why?\" — asked she. Oh! , no.",
       "\"Stop!\" he cried. | \"Why?\" — asked she. | Oh! , no."},
      // Abbreviations and initials go on.
      {"Mr. Smith met Dr. J. B. Jones at St. Paul's. So did I. They left.",
       "Mr. Smith met Dr. J. B. Jones at St. Paul's. | So did I. | They left."},
      {"Gen. Lee, cf. Fig. 3, won. Amr. Then?", "Gen. Lee, cf. Fig. 3, won. | Amr. | Then?"},
      {"Is it Mr.? Yes. Was it Mr.\" No.", "Is it Mr.? | Yes. | Was it Mr.\" | No."},
      // A blank line ends a paragraph.
      {"A title\n\nA text of two\nlines\n \t\nmore\r\n\r\nlast", "A title | A text of two lines | more | last"},
      // Other scripts have their marks.
      {"他来了。她走了！「为什么？」没人知道", "他来了。 | 她走了！ | 「为什么？」 | 没人知道"},
      {"Он пришёл. Она ушла, т. е. исчезла. — Да! — сказал он. Всё.",
       "Он пришёл. | Она ушла, т. е. исчезла. | — Да! — сказал он. | Всё."},
      {"वह आया। वह गई। क्यों?", "वह आया। | वह गई। | क्यों?"},
      {"هل جاء؟ نعم۔ ثم ذهب.", "هل جاء؟ | نعم۔ | ثم ذهب."},
      {"Ήρθε. Έφυγε; έμεινε. και", "Ήρθε. | Έφυγε; έμεινε. και"},
  };
  for (const auto& [text, sentences] : kCases) EXPECT_EQ(Join(Split(text), " | "), sentences);
}

TEST(SentencesTest, TextWithoutMarksIsCut) {
  std::string words, signs;
  for (int i = 0; i < 1000; ++i) {
    words += StrCat("word", i, " ");
    signs += "水";
  }
  std::string joined;
  for (const std::string& sentence : Split(words)) {
    EXPECT_LE(std::ssize(sentence), kLongestSentence);
    const bool last = joined.size() + sentence.size() + 1 == words.size();
    EXPECT_TRUE(last || std::ssize(sentence) > kLongestSentence - 10) << sentence;
    joined += sentence + " ";
  }
  EXPECT_EQ(joined, words);
  joined.clear();
  for (const std::string& sentence : Split(signs)) {
    EXPECT_LE(std::ssize(sentence), kLongestSentence);
    EXPECT_EQ(FindInvalidUtf8(sentence), std::string::npos);
    joined += sentence;
  }
  EXPECT_EQ(joined, signs);
}

// What a reader that asks for text piece by piece relies on, tried on texts that are made of what the rule looks at.
TEST(SentencesTest, TheSentencesOfABeginningAreThoseOfTheWhole) {
  const Texts pieces = {"a",  "B",  "Mr", ".", "?", "…",    "。", "\"", "”", "(",  "—",     " ",
                        "\n", "\n", " ",  "ж", "Ж", "word", ",",  "水", "I", "  ", "\t\t ", std::string(90, 'x')};
  for (int round = 0; round < 300; ++round) {
    RandomSequence random(RandomKey{1, 2, static_cast<uint32_t>(round)});
    std::string text;
    const size_t size = round % 3 == 0 ? 1500 : 120;
    while (text.size() < size) {
      const std::string& piece = pieces[random.UniformInt(pieces.size())];
      // Long runs of one piece reach past the longest sentence.
      for (uint64_t n = random.UniformInt(round % 10 == 0 ? 300 : 2) + 1; n > 0; --n) text += piece;
    }
    const std::vector<TextRange> whole = SplitSentences(text);
    for (const TextRange& range : whole) EXPECT_LE(range.end - range.begin, 2 * kLongestSentence);
    for (size_t cut = 0; cut < text.size(); cut += 1 + text.size() / 150) {
      if (IsUtf8Continuation(text[cut])) continue;
      std::vector<TextRange> part = SplitSentences(std::string_view(text).substr(0, cut));
      if (!part.empty()) part.pop_back();
      ASSERT_LE(part.size(), whole.size());
      ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << text << "\ncut at " << cut;
    }
  }
}

// Sentence k of document d is "Ddd says sk.", so that each says where it stands.
std::string Document(int d, int sentences) {
  std::string text;
  for (int k = 0; k < sentences; ++k) text += StrCat("D", 100 + d, " says s", k, k % 3 == 2 ? ".\n" : ". ");
  return text;
}
int DocumentOf(const EncodedSentence& sentence) { return std::stoi(sentence.text.substr(1)) - 100; }
int NumberOf(const EncodedSentence& sentence) {
  return std::stoi(sentence.text.substr(sentence.text.find(" s", 6) + 2));
}

void WriteDocuments(const std::string& path, int documents, int (*sentences)(int d)) {
  std::ofstream file(path);
  for (int d = 0; d < documents; ++d) {
    std::string text = Document(d, sentences(d));
    for (char& c : text) c = c == '\n' ? ' ' : c;
    file << "{\"text\": \"" << text << "\"}\n";
  }
}

std::shared_ptr<const Tokenizer> Bytes() { return MakeByteTokenizer(0); }

// Each read is a run of consecutive sentences of one document, as long as is asked for or up to the document's end.
void ExpectRuns(const SentenceDataset& dataset, int64_t places, int64_t tokens, int (*sentences)(int d),
                std::set<std::string>* seen) {
  for (int64_t place = 0; place < places; ++place) {
    const std::vector<EncodedSentence> read = dataset.Read(place, tokens);
    ASSERT_FALSE(read.empty());
    int64_t count = 0;
    for (size_t i = 0; i < read.size(); ++i) {
      EXPECT_LT(count, tokens) << "more sentences than are asked for";
      EXPECT_EQ(read[i].ids, Bytes()->Encode(read[i].text));
      EXPECT_EQ(DocumentOf(read[i]), DocumentOf(read[0]));
      EXPECT_EQ(NumberOf(read[i]), NumberOf(read[0]) + static_cast<int>(i));
      EXPECT_EQ(read[i].text, StrCat("D", 100 + DocumentOf(read[i]), " says s", NumberOf(read[i]), "."));
      count += std::ssize(read[i].ids);
      seen->insert(read[i].text);
    }
    const bool to_end = NumberOf(read.back()) + 1 == sentences(DocumentOf(read[0]));
    EXPECT_TRUE(count >= tokens || to_end) << read.back().text;
    // What is cut off at the end of a document is long enough, or all of it.
    EXPECT_TRUE(2 * count >= tokens || NumberOf(read[0]) == 0) << read[0].text;
  }
}

TEST(SentenceDatasetTest, LongDocumentsAreReadEverywhereAndNeverAcross) {
  const auto sentences = [](int d) { return 40 + d % 5; };
  const TempDir dir;
  for (const TextSource::Order order : {TextSource::Order::kShuffled, TextSource::Order::kSequential}) {
    WriteDocuments(dir / "long.jsonl", 12, sentences);
    const SentenceDataset dataset(OpenTextSource(dir / "long.jsonl"), Bytes(), 120, 3, order);
    std::set<std::string> seen;
    ExpectRuns(dataset, 6 * dataset.num_places(), 120, sentences, &seen);
    int all = 0;
    for (int d = 0; d < 12; ++d) all += sentences(d);
    EXPECT_GE(std::ssize(seen), all - (order == TextSource::Order::kShuffled ? 5 : 48));
  }
}

TEST(SentenceDatasetTest, ShortDocumentsAreGivenWholeAndFilesAreDocuments) {
  const auto few = [](int d) { return 1 + d % 3; };
  const TempDir dir, files;
  WriteDocuments(dir / "short.jsonl", 90, few);
  const SentenceDataset dataset(OpenTextSource(dir / "short.jsonl"), Bytes(), 125, 3, TextSource::Order::kShuffled);
  std::set<std::string> seen;
  ExpectRuns(dataset, 60 * dataset.num_places(), 125, few, &seen);
  EXPECT_EQ(seen.size(), 180u);
  const auto some = [](int d) { return 3 + 20 * (d % 2); };
  for (int d = 0; d < 10; ++d) files.Put(StrCat(100 + d, ".txt"), Document(d, some(d)));
  const SentenceDataset of_files(OpenTextSource(files.path()), Bytes(), 100, 3, TextSource::Order::kSequential);
  ExpectRuns(of_files, 2 * of_files.num_places(), 100, some, &seen);
}

// So long that the first piece of text that is read often ends within the sentence that is asked for.
TEST(SentenceDatasetTest, LongSentencesAreWhole) {
  const TempDir dir;
  std::ofstream file(dir / "long.txt");
  for (int i = 0; i < 200; ++i) file << "Begin" << std::string(380, 'x') << " end" << i << ". ";
  file.close();
  const SentenceDataset dataset(OpenTextSource(dir / "long.txt"), Bytes(), 100, 3, TextSource::Order::kShuffled);
  for (int64_t place = 0; place < 300; ++place) {
    for (const EncodedSentence& sentence : dataset.Read(place, 100)) {
      EXPECT_TRUE(sentence.text.starts_with("Begin") && sentence.text.ends_with(".")) << sentence.text;
    }
  }
}

TEST(SentenceDatasetTest, AReadIsAFunctionOfItsArguments) {
  const TempDir dir;
  WriteDocuments(dir / "text.jsonl", 30, [](int d) { return 1 + d; });
  const auto read = [&](uint64_t seed, int64_t place) {
    const SentenceDataset dataset(OpenTextSource(dir / "text.jsonl"), Bytes(), 80, seed, TextSource::Order::kShuffled);
    std::string all;
    for (const EncodedSentence& sentence : dataset.Read(place, 80)) all += sentence.text;
    return all;
  };
  EXPECT_EQ(read(1, 7), read(1, 7));
  EXPECT_NE(read(1, 7), read(1, 8));
  EXPECT_NE(read(1, 7), read(2, 7));
}

TEST(SentenceDatasetTest, BuiltInStoriesBeginAtTheirBeginning) {
  const auto source = MakeSyntheticCorpus(1).training;
  const SentenceDataset dataset(source, Bytes(), 200, 3, TextSource::Order::kShuffled);
  EXPECT_EQ(dataset.num_places(), INT64_MAX);
  for (int64_t place = 0; place < 5; ++place) {
    const std::string first = dataset.Read(place, 200)[0].text;
    EXPECT_EQ(source->ReadSegment(0, place, 1, 300, TextSource::Order::kSequential).substr(0, first.size()), first);
  }
}

TEST(SentenceDatasetTest, AVeryShortTextIsReadRoundOrRefused) {
  const TempDir dir;
  const auto open = [](const std::string& path, int64_t tokens) {
    return SentenceDataset(OpenTextSource(path), Bytes(), tokens, 3, TextSource::Order::kShuffled);
  };
  const std::string one = dir.Put("one.txt", "A single sentence of some words, that is all there is of it");
  for (int64_t place = 0; place < 10; ++place) {
    for (const int64_t tokens : {1, 20, 59, 500}) EXPECT_FALSE(open(one, 20).Read(place, tokens).empty());
  }
  const std::string blank = dir.Put("blank.txt", std::string(300, ' '));
  testing::ExpectRefused({{"short", [&] { open(one, 500); }, {"too short for one example"}},
                          {"blank", [&] { open(blank, 20); }, {"there is no sentence in it"}}},
                         ErrorKind::kData);
}

// The order in which a dataset is read.

TEST(PermutationTest, VisitsEveryNumberOnce) {
  for (int64_t count : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000}) {
    for (uint32_t stream = 0; stream < 5; ++stream) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t value = PermutedIndex(i, count, {1, stream, 0});
        EXPECT_GE(value, 0);
        EXPECT_LT(value, count);
        seen.insert(value);
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
    }
  }
  const int64_t count = (int64_t{1} << 61) + 12345, last = PermutedIndex(count - 1, count, {1, 2, 3});
  EXPECT_TRUE(last >= 0 && last < count) << last;
  EXPECT_THROW(PermutedIndex(5, 5, {}), Error);
}

TEST(PermutationTest, TheKeyChoosesTheOrder) {
  int same = 0, fixed = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    same += PermutedIndex(i, 1000, {1, 0, 0}) == PermutedIndex(i, 1000, {1, 0, 1});
    fixed += PermutedIndex(i, 1000, {1, 0, 0}) == i;
  }
  // Two random orders agree in one place on average (Poisson: 10 or more has a chance of 1e-7).
  EXPECT_LT(same, 10);
  EXPECT_LT(fixed, 10);
}

}  // namespace crosstalk::sentences_test
