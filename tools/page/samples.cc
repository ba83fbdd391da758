#include "tools/page/samples.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/text.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

// A piece of held-out text has so many, and what a model goes on with.
constexpr int64_t kTextBytes = 400, kPromptBytes = 160;
constexpr int64_t kMostTokens = 120;

// The text's beginning up to a space, so that no word is cut.
std::string Opening(const std::string& text, int64_t bytes) {
  if (std::ssize(text) <= bytes) return text;
  size_t end = text.find_last_of(" \n\t", static_cast<size_t>(bytes));
  if (end == std::string::npos || end == 0) end = static_cast<size_t>(bytes);
  while (end < text.size() && IsUtf8Continuation(text[end])) ++end;
  return text.substr(0, end);
}

std::vector<Sample> Written(const SampledModel& sampled, const TextWriter& writer, int64_t count) {
  std::vector<Sample> samples;
  for (int64_t index = 0; index < count; ++index) {
    if (sampled.held_out == nullptr) break;
    const SamplePrompt prompt = MakeSamplePrompt(writer, *sampled.held_out, index);
    SearchOptions options = writer.Defaults(prompt.text);
    options.max_length = std::min(options.max_length, kMostTokens);
    options.sampling.temperature = 0;
    options.stop = sampled.stop;
    samples.push_back({prompt.kind == SamplePrompt::Kind::kBlanks ? "Blanks of held-out text, filled in"
                                                                  : "A held-out beginning, gone on with",
                       WrittenParts(*sampled.model, writer, prompt.text, options)});
  }
  return samples;
}

