// examples/shakespeare/letters.json is the run of docs/training.md: the usual settings of a small character model.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "crosstalk/runtime/json.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace shakespeare_test {

TEST(ShakespeareTest, TheConfigurationIsTheOneThatIsMeasured) {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "run by `make test`, which says where the sources are";
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "To be, or not to be: that is the question.\n";
  WriteBytes(dir / "text.txt", text);
  const std::string config = std::string(source) + "/examples/shakespeare/letters.json";
  const std::vector<std::string> words = {"train",        "--config",       config,      "--data", dir / "text.txt",
                                          "--validation", dir / "text.txt", "--dry-run", "--json"};
  const CommandResult result = RunCommand(words);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const Json json = ParseJson(result.output, "dry run");
  const Json& configuration = json.At("configuration");
  for (const auto& [key, value] : {std::pair{"model", Json("lm")},
                                   {"attention", Json("multihead")},
                                   {"tokenizer", Json("characters")},
                                   {"layers", Json(4)},
                                   {"heads", Json(4)},
                                   {"d_model", Json(128)},
                                   {"input_length", Json(64)},
                                   {"batch", Json(12)},
                                   {"steps", Json(2000)},
                                   {"optimizer", Json("adamw")},
                                   {"adam_beta1", Json(0.9)},
                                   {"adam_beta2", Json(0.99)},
                                   {"weight_decay", Json(0.1)},
                                   {"clip", Json(1.0)},
                                   {"warmup", Json(100)},
                                   {"schedule", Json("cosine")},
                                   {"learning_rate", Json(0.001)},
                                   {"final_learning_rate", Json(0.0001)},
                                   {"dropout", Json(0.0)}}) {
    EXPECT_EQ(configuration.At(key), value) << key;
  }
  // 4 blocks of 12·128² and two norms, tables of 128 letters and 64 places, and the last norm.
  EXPECT_EQ(json.At("parameters").AsInt(), 4 * (12 * 128 * 128 + 2 * 128) + 128 * 128 + 64 * 128 + 128);
  const CommandResult talking = RunCommand(Joined(words, {"--attention", "talking", "--seed", "3"}));
  EXPECT_EQ(ParseJson(talking.output, "dry run").At("configuration").At("attention"), Json("talking"));
}

}  // namespace shakespeare_test
}  // namespace crosstalk
