// `crosstalk embed`: vectors of texts.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/decoding/embedding.h"
#include "crosstalk/models/interop/sentence_folder.h"
#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/text_file.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/numpy_file.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/lines.h"
#include "tools/cli/open_model.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"

namespace crosstalk {
namespace {

// Texts of a call of Embed, in batches: among so many, those of a length are looked for.
constexpr int64_t kTextBatchesTogether = 64;

constexpr std::string_view kLinesEnd = ".jsonl";

struct EmbedSettings {
  ModelToOpen chosen;
  std::optional<Precision> precision;
  std::string texts = "-";
  std::string text_field = kTextField;
  std::string out;
  std::optional<Pooling> pooling;
  std::optional<bool> normalize;
  std::optional<int64_t> max_length;
  int64_t batch = 32;
};

FieldTable<EmbedSettings> EmbedFields() {
  using S = EmbedSettings;
  return Joined(
      FieldsOfPart(ModelToOpenFields(WhichCheckpoint::kDefault), &S::chosen),
      {PrecisionField(&S::precision),
       MakeOption("--texts", &S::texts, "FILE",
                  "A text per line, or JSON lines if the name ends in .jsonl, packed by gzip or not; - is standard "
                  "input.",
                  {.is_path = true, .not_paths = {"-"}}),
       MakeOption("--text-field", &S::text_field, "NAME", "Name of the string that is the text in a line of JSON."),
       MakeOption("--out", &S::out, "FILE",
                  "File to write: .npy, .npz, .safetensors (one tensor, \"embeddings\"), or .jsonl; by default JSON "
                  "lines to standard output.",
                  {.is_path = true}),
       MakeOption("--pooling", &S::pooling, "",
                  "Of the tokens' last states: their mean, the first one's (cls), the last one's, or the largest of "
                  "each component; by default as the model's folder says, else mean."),
       MakeOption("--normalize", &S::normalize, "",
                  "Vectors of length 1; by default as the model's folder says, else no."),
       MakeOption("--max-length", &S::max_length, "N",
                  "Most tokens of a text, special ones counted; the rest is cut off. By default as the model's folder "
                  "says, else as many as the model reads."),
       MakeOption("--batch", &S::batch, "N", "Most texts computed together. Never changes a bit.")});
}

// Texts a line each, in order, checked: each has a token by the tokenizer, and what that puts around a text.
class Texts {
 public:
  Texts(const std::string& path, const std::string& field, const Tokenizer& tokenizer)
      : lines_(path), field_(field), tokenizer_(tokenizer), adds_tokens_(!TokensOf("").empty()) {
    const std::string name = path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
    is_json_ = name.ends_with(kLinesEnd);
  }

  // Up to `most` more.
  std::vector<std::string> Next(int64_t most) {
    std::vector<std::string> texts;
    for (std::string line; std::ssize(texts) < most && lines_.Next(&line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (const size_t bad = FindInvalidUtf8(line); bad != std::string::npos) {
        lines_.Refuse("has a byte that is not part of UTF-8 text, at ", bad);
      }
      texts.push_back(is_json_ ? FieldOf(line) : std::move(line));
      if (!adds_tokens_ && TokensOf(texts.back()).empty()) {
        lines_.Refuse("has no token, so there is no vector of it: leave it out");
      }
    }
    return texts;
  }

 private:
  std::string FieldOf(const std::string& line) const {
    const std::string source = StrCat(lines_.name(), ": line ", lines_.number());
    const Json object = ParseJson(line, source);
    const Json* const text = object.is_object() ? object.Find(field_) : nullptr;
    if (text == nullptr || !text->is_string()) lines_.Refuse("is no object with a string ", Quoted(field_));
    return text->AsString();
  }

  std::vector<EncodedPair::Token> TokensOf(const std::string& text) const {
    return JoinPair(tokenizer_, tokenizer_.EncodeSpans(text), std::nullopt, {}).tokens;
  }

  LineReader lines_;
  std::string field_;
  const Tokenizer& tokenizer_;
  bool adds_tokens_;
  bool is_json_ = false;
};

// A row in the fewest digits that tell each float from all others: {"input": 3, "vector": [0.25, …]}.
std::string LineOf(int64_t input, const float* row, int64_t d) {
  std::string line = StrCat("{\"input\":", input, ",\"vector\":[");
  for (int64_t j = 0; j < d; ++j) {
    char digits[32];
    const auto [end, error] = std::to_chars(digits, digits + sizeof digits, row[j]);
    line.append(j == 0 ? "" : ",").append(digits, end);
  }
  return line + "]}\n";
}

void CheckOut(const EmbedSettings& settings) {
  const std::string& out = settings.out;
  if (out.empty()) return;
  constexpr std::string_view kEnds[] = {".npy", ".npz", ".safetensors", kLinesEnd};
  const bool known =
      std::any_of(std::begin(kEnds), std::end(kEnds), [&](std::string_view end) { return out.ends_with(end); });
  CROSSTALK_CHECK_FIELD(known, "out", Quoted(out), " ends in none of .npy, .npz, .safetensors and .jsonl");
  CheckNotInput("--out", out, settings.texts);
  CheckOutput("--out", out);
}

// The vectors on their way to a file or to standard output.
class Vectors {
 public:
  explicit Vectors(const std::string& path) : path_(path), as_lines_(path.empty() || path.ends_with(kLinesEnd)) {
    if (as_lines_ && !path.empty()) file_.emplace(path);
  }

