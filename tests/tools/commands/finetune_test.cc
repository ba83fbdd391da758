// `crosstalk finetune`, `predict` and `score`: the whole path of a task, as a user goes it.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tests/support/command_checks.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"

namespace crosstalk {
namespace finetune_test {

using testing::Contains;

std::string Examples() { return std::string(std::getenv("CROSSTALK_SOURCE")) + "/examples"; }

class FinetuneTest : public ::testing::Test {
 protected:
  void Pretrain(const std::string& model) {
    Succeeded(RunCommand(TinyTrain({"--model", model, "--input-length", "48", "--out", Origin()})));
  }
  std::string Origin() const { return dir_ / "origin"; }
  std::vector<std::string> Finetune(const std::vector<std::string>& more) const {
    return Joined({"finetune", "--from", Origin(), "--task", "stories", "--task-data", Examples(), "--input-length",
                   "48", "--batch", "4", "--steps", "3", "--eval-every", "2", "--target-length", "8"},
                  more);
  }
  std::vector<std::string> FinetuneHead(const std::vector<std::string>& more) const {
    return Joined({"finetune", "--from", Origin(), "--task", "stories", "--task-data", Examples(), "--input-length",
                   "48", "--batch", "4", "--steps", "3", "--eval-every", "2"},
                  more);
  }

