

#include "crosstalk/models/text/character_tokenizer.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/models/training/objectives/masked_lm.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::masked_lm_examples_test {

using Ids = std::vector<int32_t>;

TrainingConfig Config(Masking masking, SentenceTask task, int64_t length = 64) {
  TrainingConfig config;
  config.objective.name = "masked-lm";
  config.objective.input_length = length;
  config.objective.masking = masking;
  config.objective.sentence_task = task;
  return config;
}

// `count` fits n draws of probability p: 7 in a million are more than 4.5 standard deviations away.
void ExpectShare(int64_t count, int64_t n, double p, const std::string& what) {
  const double bound = 4.5 * std::sqrt(static_cast<double>(n) * p * (1 - p));
  EXPECT_NEAR(static_cast<double>(count), static_cast<double>(n) * p, bound) << what << " of " << n;
}

// A row, put together again.
struct Row {
  Ids a, b;  // as they stand in the text
  int64_t length = 0;
  Ids inputs, segments;
  Ids positions, targets;  // without what is after the last
  int32_t label = -1;
};

Row ReadRow(const Batch& batch, int64_t row, const Tokenizer& tokenizer) {
  const SpecialTokens& tokens = tokenizer.special_tokens();
  const auto ids = [&](const char* name) { return batch.Get(name).Select(0, row).Contiguous().ToVector<int32_t>(); };
  Row result;
  result.inputs = ids("inputs");
  result.segments = ids("segments");
  const Ids positions = ids("masked_positions"), targets = ids("masked_targets");
  EXPECT_EQ(positions.size(), targets.size());
  Ids text = result.inputs;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == tokens.pad) {
      EXPECT_EQ(positions[i], 0) << "after the last";
      continue;
    }
    EXPECT_EQ(result.targets.size(), i) << "padding before the last";
    EXPECT_TRUE(i == 0 || positions[i] > positions[i - 1]);
    result.positions.push_back(positions[i]);
    result.targets.push_back(targets[i]);
    text[positions[i]] = targets[i];
  }
  if (batch.Has("sentence_labels")) {
    EXPECT_EQ(batch.Get("sentence_labels").num_elements(), batch.rows());
    result.label = batch.Get("sentence_labels").data<int32_t>()[row];
  }
  EXPECT_EQ(text[0], tokens.begin);
  int32_t segment = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool padding = text[i] == tokens.pad;
    EXPECT_EQ(result.segments[i], padding ? 0 : segment) << i;
    if (padding) continue;
    EXPECT_EQ(result.length, static_cast<int64_t>(i)) << "padding before the end";
    ++result.length;
    if (text[i] == tokens.separator) {
      ++segment;
    } else if (i > 0) {
      (segment == 0 ? result.a : result.b).push_back(text[i]);
    }
  }
  EXPECT_EQ(segment, result.label == -1 ? 1 : 2);
  EXPECT_EQ(text[result.length - 1], tokens.separator);
  for (const int32_t position : result.positions) {
    EXPECT_TRUE(result.inputs[position] == tokens.mask || result.inputs[position] >= kSpecialIds);
    EXPECT_NE(result.inputs[position], tokens.begin);
    EXPECT_NE(result.inputs[position], tokens.separator);
  }
  return result;
}

std::shared_ptr<const Tokenizer> Bytes() { return MakeByteTokenizer(0, MaskTokens::kYes); }

class Examples {
 public:
  Examples(const TrainingConfig& config, std::shared_ptr<const TextSource> text,
           std::shared_ptr<const Tokenizer> tokenizer = Bytes(), uint64_t seed = 5,
           TextSource::Order order = TextSource::Order::kShuffled)
      : tokenizer_(tokenizer),
        source_(FindObjective("masked-lm").make(config.objective, {std::move(text), tokenizer, order, seed})) {}