// Masked rows of held-out text, as they are evaluated, with the most probable token at each masked position.
std::vector<Sample> FilledIn(const SampledModel& sampled, int64_t count) {
  TrainingConfig config = *sampled.config;
  config.optimization.batch = count;
  config.optimization.shards = 1;
  config.run.eval_batches = 1;
  const Batch batch = MakeEvaluation(config, sampled.held_out, sampled.tokenizer)->Get(0);
  const Tokenizer& tokenizer = *sampled.tokenizer;
  const int32_t pad = tokenizer.special_tokens().pad;
  const Tensor& inputs = batch.Get("inputs");
  const ContextScope no_grad = NoGrad();
  Batch published;
  published.Add("input_ids", inputs).Add("attention_mask", NotPadding(inputs, pad));
  published.Add("token_type_ids", batch.Get("segments"));
  const std::vector<NamedVariable> outputs = sampled.model->Outputs(published, OutputDetail::kResults, {});
  const auto logits = std::find_if(outputs.begin(), outputs.end(), [](const NamedVariable& one) {
    return one.name == "prediction_logits" || one.name == "logits";
  });
  if (logits == outputs.end() || logits->value.rank() != 3) return {};
  const Tensor scores = logits->value.value().Contiguous();
  const int64_t n = inputs.size(1), vocabulary = scores.size(2), masked = batch.Get("masked_positions").size(1);
  const int64_t known = std::min<int64_t>(vocabulary, tokenizer.vocab_size());
  std::vector<Sample> samples;
  for (int64_t row = 0; row < inputs.size(0); ++row) {
    const int32_t* const ids = inputs.data<int32_t>() + row * n;
    const int32_t* const positions = batch.Get("masked_positions").data<int32_t>() + row * masked;
    const int32_t* const targets = batch.Get("masked_targets").data<int32_t>() + row * masked;
    Sample sample{"Hidden words of held-out text, filled in", {}};
    const auto add = [&sample](SamplePart::Kind kind, const std::string& text) {
      if (text.empty()) return;
      if (!sample.parts.empty() && sample.parts.back().kind == kind && kind == SamplePart::Kind::kGiven) {
        sample.parts.back().text += text;
      } else {
        sample.parts.push_back({kind, text});
      }
    };
    TextPieces text(sampled.tokenizer);  // as it was before anything was hidden
    int64_t next = 0;
    for (int64_t i = 0; i < n && ids[i] != pad; ++i) {
      while (next < masked && targets[next] != pad && positions[next] < i) ++next;
      const bool hidden = next < masked && targets[next] != pad && positions[next] == i;
      if (!hidden) {
        add(SamplePart::Kind::kGiven, text.Add(ids[i]));
        continue;
      }
      const float* const row_scores = scores.data<float>() + (row * n + i) * vocabulary;
      const auto best = static_cast<int32_t>(std::max_element(row_scores, row_scores + known) - row_scores);
      TextPieces otherwise = text;
      const std::string filled = otherwise.Add(best), there = text.Add(targets[next]);
      // Spaces are the text's, and stand outside of what is marked.
      const auto spaces = [](const std::string& piece) {
        return std::min(piece.find_first_not_of(" \n"), piece.size());
      };
      add(SamplePart::Kind::kGiven, there.substr(0, spaces(there)));
      if (best == targets[next]) {
        add(SamplePart::Kind::kRight, there.substr(spaces(there)));
        continue;
      }
      const std::string shown = filled.substr(spaces(filled));
      add(SamplePart::Kind::kWrong, shown.empty() ? tokenizer.TokenText(best) : shown);
      add(SamplePart::Kind::kInstead, there.substr(spaces(there)));
    }
    add(SamplePart::Kind::kGiven, text.Rest());
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

std::string HeldOutText(const TextSource& held_out, int64_t index) {
  const int64_t bytes = std::min<int64_t>(kTextBytes, held_out.num_bytes().value_or(kTextBytes));
  // Spread over the text, where it has an end.
  const int64_t stride = held_out.num_bytes() ? std::max(bytes, *held_out.num_bytes() / 7) : bytes;
  return held_out.ReadSegment(0, index, stride, bytes, TextSource::Order::kSequential)
      .substr(0, static_cast<size_t>(bytes));
}

SamplePrompt MakeSamplePrompt(const TextWriter& writer, const TextSource& held_out, int64_t index) {
  const std::string text = HeldOutText(held_out, index);
  const std::string blanks = writer.PromptFrom(text);
  if (!blanks.empty()) return {SamplePrompt::Kind::kBlanks, blanks};
  return {SamplePrompt::Kind::kBeginning, Opening(text, kPromptBytes)};
}

std::vector<SamplePart> WrittenParts(const Model& model, const TextWriter& writer, const std::string& prompt,
                                     const SearchOptions& options) {
  std::vector<SamplePart> parts;
  WriteText(model, writer, prompt, options, [&parts](std::string_view piece, Author author) {
    const SamplePart::Kind kind = author == Author::kPrompt ? SamplePart::Kind::kGiven : SamplePart::Kind::kWritten;
    if (parts.empty() || parts.back().kind != kind) parts.push_back({kind, ""});
    parts.back().text += piece;
  });
  return parts;
}

std::vector<Sample> MakeSamples(const SampledModel& sampled, int64_t count) {
  if (count <= 0 || ObjectiveOf(*sampled.config).learns_tasks() || sampled.tokenizer == nullptr) return {};
  const std::unique_ptr<TextWriter> writer = sampled.model->MakeWriter(sampled.tokenizer);
  if (writer != nullptr) return Written(sampled, *writer, count);
  const bool masks = *sampled.config->objective.name == "masked-lm";
  return masks && sampled.held_out != nullptr ? FilledIn(sampled, count) : std::vector<Sample>();
}

std::string SampleHtml(const Sample& sample) {
  // In the order of SamplePart::Kind.
  constexpr std::pair<const char*, const char*> kMarks[] = {{"", ""},
                                                            {"<mark>", "</mark>"},
                                                            {"<mark class=\"right\">", "</mark>"},
                                                            {"<mark class=\"wrong\">", "</mark>"},
                                                            {" (<s>", "</s>)"}};
  std::string html = "<p class=\"text\">";
  for (const SamplePart& part : sample.parts) {
    const auto& [begin, end] = kMarks[static_cast<size_t>(part.kind)];
    html += StrCat(begin, EscapeHtml(part.text), end);
  }
  return html + "</p>\n";
}

}  // namespace crosstalk
