#include "crosstalk/models/training/objectives/masked_lm.h"

#include <algorithm>
#include <utility>

#include "crosstalk/models/training/objectives/rounding.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// The first `count` places of a random order of the elements.
template <typename T>
void ShuffleFirst(std::vector<T>& elements, int64_t count, RandomSequence& random) {
  const int64_t size = std::ssize(elements);
  for (int64_t i = 0; i < std::min(count, size - 1); ++i) {
    std::swap(elements[i], elements[i + static_cast<int64_t>(random.UniformInt(size - i))]);
  }
}

// 1, 2 or 3 with probabilities 6/11, 3/11, 2/11.
int64_t DrawNgramLength(RandomSequence& random) {
  const uint64_t drawn = random.UniformInt(11);
  return drawn < 6 ? 1 : drawn < 9 ? 2 : 3;
}

}  // namespace

int64_t CountMasked(int64_t length, int64_t candidates, double noise_density, int64_t most) {
  CROSSTALK_DCHECK(candidates >= 1 && most >= 1);
  const int64_t share = RoundHalfToEven(static_cast<double>(length) * noise_density);
  return std::min(candidates, std::clamp<int64_t>(share, 1, most));
}

std::vector<int64_t> ChooseTokens(std::span<const TokenRun> runs, int64_t count, RandomSequence& random) {
  std::vector<int64_t> tokens;
  for (const TokenRun& run : runs) {
    for (int64_t i = run.begin; i < run.end; ++i) tokens.push_back(i);
  }
  CROSSTALK_DCHECK(count <= std::ssize(tokens));
  ShuffleFirst(tokens, count, random);
  tokens.resize(count);
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

std::vector<TokenRun> WordsOf(const TokenRun& run, const std::vector<bool>& word_starts) {
  std::vector<TokenRun> words;
  for (int64_t i = run.begin; i < run.end; ++i) {
    if (i == run.begin || word_starts[i]) words.push_back({i, i});
    words.back().end = i + 1;
  }
  return words;
}

std::vector<TokenRun> ChooseNgrams(std::span<const std::vector<TokenRun>> words_of_segments, int64_t budget,
                                   RandomSequence& random) {
  struct Word {
    const std::vector<TokenRun>* segment;
    int64_t index;
  };
  std::vector<Word> order;
  int64_t end = 0;  // of the row's words
  for (const std::vector<TokenRun>& segment : words_of_segments) {
    for (int64_t i = 0; i < std::ssize(segment); ++i) order.push_back({&segment, i});
    if (!segment.empty()) end = std::max(end, segment.back().end);
  }
  ShuffleFirst(order, std::ssize(order), random);
  std::vector<bool> covered(end, false);
  std::vector<TokenRun> chosen;
  for (const auto& [segment, first] : order) {
    if (budget == 0) break;
    const int64_t begin = (*segment)[first].begin;
    const auto end_of = [&, segment = segment, first = first](int64_t n) { return (*segment)[first + n - 1].end; };
    int64_t n = std::min(DrawNgramLength(random), std::ssize(*segment) - first);
    while (n > 0 && end_of(n) - begin > budget) --n;
    if (n == 0) continue;
    const TokenRun run{begin, end_of(n)};
    const auto first_token = covered.begin() + run.begin, last_token = covered.begin() + run.end;
    if (std::find(first_token, last_token, true) != last_token) continue;
    std::fill(first_token, last_token, true);
    chosen.push_back(run);
    budget -= run.end - run.begin;
  }
  return chosen;
}

void HideTokens(std::span<const int64_t> positions, int32_t mask, std::span<const int32_t> ordinary,
                RandomSequence& random, std::span<int32_t> ids) {
  for (const int64_t position : positions) {
    const uint64_t drawn = random.UniformInt(10);
    if (drawn < 8) {
      ids[position] = mask;
    } else if (drawn == 8) {
      ids[position] = ordinary[random.UniformInt(ordinary.size())];
    }
  }
}

std::vector<int32_t> OrdinaryIds(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special_tokens();
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsSentinel(id)) continue;
    const auto all = {special.pad,   special.end,       special.unknown, special.decoder_start,
                      special.begin, special.separator, special.mask};
    if (std::find(all.begin(), all.end(), id) == all.end()) ids.push_back(id);
  }
  return ids;
}

void TruncatePair(int64_t most, RandomSequence& random, std::vector<int32_t>& a, std::vector<int32_t>& b) {
  TokenRun of_a{0, std::ssize(a)}, of_b{0, std::ssize(b)};
  const auto length = [](const TokenRun& run) { return run.end - run.begin; };
  while (length(of_a) + length(of_b) > most) {
    TokenRun& longer = length(of_a) > length(of_b) ? of_a : of_b;
    if (random.UniformInt(2) == 0) {
      ++longer.begin;
    } else {
      --longer.end;
    }
  }
  const auto cut = [](const TokenRun& run, std::vector<int32_t>& ids) {
    ids = std::vector<int32_t>(ids.begin() + run.begin, ids.begin() + run.end);
  };
  cut(of_a, a);
  cut(of_b, b);
}

}  // namespace crosstalk
