#include "crosstalk/models/text/synthetic/synthetic_corpus.h"

#include "crosstalk/models/text/synthetic/story_entropy_bound.h"
#include "crosstalk/models/text/synthetic/story_writer.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// The validation part is the same sequence of stories, from here on.
constexpr int64_t kFirstValidationStory = int64_t{1} << 62;

}  // namespace

std::string SyntheticSource::Describe() const {
  return StrCat("built-in stories, seed ", seed_, first_ == 0 ? ", training part" : ", validation part");
}

TextSegment SyntheticSource::ReadDocuments(uint64_t, int64_t example, int64_t, int64_t min_bytes, Order) const {
  return {WriteStory(seed_, first_ + example, min_bytes).text, {0}};
}

std::optional<double> SyntheticSource::EntropyBound(int64_t example, const ChunkLocation& chunk,
                                                    const std::vector<bool>& hidden, const Tokenizer& tokenizer) const {
  const Story story = WriteStory(seed_, first_ + example, static_cast<int64_t>(chunk.text.size()));
  return StoryEntropyBound(story, chunk.tokens, hidden, tokenizer);
}

TextCorpus MakeSyntheticCorpus(uint64_t seed) {
  return {std::make_shared<SyntheticSource>(seed, 0), std::make_shared<SyntheticSource>(seed, kFirstValidationStory),
          StrCat("built-in stories, seed ", seed)};
}

}  // namespace crosstalk
