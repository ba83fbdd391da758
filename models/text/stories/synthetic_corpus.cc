#include "crosstalk/models/text/stories/synthetic_corpus.h"

#include "crosstalk/models/text/stories/story_entropy_bound.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// The validation part is the same sequence of stories, from here on.
constexpr int64_t kFirstValidationStory = int64_t{1} << 62;

}  // namespace

std::string SyntheticSource::Describe() const {
  return StrCat("built-in stories, seed ", seed_, first_ == 0 ? ", training part" : ", validation part");
}

std::string SyntheticSource::ReadSegment(uint64_t, int64_t example, int64_t, int64_t min_bytes, Order) const {
  return WriteStory(seed_, first_ + example, min_bytes).text;
}

std::optional<double> SyntheticSource::LossLowerBound(int64_t example, const ChunkLocation& chunk,
                                                      const std::vector<bool>& hidden,
                                                      const Tokenizer& tokenizer) const {
  const Story story = WriteStory(seed_, first_ + example, static_cast<int64_t>(chunk.text.size()));
  return StoryEntropyBound(story, chunk.tokens, hidden, tokenizer);
}

TextCorpus MakeSyntheticCorpus(uint64_t seed) {
  return {std::make_shared<SyntheticSource>(seed, 0), std::make_shared<SyntheticSource>(seed, kFirstValidationStory),
          StrCat("built-in stories, seed ", seed)};
}

StoryEntropy MeasureStoryEntropy(uint64_t seed, int64_t stories, int64_t bytes, const Tokenizer* tokenizer) {
  CROSSTALK_CHECK(stories > 0 && bytes > 0, "entropy of stories: at least one story and one byte, not ", stories,
                  " and ", bytes);
  double nats = 0;
  int64_t total_bytes = 0, words = 0, tokens = 0;
  for (int64_t i = 0; i < stories; ++i) {
    const Story story = WriteStory(seed, i, bytes);
    nats += story.nats;
    total_bytes += static_cast<int64_t>(story.text.size());
    bool in_word = false;
    for (const char c : story.text) {
      const bool space = c == ' ' || c == '\n';
      words += !space && !in_word;
      in_word = !space;
    }
    if (tokenizer != nullptr) tokens += static_cast<int64_t>(tokenizer->Encode(story.text).size());
  }
  return {nats / total_bytes, nats / words, tokens > 0 ? nats / tokens : 0.0};
}

}  // namespace crosstalk
