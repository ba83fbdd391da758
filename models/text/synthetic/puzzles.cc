#include "crosstalk/models/text/synthetic/puzzles.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {
namespace {

constexpr size_t kPairs = 15, kCopied = 31;
constexpr size_t kBlocks = 6, kBlockLetters = 4, kQuestions = 3;
// The validation part is the same sequence of examples, from here on.
constexpr int64_t kFirstValidationExample = int64_t{1} << 62;

class PuzzleWriter {
 public:
  explicit PuzzleWriter(const RandomKey& key) : random_(key) {}

  void WriteLine(CorpusKind kind) {
    if (kind == CorpusKind::kRetrieval) {
      Retrieval();
    } else if (kind == CorpusKind::kCopying) {
      Copying();
    } else {
      LetterBlocks();
    }
    Show("\n");
  }

  Puzzles puzzles;

 private:
  void Show(std::string_view text) { Append(text, false); }
  void Ask(std::string_view text) { Append(text, true); }
  void Append(std::string_view text, bool asked) {
    puzzles.text += text;
    puzzles.asked.resize(puzzles.text.size(), asked);
  }

  char Letter(char first) { return static_cast<char>(first + static_cast<char>(random_.UniformInt(26))); }

  // Exchanges the first `count` places with later ones.
  template <typename T>
  void Shuffle(std::vector<T>* values, size_t count) {
    for (size_t i = 0; i < count; ++i) std::swap((*values)[i], (*values)[i + random_.UniformInt(values->size() - i)]);
  }

  std::string DistinctLetters(size_t count) {
    std::vector<char> letters;
    for (char c = 'a'; c <= 'z'; ++c) letters.push_back(c);
    Shuffle(&letters, count);
    return {letters.begin(), letters.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  void Retrieval() {
    std::vector<std::pair<char, char>> pairs;
    for (const char key : DistinctLetters(kPairs)) pairs.emplace_back(key, Letter('A'));
    for (const auto& [key, value] : pairs) Show(std::string{key, value});
    Show(";");
    Shuffle(&pairs, kPairs);
    for (const auto& [key, value] : pairs) {
      Show(std::string{key});
      Ask(std::string{value});
    }
  }

  void Copying() {
    std::string copied;
    for (size_t i = 0; i < kCopied; ++i) copied += Letter('a');
    Show(copied);
    Show(";");
    Ask(copied);
  }

  void LetterBlocks() {
    std::vector<std::string> blocks;
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(DistinctLetters(kBlockLetters));
      Show((i == 0 ? "" : " ") + blocks.back());
    }
    for (size_t i = 0; i < kQuestions; ++i) {
      const std::string& block = blocks[random_.UniformInt(kBlocks)];
      std::vector<char> letters(block.begin(), block.end());
      Shuffle(&letters, 2);
      const auto has_both = [&](const std::string& one) {
        return one.find(letters[0]) != std::string::npos && one.find(letters[1]) != std::string::npos;
      };
      Show(std::string{'?', letters[0], letters[1]});
      Ask(*std::find_if(blocks.begin(), blocks.end(), has_both));
    }
  }

  RandomSequence random_;
};

}  // namespace

Puzzles WritePuzzles(CorpusKind kind, uint64_t seed, int64_t example, int64_t min_bytes) {
  PuzzleWriter writer(ExampleKey(seed, StrCat("models.text.puzzles.", Name(kind)), example));
  while (std::ssize(writer.puzzles.text) < min_bytes) writer.WriteLine(kind);
  return std::move(writer.puzzles);
}

std::string PuzzleSource::Describe() const {
  return StrCat("built-in ", Name(kind_), ", seed ", seed_, first_ == 0 ? ", training part" : ", validation part");
}

TextSegment PuzzleSource::ReadDocuments(uint64_t, int64_t example, int64_t, int64_t min_bytes, Order) const {
  return {WritePuzzles(kind_, seed_, first_ + example, min_bytes).text, {0}};
}

std::vector<bool> PuzzleSource::AskedFor(int64_t example, const ChunkLocation& chunk) const {
  const Puzzles puzzles = WritePuzzles(kind_, seed_, first_ + example, std::ssize(chunk.text));
  std::vector<bool> asked;
  for (const TokenSpan& token : chunk.tokens) {
    bool all = token.begin < token.end;
    for (auto byte = token.begin; byte < token.end; ++byte) all = all && puzzles.asked[static_cast<size_t>(byte)];
    asked.push_back(all);
  }
  return asked;
}

std::optional<double> PuzzleSource::EntropyBound(int64_t example, const ChunkLocation& chunk,
                                                 const std::vector<bool>& hidden, const Tokenizer&) const {
  const std::vector<bool> asked = AskedFor(example, chunk);
  for (size_t i = 0; i < hidden.size(); ++i) {
    if (hidden[i] && !asked[i]) return std::nullopt;
  }
  return 0;
}

TextCorpus MakePuzzleCorpus(CorpusKind kind, uint64_t seed) {
  CROSSTALK_DCHECK(kind != CorpusKind::kStories);
  return {std::make_shared<PuzzleSource>(kind, seed, 0),
          std::make_shared<PuzzleSource>(kind, seed, kFirstValidationExample),
          StrCat("built-in ", Name(kind), ", seed ", seed)};
}

}  // namespace crosstalk
