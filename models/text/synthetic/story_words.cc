#include "crosstalk/models/text/synthetic/story_words.h"

#include <array>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {
namespace {

using Rows = std::vector<StoryRow>;

std::array<Rows, kStoryTables> MakeTables() {
  std::array<Rows, kStoryTables> tables;
  tables[kMen] = {{"Adam"},  {"Bruno"},  {"Caleb"},  {"Conrad"}, {"Edwin"},  {"Felix"},  {"Gilbert"}, {"Hugo"},
                  {"Ivan"},  {"Jasper"}, {"Kurt"},   {"Leo"},    {"Magnus"}, {"Nolan"},  {"Oscar"},   {"Percy"},
                  {"Ralph"}, {"Simon"},  {"Tobias"}, {"Victor"}, {"Walter"}, {"Xavier"}, {"Yusuf"},   {"Zeno"}};
  tables[kWomen] = {{"Agnes"}, {"Bella"},  {"Clara"}, {"Daphne"}, {"Edith"}, {"Flora"}, {"Greta"},  {"Helga"},
                    {"Irene"}, {"Judith"}, {"Karin"}, {"Lydia"},  {"Mabel"}, {"Nora"},  {"Olive"},  {"Petra"},
                    {"Rosa"},  {"Sybil"},  {"Tessa"}, {"Ursula"}, {"Vera"},  {"Wanda"}, {"Yvonne"}, {"Zelda"}};
  tables[kTowns] = {{"Ashford"},   {"Birkdale"},  {"Coldwell"},  {"Dunmore"},  {"Elmstead"},  {"Fernhill"},
                    {"Granton"},   {"Hollowby"},  {"Ivybridge"}, {"Kingsley"}, {"Larkfield"}, {"Millbrook"},
                    {"Northwick"}, {"Oakham"},    {"Pendale"},   {"Quarrow"},  {"Redcliff"},  {"Stonegate"},
                    {"Thornby"},   {"Underhill"}, {"Westmere"},  {"Yarrow"}};
  tables[kJobs] = {{"baker"},  {"barber"},  {"carpenter"}, {"clerk"},  {"cook"},   {"doctor"},
                   {"farmer"}, {"fisher"},  {"gardener"},  {"hunter"}, {"judge"},  {"lawyer"},
                   {"mason"},  {"miller"},  {"painter"},   {"potter"}, {"sailor"}, {"smith"},
                   {"tailor"}, {"teacher"}, {"weaver"},    {"writer"}};
  tables[kColours] = {{"black"},  {"blue"}, {"brown"},  {"golden"}, {"green"}, {"grey"},
                      {"purple"}, {"red"},  {"silver"}, {"white"},  {"yellow"}};
  tables[kGoods] = {{"barrel", "barrels"}, {"basket", "baskets"}, {"bell", "bells"},     {"book", "books"},
                    {"bottle", "bottles"}, {"box", "boxes"},      {"candle", "candles"}, {"carpet", "carpets"},
                    {"coin", "coins"},     {"cup", "cups"},       {"drum", "drums"},     {"jar", "jars"},
                    {"kettle", "kettles"}, {"lamp", "lamps"},     {"mirror", "mirrors"}, {"plate", "plates"},
                    {"ribbon", "ribbons"}, {"rope", "ropes"}};
  tables[kAnimals] = {{"cat"},   {"crow"}, {"dog"},   {"donkey"}, {"duck"},   {"fox"},  {"goat"},
                      {"goose"}, {"hare"}, {"horse"}, {"mule"},   {"parrot"}, {"pony"}, {"rabbit"}};
  tables[kPetNames] = {{"Biscuit"}, {"Button"},  {"Captain"}, {"Cinder"},  {"Clover"}, {"Domino"}, {"Ginger"},
                       {"Juniper"}, {"Marble"},  {"Mistral"}, {"Muffin"},  {"Nettle"}, {"Pepper"}, {"Pickle"},
                       {"Pilot"},   {"Saffron"}, {"Shadow"},  {"Thunder"}, {"Velvet"}, {"Whisper"}};
  tables[kPlaces] = {{"barn"},    {"bridge"}, {"castle"},  {"chapel"}, {"farm"}, {"forge"},   {"garden"},
                     {"harbour"}, {"inn"},    {"library"}, {"market"}, {"mill"}, {"quarry"},  {"river"},
                     {"school"},  {"stable"}, {"theatre"}, {"tower"},  {"well"}, {"workshop"}};
  tables[kDeeds] = {{"carried"},  {"cleaned"}, {"counted"}, {"covered"},  {"drew"},    {"dropped"},
                    {"guarded"},  {"hid"},     {"lifted"},  {"measured"}, {"moved"},   {"painted"},
                    {"repaired"}, {"sorted"},  {"stacked"}, {"washed"},   {"weighed"}, {"wrapped"}};
  tables[kMoods] = {{"afraid"}, {"angry"},   {"bored"}, {"calm"},  {"cheerful"}, {"curious"}, {"happy"},   {"hungry"},
                    {"lonely"}, {"nervous"}, {"proud"}, {"quiet"}, {"sad"},      {"sleepy"},  {"thirsty"}, {"tired"}};
  tables[kWeather] = {{"bright"}, {"cloudy"}, {"cold"},  {"dry"},    {"foggy"},
                      {"hot"},    {"rainy"},  {"snowy"}, {"stormy"}, {"windy"}};
  tables[kCounts] = {{"ten"},         {"eleven"},     {"twelve"},       {"thirteen"},     {"fourteen"},
                     {"fifteen"},     {"sixteen"},    {"seventeen"},    {"eighteen"},     {"nineteen"},
                     {"twenty"},      {"twenty-one"}, {"twenty-two"},   {"twenty-three"}, {"twenty-four"},
                     {"twenty-five"}, {"twenty-six"}, {"twenty-seven"}, {"twenty-eight"}, {"twenty-nine"},
                     {"thirty"}};
  tables[kFew] = {{"two"}, {"three"}, {"four"}};
  tables[kThings] = {{"boat", "boats"},   {"chair", "chairs"}, {"clock", "clocks"},   {"cloud", "clouds"},
                     {"door", "doors"},   {"fence", "fences"}, {"flower", "flowers"}, {"letter", "letters"},
                     {"road", "roads"},   {"roof", "roofs"},   {"rose", "roses"},     {"sail", "sails"},
                     {"shoe", "shoes"},   {"song", "songs"},   {"star", "stars"},     {"stone", "stones"},
                     {"storm", "storms"}, {"tree", "trees"},   {"wheel", "wheels"},   {"window", "windows"}};
  tables[kQualities] = {{"broken"}, {"clean"},   {"crooked"}, {"dusty"},  {"famous"}, {"heavy"}, {"hidden"},
                        {"huge"},   {"lovely"},  {"modern"},  {"narrow"}, {"old"},    {"plain"}, {"rough"},
                        {"simple"}, {"strange"}, {"tall"},    {"tiny"},   {"warm"},   {"wooden"}};
  tables[kHabits] = {{"appears", "appear"}, {"changes", "change"}, {"dances", "dance"},    {"falls", "fall"},
                     {"grows", "grow"},     {"laughs", "laugh"},   {"opens", "open"},      {"returns", "return"},
                     {"shakes", "shake"},   {"shines", "shine"},   {"sings", "sing"},      {"sinks", "sink"},
                     {"speaks", "speak"},   {"turns", "turn"},     {"vanishes", "vanish"}, {"waits", "wait"}};
  tables[kManners] = {{"again"}, {"badly"},   {"barely"}, {"early"},  {"gently"}, {"gladly"},   {"late"},  {"loudly"},
                      {"often"}, {"quickly"}, {"rarely"}, {"safely"}, {"slowly"}, {"suddenly"}, {"today"}, {"twice"}};
  return tables;
}

}  // namespace

