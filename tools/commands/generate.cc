// `crosstalk generate`: a trained model writes.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/open_model.h"
#include "tools/cli/output.h"
#include "tools/commands/writing.h"

namespace crosstalk {

namespace {

// Inputs of a call of Search, in batches: among so many, those of a length are looked for.
constexpr int64_t kBatchesTogether = 8;

struct GenerateSettings {
  const OptionTable* options = nullptr;
  ModelToOpen chosen;
  std::optional<Precision> precision;  // none: the model's own
  std::optional<std::string> text, texts, inputs;
  std::optional<int64_t> max_length;
  std::optional<double> temperature;
  SearchOptions search;
  bool early_stopping = false;
  bool json = false;
};

FieldTable<GenerateSettings> GenerateFields() {
  using S = GenerateSettings;
  const auto search = [](auto SearchOptions::*member) {
    return [member](S& settings) -> decltype(auto) { return (settings.search.*member); };
  };
  return Joined(
      FieldsOfPart(ModelToOpenFields(WhichCheckpoint::kDefault), &S::chosen), {PrecisionField(&S::precision)},
      Grouped<S>(
          "What to write for",
          {MakeOption("--text", &S::text, "TEXT",
                      "One text; - reads it from standard input. Without one, a language model writes its own."),
           MakeOption("--texts", &S::texts, "FILE",
                      "A text per line; - reads standard input. For an empty line a language model writes its "
                      "own text, and a T5 refuses it.",
                      {.is_path = true, .not_paths = {"-"}}),
           MakeOption(
               "--inputs", &S::inputs, "FILE",
               "Tensors (safetensors, .npz or .npy): input_ids[b, n], I32 or I64, and attention_mask[b, n], 1 = read; "
               "by default all except padding that ends no text.",
               {.is_path = true})}),
      Grouped<S>(
          "How",
          {MakeOption("--max-length", &S::max_length, "N",
                      "Most tokens to write, including the end token; 200 by default. In a text with blanks, tokens "
                      "for each blank, without sentinels and the end; 20 by default."),
           MakeOption("--temperature", &S::temperature, "X",
                      "Below 1 likely tokens become likelier, 0 takes the likeliest; 0.8 by default, 0 for a T5, for "
                      "answers and with beams."),
           MakeOption<S>(
               "--top-k", [](S& settings) -> int64_t& { return settings.search.sampling.top_k; }, "N",
               "Choose among the N likeliest tokens; 0: all."),
           MakeOption<S>(
               "--top-p", [](S& settings) -> double& { return settings.search.sampling.top_p; }, "SHARE",
               "Choose among the fewest tokens with this total probability."),
           MakeOption<S>("--seed", search(&SearchOptions::seed), "N", "Seed of the samples.", {.range = kSeedRange}),
           MakeOption<S>("--beams", search(&SearchOptions::beams), "N",
                         StrCat("Hypotheses that a beam search keeps, 1 to ", kMostBeams, "; 1: no beam search.")),
           MakeOption<S>("--length-penalty", search(&SearchOptions::length_penalty), "X",
                         "α of the scores, at least 0, which compares sums; the larger, the longer the answers."),
           MakeOption<S>("--length-normalisation", search(&SearchOptions::normalisation), "",
                         "What sums are divided by: length^α (power), or ((5 + length) / 6)^α (gnmt, T5's)."),
           MakeOption("--early-stopping", &S::early_stopping, "",
                      "End a beam search when as many answers have ended as there are beams; else it continues until "
                      "open hypotheses can hardly win."),
           MakeOption<S>(
               "--answers", search(&SearchOptions::answers), "N",
               StrCat("Answers per input: the best of the beams, or samples, 1 to ", kMostBeams, "; best first."))}),
      Grouped<S>("Running", {MakeOption<S>("--batch", search(&SearchOptions::batch), "N",
                                           "Most inputs computed together. Never changes a bit."),
                             MakeOption("--json", &S::json, "", "One JSON object a line.")}));
}

// A model that is to write, and with what.
struct Writing {
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;  // null if there is none
  std::unique_ptr<TextWriter> writer;          // null without one
};

// Options that change nothing beside the others are mistakes.
void CheckOptionsHaveEffect(const GenerateSettings& settings, const SearchOptions& options) {
  const auto check = [&](const char* name, bool has_effect, const char* needs) {
    CROSSTALK_CHECK(has_effect || !settings.options->Given(name), name, needs);
  };
  const bool draws = options.sampling.temperature > 0;
  constexpr const char* kNeedsTemperature =
      " is of tokens that are drawn, and at temperature 0 the likeliest is taken; give --temperature too, above 0";
  for (const char* name : {"--top-k", "--top-p", "--seed"}) check(name, draws, kNeedsTemperature);
  check("--early-stopping", options.beams > 1, " is of a beam search; give --beams too, 2 or more");
  // One answer that is shown without its score is the same whatever that is.
  const bool scores = options.beams > 1 || options.answers > 1 || settings.json;
  for (const char* name : {"--length-penalty", "--length-normalisation"}) {
    check(name, scores, " is of scores; give --beams or --answers too, 2 or more, or --json");
  }
}

// The method and the lengths that are asked for, over what suits such an input.
SearchOptions OptionsFor(const GenerateSettings& settings, const SearchOptions& defaults) {
  SearchOptions options = settings.search;
  options.max_length = settings.max_length.value_or(defaults.max_length);
  const double temperature = options.beams > 1 ? 0 : defaults.sampling.temperature;
  options.sampling.temperature = settings.temperature.value_or(temperature);
  options.early_stopping = settings.early_stopping ? EarlyStopping::kYes : EarlyStopping::kNo;
  options.Validate();
  CheckOptionsHaveEffect(settings, options);
  return options;
}

// Answers as they are shown: {"input": 0, "ids": […], "text": "…", "score": -1.2} a line, or texts.
class Answers {
 public:
  Answers(const Writing& writing, bool json) : writing_(writing), json_(json) {}

