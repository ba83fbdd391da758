// Search beside whole forward passes and plain definitions, and what an answer may not depend on.
#include "crosstalk/models/decoding/search.h"

#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/messages.h"
#include "tests/support/parity.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::search_test {

const char* const kKinds[] = {"multihead", "talking", "logits", "weights", "dynamic", "bilinear"};

std::vector<SearchInput> Inputs(const Tensor& ids) {
  std::vector<SearchInput> inputs;
  for (int64_t row = 0; row < ids.size(0); ++row) {
    SearchInput input = {.ids = ids.Select(0, row).ToVector<int32_t>()};
    while (input.ids.back() == kPadId) input.ids.pop_back();
    inputs.push_back(input);
  }
  return inputs;
}

Tensor OneRow(const std::vector<int32_t>& ids) {
  return Tensor::FromValues<int32_t>({1, static_cast<int64_t>(ids.size())}, ids);
}

// log p[vocabulary] of the token after `written`, by a whole forward pass.
using NextLogP = std::function<std::vector<double>(const std::vector<int32_t>& written)>;

std::vector<double> LogSoftmax(const Tensor& logits, int64_t vocabulary) {
  std::vector<double> log_p;
  double sum = 0;
  for (int64_t id = 0; id < vocabulary; ++id) {
    log_p.push_back(logits.At({0, logits.size(1) - 1, id}));
    sum += std::exp(log_p.back());
  }
  for (double& value : log_p) value -= std::log(sum);
  return log_p;
}

Variable LogitsOf(const T5& model, const std::vector<int32_t>& ids, const std::vector<int32_t>& written) {
  std::vector<int32_t> decoder_inputs = {kPadId};
  decoder_inputs.insert(decoder_inputs.end(), written.begin(), written.end());
  const Tensor one = OneRow(ids);
  return model.Logits(model.Decode(model.Encode(one, {}), NotPadding(one, kPadId), OneRow(decoder_inputs), {}));
}

Variable LogitsOf(const Lm& model, std::vector<int32_t> ids, const std::vector<int32_t>& written) {
  ids.insert(ids.end(), written.begin(), written.end());
  return model.Logits(model.Forward(OneRow(ids), {}));
}

template <typename OneModel>
NextLogP WholePass(const OneModel& model, const std::vector<int32_t>& ids) {
  return [&model, ids](const std::vector<int32_t>& written) {
    const ContextScope no_grad = NoGrad();
    return LogSoftmax(LogitsOf(model, ids, written).value(), model.config().vocabulary);
  };
}

double Score(double sum, size_t length, const SearchOptions& options) {
  const auto t = static_cast<double>(length);
  const double base = options.normalisation == LengthNormalisation::kPower ? t : (5 + t) / 6;
  return sum / std::pow(base, options.length_penalty);
}

// The rules of search.h, a hypothesis at a time by whole passes.
std::vector<SearchAnswer> PlainBeamSearch(const NextLogP& next, const SearchOptions& options) {
  struct Row {
    std::vector<int32_t> ids;
    double sum;
  };
  std::vector<Row> open = {{{}, 0}};
  std::vector<SearchAnswer> finished;
  const auto beams = static_cast<size_t>(options.beams);
  const auto finish = [&](const Row& row) {
    finished.push_back({row.ids, Score(row.sum, row.ids.size(), options)});
    std::stable_sort(finished.begin(), finished.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
    if (finished.size() > beams) finished.pop_back();
  };
  for (int64_t length = 1; length <= options.max_length; ++length) {
    std::vector<Row> all;
    for (const Row& row : open) {
      const std::vector<double> log_p = next(row.ids);
      for (int32_t id = 1; id < static_cast<int32_t>(log_p.size()); ++id) {
        std::vector<int32_t> ids = row.ids;
        ids.push_back(id);
        all.push_back({ids, row.sum + log_p[static_cast<size_t>(id)]});
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Row& a, const Row& b) { return a.sum > b.sum; });
    open.clear();
    for (size_t rank = 0; rank < all.size() && open.size() < beams; ++rank) {
      const bool ends = all[rank].ids.back() == kEosId;
      if (ends && rank < beams) finish(all[rank]);
      if (!ends) open.push_back(all[rank]);
    }
    if (finished.size() < beams) continue;
    const double best = Score(open[0].sum, static_cast<size_t>(length), options);
    if (options.early_stopping == EarlyStopping::kYes || finished.back().score >= best) return finished;
  }
  for (const Row& row : open) finish(row);
  return finished;
}

void ExpectAnswers(const std::vector<SearchAnswer>& got, const std::vector<SearchAnswer>& expected, size_t count) {
  ASSERT_GE(expected.size(), count);
  ASSERT_EQ(got.size(), count);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(got[i].ids, expected[i].ids) << "answer " << i;
    // Sums of at most 12 logarithms of order 10, in double.
    EXPECT_NEAR(got[i].score, expected[i].score, 1e-11) << "answer " << i;
  }
}

