#include "crosstalk/models/text/bpe_training.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "crosstalk/models/text/bpe_tokenizer.h"
#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/models/text/tokenizer_files.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::bpe_training_test {

constexpr int64_t kSample = 30'000;

std::vector<std::string> MergesOf(const Tokenizer& tokenizer) {
  const Json file = ParseJson(tokenizer.PublishedFiles()[0].contents, "tokenizer.json");
  std::vector<std::string> merges;
  for (const Json& merge : file.At("model").At("merges").AsArray()) merges.push_back(merge.AsString());
  return merges;
}

// The definition: all pairs are counted before each merge.
std::vector<std::string> MergesByCounting(const TextSource& source, size_t most) {
  SegmentSampler samples = SegmentSampler::Covering(source, 64 << 10, kSample);
  std::map<std::vector<std::string>, int64_t> words;
  std::map<std::string, int> ids;
  MatchMemory memory;
  const SplitPattern pattern({std::string(kGpt2Pattern)}, "gpt2");
  for (std::string text; samples.Next(&text);) {
    std::vector<PieceRange> pieces;
    pattern.Cut(text, {0, text.size()}, &memory, &pieces);
    for (const PieceRange& piece : pieces) {
      std::vector<std::string> word;
      for (size_t i = piece.begin; i < piece.end; ++i) word.push_back(ToByteAlphabet(text.substr(i, 1)));
      ++words[word];
    }
  }
  // The bytes come first, by their characters.
  std::map<std::string, int> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes[ToByteAlphabet(std::string(1, static_cast<char>(byte)))] = 0;
  for (const auto& [text, none] : bytes) ids.emplace(text, static_cast<int>(ids.size()));
  std::vector<std::string> merges;
  while (merges.size() < most) {
    std::map<std::pair<std::string, std::string>, int64_t> counts;
    for (const auto& [word, count] : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) counts[{word[i], word[i + 1]}] += count;
    }
    std::pair<std::string, std::string> best;
    int64_t highest = 1;
    const auto ids_of = [&](const auto& pair) { return std::pair(ids[pair.first], ids[pair.second]); };
    for (const auto& [pair, count] : counts) {
      const bool earlier = count == highest && count > 1 && ids_of(pair) < ids_of(best);
      if (count > highest || earlier) best = pair, highest = count;
    }
    if (highest < 2) break;
    merges.push_back(best.first + " " + best.second);
    ids.emplace(best.first + best.second, static_cast<int>(ids.size()));
    std::map<std::vector<std::string>, int64_t> merged;
    for (const auto& [word, count] : words) {
      std::vector<std::string> next;
      for (size_t i = 0; i < word.size(); ++i) {
        const bool here = i + 1 < word.size() && word[i] == best.first && word[i + 1] == best.second;
        next.push_back(here ? word[i] + word[i + 1] : word[i]);
        i += here;
      }
      merged[next] += count;
    }
    words = std::move(merged);
  }
  return merges;
}

std::shared_ptr<const TextSource> SourceOf(const std::string& text) {
  const TempDir dir;
  WriteFileAtomically(dir / "text.txt", text);
  WriteFileAtomically(dir / "held.txt", "held out");
  return OpenFileCorpus({.path = dir / "text.txt", .validation_path = dir / "held.txt"}, {}).training;
}

TEST(BpeTrainingTest, MergesAreThoseOfTheDefinition) {
  const TextCorpus corpus = MakeSyntheticCorpus(3);
  const std::shared_ptr<const Tokenizer> tokenizer =
      TrainBpeTokenizer(*corpus.training, {.vocab_size = 420, .max_sample_bytes = kSample}, 0);
  EXPECT_EQ(tokenizer->vocab_size(), 420);
  EXPECT_EQ(MergesOf(*tokenizer), MergesByCounting(*corpus.training, 420 - 258));
  // Runs of one letter, and pieces that two merges make.
  std::string runs;
  for (int i = 0; i < 60; ++i)
    runs += StrCat(std::string(static_cast<size_t>(i * 7 % 11), 'a'), i % 3 == 0 ? "abc" : "bca", " ");
  const std::shared_ptr<const TextSource> source = SourceOf(runs);
  EXPECT_EQ(MergesOf(*TrainBpeTokenizer(*source, {.vocab_size = 300, .max_sample_bytes = kSample}, 0)),
            MergesByCounting(*source, 300 - 258));
}

TEST(BpeTrainingTest, EachObjectiveHasItsTokensAndAllIsKeptAndPublished) {
  const TextCorpus corpus = MakeSyntheticCorpus(3);
  const std::string text = corpus.training->ReadSegment(1, 3, 500, 500, TextSource::Order::kShuffled);
  for (const MaskTokens mask_tokens : {MaskTokens::kNo, MaskTokens::kYes}) {
    for (const int sentinels : {0, 7}) {
      const std::shared_ptr<const Tokenizer> tokenizer = TrainBpeTokenizer(
          *corpus.training, {.vocab_size = 400, .max_sample_bytes = kSample, .mask_tokens = mask_tokens}, sentinels);
      SpecialTokens expected = {.pad = 0, .end = 1, .unknown = kNoToken, .decoder_start = 0};
      if (mask_tokens == MaskTokens::kYes) expected = WithMaskTokens(expected, 2);
      EXPECT_EQ(tokenizer->special_tokens(), expected);
      EXPECT_EQ(tokenizer->vocab_size(), 400 + sentinels);
      EXPECT_EQ(tokenizer->num_sentinels(), sentinels);
      for (int k = 0; k < sentinels; ++k) EXPECT_EQ(tokenizer->Sentinel(k), 400 + sentinels - 1 - k);
      const std::vector<int32_t> ids = tokenizer->Encode(text + "\xFF caf\u00e9 \U0001F600\n");
      EXPECT_EQ(tokenizer->Decode(ids), text + "\xFF caf\u00e9 \U0001F600\n");
      EXPECT_EQ(EncodePair(*tokenizer, "a", "b").tokens.size(), mask_tokens == MaskTokens::kYes ? 5u : 4u);
      CheckKept(*tokenizer, 3);
      const TempDir dir;
      for (const auto& [name, contents] : tokenizer->PublishedFiles()) WriteFileAtomically(dir / name, contents);
      EXPECT_EQ(TokenizerDifference(*tokenizer, *OpenTokenizer(dir.path(), 0)), "");
    }
  }
}

TEST(BpeTrainingTest, APoorTextGivesFewerPiecesAndAnEmptyOneNone) {
  // The pair of x and y stands there once.
  EXPECT_EQ(MergesOf(*TrainBpeTokenizer(*SourceOf("ab ab\nxy"), {.vocab_size = 300}, 0)),
            (std::vector<std::string>{"a b"}));
  const TextCorpus corpus = MakeSyntheticCorpus(3);
  testing::ExpectError([&] { TrainBpeTokenizer(*corpus.training, {.vocab_size = 261}); }, ErrorKind::kUsage,
                       {"vocabulary", "261"});
  EXPECT_THROW(TrainBpeTokenizer(*corpus.training, {.vocab_size = 400}, 0, [] { return true; }), Interrupted);
}

}  // namespace crosstalk::bpe_training_test
