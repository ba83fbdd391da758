// The text side of a run: what tells one text from another, what a dry run finds out, and how opening ends early.
#include "crosstalk/models/training/data.h"

#include "crosstalk/models/text/character_tokenizer.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::data_test {

void Write(const std::string& path, const std::string& contents) { std::ofstream(path, std::ios::binary) << contents; }

// Lines of words that are all different.
std::string Words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += StrCat("word", i * 7919 % 100'003, i % 9 == 8 ? "\n" : " ");
  return text;
}

TrainingConfig ConfigOf(const std::string& data, const std::string& tokenizer = "bytes") {
  TrainingConfig config;
  config.model.name = "t5";
  config.data.text = data;
  config.data.tokenizer = tokenizer;
  config.data.vocabulary = 400;
  config.objective.input_length = 32;
  return *ResolvedConfig(config);
}

TEST(TrainingDataTest, TheFingerprintIsOfEveryByteAndOfNothingElse) {
  const TempDir dir;
  std::string text = Words(20'000);
  Write(dir / "text.txt", text);
  const auto fingerprint = [](const std::string& path) {
    return OpenTrainingData(ConfigOf(path), nullptr).fingerprint;
  };
  std::set<std::string> seen = {fingerprint(dir / "text.txt")};
  Write(dir / "copy.txt", text);
  EXPECT_TRUE(seen.count(fingerprint(dir / "copy.txt")));
  for (size_t i = 1; i <= 20; ++i) {
    char& byte = text[i * text.size() / 21];
    byte = byte == 'x' ? 'y' : 'x';
    Write(dir / "text.txt", text);
    EXPECT_TRUE(seen.insert(fingerprint(dir / "text.txt")).second) << i;
  }
  // The same bytes as JSONL would be another text, and so are the same files in other roles.
  const TempDir folder;
  Write(folder / "a.txt", Words(5000));
  Write(folder / "b.txt", "Some other words.\n" + Words(300));
  seen.insert(fingerprint(folder.path()));
  std::filesystem::rename(folder / "a.txt", folder / "c.txt");
  std::filesystem::rename(folder / "b.txt", folder / "a.txt");
  std::filesystem::rename(folder / "c.txt", folder / "b.txt");
  EXPECT_TRUE(seen.count(fingerprint(folder.path()))) << "the smaller file is held out, whatever it is called";
  TrainingConfig roles = ConfigOf(folder / "a.txt");
  roles.data.validation = folder / "b.txt";
  EXPECT_TRUE(seen.insert(OpenTrainingData(roles, nullptr).fingerprint).second);
}

std::string OutcomeOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return StrCat(static_cast<int>(error.kind()), " ", error.what());
  }
  return "accepted";
}

TEST(TrainingDataTest, ADryRunRefusesWhatTrainingRefuses) {
  const TempDir dir;
  Write(dir / "short.txt", "A few words are here and no more than that.");
  Write(dir / "held_out_short.txt", Words(25));
  Write(dir / "long.txt", Words(3000));
  Write(dir / "bad.jsonl", "{\"text\": \"fine\"}\n{\"words\": 3}\n");
  std::string letters;
  for (int i = 0; i < 1000; ++i) {
    for (const int byte : {0xE4 + i / 4096, 0x80 | (i >> 6 & 63), 0x80 | (i & 63)}) letters += static_cast<char>(byte);
  }
  Write(dir / "letters.txt", letters + letters);
  int accepted = 0;
  for (const char* name : {"short.txt", "held_out_short.txt", "long.txt", "bad.jsonl", "letters.txt", "missing"}) {
    for (const std::string& tokenizer : {std::string("bytes"), std::string("sentencepiece"), dir / "long.txt"}) {
      const TrainingConfig config = ConfigOf(dir / name, tokenizer);
      const std::string training = OutcomeOf([&] {
        const TrainingData data = OpenTrainingData(config, nullptr);
        MakeEvaluation(config, data.corpus.validation, data.tokenizer);
        MakeBatches(config, data, {0})->Get(0, 0);
      });
      EXPECT_EQ(OutcomeOf([&] { CheckTrainingData(config); }), training) << name << ", " << tokenizer;
      accepted += training == "accepted";
    }
  }
  EXPECT_EQ(accepted, 3);
  // Hidden spans for which the tokenizer has no sentinels, on text of which none is trained for it.
  TrainingConfig config = ConfigOf("", "sentencepiece");
  EXPECT_EQ(CheckTrainingData(config).tokenizer, nullptr);
  config.objective.input_length = 4096;
  testing::ExpectError([&] { CheckTrainingData(config); }, ErrorKind::kUsage, {"100 sentinels"});
}