  TempDir dir_;
};

TEST_F(FinetuneTest, ADryRunSaysWhatItWouldBeAndWritesNothing) {
  for (const std::string model : {"t5", "bert"}) {
    std::filesystem::remove_all(Origin());
    Pretrain(model);
    const std::vector<std::string> words = model == "t5" ? Finetune({"--out", dir_ / "run", "--dry-run"})
                                                         : FinetuneHead({"--out", dir_ / "run", "--dry-run"});
    const CommandResult text = Succeeded(RunCommand(words));
    EXPECT_TRUE(Contains(text.output, "origin/checkpoints/step-00000008 (step 8)")) << text.output;
    EXPECT_TRUE(Contains(text.errors, "one of a million needs ten times as much")) << text.errors;
    const CommandResult given = RunCommand(Joined(words, {"--learning-rate", "0.01"}));
    EXPECT_FALSE(Contains(given.errors, "ten times")) << given.errors;
    const Json json = ParseJson(RunCommand(Joined(words, {"--json"})).output, "dry run");
    EXPECT_EQ(json.At("configuration").At("task"), Json("stories"));
    EXPECT_EQ(json.At("configuration").At("steps"), Json(3));
    EXPECT_GT(json.At("memory_bytes").AsInt(), 0);
    EXPECT_FALSE(std::filesystem::exists(dir_ / "run"));
  }
}

TEST_F(FinetuneTest, PredictAndScoreSayWhatTheRunSays) {
  Pretrain("t5");
  const std::string run = dir_ / "run";
  const CommandResult finetuned = Succeeded(RunCommand(Finetune({"--out", run, "--json"})));
  const Json scores = ParseJson(ReadBytes(run + "/scores.json"), "scores.json").At("tasks").At("stories");
  EXPECT_EQ(ParseJson(finetuned.output, "output").At("tasks").At("stories").At("accuracy").At("mean"),
            scores.At("accuracy"));
  const CommandResult predicted =
      Succeeded(RunCommand({"predict", "--run", run, "--split", "dev", "--out", dir_ / "answers", "--json"}));
  EXPECT_TRUE(ReadBytes(dir_ / "answers/dev/stories.tsv") == ReadBytes(run + "/predictions/dev/stories.tsv"));
  EXPECT_TRUE(Contains(predicted.errors, "stories: answer 300 of 300\n")) << predicted.errors;
  const CommandResult scored =
      Succeeded(RunCommand({"score", "--task", "stories", "--gold", Examples() + "/stories/dev.tsv", "--predictions",
                            dir_ / "answers/dev/stories.tsv", "--json"}));
  EXPECT_EQ(ParseJson(scored.output, "score").At("accuracy"), scores.At("accuracy"));
  const CommandResult evaluated = Succeeded(RunCommand({"eval", "--run", run, "--json"}));
  EXPECT_EQ(ParseJson(evaluated.output, "eval").At("stories_accuracy"), scores.At("accuracy"));
}

TEST_F(FinetuneTest, EvalAndPredictTakeTheBestCheckpointOrNone) {
  Pretrain("bert");
  const std::string run = dir_ / "run", best = run + "/checkpoints/step-00000002";
  // Steps so small that no answer changes: of equal scores the first is the best.
  Succeeded(RunCommand(FinetuneHead({"--out", run, "--learning-rate", "1e-9"})));
  ASSERT_EQ(ParseJson(ReadBytes(run + "/scores.json"), "scores.json").At("step").AsInt(), 2);
  const auto eval = [&](const std::vector<std::string>& more) {
    return RunCommand(Joined({"eval", "--run", run, "--json"}, more));
  };
  const auto predict = [&] { return RunCommand({"predict", "--run", run, "--out", dir_ / "answers", "--json"}); };
  const auto checkpoint_of = [](const CommandResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return ParseJson(result.output, "output").At("checkpoint").AsString();
  };
  EXPECT_EQ(checkpoint_of(eval({})), best);
  EXPECT_EQ(checkpoint_of(eval({"--checkpoint", "last"})), run + "/checkpoints/step-00000003");
  const CommandResult predicted = predict();
  EXPECT_EQ(checkpoint_of(predicted), best);
  EXPECT_TRUE(Contains(predicted.errors, "answers by " + best + " (step 2)")) << predicted.errors;
  const auto refuse_both = [&](const std::string& says) {
    for (const CommandResult& result : {eval({}), predict()}) {
      EXPECT_EQ(result.exit_code, 3) << result.errors;
      EXPECT_TRUE(Contains(result.errors, "--checkpoint: ") && Contains(result.errors, best)) << result.errors;
      EXPECT_TRUE(Contains(result.errors, says)) << result.errors;
    }
    EXPECT_EQ(checkpoint_of(eval({"--checkpoint", "last"})), run + "/checkpoints/step-00000003");
  };
  WriteBytes(best + "/model.safetensors", "short");
  refuse_both("model.safetensors: truncated");
  std::filesystem::remove_all(best);
  refuse_both("is missing");
  // Without scores nothing says that there was a better one.
  std::filesystem::remove(run + "/scores.json");
  EXPECT_EQ(checkpoint_of(eval({})), run + "/checkpoints/step-00000003");
}

TEST_F(FinetuneTest, SeedsHaveRunsOfTheirOwnAndASummary) {
  Pretrain("bert");
  const std::vector<std::string> command = FinetuneHead({"--out", dir_ / "runs", "--seeds", "1,2"});
  Succeeded(RunCommand(command));
  const Json scores = ParseJson(ReadBytes(dir_ / "runs/scores.json"), "scores.json");
  EXPECT_EQ(scores.At("runs").AsArray().size(), 2u);
  const double first = scores.At("runs").AsArray()[0].At("tasks").At("stories").At("accuracy").AsDouble();
  const double second = scores.At("runs").AsArray()[1].At("tasks").At("stories").At("accuracy").AsDouble();
  EXPECT_NEAR(scores.At("tasks").At("stories").At("accuracy").At("mean").AsDouble(), (first + second) / 2, 1e-15);
  EXPECT_FALSE(ReadBytes(dir_ / "runs/seed-1/model.safetensors") == ReadBytes(dir_ / "runs/seed-2/model.safetensors"));
  // The same command finds all of it done.
  const std::string before = Snapshot(dir_ / "runs/seed-1/checkpoints");
  Succeeded(RunCommand(command));
  EXPECT_EQ(Snapshot(dir_ / "runs/seed-1/checkpoints"), before);
  // One seed more is summarised with those that are there; they must be alike.
  const CommandResult third = Succeeded(RunCommand(FinetuneHead({"--out", dir_ / "runs", "--seeds", "3", "--json"})));
  EXPECT_EQ(third.output, ParseJson(ReadBytes(dir_ / "runs/scores.json"), "scores.json").Dump() + "\n");
  const Json three = ParseJson(third.output, "output");
  ASSERT_EQ(three.At("runs").AsArray().size(), 3u);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(three.At("runs").AsArray()[i].At("seed").AsInt(), static_cast<int64_t>(i + 1));
  EXPECT_EQ(three.At("score").At("seeds").AsInt(), 3);
  std::filesystem::remove(dir_ / "runs/seed-2/scores.json");
  ExpectExit(RunCommand(FinetuneHead({"--out", dir_ / "runs", "--seeds", "3"})), 0,
             {"seed-2 is not finished, and left out"});
  const std::string summary = ReadBytes(dir_ / "runs/scores.json");
  ExpectExit(RunCommand(FinetuneHead({"--out", dir_ / "runs", "--seeds", "4", "--learning-rate", "0.5"})), 3,
             {"learning_rate: 0.5 here"});
  EXPECT_FALSE(std::filesystem::exists(dir_ / "runs/seed-4"));
  EXPECT_EQ(ReadBytes(dir_ / "runs/scores.json"), summary);
  // Another task's labels are not answered by this head.
  std::filesystem::create_directory(dir_ / "SST-2");
  WriteBytes(dir_ / "SST-2/dev.tsv", "sentence\tlabel\ngood film\t1\n");
  ExpectExit(RunCommand({"predict", "--run", dir_ / "runs/seed-1", "--task", "sst-2", "--task-data", dir_ / "SST-2",
                         "--out", dir_ / "other"}),
             2, {"have other answers"});
}

TEST_F(FinetuneTest, ARunThatHasBegunNeedsItsOriginNoMore) {
  for (const std::string model : {"t5", "bert"}) {
    Pretrain(model);
    const std::string whole = dir_ / (model + "-whole"), cut = dir_ / (model + "-cut");
    const auto command = [&](const std::string& out, const std::vector<std::string>& more) {
      return RunCommand(Joined(
          {"finetune", "--from", Origin(), "--task", "stories", "--task-data", Examples(), "--input-length", "48",
           "--batch", "64", "--epochs", "0.3", "--eval-every", "0", "--checkpoint-every", "1", "--out", out},
          Joined(model == "t5" ? std::vector<std::string>{"--target-length", "8"} : std::vector<std::string>{}, more)));
    };
    const CommandResult first = Succeeded(command(whole, {}));
    std::filesystem::copy(whole, cut, std::filesystem::copy_options::recursive);
    const auto steps = ParseJson(ReadBytes(whole + "/run.json"), "run.json").At("configuration").At("steps").AsInt();
    std::string last = std::to_string(steps);
    last = cut + "/checkpoints/step-" + std::string(8 - last.size(), '0') + last;
    ASSERT_EQ(std::filesystem::remove_all(last) > 0, true) << last;
    for (const char* file : {"/model.safetensors", "/scores.json", "/predictions"}) {
      std::filesystem::remove_all(cut + file);
    }
    std::filesystem::rename(Origin(), dir_ / "moved");

    const CommandResult done = Succeeded(command(whole, {}));
    EXPECT_EQ(done.output, first.output);
    Succeeded(command(cut, {}));
    for (const char* file : {"/model.safetensors", "/scores.json", "/predictions/test/stories.tsv"}) {
      EXPECT_TRUE(ReadBytes(cut + file) == ReadBytes(whole + file)) << file;
    }
    ExpectExit(command(whole, {"--learning-rate", "0.5"}), 3, {"learning_rate: 0.5 here"});
    EXPECT_EQ(command(dir_ / "new", {}).exit_code, 2);
    EXPECT_FALSE(std::filesystem::exists(dir_ / "new"));
    std::filesystem::remove_all(dir_ / "moved");
  }
}

// As if the process had ended between the last checkpoint of a run that was continued and its answers.
TEST_F(FinetuneTest, ARunThatWentOnAnswersAnew) {
  Pretrain("bert");
  const std::string run = dir_ / "run", file = run + "/scores.json";
  Succeeded(RunCommand(FinetuneHead({"--out", run})));
  const std::string of_three_steps = ReadBytes(file);
  const std::vector<std::string> on = {"train", "--resume", run, "--steps", "5"};
  Succeeded(RunCommand(on));
  const std::string of_five_steps = ReadBytes(file);
  EXPECT_EQ(ParseJson(of_three_steps, "scores.json").At("steps").AsInt(), 3);
  EXPECT_EQ(ParseJson(of_five_steps, "scores.json").At("steps").AsInt(), 5);
  WriteBytes(file, of_three_steps);
  Succeeded(RunCommand(on));
  EXPECT_EQ(ReadBytes(file), of_five_steps);
}

TEST_F(FinetuneTest, PredictEndsAtASignal) {
  Pretrain("t5");
  Succeeded(RunCommand(Finetune({"--out", dir_ / "run"})));
  RunningCommand running({"predict", "--run", dir_ / "run", "--split", "train", "--out", dir_ / "answers"});
  while (running.Running() && !std::filesystem::exists(dir_ / "answers")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  running.Signal(SIGTERM);
  const CommandResult result = ExpectExit(running.Wait(), 143);
  EXPECT_FALSE(result.signalled);
  EXPECT_TRUE(Contains(result.errors, "interrupted; 0 files are written")) << result.errors;
}

TEST_F(FinetuneTest, AMeasureThatIsUndefinedIsCalledSo) {
  Pretrain("bert");
  std::filesystem::create_directory(dir_ / "STS-B");
  const std::string header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n";
  const std::string row = "\tg\tf\t1\t2\ts\ts\tone text\tanother\t2.5\n";
  WriteBytes(dir_ / "STS-B/train.tsv", header + "0" + row + "1" + row);
  WriteBytes(dir_ / "STS-B/dev.tsv", header + "0" + row + "1" + row);
  const std::string run = dir_ / "run";
  const std::vector<std::string> command = {"finetune", "--from",         Origin(), "--task",  "sts-b", "--task-data",
                                            dir_ / "",  "--steps",        "4",      "--batch", "2",     "--eval-every",
                                            "2",        "--input-length", "32",     "--out",   run};
  const CommandResult finetuned = Succeeded(RunCommand(command));
  EXPECT_TRUE(Contains(finetuned.output, "| sts-b | pearson | undefined | undefined |")) << finetuned.output;
  EXPECT_TRUE(Contains(finetuned.errors, "sts-b_pearson undefined (constant guess undefined)")) << finetuned.errors;
  const Json scores = ParseJson(ReadBytes(run + "/scores.json"), "scores.json");
  EXPECT_EQ(scores.At("score").AsDouble(), 0);
  EXPECT_TRUE(scores.At("tasks").At("sts-b").At("pearson").is_null());
  EXPECT_TRUE(scores.At("tasks").At("sts-b").At("constant_guess").At("score").is_null());
  const CommandResult shown = RunCommand({"eval", "--run", run});
  EXPECT_TRUE(Contains(shown.output, "score 0.00 %") && Contains(shown.output, "sts-b_pearson undefined"))
      << shown.output;
  const CommandResult json = RunCommand({"eval", "--run", run, "--json"});
  EXPECT_TRUE(ParseJson(json.output, "output").At("sts-b_pearson").is_null()) << json.output;
  EXPECT_EQ(RunCommand(command).output, finetuned.output);
}

TEST_F(FinetuneTest, ErrorsNameTheOption) {
  Pretrain("bert");
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& expected) {
    ExpectExit(RunCommand(arguments), 2, {expected});
  };
  refused({"finetune", "--task", "stories", "--task-data", Examples()}, "--from is missing");
  refused({"finetune", "--from", Origin(), "--task", "stories"}, "--task-data: is missing");
  refused({"finetune", "--from", Origin(), "--task-data", Examples()}, "--task: is missing");
  refused({"finetune", "--from", Origin(), "--task", "storys", "--task-data", Examples()}, "did you mean \"stories\"?");
  refused({"finetune", "--from", Origin(), "--task", "cola", "--task-data", Examples()}, "has no file of cola");
  refused(FinetuneHead({"--noise-density", "0.2"}), "--noise-density");
  refused(FinetuneHead({"--target-length", "7"}), "--target-length");
  refused(FinetuneHead({"--seeds", "1,2"}), "--seeds needs --out");
  refused(FinetuneHead({"--seeds", "2,2", "--out", dir_ / "twice"}), "stands there twice");
  refused(FinetuneHead({"--seeds", "1,18446744073709551615", "--out", dir_ / "huge"}), "--seeds: 18446744073709551615");
  refused(FinetuneHead({"--seeds", "1", "--seed", "2", "--out", dir_ / "both"}), "--seeds and --seed");
  refused({"finetune", "--from", Origin(), "--task", "stories,", "--task-data", Examples()},
          "--task: \"stories,\" ends");
  refused({"finetune", "--from", Origin(), "--task", ",stories", "--task-data", Examples()}, "has an empty part");
  refused(FinetuneHead({"--epochs", "2"}), "--epochs and --steps");
  refused({"finetune", "--from", dir_ / "nowhere", "--task", "stories", "--task-data", Examples()}, "--from: ");
  // What a run reads after the options says the option too.
  Succeeded(RunCommand(FinetuneHead({"--out", dir_ / "run"})));
  std::filesystem::copy(Origin(), dir_ / "other", std::filesystem::copy_options::recursive);
  const auto from = [&](const std::string& origin) {
    std::vector<std::string> command = FinetuneHead({"--out", dir_ / "run"});
    command[2] = origin;
    return command;
  };
  Succeeded(RunCommand(from(dir_ / "other")));  // the same weights elsewhere
  refused(from(dir_ / "nowhere"), "--from: ");
  ExpectExit(RunCommand({"eval", "--run", dir_ / "run", "--data", dir_ / "other"}), 2, {"--data: "});
  Succeeded(RunCommand(TinyTrain({"--model", "bert", "--input-length", "48", "--seed", "7", "--out", dir_ / "seven"})));
  ExpectExit(RunCommand(from(dir_ / "seven")), 3, {"--from: weights crc64:"});
  std::filesystem::create_directory(dir_ / "foreign");
  WriteBytes(dir_ / "foreign/scores.json", "{}");
  refused(FinetuneHead({"--seeds", "1", "--out", dir_ / "foreign"}), "not those of seeds");
  EXPECT_EQ(ReadBytes(dir_ / "foreign/scores.json"), "{}");
  refused({"predict", "--run", Origin(), "--out", dir_ / "x"}, "was not trained on tasks");
  refused({"predict", "--run", dir_ / "run", "--out", dir_ / "x", "--no-answer-threshold", "0.5"},
          "--no-answer-threshold is of tasks whose questions may lack an answer, and not of stories");
  refused({"predict", "--run", dir_ / "run", "--out", dir_ / "x", "--task", "stories,"}, "--task: \"stories,\" ends");
  ExpectExit(RunCommand({"predict", "--run", dir_ / "run", "--out", "/proc/none/x"}), 1,
             {"--out: /proc/none: cannot create the directory: ", "; choose another folder"});
  EXPECT_FALSE(std::filesystem::exists(dir_ / "x"));
}

}  // namespace finetune_test
}  // namespace crosstalk
