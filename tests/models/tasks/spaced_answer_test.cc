#include <gtest/gtest.h>

#include "crosstalk/models/tasks/squad.h"
#include "crosstalk/models/tasks/text_to_text.h"

namespace crosstalk {
namespace spaced_answer_test {

constexpr const char* kPassage = "In 1862, the U.S. Army (of 3.5 million) won: \"the Keck-built\u00A0fort\" fell.";

TEST(SpacedAnswerTest, AnAnswerReadsAsInThePassage) {
  for (const char* answer : {"U.S. Army", "1862", "3.5 million", "Keck-built", "(of 3.5",
                             "\"the Keck-built\u00A0fort\"", "In 1862, the U.S.", "fell.", "."}) {
    EXPECT_EQ(UnspacedAnswer(SpacedPunctuation(answer), kPassage), answer);
    EXPECT_EQ(UnspacedAnswer(answer, kPassage), answer);
  }
}

TEST(SpacedAnswerTest, WhatStandsNowhereStaysAsItIs) {
  EXPECT_EQ(UnspacedAnswer(" U . S . Navy\n", kPassage), "U . S . Navy");
  EXPECT_EQ(UnspacedAnswer("Ar my", kPassage), "Ar my");
  EXPECT_EQ(UnspacedAnswer("mil lion", kPassage), "mil lion");
  EXPECT_EQ(UnspacedAnswer("the U . S", "the U.S."), "the U.S");
  EXPECT_EQ(UnspacedAnswer(" ", kPassage), "");
  EXPECT_EQ(UnspacedAnswer("x", ""), "x");
}

}  // namespace spaced_answer_test
}  // namespace crosstalk
