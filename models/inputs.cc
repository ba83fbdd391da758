#include "crosstalk/models/inputs.h"

#include <algorithm>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/storage.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

bool IsInteger(const Tensor& tensor) { return tensor.dtype() == DType::kInt32 || tensor.dtype() == DType::kInt64; }

double ElementOf(const Tensor& contiguous, int64_t i) {
  switch (contiguous.dtype()) {
    case DType::kFloat32:
      return contiguous.data<float>()[i];
    case DType::kFloat64:
      return contiguous.data<double>()[i];
    case DType::kInt32:
      return contiguous.data<int32_t>()[i];
    case DType::kInt64:
      return static_cast<double>(contiguous.data<int64_t>()[i]);
    case DType::kBFloat16:
      return Widen(HalfFormat::kBFloat16, contiguous.data<uint16_t>()[i]);
    case DType::kBool:
      break;
  }
  return contiguous.data<bool>()[i] ? 1 : 0;
}

}  // namespace

Tensor InputIds(const Batch& inputs, const char* name, int rank, const IdRange& range) {
  if (!inputs.Has(name)) return {};
  const Tensor given = inputs.Get(name).Contiguous();
  CROSSTALK_CHECK(IsInteger(given), name, ": must be int32 or int64, but is ", given.dtype());
  CROSSTALK_CHECK(given.rank() == rank, name, ": ", given.shape(), " must have ", rank, " dimensions");
  const Tensor ids = Tensor::Empty(given.shape(), DType::kInt32);
  for (int64_t i = 0; i < given.num_elements(); ++i) {
    const int64_t id = given.dtype() == DType::kInt32 ? given.data<int32_t>()[i] : given.data<int64_t>()[i];
    CROSSTALK_CHECK(id >= range.low && id <= range.high, name, ": ", id, " at place ", i, " of ", given.shape(),
                    " is not between ", range.low, " and ", range.high);
    ids.data<int32_t>()[i] = static_cast<int32_t>(id);
  }
  return ids;
}

Tensor RequiredInputIds(const Batch& inputs, int rank, int64_t vocabulary) {
  inputs.Get("input_ids");  // or its error
  const Tensor ids = InputIds(inputs, "input_ids", rank, {0, vocabulary - 1});
  CROSSTALK_CHECK(ids.num_elements() > 0, "input_ids: ", ids.shape(), " holds nothing");
  return ids;
}

Tensor InputLabels(const Batch& inputs, const char* name, int rank, int64_t classes) {
  const Tensor labels = InputIds(inputs, name, rank, {kIgnoredLabel, classes - 1});
  for (int64_t i = 0; labels.defined() && i < labels.num_elements(); ++i) {
    const int32_t label = labels.data<int32_t>()[i];
    CROSSTALK_CHECK(label >= 0 || label == kIgnoredLabel, name, ": ", label, " at place ", i,
                    " is neither a class nor ", kIgnoredLabel);
  }
  return labels;
}

Tensor InputMask(const Batch& inputs, const char* name, const Shape& shape) {
  if (!inputs.Has(name)) return {};
  const Tensor given = inputs.Get(name).Contiguous();
  CROSSTALK_CHECK(given.shape() == shape, name, ": ", given.shape(), " must be ", shape);
  const Tensor mask = Tensor::Empty(shape, DType::kBool);
  for (int64_t i = 0; i < given.num_elements(); ++i) {
    const double value = ElementOf(given, i);
    CROSSTALK_CHECK(value == 0 || value == 1, name, ": ", value, " at place ", i, " of ", shape, " is neither 0 nor 1");
    mask.data<bool>()[i] = value == 1;
  }
  return mask;
}

Tensor InputMaskOrAll(const Batch& inputs, const char* name, const Shape& shape) {
  const Tensor mask = InputMask(inputs, name, shape);
  return mask.defined() ? mask : Tensor::Full(shape, 1, DType::kBool);
}

void CheckInputNames(const Batch& inputs, const std::vector<std::string>& known) {
  for (const NamedTensor& one : inputs.tensors()) {
    CROSSTALK_CHECK(std::find(known.begin(), known.end(), one.name) != known.end(), Excerpt(one.name),
                    ": this model has no such input; it has ", Join(known, ", "), DidYouMean(one.name, known));
  }
}

Variable AtPositions(const Variable& hidden, const Tensor& positions, const char* name) {
  Dims dims(name);
  dims.Bind("hidden[b, n, d]", hidden.shape()).Bind("positions[b, p]", positions.shape());
  CROSSTALK_CHECK(positions.dtype() == DType::kInt32, name, ": must be int32, but is ", positions.dtype());
  const int64_t b = dims["b"], n = dims["n"], p = dims["p"];
  const Tensor contiguous = positions.Contiguous();
  const Tensor rows = Tensor::Empty({b * p}, DType::kInt32);
  Launch([&] {
    for (int64_t i = 0; i < b * p; ++i) {
      const int32_t position = contiguous.data<int32_t>()[i];
      CROSSTALK_CHECK(position >= 0 && position < n, name, ": ", position, " is not in [0, ", n, ")");
      rows.data<int32_t>()[i] = static_cast<int32_t>(i / p * n + position);
    }
  });
  return Embedding(Reshape(hidden, {b * n, dims["d"]}), rows);
}

Variable MeanCrossEntropy(const Variable& logits, const Tensor& labels, const char* name) {
  const int64_t classes = logits.size(-1), rows = labels.num_elements();
  const CrossEntropyResult result =
      CrossEntropy(Reshape(logits, {rows, classes}), labels.Reshape({rows}), {.ignore_index = kIgnoredLabel});
  CROSSTALK_CHECK(result.count > 0, name, ": all of them are ", kIgnoredLabel, ", so that there is no loss");
  return Scale(result.loss, 1.0 / static_cast<double>(result.count));
}

void AddRecord(const TransformerRecord& record, const std::string& prefix, std::vector<NamedVariable>& outputs) {
  for (size_t i = 0; i + 1 < record.hidden_states.size(); ++i) {
    outputs.push_back({StrCat(prefix, "hidden_states.", i), record.hidden_states[i]});
  }
  for (size_t i = 0; i < record.self_attention.size(); ++i) {
    outputs.push_back({StrCat(prefix, "attentions.", i), record.self_attention[i]});
  }
}

Batch ReadText(const Model& model, const std::shared_ptr<const Tokenizer>& tokenizer, const InspectedText& text) {
  CROSSTALK_CHECK(tokenizer != nullptr, "the model has no tokenizer, so that it reads no text");
  CROSSTALK_CHECK_FIELD(text.max_tokens >= 1 && text.max_tokens <= kMostInspectedTokens, "max_tokens", text.max_tokens,
                        " is not between 1 and ", kMostInspectedTokens, "; maps grow with its square");
  const Batch batch = model.TextInputs(tokenizer, text);
  for (const NamedTensor& input : batch.tensors()) {
    const char* const field = input.name == "decoder_input_ids" ? "target" : "text";
    CROSSTALK_CHECK_FIELD(input.tensor.size(1) <= text.max_tokens, field, "is ", input.tensor.size(1),
                          " tokens long, more than ", FieldName{"max_tokens"}, " = ", text.max_tokens,
                          ": shorten it, or raise ", FieldName{"max_tokens"}, "; maps grow with its square");
  }
  return batch;
}

}  // namespace crosstalk
