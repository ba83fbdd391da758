// `crosstalk tokenize`: text to ids and back, by any tokenizer that a model can have.
#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/lines.h"
#include "tools/cli/output.h"

namespace crosstalk {
namespace {

constexpr size_t kOutputPiece = size_t{1} << 16;

struct TokenizeSettings {
  std::string tokenizer;
  std::string input = "-";
  bool pair = false;
  bool json_input = false;
  bool special = false;
  bool json = false;
  bool decode = false;
  std::optional<int64_t> max_length;
  Truncation truncation = Truncation::kLongestFirst;
};

FieldTable<TokenizeSettings> TokenizeFields() {
  using S = TokenizeSettings;
  return {
      MakeOption("input", &S::input, "FILE", "The lines; - is standard input.", {.is_path = true, .not_paths = {"-"}}),
      MakeOption("--tokenizer", &S::tokenizer, "PATH",
                 "bytes; a vocab.txt, tokenizer.json, vocab.json or .model; or a folder that holds one: a published "
                 "model's, a run's or a checkpoint's.",
                 {.is_path = true, .not_paths = {"bytes"}}),
      MakeOption("--pair", &S::pair, "", "Each line has two texts, with a tab between them."),
      MakeOption("--json-input", &S::json_input, "",
                 "Each line is a JSON string, which can have several lines; with --pair an array of two."),
      MakeOption("--special", &S::special, "",
                 "Add the special tokens around a text: [CLS] A [SEP] B [SEP], or A </s> B </s>."),
      MakeOption("--max-length", &S::max_length, "N", "Most tokens a line; the rest is cut off."),
      MakeOption("--truncation", &S::truncation, "", "What --max-length cuts: none makes too long a line an error."),
      MakeOption("--json", &S::json, "", "An object a line."),
      MakeOption("--decode", &S::decode, "",
                 "Turn lines of ids into text, without special tokens; with --json {\"text\"}.")};
}

// One text, or a pair of them, as JSON.
std::vector<std::string> TextsOf(std::string_view line, bool pair, const LineReader& lines) {
  const Json json = ParseJson(line, StrCat(lines.name(), ": line ", lines.number()));
  const Json::Array texts = pair && json.is_array() ? json.AsArray() : Json::Array{json};
  if (texts.size() != (pair ? 2 : 1) ||
      !std::all_of(texts.begin(), texts.end(), [](const Json& text) { return text.is_string(); })) {
    lines.Refuse(pair ? "is no JSON array of two strings" : "is no JSON string");
  }
  std::vector<std::string> strings;
  for (const Json& text : texts) strings.push_back(text.AsString());
  return strings;
}

EncodedPair Encode(const Tokenizer& tokenizer, const TokenizeSettings& settings, std::string_view line,
                   const LineReader& lines) {
  if (const size_t bad = FindInvalidUtf8(line); bad != std::string_view::npos) {
    lines.Refuse("has a byte that is not part of UTF-8 text, at ", bad);
  }
  std::string_view first = line;
  std::optional<std::string_view> second;
  std::vector<std::string> texts;  // of JSON
  if (settings.json_input) {
    texts = TextsOf(line, settings.pair, lines);
    first = texts[0];
    if (settings.pair) second = texts[1];
  } else if (settings.pair) {
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos || line.find('\t', tab + 1) != std::string_view::npos) {
      lines.Refuse("is not a pair: there must be one tab, between the two texts");
    }
    first = line.substr(0, tab);
    second = line.substr(tab + 1);
  }
  PairOptions options;
  options.max_length = settings.max_length;
  options.truncation = settings.truncation;
  EncodedPair pair = EncodePair(tokenizer, first, second, options);
  if (!settings.special) std::erase_if(pair.tokens, [](const EncodedPair::Token& token) { return token.text < 0; });
  return pair;
}

std::string TextOf(const EncodedPair& pair, const Tokenizer& tokenizer, bool json) {
  if (!json) {
    std::vector<std::string> ids;
    for (const EncodedPair::Token& token : pair.tokens) ids.push_back(StrCat(token.id));
    return Join(ids, " ");
  }
  Json ids = Json::MakeArray(), tokens = Json::MakeArray(), offsets = Json::MakeArray(), segments = Json::MakeArray();
  for (const EncodedPair::Token& token : pair.tokens) {
    ids.Append(int64_t{token.id});
    tokens.Append(tokenizer.TokenText(token.id));
    offsets.Append(Json::MakeArray({token.begin, token.end}));
    segments.Append(int64_t{token.segment});
  }
  return Json::MakeObject({{"ids", std::move(ids)},
                           {"tokens", std::move(tokens)},
                           {"offsets", std::move(offsets)},
                           {"segments", std::move(segments)}})
      .Dump();
}

std::string DecodeLine(const Tokenizer& tokenizer, std::string_view line, bool json, const LineReader& lines) {
  std::vector<int32_t> ids;
  for (size_t at = 0; at < line.size();) {
    if (IsAsciiSpace(line[at]) || line[at] == ',') {
      ++at;
      continue;
    }
    int32_t id = 0;
    const auto [end, error] = std::from_chars(line.data() + at, line.data() + line.size(), id);
    const auto next = static_cast<size_t>(end - line.data());
    const bool whole = next == line.size() || IsAsciiSpace(line[next]) || line[next] == ',';
    if (error != std::errc() || !whole) lines.Refuse("is no list of ids: ", Quoted(line.substr(at, 20)));
    if (id < 0 || id >= tokenizer.vocab_size()) {
      lines.Refuse("has the id ", id, "; the tokenizer has 0 to ", tokenizer.vocab_size() - 1);
    }
    ids.push_back(id);
    at = next;
  }
  const std::string text = tokenizer.Decode(ids);
  return json ? Json::MakeObject({{"text", text}}).Dump() : text;
}

std::shared_ptr<const Tokenizer> TokenizerOf(const std::string& path) {
  if (path == "bytes") return MakeByteTokenizer();
  if (RunFolder(path).HoldsRun()) return OpenRun(path, {.which = WhichCheckpoint::kNone}).tokenizer;
  std::vector<std::string> remarks;
  std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(path, kDefaultSentinels, &remarks);
  for (const std::string& remark : remarks) PrintMessage("note: ", remark);
  return tokenizer;
}

int Tokenize(const TokenizeSettings& settings) {
  CROSSTALK_CHECK(!settings.tokenizer.empty(),
                  "--tokenizer is missing: a tokenizer's file, or a folder that holds one");
  CROSSTALK_CHECK(
      !settings.decode || !(settings.pair || settings.json_input || settings.special || settings.max_length),
      "--decode takes none of --pair, --json-input, --special and --max-length");
  CROSSTALK_CHECK(!settings.max_length || settings.special, "--max-length counts special tokens: it needs --special");
  const std::shared_ptr<const Tokenizer> tokenizer = TokenizerOf(settings.tokenizer);
  LineReader lines(settings.input);
  std::string output;
  for (std::string line; lines.Next(&line);) {
    output += settings.decode ? DecodeLine(*tokenizer, line, settings.json, lines)
                              : TextOf(Encode(*tokenizer, settings, line, lines), *tokenizer, settings.json);
    output += '\n';
    if (output.size() < kOutputPiece) continue;
    PrintResult(output);
    output.clear();
  }
  PrintResult(output);
  return 0;
}

}  // namespace

Command TokenizeCommand() {
  return {
      "tokenize", "turn text into a tokenizer's ids, or ids into text",
      "Reads lines, each a text (with --json-input a JSON string), and prints, for each, the ids of its tokens: "
      "numbers with spaces between them or, with --json, "
      "{\"ids\", \"tokens\", \"offsets\", \"segments\"}. A token's offsets are its bytes in its own text, begin and "
      "end; those of "
      "an added special token are 0 and 0. Special tokens in a text are recognised as by the tokenizer's publisher.",
      OptionsOf(TokenizeFields, Tokenize, Computes::kNo)};
}

}  // namespace crosstalk
