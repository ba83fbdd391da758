#include "crosstalk/models/decoding/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "crosstalk/models/decoding/batch_search.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// An input without what its mask hides at either end.
SearchText TextOf(const SearchInput& input, size_t index, int64_t vocabulary) {
  CROSSTALK_CHECK_FIELD(input.mask.empty() || input.mask.size() == input.ids.size(), "inputs", "number ", index,
                        " has ", input.ids.size(), " ids and a mask of ", input.mask.size());
  size_t begin = 0, end = input.ids.size();
  const auto hidden = [&](size_t at) { return !input.mask.empty() && !input.mask[at]; };
  while (begin < end && hidden(begin)) ++begin;
  while (begin < end && hidden(end - 1)) --end;
  CROSSTALK_CHECK_FIELD(begin < end, "inputs", "number ", index, " holds nothing to read");
  SearchText text;
  for (size_t at = begin; at < end; ++at) {
    const int32_t id = input.ids[at];
    CROSSTALK_CHECK_FIELD(id >= 0 && id < vocabulary, "inputs", "number ", index, " holds the id ", id, ", of ",
                          vocabulary);
    text.ids.push_back(id);
    text.mask.push_back(!hidden(at));
  }
  return text;
}

}  // namespace

void SearchOptions::Validate() const {
  CROSSTALK_CHECK_FIELD(max_length >= 1, "max_length", max_length, " is less than 1");
  CROSSTALK_CHECK_FIELD(beams >= 1 && beams <= kMostBeams, "beams", beams, " is not in 1 … ", kMostBeams);
  CROSSTALK_CHECK_FIELD(std::isfinite(length_penalty) && length_penalty >= 0, "length_penalty", length_penalty,
                        " is not finite, or negative");
  CROSSTALK_CHECK_FIELD(answers >= 1 && answers <= kMostBeams, "answers", answers, " is not in 1 … ", kMostBeams);
  CROSSTALK_CHECK_FIELD(batch >= 1, "batch", batch, " is less than 1");
  sampling.Validate();
  const bool draws = sampling.temperature > 0;
  CROSSTALK_CHECK_FIELD(!draws || beams == 1, "beams", beams,
                        " look for the most probable answers, and a temperature above 0 draws them: give one of both");
  CROSSTALK_CHECK_FIELD(draws || answers <= beams, "answers", answers, " are more than the ", beams,
                        beams == 1 ? " beam has" : " beams have");
}

std::vector<std::vector<SearchAnswer>> Search(const Model& model, const std::vector<SearchInput>& inputs,
                                              const SearchOptions& options) {
  options.Validate();
  const std::unique_ptr<Decoder> decoder = model.MakeDecoder(options.decoder);
  if (decoder == nullptr) Fail(ErrorKind::kUsage, model.Describe(), ", writes no tokens");
  std::map<int64_t, std::vector<SearchText>> by_length;  // padded
  for (size_t i = 0; i < inputs.size(); ++i) {
    SearchText text = TextOf(inputs[i], i, decoder->config().vocabulary);
    text.input = &inputs[i];
    text.index = i;
    by_length[decoder->PaddedLength(static_cast<int64_t>(text.ids.size()))].push_back(std::move(text));
  }
  std::vector<std::vector<SearchAnswer>> answers(inputs.size());
  for (const auto& [length, texts] : by_length) {
    for (size_t begin = 0; begin < texts.size(); begin += static_cast<size_t>(options.batch)) {
      const size_t end = std::min(texts.size(), begin + static_cast<size_t>(options.batch));
      BatchSearch search(*decoder, options, length);
      search.Run({texts.data() + begin, end - begin}, &answers);
    }
  }
  return answers;
}

}  // namespace crosstalk
