#include "crosstalk/models/text/synthetic/stories.h"

#include <gtest/gtest.h>

#include "crosstalk/models/text/dataset.h"
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

TEST(SyntheticCorpusTest, AByteHasSoManyNats) {
  double nats = 0, bytes = 0;
  for (int64_t i = 0; i < 30; ++i) {
    const Story story = WriteStory(1, i, 3000);
    nats += story.nats;
    bytes += static_cast<double>(story.text.size());
  }
  EXPECT_GT(nats / bytes, 0.1);
  EXPECT_LT(nats / bytes, 0.2);
}

TEST(SyntheticCorpusTest, EntropyBoundCountsAWordHiddenEverywhereAndNothingElse) {
  // Stories with byte tokens: every token is visible but those of one choice's mentions.
  const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
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

}  // namespace crosstalk::stories_test
