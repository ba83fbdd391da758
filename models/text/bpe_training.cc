#include "crosstalk/models/text/bpe_training.h"

#include <algorithm>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "crosstalk/models/text/bpe_tokenizer.h"
#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/split_pattern.h"
#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr int64_t kBpeSegmentBytes = 64 << 10;          // of a sample
constexpr int64_t kLeastCount = 2;                      // of a pair that is merged
constexpr size_t kMostPieceBytes = kMaxPieceBytes / 2;  // the alphabet has characters of two bytes
constexpr int kMergesBetweenStops = 256;

using WordCounts = std::unordered_map<std::string, int64_t>;

WordCounts CountWords(const TextSource& source, const BpeTraining& options, const StopRequest& stop) {
  const SplitPattern pattern({std::string(kGpt2Pattern)}, "the pattern of GPT-2");
  MatchMemory memory;
  WordCounts counts;
  std::vector<PieceRange> pieces;
  SegmentSampler samples = SegmentSampler::Covering(source, kBpeSegmentBytes, options.max_sample_bytes);
  for (std::string text; samples.Next(&text);) {
    ThrowIfStopped(stop);
    text = ReplaceInvalidUtf8(text);
    pieces.clear();
    pattern.Cut(text, {0, text.size()}, &memory, &pieces);
    for (const PieceRange& piece : pieces) ++counts[text.substr(piece.begin, piece.end - piece.begin)];
  }
  if (counts.empty()) Fail(ErrorKind::kData, "tokenizer: there is no text to train it on");
  return counts;
}

// The words of a text as ids, and the pairs in them.
class MergeLearner {
 public:
  // `ids` by byte; `pieces` by id, in the alphabet. Appends to both lists of the model.
  MergeLearner(const WordCounts& counts, const std::vector<int32_t>& ids, BpeModel* model) : model_(*model) {
    for (size_t id = 0; id < model_.pieces.size(); ++id) by_text_.emplace(model_.pieces[id], static_cast<int32_t>(id));
    for (const auto& [text, count] : counts) {
      Word word{{}, count};
      for (const char byte : text) word.ids.push_back(ids[static_cast<unsigned char>(byte)]);
      words_.push_back(std::move(word));
    }
    for (size_t i = 0; i < words_.size(); ++i) {
      Count(words_[i], 1);
      List(i, kNoToken);
    }
    for (const auto& [pair, count] : counts_) queue_.push({count, pair});
  }

  // Until there are `size` pieces.
  void Run(size_t size, const StopRequest& stop) {
    for (int merges = 0; model_.pieces.size() < size && !queue_.empty();) {
      const Candidate best = queue_.top();
      queue_.pop();
      const int64_t count = counts_[best.pair];
      if (count != best.count) {
        if (count < best.count && count >= kLeastCount) queue_.push({count, best.pair});
        continue;
      }
      if (count < kLeastCount) continue;
      const std::string text = model_.pieces[Left(best.pair)] + model_.pieces[Right(best.pair)];
      if (BytesOf(text).size() > kMostPieceBytes) continue;
      if (++merges % kMergesBetweenStops == 0) ThrowIfStopped(stop);
      Apply(best.pair, text);
    }
  }

 private:
  using Pair = std::pair<int32_t, int32_t>;
  struct PairHash {
    size_t operator()(const Pair& pair) const {
      return std::hash<uint64_t>()(static_cast<uint64_t>(pair.first) << 32 | static_cast<uint32_t>(pair.second));
    }
  };
  struct Word {
    std::vector<int32_t> ids;
    int64_t count;
  };
  struct Candidate {
    int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {  // the largest is the next
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  static size_t Left(const Pair& pair) { return static_cast<size_t>(pair.first); }
  static size_t Right(const Pair& pair) { return static_cast<size_t>(pair.second); }

  void Count(const Word& word, int sign) {
    for (size_t i = 0; i + 1 < word.ids.size(); ++i) counts_[{word.ids[i], word.ids[i + 1]}] += sign * word.count;
  }
  // Lists the word under its pairs that have `id`, or under all of them (kNoToken).
  void List(size_t number, int32_t id) {
    const std::vector<int32_t>& ids = words_[number].ids;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      if (id != kNoToken && ids[i] != id && ids[i + 1] != id) continue;
      std::vector<size_t>& list = places_[{ids[i], ids[i + 1]}];
      if (list.empty() || list.back() != number) list.push_back(number);
    }
  }

