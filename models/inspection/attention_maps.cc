#include "crosstalk/models/inspection/attention_maps.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/nn/attention/types.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/png.h"

namespace crosstalk {
namespace {

constexpr std::string_view kInput = "input_ids", kDecoderInput = "decoder_input_ids";

InspectedTokens ReadTokens(const NamedTensor& input, const Tokenizer& tokenizer) {
  InspectedTokens tokens = {input.name, input.tensor.ToVector<int32_t>(), {}};
  for (const int32_t id : tokens.ids) {
    tokens.texts.push_back(id >= 0 && id < tokenizer.vocab_size() ? tokenizer.TokenText(id) : StrCat("id ", id));
  }
  return tokens;
}

size_t PlaceOf(const AttentionMaps& maps, std::string_view name) {
  const auto found = std::find_if(maps.tokens.begin(), maps.tokens.end(),
                                  [&](const InspectedTokens& tokens) { return tokens.name == name; });
  CROSSTALK_CHECK(found != maps.tokens.end(), "attention maps: there are no ", name);
  return static_cast<size_t>(found - maps.tokens.begin());
}

}  // namespace

const Tensor* LayerMap::Find(const std::string& name) const {
  for (const NamedTensor& one : tensors) {
    if (one.name == name) return &one.tensor;
  }
  return nullptr;
}

AttentionMaps MapAttention(const Model& model, const Tokenizer& tokenizer, const Batch& inputs) {
  CROSSTALK_CHECK(inputs.rows() == 1, "attention maps: ", inputs.rows(), " rows of inputs, not one");
  AttentionMaps maps;
  for (const NamedTensor& input : inputs.tensors()) {
    if (input.name == kInput || input.name == kDecoderInput) maps.tokens.push_back(ReadTokens(input, tokenizer));
  }
  const bool decodes = inputs.Has(kDecoderInput);
  const std::function<void(const AttentionCapture&)> take = [&](const AttentionCapture& capture) {
    LayerMap map = {.layer = capture.layer, .module = capture.module};
    const bool crosses = capture.layer.ends_with("cross_attention");
    const bool of_decoder = decodes && capture.layer.starts_with("decoder.");
    map.queries = PlaceOf(maps, of_decoder ? kDecoderInput : kInput);
    map.memory = PlaceOf(maps, of_decoder && !crosses ? kDecoderInput : kInput);
    const auto add = [](std::vector<NamedTensor>* to, const std::string& name, const Tensor& tensor) {
      if (tensor.defined()) to->push_back({name, tensor.Select(0, 0).Contiguous()});
    };
    add(&map.tensors, "J", capture.J);
    add(&map.tensors, "L", capture.L);
    add(&map.tensors, "W", capture.W);
    add(&map.tensors, "U", capture.U);
    for (const auto& [name, tensor] : capture.dynamic) add(&map.dynamic, name, tensor);
    maps.layers.push_back(std::move(map));
  };
  const ContextScope captured(&OpContext::capture, &take);
  const ContextScope no_grad = NoGrad();
  model.Outputs(inputs, OutputDetail::kResults, ForwardContext());
  return maps;
}

std::vector<NamedTensor> TensorsOf(const AttentionMaps& maps) {
  std::vector<NamedTensor> tensors;
  for (const InspectedTokens& tokens : maps.tokens) {
    tensors.push_back(
        {tokens.name, Tensor::FromValues<int32_t>({static_cast<int64_t>(tokens.ids.size())}, tokens.ids)});
  }
  for (const LayerMap& map : maps.layers) {
    for (const auto* list : {&map.tensors, &map.dynamic}) {
      for (const NamedTensor& one : *list) tensors.push_back({map.layer + "." + one.name, one.tensor});
    }
  }
  return tensors;
}

namespace {

constexpr int64_t kMostValues = 256;  // a side
constexpr int64_t kPixels = 192;      // a side, at least, where the values are fewer
constexpr int kStrengths = 100;       // of either sign
constexpr uint8_t kNoNumber = 2 * kStrengths + 1;

// Colour kStrengths is white; towards 0 it becomes orange, towards 2·kStrengths blue.
std::vector<PaletteColour> SignedColours() {
  constexpr double kNegative[] = {200, 76, 12}, kPositive[] = {26, 95, 180};
  std::vector<PaletteColour> colours;
  for (int i = -kStrengths; i <= kStrengths; ++i) {
    const double share = std::abs(i) / static_cast<double>(kStrengths);
    const auto part = [&](int c) {
      return static_cast<uint8_t>(std::lround(255 + share * ((i < 0 ? kNegative : kPositive)[c] - 255)));
    };
    colours.push_back({part(0), part(1), part(2)});
  }
  colours.push_back({128, 128, 128});
  return colours;
}

}  // namespace

Tensor BlockMeans(const Tensor& values, int64_t block) {
  Dims dims("block means");
  dims.Bind("values[rows, columns]", values.shape());
  CROSSTALK_CHECK(block >= 1, "block means: a block of ", block);
  const int64_t rows = dims["rows"], columns = dims["columns"];
  const Tensor all = values.To(DType::kFloat64).Contiguous();
  if (block == 1) return all;
  const Tensor means = Tensor::Empty({(rows + block - 1) / block, (columns + block - 1) / block}, DType::kFloat64);
  double* out = means.data<double>();
  for (int64_t row = 0; row < rows; row += block) {
    for (int64_t column = 0; column < columns; column += block) {
      const int64_t last_row = std::min(row + block, rows), last_column = std::min(column + block, columns);
      double sum = 0;
      for (int64_t i = row; i < last_row; ++i) {
        for (int64_t j = column; j < last_column; ++j) sum += all.data<double>()[i * columns + j];
      }
      *out++ = sum / static_cast<double>((last_row - row) * (last_column - column));
    }
  }
  return means;
}

HeatImage DrawHeatImage(const Tensor& values) {
  const int64_t side = std::max(values.size(0), values.size(1));
  const Tensor shown = BlockMeans(values, std::max<int64_t>(1, (side + kMostValues - 1) / kMostValues));
  const int64_t rows = shown.size(0), columns = shown.size(1);
  const std::vector<double> numbers = shown.ToVector<double>();
  double largest = 0;
  for (const double x : numbers) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  const int64_t scale = std::max<int64_t>(1, kPixels / std::max(rows, columns));
  HeatImage image = {.width = columns * scale, .height = rows * scale};
  std::vector<uint8_t> pixels;
  pixels.reserve(static_cast<size_t>(image.width * image.height));
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      const double value = numbers[static_cast<size_t>(y / scale * columns + x / scale)];
      const double share = largest > 0 ? value / largest : 0;
      pixels.push_back(std::isfinite(value) ? static_cast<uint8_t>(kStrengths + std::lround(share * kStrengths))
                                            : kNoNumber);
    }
  }
  image.png = EncodePng(image.width, image.height, pixels, SignedColours());
  return image;
}

}  // namespace crosstalk