  void Put(size_t input, const std::optional<GenerateInput>& text, const SearchAnswer& answer) {
    if (json_) {
      const std::optional<std::string> words = Words(text, answer);
      PrintResult(Json::MakeObject({{"input", static_cast<int64_t>(input)},
                                    {"ids", ToJson(answer.ids)},
                                    {"text", ToJson(words)},
                                    {"score", answer.score}}));
      return;
    }
    BeginText();
    if (text) {
      const auto written = writing_.writer->Begin(
          text->text, [this](std::string_view piece, Author author) { output_.Put(piece, author); });
      for (const int32_t id : answer.ids) written->Add(id);
      written->End();
    } else {
      std::string ids;
      for (const int32_t id : answer.ids) ids += StrCat(ids.empty() ? "" : " ", id);
      output_.Put(Words(text, answer).value_or(ids), Author::kModel);
    }
    output_.EndText();
  }

  void Stream(const GenerateInput& input, const SearchOptions& options) {
    BeginText();
    WriteText(*writing_.model, *writing_.writer, input.text, options,
              [this](std::string_view piece, Author author) { output_.Put(piece, author); });
    output_.EndText();
  }

 private:
  // Texts of several lines are told apart by one of three dashes.
  void BeginText() {
    const bool lines = writing_.writer != nullptr && writing_.writer->WritesLines();
    if (lines && !first_) output_.Put("---\n", Author::kPrompt);
    first_ = false;
  }
  // None without a tokenizer.
  std::optional<std::string> Words(const std::optional<GenerateInput>& text, const SearchAnswer& answer) const {
    if (text) return TextOf(*writing_.writer, text->text, answer);
    if (writing_.tokenizer == nullptr) return std::nullopt;
    std::vector<int32_t> known;  // ids above the tokenizer's pad the model's vocabulary
    for (const int32_t id : answer.ids) {
      if (id < writing_.tokenizer->vocab_size()) known.push_back(id);
    }
    return ReplaceInvalidUtf8(writing_.tokenizer->Decode(known));
  }