TEST(SearchTest, FewerBeamsFollowTheRulesByWholePasses) {
  const std::vector<SearchInput> inputs = Inputs(TinyIds(2, 9, 40, 1));
  constexpr EarlyStopping kNo = EarlyStopping::kNo, kYes = EarlyStopping::kYes;
  const SearchOptions kOptions[] = {
      {.max_length = 6, .beams = 3, .length_penalty = 0.0, .early_stopping = kNo, .answers = 3},
      {.max_length = 6, .beams = 3, .length_penalty = 2.5, .early_stopping = kNo, .answers = 3},
      {.max_length = 6, .beams = 3, .length_penalty = 0.0, .early_stopping = kYes, .answers = 3},
      {.max_length = 6, .beams = 3, .length_penalty = 2.5, .early_stopping = kYes, .answers = 3},
      {.max_length = 3, .beams = 9, .length_penalty = 0.6, .normalisation = LengthNormalisation::kGnmt, .answers = 9},
      {.max_length = 12}};  // the likeliest token each time
  for (const char* kind : kKinds) {
    const T5 t5(TinyT5(kind), 2, DType::kFloat64);
    const Lm lm(TinyLm(kind, 40, 32), 2, DType::kFloat64);
    for (const SearchOptions& options : kOptions) {
      SCOPED_TRACE(::testing::Message() << kind << ", α = " << options.length_penalty << ", " << options.beams);
      const auto from_t5 = Search(t5, inputs, options), from_lm = Search(lm, inputs, options);
      const auto count = static_cast<size_t>(options.answers);
      for (size_t i = 0; i < inputs.size(); ++i) {
        ExpectAnswers(from_t5[i], PlainBeamSearch(WholePass(t5, inputs[i].ids), options), count);
        ExpectAnswers(from_lm[i], PlainBeamSearch(WholePass(lm, inputs[i].ids), options), count);
      }
    }
  }
}

// The bits of scores are compared: ids alone would hide a difference.
void ExpectSameAnswers(const std::vector<SearchAnswer>& got, const std::vector<SearchAnswer>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].ids, expected[i].ids);
    EXPECT_EQ(got[i].score, expected[i].score);
  }
}

void ExpectIndependentAnswers(const Model& model, const SearchOptions& options, const std::vector<int>& thread_counts) {
  std::vector<SearchInput> inputs = Inputs(TinyIds(6, 41, 40, 1, 5));
  std::vector<std::vector<SearchAnswer>> alone;
  {
    const ThreadsScope one_thread(1);
    for (const SearchInput& input : inputs) alone.push_back(Search(model, {input}, options)[0]);
  }
  for (const int threads : thread_counts) {
    const ThreadsScope scope(threads);
    SearchOptions batched = options;
    batched.batch = threads == 2 ? 32 : threads;
    const auto together = Search(model, inputs, batched);
    for (size_t i = 0; i < inputs.size(); ++i) ExpectSameAnswers(together[i], alone[i]);
  }
  // Padding that a mask hides, at either end.
  for (SearchInput& input : inputs) {
    input.mask.assign(input.ids.size(), true);
    input.ids.insert(input.ids.begin(), 3, 7);
    input.mask.insert(input.mask.begin(), 3, false);
    input.ids.resize(60, kPadId);
    input.mask.resize(60, false);
  }
  const auto padded = Search(model, inputs, options);
  for (size_t i = 0; i < inputs.size(); ++i) ExpectSameAnswers(padded[i], alone[i]);
}

