// Texts that the program makes: stories, and puzzles.
#include "crosstalk/models/text/synthetic/stories.h"

#include <gtest/gtest.h>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/synthetic/puzzles.h"
#include "crosstalk/models/text/synthetic/story_words.h"
#include "crosstalk/models/training/objectives/span_corruption.h"
#include "crosstalk/runtime/checksum.h"

namespace crosstalk::stories_test {

TEST(SyntheticCorpusTest, TheSameBytesOnEveryMachine) {
  Crc64 checksum;
  for (int64_t i = 0; i < 20; ++i) checksum.Update(WriteStory(42, i, 5000).text);
  EXPECT_EQ(ChecksumText(checksum.value()), "crc64:3fc97cb145ecd8a4");
}

TEST(SyntheticCorpusTest, ALongerStoryBeginsWithTheShorterOne) {
  for (int64_t i = 0; i < 10; ++i) {
    const Story shorter = WriteStory(1, i, 700), longer = WriteStory(1, i, 9000);
    EXPECT_GE(shorter.text.size(), 700u);
    EXPECT_GE(longer.text.size(), 9000u);
    EXPECT_TRUE(longer.text.starts_with(shorter.text));
    EXPECT_LT(shorter.nats, longer.nats);
  }
}

TEST(SyntheticCorpusTest, StoriesDifferBySeedIndexAndPart) {
  const TextCorpus corpus = MakeSyntheticCorpus(3);
  std::set<std::string> texts;
  for (int64_t i = 0; i < 50; ++i) {
    texts.insert(corpus.training->ReadSegment(0, i, 1, 500, TextSource::Order::kShuffled));
    texts.insert(corpus.validation->ReadSegment(0, i, 1, 500, TextSource::Order::kShuffled));
    texts.insert(WriteStory(4, i, 500).text);
  }
  EXPECT_EQ(texts.size(), 150u);
  EXPECT_EQ(corpus.training->ReadSegment(9, 7, 5, 500, TextSource::Order::kSequential), WriteStory(3, 7, 500).text);
  EXPECT_FALSE(corpus.training->num_bytes().has_value());
}

TEST(SyntheticCorpusTest, MentionsAreWhereTheySay) {
  const Story story = WriteStory(5, 0, 20000);
  int mentioned_again = 0;
  for (const WordChoice& choice : story.choices) {
    ASSERT_FALSE(choice.mentions.empty());  // every draw shows in the text
    mentioned_again += choice.mentions.size() > 1;
    for (const ChoiceMention& mention : choice.mentions) {
      std::string text = story.text.substr(mention.begin, mention.end - mention.begin);
      if (mention.column < 0) continue;
      std::string form(StoryRows(choice.table)[choice.row][mention.column]);
      if (mention.capitalised) form[0] = static_cast<char>(std::toupper(form[0]));
      EXPECT_EQ(text, form);
    }
  }
  EXPECT_GT(mentioned_again, 100);
}

TEST(SyntheticCorpusTest, TablesHaveDistinctRowsOfTheSameForms) {
  for (int table = 0; table < kStoryTables; ++table) {
    std::set<StoryRow> rows;
    for (const StoryRow& row : StoryRows(table)) {
      rows.insert(row);
      EXPECT_EQ(row.size(), StoryRows(table)[0].size());
    }
    EXPECT_EQ(rows.size(), StoryRows(table).size());
    EXPECT_GE(rows.size(), 3u);
  }
}

TEST(SyntheticCorpusTest, EntropyBoundCountsAWordHiddenEverywhereAndNothingElse) {
  // Stories with byte tokens: every token is visible but those of one choice's mentions.
  const std::shared_ptr<const Tokenizer> tokenizer = MakeByteTokenizer();
  const Story story = WriteStory(9, 0, 3000);
  const std::vector<TokenSpan> tokens = tokenizer->EncodeSpans(story.text);
  const std::vector<bool> nothing(tokens.size(), false);
  EXPECT_EQ(StoryEntropyBound(story, tokens, nothing, *tokenizer), 0);

  int single = 0, repeated = 0, derived = 0;
  for (const WordChoice& choice : story.choices) {
    std::vector<bool> hidden = nothing;
    bool has_derived = false;
    for (const ChoiceMention& mention : choice.mentions) {
      has_derived |= mention.column < 0;
      std::fill(hidden.begin() + mention.begin, hidden.begin() + mention.end, true);
    }
    // With bytes, the rows that remain are those of as many bytes in every form.
    int rows = 0;
    for (const StoryRow& row : StoryRows(choice.table)) {
      bool fits = true;
      for (const ChoiceMention& mention : choice.mentions) {
        fits &= mention.column >= 0 && static_cast<int64_t>(row[mention.column].size()) == mention.end - mention.begin;
      }
      for (const WordChoice& other : story.choices) {
        fits &= &other == &choice || choice.group < 0 || other.table != choice.table || other.group != choice.group ||
                StoryRows(other.table)[other.row] != row;
      }
      rows += fits;
    }
    const double nats = StoryEntropyBound(story, tokens, hidden, *tokenizer);
    if (has_derived) {
      EXPECT_EQ(nats, 0);
      ++derived;
      continue;
    }
    EXPECT_NEAR(nats, std::log(static_cast<double>(rows)), 1e-12);
    ++(choice.mentions.size() > 1 ? repeated : single);
    if (choice.mentions.size() > 1) {  // one mention in view tells all
      std::fill(hidden.begin() + choice.mentions[1].begin, hidden.begin() + choice.mentions[1].end, false);
      EXPECT_EQ(StoryEntropyBound(story, tokens, hidden, *tokenizer), 0);
    }
    hidden = nothing;  // half a word in view does, too
    std::fill(hidden.begin() + choice.mentions[0].begin + 1, hidden.begin() + choice.mentions[0].end, true);
    EXPECT_EQ(StoryEntropyBound(story, tokens, hidden, *tokenizer), 0);
  }
  EXPECT_GT(single, 20);
  EXPECT_GT(repeated, 10);
  EXPECT_GT(derived, 0);
}

TEST(SyntheticCorpusTest, TheSourceBoundsTheLossOfItsChunksBelowTheEntropyOfTheStory) {
  const std::shared_ptr<const Tokenizer> tokenizer = MakeByteTokenizer();
  const ChunkDataset dataset(MakeSyntheticCorpus(3).training, tokenizer, 400, 0, TextSource::Order::kSequential);
  const std::vector<bool> hidden(400, true);
  for (int64_t i = 0; i < 20; ++i) {
    const ChunkLocation chunk = dataset.LocateChunk(i);
    const Story story = WriteStory(3, i, static_cast<int64_t>(chunk.text.size()));
    ASSERT_EQ(story.text, chunk.text);
    const std::optional<double> bound = dataset.EntropyBound(i, hidden);
    ASSERT_TRUE(bound.has_value());
    EXPECT_GT(*bound, 0);
    EXPECT_LT(*bound, story.nats);
    EXPECT_EQ(*bound, StoryEntropyBound(story, chunk.tokens, hidden, *tokenizer));
    EXPECT_EQ(dataset.EntropyBound(i, std::vector<bool>(400, false)), 0);
  }
}

// ---- Puzzles ----

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

}  // namespace crosstalk::stories_test
