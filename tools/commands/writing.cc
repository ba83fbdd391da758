#include "tools/commands/writing.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "crosstalk/models/batch.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/text/text_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/numpy_file.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/page/samples.h"

namespace crosstalk {
namespace {

constexpr size_t kMostInputBytes = size_t{64} << 20;  // of standard input, or a file

std::string StandardInput() {
  std::string text;
  for (std::istreambuf_iterator<char> c(std::cin), end; c != end; ++c) {
    text += *c;
    if (text.size() > kMostInputBytes)
      Fail(ErrorKind::kData, "standard input is longer than ", kMostInputBytes, " bytes");
  }
  return text;
}

}  // namespace

std::vector<GenerateInput> ReadText(const std::string& text) {
  std::string whole = text == "-" ? StandardInput() : text;
  if (text == "-" && !whole.empty() && whole.back() == '\n') whole.pop_back();
  const size_t invalid = FindInvalidUtf8(whole);
  CROSSTALK_CHECK_FIELD(invalid == std::string::npos, "text", "byte ", invalid, " is not part of UTF-8 text");
  return {{whole, ""}};
}

std::vector<GenerateInput> ReadLines(const std::string& path) {
  const std::string contents = path == "-" ? StandardInput() : ReadText(path, kMostInputBytes);
  const std::string name = path == "-" ? "standard input" : path;
  std::vector<GenerateInput> lines;
  for (size_t begin = 0; begin < contents.size();) {
    const size_t end = std::min(contents.find('\n', begin), contents.size());
    std::string_view line = std::string_view(contents).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string source = StrCat(name, ", line ", lines.size() + 1);
    const size_t invalid = FindInvalidUtf8(line);
    if (invalid != std::string::npos) {
      Fail(ErrorKind::kData, source, ": byte ", invalid, " is not part of UTF-8 text");
    }
    lines.push_back({std::string(line), source});
    begin = end + 1;
  }
  if (lines.empty()) Fail(ErrorKind::kData, name, ": holds no line");
  return lines;
}

std::vector<SearchInput> ReadIds(const std::string& path, int64_t vocabulary, int32_t pad) {
  const TensorFile file = ReadTensors(path);
  try {
    Batch batch;
    for (const NamedTensor& tensor : file.tensors) {
      if (tensor.name == "input_ids" || tensor.name == "attention_mask") batch.Add(tensor.name, tensor.tensor);
    }
    const Tensor ids = RequiredInputIds(batch, 2, vocabulary);
    Tensor mask = InputMask(batch, "attention_mask", ids.shape());
    if (!mask.defined()) mask = NotPadding(ids, pad);
    std::vector<SearchInput> inputs;
    for (int64_t row = 0; row < ids.size(0); ++row) {
      SearchInput input = {.ids = ids.Select(0, row).ToVector<int32_t>()};
      const bool* const read = mask.data<bool>() + row * ids.size(1);
      input.mask.assign(read, read + ids.size(1));
      if (std::find(input.mask.begin(), input.mask.end(), true) == input.mask.end()) {
        Fail(ErrorKind::kUsage, "attention_mask: row ", row, " hides all of its ids");
      }
      inputs.push_back(std::move(input));
    }
    return inputs;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    Fail(ErrorKind::kData, file.path, ": ", error.what());
  }
}

TextOutput::TextOutput() : terminal_(isatty(STDOUT_FILENO) == 1), bold_(terminal_ && ColourWanted()) {}

void TextOutput::Put(std::string_view piece, Author author) {
  if (piece.empty()) return;
  last_ = piece.back();
  const std::string text = terminal_ ? WithoutControls(piece) : std::string(piece);
  PrintResult(bold_ && author != author_ ? (author == Author::kModel ? "\033[1m" : "\033[0m") + text : text);
  author_ = author;
}

void TextOutput::EndText() {
  PrintResult(StrCat(bold_ && author_ == Author::kModel ? "\033[0m" : "", last_ != '\n' ? "\n" : ""));
  author_ = Author::kPrompt;
  last_ = '\n';
}

namespace {

constexpr int64_t kClosingTokens = 150;
constexpr double kClosingSeconds = 10;

bool BoldIsSeen() { return ColourWanted() && ErrorIsTerminal(); }

// A short text to look at, for a message: the model's words bold or, where that cannot be seen, in brackets.
std::string ShownText(const Model& model, const TextWriter& writer, const std::string& prompt,
                      const SearchOptions& options) {
  std::string shown;
  for (const auto& [kind, text] : WrittenParts(model, writer, prompt, options)) {
    const std::string plain = WithoutControls(text);
    if (kind == SamplePart::Kind::kGiven) {
      shown += plain;
    } else {
      shown += BoldIsSeen() && !plain.empty() ? Bold(plain) : "[" + plain + "]";
    }
  }
  return shown;
}

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
  PrintMessage(blanks ? "the model fills the blanks of a held-out text" : "the model continues a held-out text",
               "; its own words are ", BoldIsSeen() ? "bold" : "in brackets", ":\n",
               ShownText(run.model(), *writer, prompt.text, options));
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