TEST(SearchTest, AnAnswerDependsOnItsInputAlone) {
  for (const char* kind : kKinds) {
    for (const AttentionImplementation implementation :
         {AttentionImplementation::kFused, AttentionImplementation::kComposed}) {
      ModelConfig config = TinyT5(kind);
      ModelConfig lm_config = TinyLm(kind, 40, 30);  // less than the longest inputs
      for (AttentionConfig* attention :
           {&config.encoder_self, &config.decoder_self, &config.encoder_decoder, &lm_config.decoder_self}) {
        attention->implementation = implementation;
      }
      const T5 t5(config, 2);
      const Lm lm(lm_config, 2);
      for (const SearchOptions& options :
           {SearchOptions{.max_length = 9},
            SearchOptions{.max_length = 9, .beams = 5, .length_penalty = 0.6, .answers = 5},
            SearchOptions{.max_length = 9, .answers = 3, .sampling = {.temperature = 0.9}}}) {
        SCOPED_TRACE(::testing::Message() << ToString(config.encoder_self) << ", " << options.beams << " beams");
        // Threads beyond the processors take long.
        const bool all = kind == std::string("dynamic") && options.answers == 5;
        const std::vector<int> thread_counts = all ? std::vector<int>{1, 2, 3, 5, 8} : std::vector<int>{2};
        ExpectIndependentAnswers(t5, options, thread_counts);
        ExpectIndependentAnswers(lm, options, thread_counts);
      }
    }
  }
}

TEST(SearchTest, RoundedWeightsWriteTheSameInBFloat16) {
  const std::vector<SearchInput> inputs = Inputs(TinyIds(3, 9, 40, 1));
  for (const char* kind : kKinds) {
    T5 t5(TinyT5(kind), 2);
    Lm lm(TinyLm(kind, 40, 30), 2);
    for (Model* model : std::initializer_list<Model*>{&t5, &lm}) {
      const SearchOptions options = {.max_length = 9, .beams = 3, .answers = 3};
      const double in_float = Search(*model, inputs, options)[0][0].score;
      model->SetPrecision(Precision::kBFloat16);
      const auto expected = Search(*model, inputs, options);
      EXPECT_NE(expected[0][0].score, in_float);
      model->RoundWeights();
      const auto got = Search(*model, inputs, options);
      for (size_t i = 0; i < inputs.size(); ++i) ExpectSameAnswers(got[i], expected[i]);
    }
  }
}

// A final norm of zero makes all logits equal.
TEST(SearchTest, TiesGoToTheBetterHypothesisAndThenToTheSmallerId) {
  ModelConfig config = TinyT5("multihead");
  const T5 model(config, 2, DType::kFloat64);
  for (const NamedParameter& parameter : model.Parameters()) {
    if (parameter.name == "decoder.final_norm.scale") parameter.value.value().Fill(0);
  }
  const auto greedy = Search(model, {{.ids = {5, 1}}}, {.max_length = 12});
  EXPECT_EQ(greedy[0][0].ids, std::vector<int32_t>{kEosId});
  const auto answers =
      Search(model, {{.ids = {5, 1}}}, {.max_length = 2, .beams = 3, .length_penalty = 1, .answers = 3});
  // {1} at once, beside the open 2, 3, 4. After 2 come first 1, which ends, then 2 3 4; all have the same mean.
  EXPECT_EQ(answers[0][0].ids, (std::vector<int32_t>{1}));
  EXPECT_EQ(answers[0][1].ids, (std::vector<int32_t>{2, 1}));
  EXPECT_EQ(answers[0][2].ids, (std::vector<int32_t>{2, 2}));
}

