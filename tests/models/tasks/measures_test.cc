#include "crosstalk/models/tasks/measures.h"

#include <gtest/gtest.h>

namespace crosstalk::measures_test {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Classes = std::vector<int64_t>;
using Numbers = std::vector<double>;

// Computed with scikit-learn 1.2 (accuracy_score, f1_score, f1_score with labels 0, 1, 2 and average "macro",
// matthews_corrcoef); classes are drawn at random, and digits of `targets` and `answers`.
struct ClassCase {
  const char *targets, *answers;
  double accuracy, f1, macro, matthews;
};
constexpr ClassCase kClassCases[] = {
    {"01", "10", 0.0, kNaN, 0.0, -1.0},
    {"110010000", "110010000", 1.0, 1.0, 0.6666666666666666, 1.0},
    {"10", "00", 0.5, 0.0, 0.2222222222222222, 0.0},
    {"01101111010110110100", "01101010010110010111", 0.75, 0.7826086956521738, 0.4961636828644502, 0.4923659639173309},
    {"0111110110000010000101010011000101111110", "1101010101011101011000010111110101000110", 0.5, 0.5238095238095238,
     0.3324979114452799, 0.0},
    {"0", "2", 0.0, kNaN, 0.0, 0.0},
    {"2102201010100102210220201112201100102200", "0120200121200101110221202112201010110201", 0.575, kNaN,
     0.5757380568974773, 0.36329249938580416},
    {"01", "11", 0.5, 0.6666666666666666, 0.2222222222222222, 0.0},
    {"200112002", "200112002", 1.0, kNaN, 1.0, 1.0},
    {"0110100100011110001001100111011100010011", "1110100100011100001000111111011100001010", 0.8, 0.8000000000000002,
     0.5333333333333334, 0.6},
    {"0010011110111001010000100111110011111110", "0010001111111001010010100100111011111110", 0.85, 0.8695652173913043,
     0.5643648763853367, 0.6930946291560103},
    {"00011", "00111", 0.8, 0.8, 0.5333333333333333, 0.6666666666666666},
    {"02", "00", 0.5, kNaN, 0.2222222222222222, 0.0},
    {"021120002", "021100000", 0.7777777777777778, kNaN, 0.7666666666666666, 0.7016464154456235},
};

Classes Digits(const char* text) {
  Classes digits;
  for (; *text != 0; ++text) digits.push_back(*text - '0');
  return digits;
}

TEST(MeasuresTest, ClassesScoreAsInScikitLearn) {
  for (const ClassCase& one : kClassCases) {
    SCOPED_TRACE(std::string(one.targets) + " " + one.answers);
    const Classes targets = Digits(one.targets), answers = Digits(one.answers);
    EXPECT_EQ(Accuracy(targets, answers), one.accuracy);
    EXPECT_DOUBLE_EQ(MacroF1(targets, answers, 3), one.macro);
    EXPECT_DOUBLE_EQ(Matthews(targets, answers), one.matthews);
    if (!std::isnan(one.f1)) {
      EXPECT_DOUBLE_EQ(BinaryF1(targets, answers), one.f1);
    }
  }
}

TEST(MeasuresTest, AnAnswerThatIsNoLabelIsTheOppositeOfItsTarget) {
  const Classes targets = {0, 1, 1, 0};
  EXPECT_EQ(BinaryF1(targets, Classes{kNoLabel, 1, kNoLabel, 0}), BinaryF1(targets, Classes{1, 1, 0, 0}));
  EXPECT_EQ(BinaryF1(targets, Classes{2, 1, 7, 0}), 0.5);
  EXPECT_EQ(Accuracy(targets, Classes{kNoLabel, 1, kNoLabel, 0}), 0.5);
  // It is of no class: it misses its own and adds to none.
  EXPECT_DOUBLE_EQ(MacroF1(Classes{0, 1, 2}, Classes{0, kNoLabel, 2}, 3), 2.0 / 3);
  // A class of its own: (2·4 - 4) / √((16 - 8)(16 - 6)), not the 0.5 / √… of a right one.
  EXPECT_DOUBLE_EQ(Matthews(targets, Classes{0, 1, 1, kNoLabel}), (3.0 * 4 - 6) / std::sqrt((16.0 - 8) * (16 - 6)));
}

TEST(MeasuresTest, WhereAMeasureIsNotDefined) {
  EXPECT_EQ(BinaryF1(Classes{0, 0}, Classes{0, 0}), 0);
  EXPECT_EQ(MacroF1(Classes{1, 1}, Classes{1, 1}, 3), 1.0 / 3);
  EXPECT_EQ(Matthews(Classes{1, 1, 1}, Classes{0, 1, 0}), 0);
  EXPECT_EQ(Matthews(Classes{1, 0, 1}, Classes{0, 0, 0}), 0);
  EXPECT_TRUE(std::isnan(Pearson(Numbers{1, 2, 3}, Numbers{5, 5, 5})));
  EXPECT_TRUE(std::isnan(Spearman(Numbers{0, 0, 0}, Numbers{1, 2, 3})));
  for (size_t n = 2; n < 50; ++n) {  // whatever the mean is rounded to
    Numbers rising(n);
    for (size_t i = 0; i < n; ++i) rising[i] = 0.3 * static_cast<double>(i);
    EXPECT_TRUE(std::isnan(Pearson(Numbers(n, 0.1), rising))) << n;
    EXPECT_TRUE(std::isnan(Pearson(rising, Numbers(n, 1e9 / 3)))) << n;
  }
  EXPECT_TRUE(std::isnan(Pearson(Numbers{1}, Numbers{2})));
  EXPECT_TRUE(std::isnan(Pearson(Numbers{1, 2, kNaN}, Numbers{1, 2, 3})));
  EXPECT_TRUE(std::isnan(Spearman(Numbers{1, 2, 3}, Numbers{1, kNaN, 3})));
  EXPECT_TRUE(std::isnan(Pearson(Numbers{1, 2, kInfinity}, Numbers{1, 2, 3})));
  EXPECT_EQ(Spearman(Numbers{1, 2, kInfinity}, Numbers{-kInfinity, 2, 3}), 1);
  for (const double nothing :
       {Accuracy({}, {}), BinaryF1({}, {}), MacroF1({}, {}, 3), Matthews({}, {}), Pearson({}, {}), Spearman({}, {})}) {
    EXPECT_TRUE(std::isnan(nothing));
  }
}

TEST(MeasuresTest, EqualValuesShareTheMeanOfTheirRanks) {
  EXPECT_EQ(AverageRanks(Numbers{10, 20, 10, 5, 20, 10}), (Numbers{3, 5.5, 3, 1, 5.5, 3}));
  EXPECT_EQ(AverageRanks(Numbers{-0.0, 0.0, -1}), (Numbers{2.5, 2.5, 1}));
}

// Computed from the definition with exact fractions and a square root of 40 digits, and by scipy 1.10 to within 2e-16
// if there is no offset: its own errors at the last four are 1e-16, 1e-14, 4e-5 and 1e-4.
struct NumberCase {
  Numbers x, y;
  double pearson, spearman;
};
const NumberCase kNumberCases[] = {
    {{3.5, 4.1, 4.8, 3.1, 1.7, 4.2}, {0.5, 3.5, 0.5, 2.0, 2.5, 2.0}, -0.29627479721555716, -0.3825184261187248},
    {{4.9, 1.2, 1.4}, {2.5, 2.0, 2.5}, 0.5410408239774164, 0.8660254037844386},
    {{1.9, 3.2, 4.8, 3.2, 1.2, 0.3}, {4.5, 3.0, 1.5, 3.0, 3.0, 2.5}, -0.4175359663380398, -0.2156143862717941},
    {{4.5, 2.7}, {2.5, 3.5}, -1.0, -1.0},
    {{999999999.7405064, 1000000000.9693749, 999999999.0802358, 1000000000.0629301, 999999999.8866996,
      999999999.2564062},
     {1.9759413139299369, 3.53823702405251, 4.411578046012041, 0.12309855731671704, 2.6225477930154457,
      0.45188297517629206},
     0.07573701045101251,
     -0.2},
    {{-999999999.3992131, -1000000000.8284295, -1000000000.9316133, -1000000000.2315276, -999999999.5347877,
      -1000000000.3735867},
     {0.6500244982652376, 3.9728611104258587, 4.034596909475924, 4.27929899386286, 1.5187223663202842,
      2.1241518050948676},
     -0.8445463143376174,
     -0.6571428571428571},
    {{999999999.9999949, 1000000000.0000012, 999999999.9999965, 999999999.9999968, 1000000000.0000057},
     {1000000000.0000092, 1000000000.0000017, 999999999.9999921, 1000000000.0000031, 999999999.9999989},
     -0.26482269342286857,
     -0.4},
    {{1000000000000004.0, 1000000000000004.0, 1000000000000004.0, 1000000000000004.0, 1000000000000000.0},
     {4.484091959140627, 4.158085323540045, 1.456629438071645, 0.7851594761004371, 1.8517593439384745},
     0.23310147903780987,
     0.0},
};

TEST(MeasuresTest, CorrelationsAreThoseOfExactFractions) {
  // Each deviation from the mean is rounded once, and so are the three sums, the root and the quotient.
  constexpr double kTolerance = 1e-15;
  for (const NumberCase& one : kNumberCases) {
    SCOPED_TRACE(::testing::PrintToString(one.x) + ::testing::PrintToString(one.y));
    EXPECT_NEAR(Pearson(one.x, one.y), one.pearson, kTolerance);
    EXPECT_NEAR(Spearman(one.x, one.y), one.spearman, kTolerance);
  }
}

TEST(MeasuresTest, OffsetsAndMagnitudesChangeNoCorrelation) {
  const Numbers x = {1, 2, 3.5, 4, 7.25, -3}, y = {2, 1, 4, 4.5, 5, 0.5};
  const double expected = Pearson(x, y);
  for (const double offset : {1e9, -1e9, 1e12}) {
    for (const double scale : {1.0, 0x1p-400, 0x1p900}) {
      Numbers shifted;
      for (const double value : x) shifted.push_back((value + offset) * scale);
      EXPECT_NEAR(Pearson(shifted, y), expected, 1e-15) << offset << " " << scale;
    }
  }
  EXPECT_EQ(Pearson(Numbers{1.7e308, -1.7e308, 3}, Numbers{1, -1, 0}), Pearson(Numbers{1, -1, 0}, Numbers{1, -1, 0}));
  EXPECT_EQ(Pearson(Numbers{5e-324, 0}, Numbers{3, 7}), -1);
}

}  // namespace crosstalk::measures_test
