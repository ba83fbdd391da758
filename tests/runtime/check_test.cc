#include "crosstalk/runtime/check.h"

#include <gtest/gtest.h>

#include "crosstalk/runtime/dtype.h"
#include "tests/support/decimal_comma.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace check_test {

TEST(CheckTest, StrCatTakesWhatHasAnOutputOperatorAndDoesNotAskTheHostsLocale) {
  EXPECT_EQ(StrCat("k=", 3, " in ", std::string("Q"), ' ', 2.5, ' ', DType::kInt64), "k=3 in Q 2.5 int64");
  const testing::DecimalCommaScope comma;
  EXPECT_EQ((std::ostringstream() << 1234567 << " " << 0.5).str(), "1.234.567 0,5");
  EXPECT_EQ(StrCat(1234567, " ", 0.5, " ", 1.25e9, " ", -98765432109876), "1234567 0.5 1.25e+09 -98765432109876");
}

TEST(CheckTest, FailThrowsTheMessageAndTheKindWhichIsTheExitCode) {
  int exit_code = 0;
  for (const ErrorKind kind :
       {ErrorKind::kFailure, ErrorKind::kUsage, ErrorKind::kData, ErrorKind::kNumerical, ErrorKind::kResource}) {
    EXPECT_EQ(static_cast<int>(kind), ++exit_code);
    EXPECT_EQ(testing::MessageOf([&] { Fail(kind, "file ", "x", ": byte ", 7); }, kind), "file x: byte 7");
  }
}

// What an error's message names as fields: "name" or, with a value, "name = value".
std::vector<std::string> Named(const Error& error) {
  std::vector<std::string> names;
  for (const Message::Place& place : error.message().fields()) {
    names.push_back(error.message().text().substr(place.begin, place.size + place.gap));
  }
  return names;
}

TEST(CheckTest, AMessageKnowsWhereItNamesFields) {
  Message lines("of another model:");
  lines.Add("\n  ", FieldName{"heads"}, ": ", 8, " here");
  const auto thrown = [](const auto& f) {
    try {
      f();
    } catch (const Error& error) {
      EXPECT_EQ(error.message().text(), error.what());
      return error;
    }
    return Error(ErrorKind::kFailure, "nothing was thrown");
  };
  const struct {
    Error error;
    std::string text;
    std::vector<std::string> named;
  } cases[] = {
      {thrown([] {
         Fail(ErrorKind::kNumerical, "Try a smaller ", FieldName{"rate"}, ", or ", FieldName{"clip", "1"});
       }),
       "Try a smaller rate, or clip = 1",
       {"rate", "clip = "}},
      {thrown([] { CROSSTALK_CHECK_FIELD(false, "d_k", 5, " is not ", FieldName{"d_model"}, " = ", 7); }),
       "d_k: 5 is not d_model = 7",
       {"d_k", "d_model"}},
      {thrown([&] { FailField(ErrorKind::kUsage, "init_from", "d_model is ", lines); }),
       "init_from: d_model is of another model:\n  heads: 8 here",  // a value that is spelt as a field is none
       {"init_from", "heads"}},
      {Error(ErrorKind::kData, "d_model: plain text", "d_model"), "d_model: plain text", {}},
  };
  for (const auto& [error, text, named] : cases) {
    EXPECT_STREQ(error.what(), text.c_str());
    EXPECT_EQ(Named(error), named) << text;
  }
}

TEST(CheckTest, ACheckIsOneStatementAndEvaluatesNoMessageWhereItHolds) {
  int evaluated = 0;
  const auto part = [&] { return ++evaluated; };
  if (evaluated == 0)
    CROSSTALK_CHECK(true, part());
  else
    ADD_FAILURE() << "else of another if";
  EXPECT_EQ(evaluated, 0);
  EXPECT_THROW(CROSSTALK_CHECK(false, part()), Error);
  EXPECT_EQ(evaluated, 1);
}

#ifndef CROSSTALK_NO_DEBUG_CHECKS
TEST(CheckTest, OurOwnMistakesAreLogicErrorsThatNameTheLine) {
  try {
    CROSSTALK_DCHECK(1 + 1 == 3);
    FAIL() << "nothing was thrown";
  } catch (const std::logic_error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("1 + 1 == 3"), std::string::npos) << message;
    EXPECT_NE(message.find("check_test.cc:"), std::string::npos) << message;
  }
}
#endif

// A stream swallows the exception of a failed allocation: what was written so far would pass for the whole.
TEST(CheckTest, StrCatThrowsWhereThereIsNoMemory) {
  const std::string part(300, 'x');
  const auto whole = [&] { return StrCat(part, 17, part, 2.5, part); };
  const std::string expected = whole();
  std::string got;
  EXPECT_GT(testing::FailEachAllocation([&] { got = whole(); }, [&] { EXPECT_EQ(got, ""); }), 2);
  EXPECT_EQ(got, expected);
}

TEST(DTypeTest, DispatchTakesFloatAndDoubleAndNamesTheOpOtherwise) {
  EXPECT_EQ(DispatchFloat("exp", DType::kFloat32, [](auto zero) { return sizeof(zero); }), 4u);
  EXPECT_EQ(DispatchFloat("exp", DType::kFloat64, [](auto zero) { return sizeof(zero); }), 8u);
  EXPECT_EQ(testing::MessageOf([&] { DispatchFloat("exp", DType::kInt32, [](auto zero) { return sizeof(zero); }); }),
            "exp: needs float32 or float64, got int32");
}

}  // namespace check_test
}  // namespace crosstalk