TEST(SearchTest, NeverWritesPaddingOrIdsBeyondTheVocabulary) {
  const T5 model(TinyT5("multihead"), 2, DType::kFloat64);
  for (const NamedParameter& parameter : model.Parameters()) {
    if (parameter.name != "embedding.table") continue;
    // Rows of the padding ids, ten times as long: one of them has the largest logit wherever its sign allows.
    for (int64_t id = 40; id < 128; ++id) {
      for (int64_t k = 0; k < 10; ++k) parameter.value.value().data<double>()[id * 10 + k] *= 10;
    }
  }
  for (const auto& answers : Search(model, Inputs(TinyIds(3, 9, 40, 1)), {.max_length = 8, .beams = 4, .answers = 4})) {
    for (const SearchAnswer& answer : answers) {
      for (const int32_t id : answer.ids) EXPECT_TRUE(id > 0 && id < 40) << id;
    }
  }
}

TEST(SearchTest, PaddingThatEndsTextsIsWritten) {
  ModelConfig config = TinyLm("talking");
  config.tokens.pad = kEosId;
  const auto only_end = [](const std::vector<int32_t>&, std::vector<bool>* allowed) {
    for (size_t id = 0; id < allowed->size(); ++id) (*allowed)[id] = (*allowed)[id] && id == kEosId;
  };
  const auto answers = Search(Lm(config, 3), {{.ids = {5, 6}, .restrict_tokens = only_end}}, {});
  EXPECT_EQ(answers[0][0].ids, std::vector<int32_t>{kEosId});
}

TEST(SearchTest, WhatIsRestrictedIsNotWritten) {
  const T5 model(TinyT5("talking"), 2);
  SearchInput input = {.ids = {5, 6, 1}};
  // An even id after an odd one, and an odd one after an even one; no end.
  input.restrict_tokens = [](const std::vector<int32_t>& written, std::vector<bool>* allowed) {
    for (size_t id = 0; id < allowed->size(); ++id) {
      if (id == kEosId || id % 2 == (written.empty() ? 0u : static_cast<size_t>(written.back()) % 2)) {
        (*allowed)[id] = false;
      }
    }
  };
  input.max_length = 6;
  for (const SearchOptions& options : {SearchOptions{}, SearchOptions{.beams = 3, .answers = 3},
                                       SearchOptions{.answers = 3, .sampling = {.temperature = 1}}}) {
    const auto answers = Search(model, {input}, options);
    for (const SearchAnswer& answer : answers[0]) {
      ASSERT_EQ(answer.ids.size(), 6u);
      for (size_t i = 0; i < 6; ++i) EXPECT_EQ(answer.ids[i] % 2, i % 2 == 0 ? 1 : 0);
    }
  }
  input.restrict_tokens = [](const auto&, std::vector<bool>* allowed) { allowed->assign(allowed->size(), false); };
  EXPECT_THROW(Search(model, {input}, {}), Error);
}

TEST(SearchTest, SamplesAreFunctionsOfSeedAndNumber) {
  const Lm model(TinyLm("talking", 40, 32), 2);
  const std::vector<SearchInput> inputs = {{.ids = {4, 9}}};
  SearchOptions options = {.max_length = 8, .answers = 4, .sampling = {.temperature = 1}};
  const auto four = Search(model, inputs, options)[0];
  ASSERT_EQ(four.size(), 4u);
  for (size_t i = 0; i + 1 < 4; ++i) EXPECT_GE(four[i].score, four[i + 1].score);
  options.answers = 1;
  for (uint32_t sample = 0; sample < 4; ++sample) {
    options.first_sample = sample;
    const SearchAnswer one = Search(model, inputs, options)[0][0];
    const auto same = [&](const SearchAnswer& of) { return of.ids == one.ids && of.score == one.score; };
    EXPECT_TRUE(std::any_of(four.begin(), four.end(), same)) << sample;
  }
  options.seed = 2;
  EXPECT_NE(Search(model, inputs, options)[0][0].ids, four[3].ids);
}

