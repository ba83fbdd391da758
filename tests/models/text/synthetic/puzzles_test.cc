#include "crosstalk/models/text/synthetic/puzzles.h"

#include <gtest/gtest.h>

#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk::puzzles_test {

// The first line of an example, without its end, and what it asks for as '*' over the letter.
struct Line {
  std::string text, asked;
};
Line LineOf(CorpusKind kind, int64_t example) {
  const Puzzles puzzles = WritePuzzles(kind, 3, example, 1);
  Line line = {puzzles.text.substr(0, puzzles.text.size() - 1), ""};
  EXPECT_EQ(puzzles.asked.size(), puzzles.text.size());
  EXPECT_EQ(puzzles.text.back(), '\n');
  EXPECT_FALSE(puzzles.asked.back());
  for (size_t i = 0; i < line.text.size(); ++i) line.asked += puzzles.asked[i] ? '*' : ' ';
  return line;
}

TEST(PuzzlesTest, RetrievalAsksForTheValueOfEachKey) {
  std::set<std::string> orders;
  for (int64_t example = 0; example < 50; ++example) {
    const Line line = LineOf(CorpusKind::kRetrieval, example);
    ASSERT_EQ(line.text.size(), 61u);
    std::map<char, char> values;
    for (size_t i = 0; i < 30; i += 2) values[line.text[i]] = line.text[i + 1];
    ASSERT_EQ(values.size(), 15u);  // no key twice
    std::string keys;
    for (size_t i = 31; i < 61; i += 2) {
      ASSERT_EQ(values.count(line.text[i]), 1u);
      EXPECT_EQ(line.text[i + 1], values.at(line.text[i]));
      keys += line.text[i];
    }
    EXPECT_EQ(std::set<char>(keys.begin(), keys.end()).size(), 15u);
    orders.insert(keys);
    std::string asked(31, ' ');
    for (int i = 0; i < 15; ++i) asked += " *";
    EXPECT_EQ(line.asked, asked);
  }
  EXPECT_EQ(orders.size(), 50u);
}

TEST(PuzzlesTest, CopyingAsksForAllOfTheCopy) {
  const Line line = LineOf(CorpusKind::kCopying, 7);
  ASSERT_EQ(line.text.size(), 63u);
  EXPECT_EQ(line.text.substr(0, 31), line.text.substr(32));
  EXPECT_EQ(line.asked, std::string(32, ' ') + std::string(31, '*'));
}

TEST(PuzzlesTest, LetterBlocksAskForTheFirstBlockThatHasBoth) {
  std::set<size_t> answers;
  for (int64_t example = 0; example < 50; ++example) {
    const Line line = LineOf(CorpusKind::kLetterBlocks, example);
    const size_t questions = line.text.find('?');
    ASSERT_EQ(questions, 29u);
    std::vector<std::string> blocks;
    std::istringstream words(line.text.substr(0, questions));
    for (std::string block; words >> block;) blocks.push_back(block);
    ASSERT_EQ(blocks.size(), 6u);
    for (const std::string& block : blocks) EXPECT_EQ(std::set<char>(block.begin(), block.end()).size(), 4u);
    ASSERT_EQ(line.text.size(), questions + 3 * 7);
    for (size_t i = questions; i < line.text.size(); i += 7) {
      EXPECT_EQ(line.text[i], '?');
      EXPECT_NE(line.text[i + 1], line.text[i + 2]);
      EXPECT_EQ(line.asked.substr(i, 7), "   ****");
      const auto has_both = [&](const std::string& block) {
        return block.find(line.text[i + 1]) != std::string::npos && block.find(line.text[i + 2]) != std::string::npos;
      };
      const auto first = std::find_if(blocks.begin(), blocks.end(), has_both);
      ASSERT_NE(first, blocks.end());
      EXPECT_EQ(line.text.substr(i + 3, 4), *first);
      answers.insert(static_cast<size_t>(first - blocks.begin()));
    }
  }
  EXPECT_EQ(answers.size(), 6u);
}

TEST(PuzzlesTest, LongerTextBeginsWithTheShorter) {
  for (const CorpusKind kind : {CorpusKind::kRetrieval, CorpusKind::kCopying, CorpusKind::kLetterBlocks}) {
    const Puzzles shorter = WritePuzzles(kind, 3, 11, 40), longer = WritePuzzles(kind, 3, 11, 500);
    EXPECT_GE(longer.text.size(), 500u);
    EXPECT_EQ(longer.text.substr(0, shorter.text.size()), shorter.text);
    EXPECT_NE(WritePuzzles(kind, 3, 12, 40).text, shorter.text);
    EXPECT_NE(WritePuzzles(kind, 4, 11, 40).text, shorter.text);
  }
}

TEST(PuzzlesTest, ThePartsHaveNoExampleInCommon) {
  const TextCorpus corpus = MakePuzzleCorpus(CorpusKind::kCopying, 0);
  const auto first = [](const TextSource& source) {
    return source.ReadSegment(0, 0, 1, 60, TextSource::Order::kShuffled);
  };
  EXPECT_NE(first(*corpus.training), first(*corpus.validation));
  EXPECT_EQ(corpus.description, "built-in copying, seed 0");
  EXPECT_EQ(corpus.validation->Describe(), "built-in copying, seed 0, validation part");
}

// A longer token is asked for where all of its bytes are.
TEST(PuzzlesTest, TokensAreAskedForAndBoundByTheirBytes) {
  const TextCorpus corpus = MakePuzzleCorpus(CorpusKind::kCopying, 0);
  const std::string text = corpus.training->ReadSegment(0, 5, 1, 60, TextSource::Order::kShuffled);
  const ChunkLocation chunk = {text, {{1, 30, 32}, {1, 31, 33}, {1, 32, 34}, {1, 62, 64}, {1, 40, 40}}};
  EXPECT_FALSE(corpus.training->asks_for_all());
  EXPECT_EQ(corpus.training->AskedFor(5, chunk), (std::vector<bool>{false, false, true, false, false}));
  const auto tokenizer = MakeByteTokenizer(0);
  EXPECT_EQ(corpus.training->EntropyBound(5, chunk, {false, false, true, false, false}, *tokenizer), 0);
  EXPECT_EQ(corpus.training->EntropyBound(5, chunk, {false, true, true, false, false}, *tokenizer), std::nullopt);
}

}  // namespace crosstalk::puzzles_test
