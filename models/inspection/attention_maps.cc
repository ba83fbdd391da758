#include "crosstalk/models/inspection/attention_maps.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "crosstalk/nn/attention/types.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

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

}  // namespace crosstalk
