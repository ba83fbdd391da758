// The words that the built-in stories are made of: tables that a free choice draws one row from, every row alike.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {

enum StoryTable : int {
  kMen,
  kWomen,
  kTowns,
  kJobs,
  kColours,
  kGoods,    // columns: one, several
  kAnimals,  // all start with a consonant sound: "a fox"
  kPetNames,
  kPlaces,  // "at the …"
  kDeeds,   // what is done to one's goods, past
  kMoods,
  kWeather,
  kCounts,     // ten to thirty
  kFew,        // two, three, four
  kThings,     // columns: one, several
  kQualities,  // before or after a thing
  kHabits,     // columns: it …s, they …
  kManners,
  kStoryTables  // how many there are
};

// The forms of a row: "box", "boxes". A table with one form has one column.
using StoryRow = std::vector<std::string_view>;
const std::vector<StoryRow>& StoryRows(int table);

inline constexpr int kFirstCount = 10;  // row r of kCounts is this + r
inline constexpr int kFirstFew = 2;     // row r of kFew is this + r

// StoryComposer: how a story comes to its text. It draws the choices and writes words, and keeps account of both: the
// probability of what was drawn, and where each choice shows in the text.

// A number that stands in the text: its value and the choices that it was computed from. With one choice it is that
// choice's own word.
struct Quantity {
  int value = 0;
  std::vector<int> sources;
};

// Choices are numbered as in Story::choices.
class StoryComposer {
 public:
  explicit StoryComposer(const RandomKey& key) : random_(key) {}

  // 0 … options - 1, each alike; Story::nats grows by ln(options).
  int Pick(int options);
  // Index i with probability weights[i] / Σ weights; Story::nats grows by -ln of it.
  int PickWeighted(std::initializer_list<int> weights);
  // Draws a row of a table of story_words.h. In a group ≥ 0, rows drawn before in the same group are left out.
  int Draw(int table, int group = -1);

  // Writes words, the first letter of a sentence as a capital.
  StoryComposer& Say(std::string_view words);
  // Writes one form of a word drawn.
  StoryComposer& Say(int choice, int column = 0);
  StoryComposer& Say(const Quantity& quantity);
  // A quotation mark; the speech after it opens with a capital.
  StoryComposer& OpenQuote();
  void BeginSentence();
  // Ends the line, or with two the paragraph.
  void EndLine(int line_feeds);

  const Story& story() const { return story_; }
  Story Take() { return std::move(story_); }

 private:
  void Mention(int choice, int64_t begin, int column, bool capitalised);

  RandomSequence random_;
  Story story_;
  bool opens_sentence_ = true;
};

}  // namespace crosstalk
