#include "crosstalk/models/decoding/embedding.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "crosstalk/models/text/encoding.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {
namespace {

// Texts of up to so many lengths are computed together. A text is padded to a length that follows from its own alone,
// for the sums of its softmax are cut by that.
constexpr int64_t kPaddedStep = 16;

// x[n, d] → out[d].
template <typename T>
void Pool(const T* x, int64_t n, int64_t d, const EmbedOptions& options, T* out) {
  switch (options.pooling) {
    case Pooling::kCls:
      std::copy_n(x, d, out);
      break;
    case Pooling::kLast:
      std::copy_n(x + (n - 1) * d, d, out);
      break;
    case Pooling::kMax:
      std::copy_n(x, d, out);
      for (int64_t i = 1; i < n; ++i) {
        for (int64_t j = 0; j < d; ++j) out[j] = std::max(out[j], x[i * d + j]);
      }
      break;
    case Pooling::kMean: {
      std::vector<double> sums(static_cast<size_t>(d));
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < d; ++j) sums[static_cast<size_t>(j)] += static_cast<double>(x[i * d + j]);
      }
      for (int64_t j = 0; j < d; ++j) out[j] = static_cast<T>(sums[static_cast<size_t>(j)] / static_cast<double>(n));
      break;
    }
  }
  if (!options.normalize) return;
  const double square = std::inner_product(out, out + d, out, 0.0);
  const double length = std::max(std::sqrt(square), 1e-12);
  for (int64_t j = 0; j < d; ++j) out[j] = static_cast<T>(static_cast<double>(out[j]) / length);
}

template <typename T>
void PoolRows(const Tensor& states, std::span<const std::vector<int32_t>> texts, std::span<const size_t> batch,
              const EmbedOptions& options, Tensor* vectors) {
  const int64_t n = states.size(1), d = states.size(2);
  for (size_t i = 0; i < batch.size(); ++i) {
    const size_t text = batch[i];
    T* const out = vectors->data<T>() + static_cast<int64_t>(text) * d;
    Pool(states.data<T>() + static_cast<int64_t>(i) * n * d, std::ssize(texts[text]), d, options, out);
    const bool finite = std::all_of(out, out + d, [](T value) { return std::isfinite(value); });
    if (!finite) {
      Fail(ErrorKind::kNumerical, "text ", options.first + static_cast<int64_t>(text), ": its vector is not finite");
    }
  }
}

}  // namespace

void EmbedOptions::Validate() const {
  CROSSTALK_CHECK_FIELD(batch >= 1, "batch", batch, " is less than 1");
  CROSSTALK_CHECK_FIELD(!max_length || *max_length >= 1, "max_length", max_length.value_or(0), " is less than 1");
}

Embeddings Embed(const Model& model, const Tokenizer& tokenizer, std::span<const std::string> texts,
                 const EmbedOptions& options) {
  options.Validate();
  const std::optional<int64_t> longest = model.config().longest_text();
  CROSSTALK_CHECK_FIELD(!longest || !options.max_length || *options.max_length <= *longest, "max_length",
                        options.max_length.value_or(0), " is more than the ", longest.value_or(0),
                        " tokens that the model reads");
  const PairOptions within = {.max_length = options.max_length ? options.max_length : longest,
                              .truncation = Truncation::kLongestFirst};
  Embeddings found;
  std::vector<std::vector<int32_t>> rows;
  for (const std::string& text : texts) {
    const std::vector<TokenSpan> spans = tokenizer.EncodeSpans(text);
    const EncodedPair encoded = JoinPair(tokenizer, spans, std::nullopt, within);
    if (encoded.kept[0] < std::ssize(spans)) ++found.cut;
    rows.emplace_back();
    for (const EncodedPair::Token& token : encoded.tokens) rows.back().push_back(token.id);
  }
  found.vectors = EmbedIds(model, rows, options);
  return found;
}

Tensor EmbedIds(const Model& model, std::span<const std::vector<int32_t>> texts, const EmbedOptions& options) {
  options.Validate();
  const ModelConfig& config = model.config();
  const std::optional<int64_t> longest = config.longest_text();
  std::vector<int64_t> padded;  // of each text
  for (const std::vector<int32_t>& text : texts) {
    const int64_t number = options.first + std::ssize(padded);
    CROSSTALK_CHECK_FIELD(!text.empty(), "texts", "number ", number, " has no token");
    CROSSTALK_CHECK_FIELD(!longest || std::ssize(text) <= *longest, "texts", "number ", number, " has ", text.size(),
                          " tokens, more than the ", longest.value_or(0), " that the model reads");
    for (const int32_t id : text) {
      CROSSTALK_CHECK_FIELD(id >= 0 && id < config.vocabulary, "texts", "number ", number, " has the id ", id,
                            ", which is none of a vocabulary of ", config.vocabulary);
    }
    padded.push_back(std::min(RoundUp(std::ssize(text), kPaddedStep), longest.value_or(INT64_MAX)));
  }
  const ContextScope no_grad = NoGrad();
  const ContextScope same_bits_in_any_batch(&OpContext::sum_order, SumOrder::kBatchInvariant);
  Tensor vectors = Tensor::Zeros({std::ssize(texts), config.d_model}, model.dtype());
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return padded[a] < padded[b]; });
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    ThrowIfStopped(options.stop);
    const int64_t n = padded[order[begin]];
    const size_t most = std::min(order.size(), begin + static_cast<size_t>(options.batch));
    while (end < most && padded[order[end]] == n) ++end;
    const std::span<const size_t> batch(order.data() + begin, end - begin);
    const Shape shape = {std::ssize(batch), n};
    const Tensor ids = Tensor::Full(shape, std::max(config.tokens.pad, 0), DType::kInt32);
    const Tensor mask = Tensor::Zeros(shape, DType::kBool);
    for (int64_t i = 0; i < shape[0]; ++i) {
      const std::vector<int32_t>& text = texts[batch[static_cast<size_t>(i)]];
      std::copy(text.begin(), text.end(), ids.data<int32_t>() + i * n);
      std::fill_n(mask.data<bool>() + i * n, text.size(), true);
    }
    const Tensor states = model.ReadStates(ids, mask).value().Contiguous();
    if (states.dtype() == DType::kFloat64) {
      PoolRows<double>(states, texts, batch, options, &vectors);
    } else {
      PoolRows<float>(states, texts, batch, options, &vectors);
    }
    if (options.progress) options.progress(static_cast<int64_t>(end));
  }
  return vectors;
}

}  // namespace crosstalk
