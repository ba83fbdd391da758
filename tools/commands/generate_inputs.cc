#include "tools/commands/generate_inputs.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <string_view>
#include <utility>

#include "crosstalk/models/batch.h"
#include "crosstalk/models/inputs.h"
#include "crosstalk/models/text/text_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/numpy_file.h"
#include "crosstalk/runtime/text.h"

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

}  // namespace crosstalk
