#include "crosstalk/models/decoding/search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "crosstalk/models/decoding/sampling.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

// BatchSearch: the search of search.h for inputs of one padded length.

// The part of an input that is read, and its place among all.
struct SearchText {
  std::vector<int32_t> ids;
  std::vector<bool> mask;
  const SearchInput* input = nullptr;
  size_t index = 0;
};

class BatchSearch {
 public:
  // The texts are padded to `length`.
  BatchSearch(Decoder& decoder, const SearchOptions& options, int64_t length)
      : decoder_(decoder), options_(options), length_(length) {}

  // Writes the answers to each text at its index.
  void Run(std::span<const SearchText> texts, std::vector<std::vector<SearchAnswer>>* answers);

 private:
  // Tokens written, and the row among those of its input that has them cached.
  struct Hypothesis {
    std::vector<int32_t> ids;
    double sum = 0;
    int64_t row = 0;
    int64_t sample = 0;  // of what is drawn: its number
  };
  // One input that is being answered.
  struct Answering {
    const SearchText* text = nullptr;
    int64_t max_length = 0;
    std::vector<Hypothesis> open;        // best first
    std::vector<SearchAnswer> finished;  // best first
    bool done = false;
  };
  // A hypothesis, by its place among the open ones, with one more token.
  struct Candidate {
    double sum = 0;
    size_t parent = 0;
    int32_t id = 0;
  };

  bool draws() const { return options_.sampling.temperature > 0; }
  // Rows that an input has once something is written.
  int64_t rows() const { return draws() ? options_.answers : options_.beams; }

  Tensor Start(std::span<const SearchText> texts);
  // Makes the step that the logits[inputs · rows, vocabulary] allow, for all inputs.
  void Extend(const Tensor& logits);
  // The tokens that each open hypothesis of each input may go on with, in that order.
  std::vector<std::vector<TokenScore>> NextTokens(const Tensor& logits) const;
  void ExtendByRank(Answering& answering, std::span<const std::vector<TokenScore>> tokens);
  void ExtendEach(Answering& answering, std::span<const std::vector<TokenScore>> tokens);
  // Puts what stands at the place `parent` with one token more among the finished or the open.
  void Finish(Answering& answering, Hypothesis hypothesis) const;
  // Whether what is open, of which there is some, need not go on.
  bool CannotImprove(const Answering& answering) const;
  void FinishOpen(Answering& answering) const;
  double Normalised(double sum, size_t length) const;

  // Leaves out the inputs that are done, and lets the decoder go on with what is open. → the tokens of all rows.
  Tensor Proceed(std::vector<std::vector<SearchAnswer>>* answers);
  void LeaveOutDone(std::vector<std::vector<SearchAnswer>>* answers);
  void PlaceRows();

  Decoder& decoder_;
  const SearchOptions& options_;
  int64_t length_;
  std::vector<Answering> active_;
  int64_t held_rows_ = 1;  // of each input, in the decoder
};

namespace {

constexpr int32_t kAnyToken = 0;  // of a row that has no hypothesis

}  // namespace

double BatchSearch::Normalised(double sum, size_t length) const {
  const double count = std::max(1.0, static_cast<double>(length));
  const double base = options_.normalisation == LengthNormalisation::kPower ? count : (5 + count) / 6;
  return sum / Pow(base, options_.length_penalty);
}

Tensor BatchSearch::Start(std::span<const SearchText> texts) {
  const auto b = static_cast<int64_t>(texts.size());
  const Tensor inputs = Tensor::Full({b, length_}, decoder_.config().tokens.pad, DType::kInt32);
  const Tensor mask = Tensor::Full({b, length_}, 0, DType::kBool);
  for (int64_t row = 0; row < b; ++row) {
    const SearchText& text = texts[static_cast<size_t>(row)];
    std::copy(text.ids.begin(), text.ids.end(), inputs.data<int32_t>() + row * length_);
    std::copy(text.mask.begin(), text.mask.end(), mask.data<bool>() + row * length_);
    Answering answering;
    answering.text = &text;
    answering.max_length = text.input->max_length.value_or(options_.max_length);
    answering.open.resize(draws() ? static_cast<size_t>(options_.answers) : 1);
    for (size_t sample = 0; sample < answering.open.size(); ++sample) {
      answering.open[sample].sample = static_cast<int64_t>(sample);
    }
    active_.push_back(std::move(answering));
  }
  return decoder_.Start(inputs, mask);
}