  Row At(int64_t place, int64_t index) const {
    Batch batch = source_->EmptyBatch(2);
    source_->Write(place, index, batch, 1);
    const Row row = ReadRow(batch, 1, *tokenizer_);
    EXPECT_EQ(batch.targets, std::ssize(row.targets));
    EXPECT_EQ(batch.tokens, row.length);
    EXPECT_EQ(batch.positions, 2 * batch.Get("masked_targets").size(1));
    return row;
  }
  Row At(int64_t example) const { return At(example, example); }
  std::string Text(const Ids& ids) const { return tokenizer_->Decode(ids); }
  const ExampleSource& source() const { return *source_; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ExampleSource> source_;
};

// Documents whose sentence k is "Dddd says kkk." (14 bytes).
std::string Sentence(int d, int k) { return StrCat("D", 100 + d, " says ", 100 + k, "."); }
std::shared_ptr<const TextSource> Documents(const TempDir& dir, int documents, int sentences) {
  std::ofstream file(dir / "text.jsonl");
  for (int d = 0; d < documents; ++d) {
    file << "{\"text\": \"";
    for (int k = 0; k < sentences; ++k) file << (k > 0 ? " " : "") << Sentence(d, k);
    file << "\"}\n";
  }
  file.close();
  return OpenTextSource(dir / "text.jsonl");
}

// Where a piece of such a text, cut anywhere, begins: {document, sentence}, from its first whole "says kkk"; the
// document of what has no digit of one is -1.
struct Place {
  std::set<int> documents;
  int first_sentence = -1, last_sentence = -1;
};
Place PlaceOf(const std::string& text) {
  Place place;
  for (size_t at = 0; at + 4 <= text.size(); ++at) {
    if (text[at] == 'D') place.documents.insert(std::stoi(text.substr(at + 1, 3)) - 100);
  }
  for (size_t at = text.find("says "); at != std::string::npos && at + 8 <= text.size();
       at = text.find("says ", at + 1)) {
    const int k = std::stoi(text.substr(at + 5, 3)) - 100;
    if (place.first_sentence == -1) place.first_sentence = k;
    EXPECT_TRUE(place.last_sentence == -1 || k == place.last_sentence + 1) << text;
    place.last_sentence = k;
  }
  return place;
}

// Sentences that follow each other, or, as the label says, one from elsewhere, or the two in the other order.
TEST(MaskedLmExamplesTest, SentencesFollowOrAreFromElsewhereOrSwapped) {
  const TempDir dir;
  const auto text = Documents(dir, 40, 60);
  for (const bool swaps : {false, true}) {
    SCOPED_TRACE(swaps);
    const Examples examples(Config(swaps ? Masking::kNgrams : Masking::kTokens,
                                   swaps ? SentenceTask::kSentenceOrder : SentenceTask::kNextSentence, 128),
                            text);
    constexpr int64_t kExamples = 1500;
    int64_t labels = 0, other_document = 0, decided = 0, full = 0;
    for (int64_t i = 0; i < kExamples; ++i) {
      const Row row = examples.At(i);
      const Place a = PlaceOf(examples.Text(row.a)), b = PlaceOf(examples.Text(row.b));
      EXPECT_LE(a.documents.size(), 1u);
      EXPECT_LE(b.documents.size(), 1u);
      full += row.length == 128;
      if (a.first_sentence < 0 || b.first_sentence < 0 || (swaps && a.documents != b.documents)) continue;
      ++decided;
      labels += row.label;
      if (row.label == 1 && !swaps) {
        other_document += a.documents != b.documents;
        continue;
      }
      const Place &first = row.label == 0 ? a : b, &second = row.label == 0 ? b : a;
      EXPECT_EQ(first.documents, second.documents);
      EXPECT_GT(second.first_sentence, first.last_sentence);
      EXPECT_LE(second.first_sentence, first.last_sentence + 8);
    }
    EXPECT_GT(decided, kExamples * 9 / 10);
    ExpectShare(labels, decided, 0.5, "labels");
    EXPECT_TRUE(swaps || other_document > labels * 9 / 10) << other_document;
    EXPECT_GT(full, kExamples / 2);
  }
}

TEST(MaskedLmExamplesTest, WithoutATaskThereIsOneSegment) {
  const TempDir dir;
  TrainingConfig config = Config(Masking::kTokens, SentenceTask::kNone, 128);
  config.objective.short_share = 0;
  const Examples examples(config, Documents(dir, 40, 60));
  EXPECT_FALSE(examples.source().EmptyBatch(1).Has("sentence_labels"));
  int64_t full = 0;
  for (int64_t i = 0; i < 300; ++i) {
    const Row row = examples.At(i);
    EXPECT_EQ(row.b, Ids{});
    EXPECT_EQ(PlaceOf(examples.Text(row.a)).documents.size(), 1u);
    EXPECT_EQ(examples.Text(row.a).substr(0, 1), "D");
    full += row.length == 128;
  }
  EXPECT_GT(full, 240);
}

TEST(MaskedLmExamplesTest, AShareOfTheExamplesIsShort) {
  const TempDir dir;
  TrainingConfig config = Config(Masking::kTokens, SentenceTask::kNone, 128);
  const auto text = MakeSyntheticCorpus(1).training;
  constexpr int64_t kExamples = 1500;
  for (const double share : {0.0, 0.1, 1.0}) {
    config.objective.short_share = share;
    const Examples examples(config, text);
    int64_t shorter = 0, total = 0;
    for (int64_t i = 0; i < kExamples; ++i) {
      const int64_t length = examples.At(i).length;
      EXPECT_GE(length, 2 + 2);
      shorter += length < 128;
      total += length - 2;
    }
    ExpectShare(shorter, kExamples, share * 124 / 125, "short examples");  // one of 2 … 126 is full
    if (share < 1) continue;
    EXPECT_NEAR(static_cast<double>(total) / kExamples, 64, 4.5 * 36 / std::sqrt(kExamples));
  }
}

TEST(MaskedLmExamplesTest, OneTokenInSevenIsHidden) {
  const auto text = MakeSyntheticCorpus(1).training;
  for (const Masking masking : {Masking::kTokens, Masking::kNgrams}) {
    const Examples examples(Config(masking, SentenceTask::kNextSentence, 128), text);
    int64_t hidden = 0, length = 0, kept = 0, masked = 0;
    for (int64_t i = 0; i < 1500; ++i) {
      const Row row = examples.At(i);
      const auto most = std::min<int64_t>(20, std::max<int64_t>(1, std::lrint(0.15 * static_cast<double>(row.length))));
      EXPECT_LE(std::ssize(row.targets), most);
      EXPECT_GE(std::ssize(row.targets), 1);
      EXPECT_TRUE(masking == Masking::kNgrams || std::ssize(row.targets) == most);
      hidden += std::ssize(row.targets);
      length += row.length;
      for (size_t k = 0; k < row.targets.size(); ++k) {
        kept += row.inputs[row.positions[k]] == row.targets[k];
        masked += row.inputs[row.positions[k]] == Bytes()->special_tokens().mask;
      }
    }
    EXPECT_NEAR(static_cast<double>(hidden) / static_cast<double>(length), 0.15,
                masking == Masking::kTokens ? 0.002 : 0.01);
    ExpectShare(masked, hidden, 0.8, "masked");
    ExpectShare(kept, hidden, 0.1 + 0.1 / 256, "kept");
  }
}

TEST(MaskedLmExamplesTest, NgramsHideWholeWords) {
  const auto text = MakeSyntheticCorpus(1).training;
  SentencePieceTraining training;
  training.vocab_size = 400;
  training.max_sample_bytes = 60'000;
  training.mask_tokens = MaskTokens::kYes;
  for (const std::shared_ptr<const Tokenizer>& tokenizer :
       {Bytes(), std::shared_ptr<const Tokenizer>(TrainTokenizer(*text, training, 0))}) {
    const Examples examples(Config(Masking::kNgrams, SentenceTask::kSentenceOrder, 128), text, tokenizer);
    for (int64_t i = 0; i < 300; ++i) {
      const Row row = examples.At(i);
      Ids whole = {tokenizer->special_tokens().begin};
      for (const Ids* segment : {&row.a, &row.b}) {
        whole.insert(whole.end(), segment->begin(), segment->end());
        whole.push_back(tokenizer->special_tokens().separator);
      }
      const std::vector<bool> starts = tokenizer->WordStarts(whole);
      const std::set<int64_t> hidden(row.positions.begin(), row.positions.end());
      for (int64_t k = 1; k < row.length; ++k) {
        EXPECT_TRUE(starts[k] || hidden.count(k) == hidden.count(k - 1)) << "a word is cut at " << k;
      }
    }
  }
}

TEST(MaskedLmExamplesTest, AnExampleIsAFunctionOfSeedPlaceAndIndex) {
  const TempDir dir;
  const auto text = Documents(dir, 40, 60);
  for (const SentenceTask task : {SentenceTask::kNextSentence, SentenceTask::kSentenceOrder, SentenceTask::kNone}) {
    const TrainingConfig config = Config(Masking::kNgrams, task);
    const Examples one(config, text), again(config, text), other(config, text, Bytes(), 6);
    int64_t same = 0;
    for (int64_t i = 20; i-- > 0;) {
      const Row row = one.At(i);
      EXPECT_EQ(row.inputs, again.At(i).inputs);
      EXPECT_EQ(row.targets, again.At(i).targets);
      same += row.inputs == other.At(i).inputs;
      // The place decides the text, the index what is drawn.
      EXPECT_NE(one.At(i, i + 100).inputs, row.inputs);
    }
    EXPECT_EQ(same, 0);
  }
}

TEST(MaskedLmExamplesTest, ADocumentOfOneSentenceHasASegmentFromElsewhere) {
  const TempDir dir;
  const auto text = Documents(dir, 400, 1);
  for (const SentenceTask task : {SentenceTask::kNextSentence, SentenceTask::kSentenceOrder}) {
    const Examples examples(Config(Masking::kTokens, task), text);
    for (int64_t i = 0; i < 200; ++i) {
      const Row row = examples.At(i);
      EXPECT_EQ(row.label, 1);
      EXPECT_NE(examples.Text(row.a), examples.Text(row.b));
      for (const Ids* segment : {&row.a, &row.b}) EXPECT_EQ(PlaceOf(examples.Text(*segment)).documents.size(), 1u);
      EXPECT_EQ(row.length, 3 + 2 * 14);
    }
  }
  const Examples alone(Config(Masking::kTokens, SentenceTask::kNone), text);
  for (int64_t i = 0; i < 50; ++i) EXPECT_LE(alone.At(i).length, 2 + 14);
}

TEST(MaskedLmExamplesTest, TextsOfOtherScriptsAndTheSmallestRowsWork) {
  const TempDir dir;
  std::string chinese, without_marks;
  for (int i = 0; i < 300; ++i) {
    chinese += StrCat("第", i, "天他来了。她走了！");
    without_marks += "文字";
  }
  std::ofstream(dir / "chinese.txt") << chinese;
  std::ofstream(dir / "no_marks.txt") << without_marks;
  for (const char* name : {"chinese.txt", "no_marks.txt"}) {
    const auto text = OpenTextSource(dir / name);
    const std::shared_ptr<const Tokenizer> characters = CollectCharacterTokenizer(*text, 1000, 0, {}, MaskTokens::kYes);
    for (const Masking masking : {Masking::kTokens, Masking::kNgrams}) {
      for (const SentenceTask task : {SentenceTask::kNone, SentenceTask::kNextSentence, SentenceTask::kSentenceOrder}) {
        for (const int64_t length : {task == SentenceTask::kNone ? 4 : 5, 6, 33}) {
          const Examples examples(Config(masking, task, length), text, characters);
          for (int64_t i = 0; i < 40; ++i) {
            const Row row = examples.At(i);
            EXPECT_GE(std::ssize(row.targets), 1);
            EXPECT_GE(std::ssize(row.a), 1);
            EXPECT_GE(std::ssize(row.b), task == SentenceTask::kNone ? 0 : 1);
          }
        }
      }
    }
  }
}

TEST(MaskedLmExamplesTest, MostMaskedBoundsTheRow) {
  const auto text = MakeSyntheticCorpus(1).training;
  TrainingConfig config = Config(Masking::kTokens, SentenceTask::kNextSentence, 128);
  EXPECT_EQ(MostMasked(config.objective), 20);
  EXPECT_EQ(FindObjective("masked-lm").describe(config.objective), "128 tokens, 20 masked, next sentence");
  config.objective.most_masked = 5;
  EXPECT_EQ(Examples(config, text).source().EmptyBatch(3).Get("masked_positions").size(1), 5);
  for (const auto& [most, density] : {std::pair(5, 0.15), {128, 0.15}, {128, 0.999}}) {
    config.objective.most_masked = most;
    config.objective.noise_density = density;
    const Examples examples(config, text);
    for (int64_t i = 0; i < 50; ++i) {
      const Row row = examples.At(i);
      if (density > 0.5) {
        EXPECT_EQ(std::ssize(row.targets), row.length - 3);
      } else {
        EXPECT_LE(std::ssize(row.targets), std::min(most, 19));
      }
    }
  }
}

TEST(MaskedLmExamplesTest, TheEmptyBatchNeedsNoText) {
  const TrainingConfig config = Config(Masking::kTokens, SentenceTask::kSentenceOrder, 40);
  const std::shared_ptr<const Tokenizer> tokenizer = Bytes();
  const Batch here = FindObjective("masked-lm").empty_batch(config.objective, tokenizer->special_tokens(), 3);
  const Batch there = Examples(config, MakeSyntheticCorpus(1).training).source().EmptyBatch(3);
  ASSERT_EQ(here.tensors().size(), there.tensors().size());
  for (size_t i = 0; i < here.tensors().size(); ++i) {
    EXPECT_EQ(here.tensors()[i].name, there.tensors()[i].name);
    EXPECT_EQ(here.tensors()[i].tensor.shape(), there.tensors()[i].tensor.shape());
  }
  EXPECT_EQ(here.positions, 3 * 6);
  EXPECT_EQ(here.targets, 0);
}

// A source that gives the rows that are written here.
class FixedExamples : public ExampleSource {
 public:
  explicit FixedExamples(std::vector<std::vector<int32_t>> rows) : rows_(std::move(rows)) {}
  Batch EmptyBatch(int64_t rows) const override {
    Batch batch;
    batch.Add("words", Tensor::Zeros({rows, 4}, DType::kInt32));
    batch.Add("labels", Tensor::Zeros({rows}, DType::kInt32));
    return batch;
  }
  void Write(int64_t place, int64_t, Batch& batch, int64_t row) const override {
    std::copy(rows_[place].begin(), rows_[place].end(), batch.Get("words").data<int32_t>() + 4 * row);
    batch.Get("labels").data<int32_t>()[row] = rows_[place][3] == 0 ? 0 : 1;
  }
  int64_t num_places() const override { return std::ssize(rows_); }
  std::vector<AccuracyTargets> Answers() const override {
    return {{"word_accuracy", "words", 0}, {"label_accuracy", "labels", std::nullopt}};
  }