const std::vector<StoryRow>& StoryRows(int table) {
  static const std::array<Rows, kStoryTables> tables = MakeTables();
  return tables[table];
}

namespace {

std::string NumberWords(int n) {
  static constexpr std::array<std::string_view, 20> kSmall = {
      "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
      "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static constexpr std::array<std::string_view, 10> kTens = {"",      "",      "twenty",  "thirty", "forty",
                                                             "fifty", "sixty", "seventy", "eighty", "ninety"};
  std::string words;
  if (n >= 100) {
    words = NumberWords(n / 100) + " hundred";
    n %= 100;
    if (n == 0) return words;
    words += " and ";
  }
  if (n < 20) return words + std::string(kSmall[n]);
  words += kTens[n / 10];
  if (n % 10 != 0) words += StrCat("-", kSmall[n % 10]);
  return words;
}

}  // namespace

int StoryComposer::Pick(int options) {
  story_.nats += Log(static_cast<double>(options));
  return static_cast<int>(random_.UniformInt(options));
}

int StoryComposer::PickWeighted(std::initializer_list<int> weights) {
  int total = 0;
  for (const int weight : weights) total += weight;
  int ticket = static_cast<int>(random_.UniformInt(total));
  int i = 0;
  for (const int weight : weights) {
    if (ticket < weight) {
      story_.nats -= Log(static_cast<double>(weight) / total);
      break;
    }
    ticket -= weight;
    ++i;
  }
  return i;
}

int StoryComposer::Draw(int table, int group) {
  std::vector<bool> taken(StoryRows(table).size(), false);
  int free = static_cast<int>(taken.size());
  if (group >= 0) {
    for (const WordChoice& other : story_.choices) {
      if (other.table == table && other.group == group) {
        taken[other.row] = true;
        --free;
      }
    }
  }
  int ticket = Pick(free);
  int row = 0;
  while (taken[row] || ticket-- > 0) ++row;
  story_.choices.push_back({table, row, group, {}});
  return static_cast<int>(story_.choices.size()) - 1;
}

StoryComposer& StoryComposer::Say(std::string_view words) {
  for (const char c : words) {
    story_.text += opens_sentence_ && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    if (c != '"' && c != ' ') opens_sentence_ = false;
  }
  return *this;
}

StoryComposer& StoryComposer::Say(int choice, int column) {
  const WordChoice& word = story_.choices[choice];
  const auto begin = static_cast<int64_t>(story_.text.size());
  const bool capitalised = opens_sentence_;
  Say(StoryRows(word.table)[word.row][column]);
  Mention(choice, begin, column, capitalised);
  return *this;
}

StoryComposer& StoryComposer::Say(const Quantity& quantity) {
  if (quantity.sources.size() == 1) return Say(quantity.sources[0]);
  const auto begin = static_cast<int64_t>(story_.text.size());
  const bool capitalised = opens_sentence_;
  Say(NumberWords(quantity.value));
  for (const int source : quantity.sources) Mention(source, begin, -1, capitalised);
  return *this;
}

void StoryComposer::Mention(int choice, int64_t begin, int column, bool capitalised) {
  story_.choices[choice].mentions.push_back({begin, static_cast<int64_t>(story_.text.size()), column, capitalised});
}

StoryComposer& StoryComposer::OpenQuote() {
  story_.text += '"';
  opens_sentence_ = true;
  return *this;
}

void StoryComposer::BeginSentence() {
  if (!story_.text.empty() && story_.text.back() != '\n') story_.text += ' ';
  opens_sentence_ = true;
}

void StoryComposer::EndLine(int line_feeds) { story_.text.append(line_feeds, '\n'); }

}  // namespace crosstalk