  void Put(const Tensor& rows) {
    const int64_t d = rows.size(1);
    if (!as_lines_) parts_.push_back(rows);
    for (int64_t i = 0; as_lines_ && i < rows.size(0); ++i) {
      const std::string line = LineOf(count_ + i, rows.data<float>() + i * d, d);
      if (file_) {
        file_->writer().Write(line);
      } else {
        PrintResult(line);
      }
    }
    count_ += rows.size(0);
  }

  void Finish(int64_t d) {
    if (file_) file_->Commit();
    if (as_lines_) return;
    const Tensor whole = Tensor::Empty({count_, d}, DType::kFloat32);
    int64_t at = 0;
    for (const Tensor& part : parts_) {
      whole.Slice(0, at, at + part.size(0)).CopyFrom(part);
      at += part.size(0);
    }
    WriteTensors(path_, std::vector<NamedTensor>{{"embeddings", whole}});
  }

  int64_t count() const { return count_; }

 private:
  std::string path_;
  bool as_lines_;
  std::optional<AtomicFile> file_;
  std::vector<Tensor> parts_;
  int64_t count_ = 0;
};

int RunEmbed(const EmbedSettings& settings) {
  CheckOut(settings);
  const Trained trained = OpenModel(settings.chosen, {.which = WhichCheckpoint::kDefault});
  TakePrecision(settings.precision, *trained.model);
  const ModelConfig& config = trained.model->config();
  std::vector<std::string> remarks;
  EmbedOptions options = SentenceOptions(trained.checkpoint, config, &remarks);
  for (const std::string& remark : remarks) PrintMessage("note: ", remark);
  if (settings.pooling) options.pooling = *settings.pooling;
  if (settings.normalize) options.normalize = *settings.normalize;
  if (settings.max_length) options.max_length = settings.max_length;
  options.batch = settings.batch;
  options.Validate();
  const StopSignals signals;
  const StopRequest stopped = [] { return StopSignals::Received() != 0; };
  const int64_t together = SaturatingProduct(settings.batch, kTextBatchesTogether);
  const auto open = [&] { return Texts(settings.texts, settings.text_field, *trained.tokenizer); };
  // A file can be read twice, so that its last line's fault costs nothing.
  if (KindOf(settings.texts) == PathKind::kFile) {
    for (Texts checked = open(); !checked.Next(together).empty();) ThrowIfStopped(stopped);
  }
  Texts texts = open();
  Vectors vectors(settings.out);
  Progress progress;
  options.stop = stopped;
  options.progress = [&](int64_t done) { progress.Update(StrCat("texts ", CountText(vectors.count() + done))); };
  int64_t cut = 0;
  while (true) {
    const std::vector<std::string> some = texts.Next(together);
    if (some.empty()) break;
    options.first = vectors.count();
    const Embeddings found = Embed(*trained.model, *trained.tokenizer, some, options);
    cut += found.cut;
    vectors.Put(found.vectors);
  }
  if (vectors.count() == 0)
    Fail(ErrorKind::kData, settings.texts == "-" ? "standard input" : settings.texts, ": holds no text");
  vectors.Finish(config.d_model);
  if (cut > 0)
    PrintMessage("note: ", CountText(cut), " of ", CountText(vectors.count()), " texts are longer than ",
                 CountText(options.max_length.value_or(config.longest_text().value_or(0))),
                 " tokens; the rest of each is cut off");
  if (!settings.out.empty()) {
    PrintMessage("embed: ", CountText(vectors.count()), " vectors of ", config.d_model, " by ", Name(options.pooling),
                 options.normalize ? ", normalized" : "", ", in ", settings.out);
  }
  return 0;
}

}  // namespace

Command EmbedCommand() {
  return {
      "embed", "vectors of texts, by a model's last states",
      "Turns each text into a vector: the last states of what reads it (BERT, ALBERT, a T5's encoder, or a language "
      "model) at its tokens, pooled. A folder of sentence-transformers says itself how: modules.json, the Pooling "
      "that it names, sentence_bert_config.json. Tokens are those of `crosstalk tokenize --special`. The bits of a "
      "vector depend neither on the other texts nor on the number of threads. A line of JSON is {\"input\": the "
      "text's number from 0, \"vector\": […]}.",
      OptionsOf(EmbedFields, RunEmbed, Computes::kYes)};
}

}  // namespace crosstalk
