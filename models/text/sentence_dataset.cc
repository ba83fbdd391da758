#include "crosstalk/models/text/sentence_dataset.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "crosstalk/models/text/sentences.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// A document, or a part of one, within a segment.
struct Part {
  std::string_view text;
  bool from_beginning;
  bool to_end;
};

// Of the text of a ring, the last part goes to its end.
std::vector<Part> PartsOf(const TextSegment& segment, bool is_ring) {
  std::vector<Part> parts;
  const std::string_view text = segment.text;
  const std::vector<int64_t>& begins = segment.document_begins;
  if (begins.empty() || begins[0] > 0) {
    parts.push_back({text.substr(0, begins.empty() ? text.size() : begins[0]), false, !begins.empty() || is_ring});
  }
  for (size_t i = 0; i < begins.size(); ++i) {
    const bool last = i + 1 == begins.size();
    const int64_t end = last ? std::ssize(text) : begins[i + 1];
    parts.push_back({text.substr(begins[i], end - begins[i]), true, !last || is_ring});
  }
  return parts;
}

}  // namespace

SentenceDataset::SentenceDataset(std::shared_ptr<const TextSource> source, std::shared_ptr<const Tokenizer> tokenizer,
                                 int64_t length, uint64_t seed, TextSource::Order order)
    : source_(std::move(source)), tokenizer_(std::move(tokenizer)), seed_(seed), order_(order) {
  CROSSTALK_CHECK(length >= 1, "dataset: places ", length, " tokens apart; must be at least 1");
  places_ = PlacesOf(*source_, *tokenizer_, length, length);
  Read(0, 1);  // that there is a sentence at all
}

std::vector<EncodedSentence> SentenceDataset::Read(int64_t place, int64_t tokens) const {
  const int64_t total = source_->num_bytes().value_or(std::numeric_limits<int64_t>::max());
  const auto likely = static_cast<int64_t>(places_.bytes_per_token * static_cast<double>(tokens));
  std::vector<EncodedSentence> sentences;
  // Sentence by sentence, from `text` on; true once they have as many tokens as are wanted.
  int64_t count = 0;
  const auto take = [&](std::string_view text, const std::vector<TextRange>& ranges) {
    for (const TextRange& range : ranges) {
      EncodedSentence sentence;
      sentence.spaced = range.begin == 0 || IsAsciiSpace(text[static_cast<size_t>(range.begin - 1)]);
      sentence.text = SentenceText(text, range);
      sentence.ids = tokenizer_->Encode(sentence.text);
      if (sentence.ids.empty()) continue;
      count += std::ssize(sentence.ids);
      sentences.push_back(std::move(sentence));
      if (count >= tokens) return true;
    }
    return false;
  };
  const auto start = [&] {
    sentences.clear();
    count = 0;
  };
  // The first guess holds an average text with the sentences at its ends that are left out.
  for (int64_t bytes = std::min(total, likely + likely / 4 + kLongestSentence);; bytes = std::min(total, 2 * bytes)) {
    const TextSegment segment = source_->ReadDocuments(seed_, place, places_.stride, bytes, order_);
    const bool is_ring = bytes == total;
    for (const Part& part : PartsOf(segment, is_ring)) {
      start();
      std::vector<TextRange> ranges = SplitSentences(part.text);
      // Where text is cut off on either side, so is the sentence there.
      if (!part.to_end && !ranges.empty()) ranges.pop_back();
      if (!part.from_beginning && !ranges.empty()) ranges.erase(ranges.begin());
      if (take(part.text, ranges)) return sentences;
      if (!part.to_end) break;  // it takes more text
      if (!sentences.empty() && (part.from_beginning || 2 * count >= tokens)) return sentences;
    }
    if (!is_ring) continue;
    // Not even one whole sentence: what there is.
    start();
    take(segment.text, SplitSentences(segment.text));
    if (sentences.empty()) Fail(ErrorKind::kData, source_->Describe(), ": there is no sentence in it");
    return sentences;
  }
}

}  // namespace crosstalk
