// The words that the built-in stories are made of: tables that a free choice draws one row from, every row alike.
#pragma once

#include <string_view>
#include <vector>

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

}  // namespace crosstalk