TEST(TrainingDataTest, AVocabularyThatNoTokenizerHasIsRefusedWithTheConfiguration) {
  TrainingConfig config;
  config.model.name = "t5";
  config.data.vocabulary = 319;
  testing::ExpectError([&] { ResolvedConfig{config}; }, ErrorKind::kUsage, {"vocabulary: 319 is less than 320"});
  config.data.tokenizer = "bytes";  // does not read it
  EXPECT_NO_THROW(ResolvedConfig{config});
}

TEST(TrainingDataTest, ATokenizerThatIsALinkToItselfIsNamed) {
  const TempDir dir;
  std::filesystem::create_symlink("loop.model", dir / "loop.model");
  testing::ExpectError([&] { LoadNamedTokenizer(ConfigOf("", dir / "loop.model")); }, ErrorKind::kData,
                       {"loop.model", "symbolic links"});
}

TEST(TrainingDataTest, OpeningEndsWhereItIsAskedToAlsoWhileATokenizerIsTrained) {
  const TempDir dir;
  Write(dir / "text.txt", Words(5000));
  const TrainingConfig config = ConfigOf(dir / "text.txt", "sentencepiece");
  int asked = 0;
  const auto never = [&] { return ++asked < 0; };
  const std::string tokenizer = OpenTrainingData(config, nullptr, never).tokenizer->FileContents();
  EXPECT_EQ(tokenizer, OpenTrainingData(config, nullptr).tokenizer->FileContents());
  ASSERT_GT(asked, 12) << "the training is too short for this test";
  // The check of the text asks once, the reading of the sample for each of its 8 segments, the training ever after.
  for (const int end : {1, 5, 12}) {
    asked = 0;
    EXPECT_THROW(OpenTrainingData(config, nullptr, [&] { return ++asked == end; }), Interrupted) << end;
    EXPECT_EQ(asked, end);
  }
  // Let the training that was left alone end before the program does.
  OpenTrainingData(config, nullptr);
}

TEST(TrainingDataTest, ATokenizerThatDoesNotKnowATextIsSaid) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "abcdefgh ";
  std::ofstream(dir / "text.txt") << text;
  const auto source = OpenTextSource(dir / "text.txt");
  EXPECT_EQ(UnknownTokensWarning(*source, *MakeCharacterTokenizer("abcdefgh \n", "x", 0)), "");
  const std::string warning = UnknownTokensWarning(*source, *MakeCharacterTokenizer("abcdef \n", "x", 0));
  EXPECT_EQ(warning.rfind("22 % of the tokens of ", 0), 0u) << warning;
  EXPECT_EQ(UnknownTokensWarning(*source, *MakeByteTokenizer()), "");
}

// Before it is trained on: a tokenizer whose sentinels its own file does not say.
TEST(TrainingDataTest, ATokenizerThatWouldNotComeBackIsRefused) {
  const TempDir dir;
  Write(dir / "text.txt", Words(2000));
  const TrainingConfig config = ConfigOf(dir / "text.txt", "sentencepiece");
  const std::string model = OpenTrainingData(config, nullptr).tokenizer->FileContents();
  const auto tokenizer_of = [&](int sentinels) {
    return std::shared_ptr<const Tokenizer>(LoadTokenizer(model, "x", sentinels));
  };
  EXPECT_NO_THROW(OpenTrainingData(config, tokenizer_of(100)));
  testing::ExpectRefused({{"training", [&] { OpenTrainingData(config, tokenizer_of(90)); }, {"it cannot be kept"}},
                          {"a dry run", [&] { CheckTrainingData(config, tokenizer_of(90)); }, {"it cannot be kept"}}},
                         ErrorKind::kData);
}

}  // namespace crosstalk::data_test
