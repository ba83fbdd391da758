// Search beside what Hugging Face's generate writes with the same T5 (transformers 4.27.4 in float64; the length of
// what is open at the end without the start token, as later versions count it).
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/interop/import.h"
#include "tests/support/parity.h"

namespace crosstalk::search_parity_test {

const std::vector<SearchInput>& Prompts() {
  static const std::vector<SearchInput> prompts = {
      {.ids = {17, 23, 35, 4, 14, 33, 37, 14, 1}},
      {.ids = {15, 19, 21, 7, 16, 24, 24, 6, 28, 7, 16, 22, 26, 29, 1}},
      {.ids = {6, 17, 30, 17, 4, 1}},
  };
  return prompts;
}

std::unique_ptr<Model> Published() {
  return Open(ParityFolder("t5_relu_tied"), {.tokenizer = TokenizerUse::kNone, .dtype = DType::kFloat64}).model;
}

// What is written by four beams: the answers of each prompt in turn, each its ids and its score.
TEST(SearchParityTest, EachOptionWritesTheReferencesAnswers) {
  constexpr EarlyStopping kYes = EarlyStopping::kYes;
  const std::pair<SearchOptions, const char*> kCases[] = {
      {{.max_length = 12}, "14 33 4 14 17 37 17 1 | 24 7 28 6 7 16 7 6 7 24 7 24 | 17 4 1 | "},
      {{.max_length = 12, .beams = 4, .answers = 4},
       "14 33 4 14 17 37 17 1 -1.29751301 | 14 33 4 14 17 37 14 1 -1.35491705 | 14 33 4 37 17 1 -1.37074673 | "
       "14 33 4 14 17 37 33 1 -1.40888548 | 24 26 7 16 7 24 7 7 16 7 6 1 -2.04032826 | "
       "24 26 7 16 7 24 7 7 6 1 -2.04469943 | 24 26 7 16 7 24 7 7 7 6 1 -2.06810832 | "
       "24 26 7 16 7 24 7 7 7 21 6 1 -2.07082033 | 17 4 31 1 -0.929987252 | 4 17 30 17 1 -0.968423188 | "
       "17 4 30 1 -0.99946183 | 17 17 4 1 -1.00601566 | "},
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
  const std::unique_ptr<Model> model = Published();
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

}  // namespace crosstalk::search_parity_test