std::vector<std::vector<TokenScore>> BatchSearch::NextTokens(const Tensor& logits) const {
  struct Place {
    const Answering* answering;
    const Hypothesis* hypothesis;
    int64_t row;
  };
  std::vector<Place> places;
  for (size_t i = 0; i < active_.size(); ++i) {
    for (const Hypothesis& hypothesis : active_[i].open) {
      places.push_back({&active_[i], &hypothesis, static_cast<int64_t>(i) * held_rows_ + hypothesis.row});
    }
  }
  std::vector<std::vector<TokenScore>> tokens(places.size());
  const uint32_t stream = StreamId("models.decoding.search");
  ParallelFor(static_cast<int64_t>(places.size()), [&](int64_t i) {
    const Place& place = places[static_cast<size_t>(i)];
    const std::vector<int32_t>& written = place.hypothesis->ids;
    const Tensor row = logits.Select(0, place.row);
    std::vector<bool> allowed(static_cast<size_t>(decoder_.config().vocabulary), true);
    const int32_t pad = decoder_.config().tokens.pad;
    if (pad != kNoToken && !decoder_.config().EndsText(pad)) allowed[static_cast<size_t>(pad)] = false;
    const SearchInput& input = *place.answering->text->input;
    if (input.restrict_tokens) input.restrict_tokens(written, &allowed);
    if (draws()) {
      const RandomKey key = {.seed = options_.seed,
                             .stream = stream,
                             .step = options_.first_sample + static_cast<uint32_t>(place.hypothesis->sample)};
      const int32_t id = SampleToken(row, allowed, options_.sampling, UniformDouble(key, written.size()));
      tokens[static_cast<size_t>(i)] = {{id, LogProbability(row, id)}};
    } else {
      // For each beam that ends, another may go on.
      const auto ends = 1 + std::ssize(decoder_.config().more_ends);
      tokens[static_cast<size_t>(i)] = BestTokens(row, allowed, (1 + ends) * options_.beams);
    }
  });
  return tokens;
}

void BatchSearch::Finish(Answering& answering, Hypothesis hypothesis) const {
  SearchAnswer answer = {.ids = std::move(hypothesis.ids), .score = 0};
  answer.score = Normalised(hypothesis.sum, answer.ids.size());
  const auto place = std::find_if(answering.finished.begin(), answering.finished.end(),
                                  [&](const SearchAnswer& other) { return other.score < answer.score; });
  answering.finished.insert(place, std::move(answer));
  if (static_cast<int64_t>(answering.finished.size()) > rows()) answering.finished.pop_back();
}

void BatchSearch::FinishOpen(Answering& answering) const {
  for (Hypothesis& hypothesis : answering.open) Finish(answering, std::move(hypothesis));
  answering.open.clear();
  answering.done = true;
}

bool BatchSearch::CannotImprove(const Answering& answering) const {
  if (static_cast<int64_t>(answering.finished.size()) < options_.beams) return false;
  // A single beam has one answer, the most probable token each time.
  if (options_.early_stopping == EarlyStopping::kYes || options_.beams == 1) return true;
  const Hypothesis& best = answering.open[0];
  return answering.finished.back().score >= Normalised(best.sum, best.ids.size());
}

void BatchSearch::ExtendByRank(Answering& answering, std::span<const std::vector<TokenScore>> tokens) {
  std::vector<Candidate> candidates;
  for (size_t parent = 0; parent < tokens.size(); ++parent) {
    for (const TokenScore& token : tokens[parent]) {
      candidates.push_back({answering.open[parent].sum + token.log_p, parent, token.id});
    }
  }
  if (candidates.empty()) {
    CROSSTALK_CHECK(!answering.finished.empty(), "search: of input ", answering.text->index,
                    " no token may be written");
    answering.open.clear();
    answering.done = true;
    return;
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.sum != b.sum ? a.sum > b.sum : std::tie(a.parent, a.id) < std::tie(b.parent, b.id);
  });
  const auto beams = static_cast<size_t>(options_.beams);
  std::vector<Hypothesis> open;
  for (size_t rank = 0; rank < candidates.size() && open.size() < beams; ++rank) {
    const Candidate& candidate = candidates[rank];
    const bool ends = decoder_.config().EndsText(candidate.id);
    if (ends && rank >= beams) continue;
    Hypothesis longer = answering.open[candidate.parent];
    longer.ids.push_back(candidate.id);
    longer.sum = candidate.sum;
    if (ends) {
      Finish(answering, std::move(longer));
    } else {
      open.push_back(std::move(longer));
    }
  }
  answering.open = std::move(open);
  answering.done = answering.open.empty() || CannotImprove(answering);
}

