#include "crosstalk/models/training/objectives/masked_lm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/sentences.h"
#include "crosstalk/models/training/objectives/objective.h"
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

namespace {

struct RowShape {
  int64_t inputs;
  int64_t masked;
  SentenceTask task;
};

SentenceTask TaskOf(const ObjectiveConfig& config) { return config.sentence_task.value_or(SentenceTask::kNone); }

constexpr int64_t kShortestTarget = 2;  // tokens of text

// Special tokens of a row.
int64_t SpecialsOf(SentenceTask task) { return task == SentenceTask::kNone ? 2 : 3; }

RowShape ShapeOf(const ObjectiveConfig& config) {
  const RowShape shape = {config.input_length, MostMasked(config), TaskOf(config)};
  const int64_t shortest = SpecialsOf(shape.task) + kShortestTarget;
  CROSSTALK_CHECK_FIELD(shape.inputs >= shortest, "input_length", shape.inputs, " is less than ", shortest,
                        ", the shortest row of ", FieldName{"sentence_task"}, " ", Name(shape.task));
  CROSSTALK_CHECK_FIELD(shape.masked <= shape.inputs, "most_masked", shape.masked, " is more than ",
                        FieldName{"input_length"}, " = ", shape.inputs);
  return shape;
}

Batch EmptyRows(const RowShape& shape, const SpecialTokens& tokens, int64_t rows) {
  Batch batch;
  batch.Add("inputs", Tensor::Full({rows, shape.inputs}, tokens.pad, DType::kInt32));
  batch.Add("segments", Tensor::Zeros({rows, shape.inputs}, DType::kInt32));
  batch.Add("masked_positions", Tensor::Zeros({rows, shape.masked}, DType::kInt32));
  batch.Add("masked_targets", Tensor::Full({rows, shape.masked}, tokens.pad, DType::kInt32));
  if (shape.task != SentenceTask::kNone) batch.Add("sentence_labels", Tensor::Zeros({rows}, DType::kInt32));
  batch.positions = rows * shape.masked;
  return batch;
}

const SpecialTokens& CheckedTokens(const Tokenizer& tokenizer) {
  const SpecialTokens& tokens = tokenizer.special_tokens();
  for (const auto& [name, id] :
       {std::pair("[CLS]", tokens.begin), {"[SEP]", tokens.separator}, {"[MASK]", tokens.mask}}) {
    CROSSTALK_CHECK_FIELD(id != kNoToken, "tokenizer", "the ", tokenizer.kind(), " tokenizer has no ", name,
                          " token, which masked-lm needs");
  }
  return tokens;
}

std::vector<int32_t> CheckedOrdinaryIds(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = OrdinaryIds(tokenizer);
  CROSSTALK_CHECK_FIELD(!ids.empty(), "tokenizer", "the ", tokenizer.kind(), " tokenizer has no tokens of text");
  return ids;
}

// A row before anything is hidden. Without a sentence task b is empty.
struct SegmentPair {
  std::vector<int32_t> a, b;
  int32_t label = 0;
};

class MaskedLmExamples : public ExampleSource {
 public:
  MaskedLmExamples(const ObjectiveConfig& config, ExampleInputs inputs)
      : inputs_(std::move(inputs)),
        shape_(ShapeOf(config)),
        masking_(config.masking.value_or(Masking::kTokens)),
        noise_density_(config.noise_density),
        short_share_(config.short_share),
        tokens_(CheckedTokens(*inputs_.tokenizer)),
        room_(shape_.inputs - SpecialsOf(shape_.task)),
        ordinary_ids_(CheckedOrdinaryIds(*inputs_.tokenizer)),
        dataset_(inputs_.text, inputs_.tokenizer, shape_.inputs, inputs_.seed, inputs_.order) {}

  Batch EmptyBatch(int64_t rows) const override { return EmptyRows(shape_, tokens_, rows); }