 private:
  std::vector<std::vector<int32_t>> rows_;
};

TEST(ConstantGuessTest, IsTheShareOfTheMostFrequentTarget) {
  const auto rows = std::make_shared<FixedExamples>(
      std::vector<std::vector<int32_t>>{{5, 6, 0, 0}, {5, 7, 0, 0}, {5, 7, 7, 9}, {8, 0, 0, 0}, {7, 0, 0, 0}});
  for (const int64_t rows_of_a_batch : {1, 2, 5}) {
    const std::vector<Metric> guess = EvaluationBatches(rows, rows_of_a_batch, 100).ConstantGuess();
    ASSERT_EQ(guess.size(), 2u);
    EXPECT_EQ(guess[0].name, "word_accuracy");
    EXPECT_DOUBLE_EQ(guess[0].value, 4.0 / 10);  // 7; padding is no target
    EXPECT_EQ(guess[1].name, "label_accuracy");
    EXPECT_DOUBLE_EQ(guess[1].value, 4.0 / 5);  // 0, which is a label
  }
  EXPECT_THROW(EvaluationBatches(rows, 2, 100).ConstantGuess([] { return true; }), Interrupted);
}

TEST(ConstantGuessTest, AMaskedModelIsAskedForTokensAndSentences) {
  const auto text = MakeSyntheticCorpus(1).validation;
  const auto names_of = [&](SentenceTask task) {
    const std::shared_ptr<const ExampleSource> examples =
        FindObjective("masked-lm")
            .make(Config(Masking::kTokens, task).objective, {text, Bytes(), TextSource::Order::kSequential, 0});
    std::vector<std::string> names;
    const std::vector<Metric> guess = EvaluationBatches(examples, 8, 200).ConstantGuess();
    for (const Metric& metric : guess) {
      names.push_back(metric.name);
      // The space of built-in stories; one of two labels.
      EXPECT_GT(metric.value, names.size() == 1 ? 0.1 : 0.5);
      EXPECT_LT(metric.value, names.size() == 1 ? 0.3 : 0.65);
    }
    return names;
  };
  EXPECT_EQ(names_of(SentenceTask::kNone), (std::vector<std::string>{"masked_accuracy"}));
  EXPECT_EQ(names_of(SentenceTask::kSentenceOrder), (std::vector<std::string>{"masked_accuracy", "sentence_accuracy"}));
}

TEST(MaskedLmExamplesTest, WhatCannotBeIsRefused) {
  TrainingConfig masked = Config(Masking::kTokens, SentenceTask::kNextSentence, 128);
  masked.objective.most_masked = 129;
  const auto describe = [](const TrainingConfig& config) { FindObjective("masked-lm").describe(config.objective); };
  testing::ExpectRefused(
      {{"no room for two segments",
        [&] { describe(Config(Masking::kTokens, SentenceTask::kNextSentence, 4)); },
        {"input_length: 4 is less than 5"}},
       {"more masked than there are", [&] { describe(masked); }, {"most_masked: 129 is more than input_length"}},
       {"a tokenizer without the tokens",
        [] {
          Examples(Config(Masking::kTokens, SentenceTask::kNone), MakeSyntheticCorpus(1).training,
                   MakeByteTokenizer(0));
        },
        {"tokenizer: the bytes tokenizer has no [CLS] token, which masked-lm needs"}}});
}

}  // namespace crosstalk::masked_lm_examples_test
