#include "tools/commands/closing_sample.h"

#include <errno.h>

#include <algorithm>
#include <memory>

#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/measure.h"
#include "tools/cli/format.h"
#include "tools/cli/output.h"
#include "tools/cli/signals.h"
#include "tools/commands/written_text.h"
#include "tools/page/samples.h"

namespace crosstalk {
namespace {

constexpr int64_t kClosingTokens = 150;
constexpr double kClosingSeconds = 10;

std::string ShowSample(const TrainingRun& run) {
  const std::unique_ptr<TextWriter> writer = run.model().MakeWriter(run.data().tokenizer);
  if (writer == nullptr || run.data().tasks != nullptr) return "";
  const SamplePrompt prompt = MakeSamplePrompt(*writer, *run.data().corpus.validation, 0);
  const bool blanks = prompt.kind == SamplePrompt::Kind::kBlanks;
  SearchOptions options = writer->Defaults(prompt.text);
  options.max_length = std::min(options.max_length, kClosingTokens);
  options.seed = run.config().optimization.seed;
  const Stopwatch watch;
  options.stop = [&watch] { return StopSignals::Received() != 0 || watch.seconds() > kClosingSeconds; };
  PrintMessage(blanks ? "it fills blanks of held-out text" : "it goes on with held-out text", ", its own words ",
               ShownAs(), ":\n", ShownText(run.model(), *writer, prompt.text, options));
  return StrCat(program_invocation_name, " generate ", ShellQuoted(run.folder().path()),
                blanks ? " --text 'a text with ___ in it'" : " --text 'a text to go on with'",
                "   more of this\n            ");
}

}  // namespace

std::string ShowClosingSample(const TrainingRun& run) {
  try {
    return ShowSample(run);
  } catch (const Error& error) {
    PrintMessage("no sample of what it writes: ", error.what());
    return "";
  }
}

}  // namespace crosstalk
