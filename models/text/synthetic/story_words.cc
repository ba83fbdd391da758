#include "crosstalk/models/text/synthetic/story_words.h"

#include <array>

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

}  // namespace crosstalk
