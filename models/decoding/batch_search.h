// BatchSearch: the search of search.h for inputs of one padded length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "crosstalk/models/decoding/decoder.h"
#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/decoding/token_scores.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

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
  bool CannotImprove(const Answering& answering, double best_sum) const;
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

}  // namespace crosstalk