void BatchSearch::ExtendEach(Answering& answering, std::span<const std::vector<TokenScore>> tokens) {
  std::vector<Hypothesis> open;
  for (size_t i = 0; i < tokens.size(); ++i) {
    Hypothesis longer = std::move(answering.open[i]);
    longer.ids.push_back(tokens[i][0].id);
    longer.sum += tokens[i][0].log_p;
    if (decoder_.config().EndsText(longer.ids.back())) {
      Finish(answering, std::move(longer));
    } else {
      open.push_back(std::move(longer));
    }
  }
  answering.open = std::move(open);
  answering.done = answering.open.empty();
}

void BatchSearch::Extend(const Tensor& logits) {
  const std::vector<std::vector<TokenScore>> tokens = NextTokens(logits);
  size_t first = 0;
  for (Answering& answering : active_) {
    const std::span<const std::vector<TokenScore>> own(tokens.data() + first, answering.open.size());
    first += own.size();
    if (options_.on_token && options_.beams == 1) {
      for (size_t i = 0; i < own.size(); ++i) {
        if (!own[i].empty()) options_.on_token(answering.text->index, answering.open[i].sample, own[i][0].id);
      }
    }
    if (draws()) {
      ExtendEach(answering, own);
    } else {
      ExtendByRank(answering, own);
    }
    if (!answering.done && static_cast<int64_t>(answering.open[0].ids.size()) >= answering.max_length) {
      FinishOpen(answering);
    }
  }
}

// The last ones take the places of those that are done, so that no other is moved.
void BatchSearch::LeaveOutDone(std::vector<std::vector<SearchAnswer>>* answers) {
  std::vector<int64_t> kept(active_.size());
  std::iota(kept.begin(), kept.end(), 0);
  bool all = true;
  for (size_t i = 0; i < active_.size();) {
    if (!active_[i].done) {
      ++i;
      continue;
    }
    std::vector<SearchAnswer>& found = (*answers)[active_[i].text->index];
    found = std::move(active_[i].finished);
    found.resize(std::min(found.size(), static_cast<size_t>(options_.answers)));
    if (i + 1 < active_.size()) active_[i] = std::move(active_.back());
    kept[i] = kept.back();
    active_.pop_back();
    kept.pop_back();
    all = false;
  }
  if (!all && !active_.empty()) decoder_.SelectInputs(kept);
}

// The first that goes on from a hypothesis keeps its row, so that nothing of it is copied; others take rows that are
// free.
void BatchSearch::PlaceRows() {
  const int64_t rows = this->rows();
  std::vector<int64_t> from;
  bool moved = rows != held_rows_;
  for (size_t i = 0; i < active_.size(); ++i) {
    std::vector<Hypothesis>& open = active_[i].open;
    const int64_t first = static_cast<int64_t>(i) * held_rows_;
    std::vector<int64_t> source(static_cast<size_t>(rows), -1);  // of each row, among the input's
    std::vector<Hypothesis*> homeless;
    for (Hypothesis& hypothesis : open) {
      int64_t& own = source[static_cast<size_t>(hypothesis.row)];
      if (own < 0) {
        own = hypothesis.row;
      } else {
        homeless.push_back(&hypothesis);
      }
    }
    auto free = source.begin();
    for (Hypothesis* hypothesis : homeless) {
      free = std::find(free, source.end(), -1);
      *free = hypothesis->row;
      hypothesis->row = free - source.begin();
      moved = true;
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t of = source[static_cast<size_t>(row)];
      from.push_back(first + (of >= 0 ? of : std::min(row, held_rows_ - 1)));
    }
  }
  if (moved) decoder_.SelectBeams(from);
  held_rows_ = rows;
}

Tensor BatchSearch::Proceed(std::vector<std::vector<SearchAnswer>>* answers) {
  LeaveOutDone(answers);
  if (active_.empty()) return Tensor();
  PlaceRows();
  const auto inputs = static_cast<int64_t>(active_.size());
  const Tensor tokens = Tensor::Full({inputs * held_rows_}, kAnyToken, DType::kInt32);
  for (int64_t i = 0; i < inputs; ++i) {
    for (const Hypothesis& hypothesis : active_[static_cast<size_t>(i)].open) {
      tokens.data<int32_t>()[i * held_rows_ + hypothesis.row] = hypothesis.ids.back();
    }
  }
  return decoder_.Step(tokens);
}

void BatchSearch::Run(std::span<const SearchText> texts, std::vector<std::vector<SearchAnswer>>* answers) {
  const ContextScope same_bits_in_any_batch(&OpContext::sum_order, SumOrder::kBatchInvariant);
  Tensor logits = Start(texts);
  while (!active_.empty()) {
    if (options_.stop && options_.stop()) {
      for (Answering& answering : active_) FinishOpen(answering);
    } else {
      Extend(logits);
    }
    logits = Proceed(answers);
  }
}

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