TEST(SearchTest, TokensAreShownAsTheyAreWrittenAndAStopEndsThemThere) {
  const Lm model(TinyLm("talking", 40, 32), 2);
  SearchOptions options = {.max_length = 8, .answers = 2, .sampling = {.temperature = 1}};
  std::vector<std::vector<int32_t>> shown(2);
  options.on_token = [&](size_t input, int64_t answer, int32_t id) {
    EXPECT_EQ(input, 0u);
    shown[static_cast<size_t>(answer)].push_back(id);
  };
  const auto answers = Search(model, {{.ids = {4, 9}}}, options)[0];
  EXPECT_TRUE(shown[0] == answers[0].ids || shown[0] == answers[1].ids);
  EXPECT_TRUE(shown[1] == answers[0].ids || shown[1] == answers[1].ids);
  for (const int64_t beams : {1, 3}) {
    int asked = 0;
    const auto stopped =
        Search(model, {{.ids = {4, 9}}}, {.max_length = 8, .beams = beams, .stop = [&] { return ++asked > 2; }});
    EXPECT_EQ(asked, 3);
    EXPECT_EQ(stopped[0][0].ids.size(), 2u);
  }
}

TEST(SearchTest, TheDefectOfThePublishedCodeChangesWhatHasMixingsByPosition) {
  for (const bool by_position : {false, true}) {
    for (const AttentionImplementation implementation :
         {AttentionImplementation::kFused, AttentionImplementation::kComposed}) {
      AttentionConfig attention = TinyAttention("dynamic", 10);
      attention.mixing.P_Ml = attention.mixing.P_Mw = by_position;
      attention.implementation = implementation;
      ModelConfig config = TinyT5("talking");
      config.SetAttention(attention);
      const T5 model(config, 2);
      for (const NamedParameter& parameter : model.Parameters()) {
        if (parameter.name.find("P_M") == std::string::npos) continue;
        parameter.value.value().Fill(0.1);  // of no small effect
      }
      SearchOptions options = {.max_length = 6, .beams = 2};
      const SearchAnswer correct = Search(model, {{.ids = {5, 9, 1}}}, options)[0][0];
      options.decoder.mixings = CachedMixings::kOfCurrentToken;
      const SearchAnswer defective = Search(model, {{.ids = {5, 9, 1}}}, options)[0][0];
      EXPECT_EQ(defective.score == correct.score, !by_position);
    }
  }
}

TEST(SearchTest, WhatCannotBeIsAnError) {
  const T5 t5(TinyT5("multihead"), 2, DType::kFloat64);
  const Lm lm(TinyLm("multihead", 40, 32), 2);
  testing::ExpectRefused<SearchOptions>({{"no token", {.max_length = 0}, {"max_length"}},
                                         {"no beam", {.beams = 0}, {"beams"}},
                                         {"a penalty", {.length_penalty = -1}, {"length_penalty"}},
                                         {"more answers than beams", {.answers = 2}, {"answers"}},
                                         {"drawn beams", {.beams = 2, .sampling = {.temperature = 1}}, {"beams"}},
                                         {"a temperature", {.sampling = {.temperature = -1}}, {"temperature"}},
                                         {"no batch", {.batch = 0}, {"batch"}}},
                                        [&](const SearchOptions& options) {
                                          Search(t5, {{.ids = {5, 1}}}, options);
                                        });
  testing::ExpectRefused<SearchInput>({{"no ids", {.ids = {}}, {"inputs"}},
                                       {"an id beyond", {.ids = {40}}, {"inputs"}},
                                       {"all hidden", {.ids = {4}, .mask = {false}}, {"inputs"}}},
                                      [&](const SearchInput& input) { Search(t5, {input}, {}); });
  testing::ExpectError(
      [&] {
        Search(lm, {{.ids = {4, 5, 6}, .mask = {true, false, true}}}, {});
      },
      ErrorKind::kUsage, {"attention_mask"});
  for (const NamedParameter& parameter : t5.Parameters()) {
    if (parameter.name == "decoder.final_norm.scale") parameter.value.value().Fill(std::nan(""));
  }
  testing::MessageOf([&] { Search(t5, Inputs(TinyIds(2, 9, 40, 1)), {}); }, ErrorKind::kNumerical);
}