  void Write(int64_t place, int64_t index, Batch& batch, int64_t row) const override {
    const SegmentPair pair = MakePair(place, index);
    const auto row_of = [&](const char* name) {
      const Tensor& tensor = batch.Get(name);
      return tensor.data<int32_t>() + row * tensor.size(1);
    };
    std::vector<int32_t> ids = {tokens_.begin};
    std::vector<TokenRun> runs;
    int32_t* const segments = row_of("segments");
    for (const std::vector<int32_t>* segment : {&pair.a, &pair.b}) {
      if (segment->empty()) continue;
      std::fill(segments + ids.size(), segments + ids.size() + segment->size() + 1, runs.empty() ? 0 : 1);
      runs.push_back({std::ssize(ids), std::ssize(ids) + std::ssize(*segment)});
      ids.insert(ids.end(), segment->begin(), segment->end());
      ids.push_back(tokens_.separator);
    }
    RandomSequence random(ExampleKey(inputs_.seed, "models.objectives.masked_lm.masking", index));
    const std::vector<int64_t> hidden = ChooseHidden(ids, runs, random);
    for (size_t i = 0; i < hidden.size(); ++i) {
      row_of("masked_positions")[i] = static_cast<int32_t>(hidden[i]);
      row_of("masked_targets")[i] = ids[hidden[i]];
    }
    HideTokens(hidden, tokens_.mask, ordinary_ids_, random, ids);
    std::copy(ids.begin(), ids.end(), row_of("inputs"));
    if (shape_.task != SentenceTask::kNone) batch.Get("sentence_labels").data<int32_t>()[row] = pair.label;
    batch.targets += std::ssize(hidden);
    batch.tokens += std::ssize(ids);
  }

  int64_t num_places() const override { return dataset_.num_places(); }

  std::vector<AccuracyTargets> Answers() const override {
    std::vector<AccuracyTargets> answers = {{"masked_accuracy", "masked_targets", tokens_.pad}};
    if (shape_.task != SentenceTask::kNone) answers.push_back({"sentence_accuracy", "sentence_labels", std::nullopt});
    return answers;
  }

 private:
  SegmentPair MakePair(int64_t place, int64_t index) const {
    RandomSequence random(ExampleKey(inputs_.seed, "models.objectives.masked_lm.segments", index));
    int64_t target = room_;
    if (random.UniformDouble() < short_share_) {
      target = kShortestTarget + static_cast<int64_t>(random.UniformInt(room_ - kShortestTarget + 1));
    }
    const std::vector<EncodedSentence> sentences = dataset_.Read(place, target);
    SegmentPair pair;
    if (shape_.task == SentenceTask::kNone) {
      pair.a = Joined(sentences, 0, std::ssize(sentences));
      pair.a.resize(std::min(std::ssize(pair.a), target));
      return pair;
    }
    const int64_t count = std::ssize(sentences);
    const int64_t cut = count == 1 ? 1 : 1 + static_cast<int64_t>(random.UniformInt(count - 1));
    pair.a = Joined(sentences, 0, cut);
    // One sentence alone has none that follows it: B is from elsewhere, whatever the task.
    pair.label = count == 1 || random.UniformInt(2) == 1 ? 1 : 0;
    if (count == 1 || (pair.label == 1 && shape_.task == SentenceTask::kNextSentence)) {
      const int64_t wanted = std::max<int64_t>(1, target - std::ssize(pair.a));
      const std::vector<EncodedSentence> other = ReadElsewhere(sentences, wanted, random);
      pair.b = Joined(other, 0, std::ssize(other));
    } else {
      pair.b = Joined(sentences, cut, count);
      if (pair.label == 1) std::swap(pair.a, pair.b);
    }
    TruncatePair(room_, random, pair.a, pair.b);
    return pair;
  }