  const Writing& writing_;
  bool json_;
  bool first_ = true;
  TextOutput output_;
};

// Each range of the inputs that one call of Search takes, in their order.
void ForTogether(size_t count, int64_t batch, const std::function<void(size_t begin, size_t end)>& use) {
  const auto together = static_cast<size_t>(SaturatingProduct(batch, kBatchesTogether));
  for (size_t begin = 0; begin < count; begin += together) use(begin, std::min(count, begin + together));
}

// A mask that the model cannot follow is the file's fault.
std::vector<std::vector<SearchAnswer>> SearchIds(const std::string& path, const Model& model,
                                                 const std::vector<SearchInput>& inputs, const SearchOptions& options) {
  try {
    return Search(model, inputs, options);
  } catch (const Error& error) {
    if (error.field() != "attention_mask") throw;
    Fail(ErrorKind::kData, path, ": ", error.what());
  }
}

int WriteForIds(const GenerateSettings& settings, const Writing& writing, const Decoder& decoder) {
  const SearchOptions defaults = writing.writer != nullptr ? writing.writer->Defaults("") : SearchOptions();
  const SearchOptions options = OptionsFor(settings, defaults);
  const ModelConfig& config = decoder.config();
  // Padding that ends texts is a token of a text, as far as no mask hides it.
  const int32_t pad = config.EndsText(config.tokens.pad) ? kNoToken : config.tokens.pad;
  const std::vector<SearchInput> inputs = ReadIds(*settings.inputs, config.vocabulary, pad);
  Answers answers(writing, settings.json);
  ForTogether(inputs.size(), options.batch, [&](size_t begin, size_t end) {
    const auto first = inputs.begin() + static_cast<int64_t>(begin);
    const auto found =
        SearchIds(*settings.inputs, *writing.model, {first, first + static_cast<int64_t>(end - begin)}, options);
    for (size_t i = 0; i < found.size(); ++i) {
      for (const SearchAnswer& answer : found[i]) answers.Put(begin + i, std::nullopt, answer);
    }
  });
  return 0;
}

// An error of the field "text" that a line of a file makes is that file's.
SearchInput Read(const TextWriter& writer, const GenerateInput& input, int64_t max_length) {
  try {
    return writer.Read(input.text, max_length);
  } catch (const Error& error) {
    if (input.source.empty() || error.kind() != ErrorKind::kUsage) throw;
    Fail(ErrorKind::kData, input.source, ": ", error.what());
  }
}

int WriteForTexts(const GenerateSettings& settings, const Writing& writing) {
  const TextWriter& writer = *writing.writer;
  const std::vector<GenerateInput> inputs =
      settings.texts ? ReadLines(*settings.texts) : ReadText(settings.text.value_or(""));
  const SearchOptions plain = OptionsFor(settings, writer.Defaults(inputs[0].text));
  Answers answers(writing, settings.json);
  const bool alone = inputs.size() == 1 || plain.batch == 1;
  if (alone && plain.beams == 1 && plain.answers == 1 && !settings.json) {
    for (const GenerateInput& input : inputs) {
      const SearchOptions options = OptionsFor(settings, writer.Defaults(input.text));
      Read(writer, input, options.max_length);
      answers.Stream(input, options);
    }
    return 0;
  }
  ForTogether(inputs.size(), plain.batch, [&](size_t begin, size_t end) {
    std::vector<SearchInput> some;
    for (size_t i = begin; i < end; ++i) {
      some.push_back(Read(writer, inputs[i], OptionsFor(settings, writer.Defaults(inputs[i].text)).max_length));
    }
    const auto found = Search(*writing.model, some, plain);
    for (size_t i = 0; i < found.size(); ++i) {
      for (const SearchAnswer& answer : found[i]) answers.Put(begin + i, inputs[begin + i], answer);
    }
  });
  return 0;
}

int Generate(const GenerateSettings& settings) {
  CROSSTALK_CHECK(settings.text.has_value() + settings.texts.has_value() + settings.inputs.has_value() <= 1,
                  "--text, --texts and --inputs are three ways to say what to write for; give one");
  Trained trained =
      OpenModel(settings.chosen, {.which = WhichCheckpoint::kDefault, .tokenizer = TokenizerUse::kWhereThere});
  TakePrecision(settings.precision, *trained.model);
  Writing writing = {std::move(trained.model), std::move(trained.tokenizer), nullptr};
  const std::unique_ptr<Decoder> decoder = writing.model->MakeDecoder({});
  if (decoder == nullptr) Fail(ErrorKind::kUsage, writing.model->Describe(), ", writes no text");
  if (writing.tokenizer != nullptr) writing.writer = writing.model->MakeWriter(writing.tokenizer);
  if (settings.inputs) return WriteForIds(settings, writing, *decoder);
  CROSSTALK_CHECK(writing.writer != nullptr, "the model has no tokenizer, and reads ids only: give --inputs");
  return WriteForTexts(settings, writing);
}

constexpr const char* kGenerateDescription =
    "Writes text to standard output. A language model continues a text, or writes its own; finetuned on tasks, it "
    "answers one. It sees the last --input-length tokens, and when that context is full, restarts with its last half. "
    "A T5 fills the blanks of a text, three underscores each, or answers a text without blanks.\n"
    "\n"
    "Decoding samples (--temperature), is greedy (--temperature 0), or searches by beams for the likeliest answers "
    "(--beams). Ties go to the continuation of the better hypothesis, then to the smaller id. A score is the sum of ln "
    "p of the written tokens, including the end, divided by the length penalty. A single answer is streamed; several "
    "inputs are computed in batches (--batch). An answer and its score depend only on the model, its input, the "
    "options and the seed, not on batch composition or thread count.\n"
    "\n"
    "A text of several lines is set apart from the next by a line ---. With --json there is one object a line, best "
    "first within an input: {\"input\": its number from 0, \"ids\": the tokens written, \"text\": what is shown "
    "without --json, null without a tokenizer, \"score\": …}.";

}  // namespace

Command GenerateCommand() {
  return {"generate", "let a trained model write: go on with a text, fill its blanks, or answer it",
          kGenerateDescription, [](OptionTable& options) -> std::function<int()> {
            options.AddFields(GenerateFields());
            options.AddThreads();
            return [&options] { return Generate(options.Over(GenerateFields(), {.options = &options})); };
          }};
}

}  // namespace crosstalk