// Beside what Hugging Face's generate writes with the same T5 (transformers 4.27.4 in float64; the length of what is
// open at the end without the start token, as later versions count it). Without early stopping that version ends
// searches later than the fifth, whose answers import_fifth_test.cc has.

const std::vector<SearchInput>& Prompts() {
  static const std::vector<SearchInput> prompts = {
      {.ids = {17, 23, 35, 4, 14, 33, 37, 14, 1}},
      {.ids = {15, 19, 21, 7, 16, 24, 24, 6, 28, 7, 16, 22, 26, 29, 1}},
      {.ids = {6, 17, 30, 17, 4, 1}},
  };
  return prompts;
}

// What is written by four beams: the answers of each prompt in turn, each its ids and its score.
TEST(SearchParityTest, EachOptionWritesTheReferencesAnswers) {
  constexpr EarlyStopping kYes = EarlyStopping::kYes;
  const std::pair<SearchOptions, const char*> kCases[] = {
      {{.max_length = 12}, "14 33 4 14 17 37 17 1 | 24 7 28 6 7 16 7 6 7 24 7 24 | 17 4 1 | "},
      {{.max_length = 12, .beams = 4, .early_stopping = kYes, .answers = 4},
       "14 33 4 14 17 37 17 1 -1.29751301 | 14 33 4 14 17 37 14 1 -1.35491705 | 14 33 4 37 17 1 -1.37074673 | "
       "14 33 4 14 17 37 33 1 -1.40888548 | 24 26 7 16 7 24 7 7 6 1 -2.04469943 | "
       "24 26 7 16 7 24 7 7 7 6 1 -2.06810832 | 24 26 7 16 7 6 7 7 21 1 -2.07143807 | "
       "24 26 7 16 7 24 7 7 7 21 1 -2.07420659 | 17 4 31 1 -0.929987252 | 17 4 30 1 -0.99946183 | "
       "17 17 4 1 -1.00601566 | 17 4 1 -1.03000247 | "},
      {{.max_length = 12, .beams = 4, .length_penalty = 0, .early_stopping = kYes, .answers = 4},
       "14 33 4 37 17 1 -8.22447968 | 14 33 4 14 17 37 17 1 -10.3801041 | 14 33 4 14 17 37 14 1 -10.8393364 | "
       "14 33 4 14 17 37 33 1 -11.2710838 | 24 26 7 16 7 24 7 7 6 1 -20.4469948 | "
       "24 26 7 16 7 6 7 7 21 1 -20.7143803 | 24 26 7 16 7 24 7 7 7 6 1 -22.7491913 | "
       "24 26 7 16 7 24 7 7 7 21 1 -22.8162727 | 17 4 1 -3.09000731 | 17 4 31 1 -3.71994901 | "
       "17 4 30 1 -3.99784732 | 17 17 4 1 -4.02406263 | "},
  };
  const std::unique_ptr<Model> model =
      Open(ParityFolder("t5_relu_tied"), {.tokenizer = TokenizerUse::kNone, .dtype = DType::kFloat64}).model;
  for (const auto& [options, expected] : kCases) {
    std::istringstream words(expected);
    for (const std::vector<SearchAnswer>& answers : Search(*model, Prompts(), options)) {
      ASSERT_EQ(std::ssize(answers), options.answers);
      for (const SearchAnswer& answer : answers) {
        for (const int32_t id : answer.ids) {
          int32_t wanted = -1;
          words >> wanted;
          ASSERT_EQ(id, wanted) << expected;
        }
        std::string end;
        if (options.answers > 1) {
          words >> end;
          EXPECT_NEAR(answer.score, std::stod(end), 3e-6) << expected;  // they are floats of up to 23
        }
        words >> end;
        ASSERT_EQ(end, "|") << expected;
      }
    }
  }
}

}  // namespace crosstalk::search_test