  // Sentences from a random place. One that begins with a sentence of `here` is drawn again, a few times.
  std::vector<EncodedSentence> ReadElsewhere(const std::vector<EncodedSentence>& here, int64_t tokens,
                                             RandomSequence& random) const {
    constexpr int64_t kMostPlaces = int64_t{1} << 40;  // of a text without an end
    constexpr int kMostDraws = 10;
    std::vector<EncodedSentence> there;
    for (int i = 0; i < kMostDraws; ++i) {
      const auto place = static_cast<int64_t>(random.UniformInt(std::min(num_places(), kMostPlaces)));
      there = dataset_.Read(place, tokens);
      const auto is_first = [&](const EncodedSentence& sentence) { return sentence.text == there[0].text; };
      if (std::none_of(here.begin(), here.end(), is_first)) break;
    }
    return there;
  }

  // The ids of sentences [begin, end) as one text.
  std::vector<int32_t> Joined(const std::vector<EncodedSentence>& sentences, int64_t begin, int64_t end) const {
    std::string text;
    for (int64_t i = begin; i < end; ++i) text += (i > begin && sentences[i].spaced ? " " : "") + sentences[i].text;
    return inputs_.tokenizer->Encode(text);
  }

  // The places of the row's tokens that are hidden, ascending.
  std::vector<int64_t> ChooseHidden(const std::vector<int32_t>& ids, const std::vector<TokenRun>& runs,
                                    RandomSequence& random) const {
    int64_t candidates = 0;
    for (const TokenRun& run : runs) candidates += run.end - run.begin;
    const int64_t count = CountMasked(std::ssize(ids), candidates, noise_density_, shape_.masked);
    if (masking_ == Masking::kNgrams) {
      const std::vector<bool> starts = inputs_.tokenizer->WordStarts(ids);
      std::vector<std::vector<TokenRun>> words;
      for (const TokenRun& run : runs) words.push_back(WordsOf(run, starts));
      std::vector<int64_t> hidden;
      for (const TokenRun& ngram : ChooseNgrams(words, count, random)) {
        for (int64_t i = ngram.begin; i < ngram.end; ++i) hidden.push_back(i);
      }
      std::sort(hidden.begin(), hidden.end());
      if (!hidden.empty()) return hidden;
      // Every word is longer than what may be hidden: tokens, so that each row has a target.
    }
    return ChooseTokens(runs, count, random);
  }

  ExampleInputs inputs_;
  RowShape shape_;
  Masking masking_;
  double noise_density_;
  double short_share_;
  SpecialTokens tokens_;
  int64_t room_;  // tokens of text in a row, at most
  std::vector<int32_t> ordinary_ids_;
  SentenceDataset dataset_;
};

}  // namespace

int64_t MostMasked(const ObjectiveConfig& config) {
  if (config.most_masked) return *config.most_masked;
  return static_cast<int64_t>(std::ceil(config.noise_density * static_cast<double>(config.input_length)));
}

ObjectiveType MaskedLm() {
  using Config = ObjectiveConfig;
  return {.name = "masked-lm",
          .tokenizer = {.line_ends = LineEnds::kSpaces, .mask_tokens = MaskTokens::kYes},
          .own = MembersOf(&Config::noise_density, &Config::masking, &Config::sentence_task, &Config::most_masked,
                           &Config::short_share),
          .describe =
              [](const Config& config) {
                const RowShape shape = ShapeOf(config);
                std::string task = Name(shape.task);
                std::replace(task.begin(), task.end(), '-', ' ');
                return StrCat(shape.inputs, " tokens, ", shape.masked, " masked",
                              shape.task == SentenceTask::kNone ? "" : ", " + task);
              },
          .empty_batch = [](const Config& config, const SpecialTokens& tokens,
                            int64_t rows) { return EmptyRows(ShapeOf(config), tokens, rows); },
          .heads =
              [](const Config& config) {
                const bool pairs = TaskOf(config) != SentenceTask::kNone;
                return EncoderHeads{.pooler = pairs, .sentence = pairs, .masked_lm = true};
              },
          .make = MakeExamples<MaskedLmExamples>};
}

}  // namespace crosstalk