  void Apply(const Pair& pair, const std::string& text) {
    const auto [piece, is_new] = by_text_.emplace(text, static_cast<int32_t>(model_.pieces.size()));
    const int32_t id = piece->second;
    if (is_new) model_.pieces.push_back(text);
    model_.merges.push_back(pair);
    const std::vector<size_t> numbers = std::move(places_[pair]);
    places_.erase(pair);
    std::vector<Pair> grown;
    for (const size_t number : numbers) {
      Word& word = words_[number];
      Count(word, -1);
      size_t kept = 0;
      for (size_t i = 0; i < word.ids.size(); ++kept) {
        const bool here = i + 1 < word.ids.size() && word.ids[i] == pair.first && word.ids[i + 1] == pair.second;
        word.ids[kept] = here ? id : word.ids[i];
        i += here ? 2 : 1;
      }
      word.ids.resize(kept);
      Count(word, 1);
      List(number, id);
      for (size_t i = 0; i + 1 < word.ids.size(); ++i) {
        if (word.ids[i] == id || word.ids[i + 1] == id) grown.emplace_back(word.ids[i], word.ids[i + 1]);
      }
    }
    counts_.erase(pair);
    std::sort(grown.begin(), grown.end());
    grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
    for (const Pair& one : grown) queue_.push({counts_[one], one});
  }

  BpeModel& model_;
  std::vector<Word> words_;
  std::unordered_map<std::string, int32_t> by_text_;
  std::unordered_map<Pair, int64_t, PairHash> counts_;
  std::unordered_map<Pair, std::vector<size_t>, PairHash> places_;  // the words that have or had it
  std::priority_queue<Candidate> queue_;
};

// What is there before the text is looked at: special tokens and bytes.
BpeModel ModelOfBytes(MaskTokens mask_tokens) {
  BpeModel model;
  const auto add_special = [&](const char* text) {
    const auto id = static_cast<int32_t>(model.pieces.size());
    model.pieces.emplace_back(text);
    model.special.push_back(id);
    model.rules.literal.push_back({text, id});
    return id;
  };
  model.tokens.pad = model.tokens.decoder_start = add_special("<pad>");
  model.tokens.end = add_special("</s>");
  if (mask_tokens == MaskTokens::kYes) {
    model.tokens.begin = add_special("[CLS]");
    model.tokens.separator = add_special("[SEP]");
    model.tokens.mask = add_special("[MASK]");
  }
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(ToByteAlphabet(std::string(1, static_cast<char>(byte))));
  std::sort(bytes.begin(), bytes.end());  // UTF-8 sorts by code points
  model.pieces.insert(model.pieces.end(), bytes.begin(), bytes.end());
  model.splits = {{std::string(kGpt2Pattern)}};
  model.single = model.pair = {};  // those of its special tokens
  return model;
}

}  // namespace

std::shared_ptr<const Tokenizer> TrainBpeTokenizer(const TextSource& source, const BpeTraining& options,
                                                   int num_sentinels, const StopRequest& stop) {
  CROSSTALK_CHECK_FIELD(
      options.vocab_size >= kSmallestBpeVocabulary && options.vocab_size <= static_cast<int>(kMaxVocabulary) / 2,
      "vocabulary", options.vocab_size, " is not between ", kSmallestBpeVocabulary, " and ", kMaxVocabulary / 2,
      ", as a byte-pair encoding's must be");
  CROSSTALK_CHECK(options.max_sample_bytes >= 1, "tokenizer: a sample of ", options.max_sample_bytes,
                  " bytes to train on; must be at least 1");
  BpeModel model = ModelOfBytes(options.mask_tokens);
  std::vector<int32_t> ids(256, kNoToken);
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (const std::string bytes = BytesOf(model.pieces[id]); bytes.size() == 1) {
      ids[static_cast<unsigned char>(bytes[0])] = static_cast<int32_t>(id);
    }
  }
  const WordCounts counts = CountWords(source, options, stop);
  MergeLearner(counts, ids, &model).Run(static_cast<size_t>(options.vocab_size), stop);
  // The first sentinel is the highest.
  for (int k = num_sentinels - 1; k >= 0; --k) {
    const auto id = static_cast<int32_t>(model.pieces.size() + model.more.size());
    model.more.push_back(SentinelText(k));
    model.rules.literal.push_back({model.more.back(), id});
    model.special.push_back(id);
    model.sentinels.insert(model.sentinels.begin(), id);
  }
  return MakeBpeTokenizer(std::move(model), "the tokenizer just trained", num_sentinels);
}

}  // namespace crosstalk
