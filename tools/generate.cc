// `crosstalk generate`: a trained model writes.
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/utf8.h"
#include "tools/chosen_model.h"
#include "tools/command.h"
#include "tools/output.h"
#include "tools/written_text.h"

namespace crosstalk {

namespace {

struct GenerateSettings {
  std::string run;
  ChosenModel chosen;
  std::optional<std::string> prompt;
  std::optional<int64_t> max_tokens;
  std::optional<double> temperature;
  std::optional<int64_t> top_k;
  std::optional<double> top_p;
  uint64_t seed = 1;
  int64_t samples = 1;
};

// All of standard input but the line end behind it.
std::string ReadStandardInput() {
  constexpr size_t kMost = size_t{1} << 20;
  std::string text;
  for (std::istreambuf_iterator<char> c(std::cin), end; c != end; ++c) {
    text += *c;
    CROSSTALK_CHECK(text.size() <= kMost, "--prompt -: standard input is longer than ", kMost, " bytes");
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

int Generate(GenerateSettings settings) {
  if (!settings.run.empty()) {
    CROSSTALK_CHECK(settings.chosen.run.empty(), "RUN and --run are the same option; give one");
    const bool checkpoint = !RunFolder(settings.run).HoldsRun() && KindOf(settings.run) != PathKind::kNothing;
    CROSSTALK_CHECK(!checkpoint || settings.chosen.checkpoint == "last", "RUN and --checkpoint both name a checkpoint");
    (checkpoint ? settings.chosen.checkpoint : settings.chosen.run) = settings.run;
  }
  CROSSTALK_CHECK(settings.samples >= 1, "--samples: ", settings.samples, " is less than 1");
  const std::string prompt = settings.prompt == "-" ? ReadStandardInput() : settings.prompt.value_or("");
  CROSSTALK_CHECK(FindInvalidUtf8(prompt) == std::string::npos, "--prompt: byte ", FindInvalidUtf8(prompt),
                  " is not part of UTF-8 text");
  const TrainedModel trained = LoadChosenModel(settings.chosen);
  const std::unique_ptr<TextWriter> writer = trained.model->MakeWriter(trained.tokenizer);
  if (writer == nullptr) {
    Fail(ErrorKind::kUsage, trained.checkpoint, ": ", trained.model->Describe(), ", writes no text");
  }
  WritingOptions options = writer->Defaults();
  if (settings.max_tokens) options.max_tokens = *settings.max_tokens;
  if (settings.temperature) options.sampling.temperature = *settings.temperature;
  if (settings.top_k) options.sampling.top_k = *settings.top_k;
  if (settings.top_p) options.sampling.top_p = *settings.top_p;
  options.seed = settings.seed;
  TextOutput output;
  for (int64_t sample = 0; sample < settings.samples; ++sample) {
    if (sample > 0) output.Put("---\n", Author::kPrompt);
    options.sample = static_cast<uint32_t>(sample);
    writer->Write(prompt, options, [&](std::string_view piece, Author author) { output.Put(piece, author); });
    output.EndText();
  }
  return 0;
}

}  // namespace

Command GenerateCommand() {
  return {"generate", "let a trained model write: go on with a text, or fill its blanks",
          "Writes text to standard output as it is formed. A language model goes on with the prompt; a T5 fills the "
          "blanks of one, which are three underscores each. It sees the last tokens of the text, as many as its "
          "examples had (--input-length); when they are used up, it begins anew with the last half of them. The same "
          "run, prompt, options and seed give the same text, on any number of threads.",
          [](OptionTable& options) -> std::function<int()> {
            const auto settings = std::make_shared<GenerateSettings>();
            options.Add("run", &settings->run, "RUN", "The run folder, or a checkpoint's.");
            AddChosenModel(options, &settings->chosen);
            options.Add("--prompt", &settings->prompt, "TEXT",
                        "What to go on with, or a text with blanks; - reads standard input. A language model begins a "
                        "text of its own by default.");
            options.Add("--max-tokens", &settings->max_tokens, "N",
                        "Tokens to write, at most; 200 by default, or 20 for each blank.");
            options.Add("--temperature", &settings->temperature, "X",
                        "Below 1 likely tokens become likelier, 0 takes the likeliest; 0.8 by default, 0 for blanks.");
            options.Add("--top-k", &settings->top_k, "N", "Choose among the N likeliest tokens; all by default.");
            options.Add("--top-p", &settings->top_p, "SHARE",
                        "Choose among the fewest tokens that have this probability together; all by default.");
            options.Add("--seed", &settings->seed, "N", "Decides what is drawn.");
            options.Add("--samples", &settings->samples, "N", "Texts to write, with a line --- between them.");
            options.AddThreads();
            return [settings] { return Generate(*settings); };
          }};
}

}  // namespace crosstalk
