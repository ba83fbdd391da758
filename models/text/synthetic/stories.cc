#include "crosstalk/models/text/synthetic/stories.h"

#include <algorithm>
#include <array>
#include <string>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/synthetic/story_words.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {
namespace {

constexpr int kChapterSentences = 48;
constexpr std::array<std::string_view, 7> kWeekdays = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                       "Friday", "Saturday", "Sunday"};

// One of the people of a chapter. Numbers are indices into Story::choices.
struct Person {
  bool woman = false;
  int name = -1;
  int job = -1;
  int town = -1;
  int colour = -1;
  int place = -1;
  int animal = -1;  // -1: has none
  int pet_name = -1;
  Quantity goods;
  int gifts_left = 2;  // so that nobody's goods fall below two: 10 - 2·4
};

struct Quote {
  int speaker;
  bool several;
  int quality, thing, habit, manner;
};

// Writes sentence after sentence. What kind of sentence follows and about whom is drawn without regard to which words
// were drawn from the tables, as WordChoice promises. Every choice shows in the text, so that the entropy of the
// choices is that of the text.
class StoryWriter : private StoryComposer {
 public:
  explicit StoryWriter(const RandomKey& key) : StoryComposer(key) {}

  Story Write(int64_t min_bytes) {
    while (static_cast<int64_t>(story().text.size()) < min_bytes) {
      if (sentences_left_ == 0) {
        BeginChapter();
      } else {
        WriteSentence();
        --sentences_left_;
      }
    }
    return Take();
  }

 private:
  int DrawDistinct(int table) { return Draw(table, chapter_); }
  // The person as subject: by name, or by pronoun straight after a sentence with the same subject.
  StoryComposer& Subject(int person) {
    if (last_subject_ == person) {
      Say(people_[person].woman ? "she" : "he");
    } else {
      Say(people_[person].name);
    }
    next_subject_ = person;
    return *this;
  }
  std::string_view Possessive(int person) const { return people_[person].woman ? "her" : "his"; }
  template <typename Condition>
  std::vector<int> Those(const Condition& condition) const {
    std::vector<int> those;
    for (size_t i = 0; i < people_.size(); ++i) {
      if (condition(people_[i])) those.push_back(static_cast<int>(i));
    }
    return those;
  }
  int OneOf(const std::vector<int>& those) { return those[Pick(static_cast<int>(those.size()))]; }
  int AnyPerson() { return Pick(static_cast<int>(people_.size())); }
  int AnotherPerson(int than) {
    const int i = Pick(static_cast<int>(people_.size()) - 1);
    return i < than ? i : i + 1;
  }

  // ---- chapters and people ----
  void BeginChapter() {
    ++chapter_;
    if (chapter_ > 0) EndLine(2);
    people_.clear();
    quotes_.clear();
    last_subject_ = next_subject_ = -1;
    goods_ = Draw(kGoods);
    weekday_ = Pick(7);
    sentences_left_ = kChapterSentences;
    BeginSentence();
    Say("it was a ").Say(Draw(kWeather)).Say(" ").Say(kWeekdays[weekday_]).Say(".");
    Introduce();
    Introduce();
  }

  void Introduce() {
    Person person;
    const int me = static_cast<int>(people_.size());
    person.woman = Pick(2) == 1;
    person.name = DrawDistinct(person.woman ? kWomen : kMen);
    person.job = DrawDistinct(kJobs);
    person.town = DrawDistinct(kTowns);
    person.colour = DrawDistinct(kColours);
    person.place = Draw(kPlaces);
    const int count = Draw(kCounts);
    person.goods = {kFirstCount + story().choices[count].row, {count}};
    people_.push_back(person);
    BeginSentence();
    switch (Pick(3)) {
      case 0:
        Say(person.name).Say(" was a ").Say(person.job).Say(" from ").Say(person.town).Say(".");
        break;
      case 1:
        Say("in ").Say(person.town).Say(" there lived a ").Say(person.job).Say(" called ").Say(person.name).Say(".");
        break;
      default:
        Say("the ").Say(person.job).Say(" of ").Say(person.town).Say(" was called ").Say(person.name).Say(".");
    }
    last_subject_ = me;
    BeginSentence();
    Subject(me).Say(" kept ").Say(person.goods).Say(" ").Say(person.colour).Say(" ").Say(goods_, 1);
    Say(" at the ").Say(person.place).Say(".");
    if (Pick(2) == 0) {
      people_[me].animal = DrawDistinct(kAnimals);
      people_[me].pet_name = DrawDistinct(kPetNames);
      BeginSentence();
      Subject(me).Say(" had a ").Say(people_[me].animal).Say(" called ").Say(people_[me].pet_name).Say(".");
    }
  }

  // ---- sentences ----
  void WriteSentence() {
    next_subject_ = -1;
    enum { kNewPerson, kRecall, kDeed, kGift, kSum, kPet, kMove, kStay, kAsk, kQuote, kRemember, kSight, kDay };
    const int can_introduce = people_.size() < 4 ? 6 : 0;
    const int can_remember = std::min(12, 3 * static_cast<int>(quotes_.size()));
    const std::vector<int> givers = Those([](const Person& person) { return person.gifts_left > 0; });
    const std::vector<int> owners = Those([](const Person& person) { return person.animal >= 0; });
    const int can_give = givers.empty() ? 0 : 8;
    const int can_call = owners.empty() ? 0 : 8;
    switch (PickWeighted({can_introduce, 10, 12, can_give, 6, can_call, 7, 7, 14, 7, can_remember, 7, 4})) {
      case kNewPerson:
        Introduce();
        next_subject_ = last_subject_;
        break;
      case kRecall:
        Recall(AnyPerson());
        break;
      case kDeed:
        Deed(AnyPerson());
        break;
      case kGift:
        Gift(OneOf(givers));
        break;
      case kSum:
        Sum(AnyPerson());
        break;
      case kPet:
        Pet(OneOf(owners));
        break;
      case kMove:
        Move(AnyPerson());
        break;
      case kStay:
        Stay(AnyPerson());
        break;
      case kAsk:
        Ask(AnyPerson());
        break;
      case kQuote:
        Speak(AnyPerson());
        break;
      case kRemember:
        Remember();
        break;
      case kSight:
        Sight(AnyPerson());
        break;
      default:
        NextDay();
    }
    last_subject_ = next_subject_;
  }

  void Recall(int who) {
    const Person& person = people_[who];
    BeginSentence();
    if (Pick(2) == 0) {
      Say("the ").Say(person.job).Say(" from ").Say(person.town).Say(" was ").Say(Draw(kMoods)).Say(".");
      next_subject_ = who;
    } else {
      Subject(who).Say(" was ").Say(Draw(kMoods)).Say(", for the road from ").Say(person.town).Say(" was long.");
    }
  }

  void Deed(int who) {
    const Person& person = people_[who];
    BeginSentence();
    Subject(who).Say(" ").Say(Draw(kDeeds)).Say(" ").Say(Possessive(who)).Say(" ").Say(person.goods).Say(" ");
    Say(person.colour).Say(" ").Say(goods_, 1).Say(" at the ").Say(person.place).Say(".");
  }

  void Gift(int giver) {
    const int taker = AnotherPerson(giver);
    --people_[giver].gifts_left;
    const int few = Draw(kFew);
    const int given = kFirstFew + story().choices[few].row;
    BeginSentence();
    Subject(giver).Say(" gave ").Say(few).Say(" ").Say(goods_, 1).Say(" to ").Say(people_[taker].name);
    Change(people_[giver].goods, -given, few);
    Change(people_[taker].goods, given, few);
    Say(", so ").Say(people_[giver].name).Say(" had ").Say(people_[giver].goods).Say(" and ");
    Say(people_[taker].name).Say(" had ").Say(people_[taker].goods).Say(".");
  }
  static void Change(Quantity& quantity, int by, int source) {
    quantity.value += by;
    quantity.sources.push_back(source);
  }

  void Sum(int a) {
    const int b = AnotherPerson(a);
    Quantity both = people_[a].goods;
    both.value += people_[b].goods.value;
    both.sources.insert(both.sources.end(), people_[b].goods.sources.begin(), people_[b].goods.sources.end());
    BeginSentence();
    Say("together ").Say(people_[a].name).Say(" and ").Say(people_[b].name).Say(" had ").Say(both).Say(" ");
    Say(goods_, 1).Say(".");
  }

  void Pet(int who) {
    const Person& person = people_[who];
    BeginSentence();
    if (Pick(2) == 0) {
      Say(person.pet_name).Say(" the ").Say(person.animal).Say(" was ").Say(Draw(kMoods)).Say(" without ");
      Say(person.name).Say(".");
    } else {
      Subject(who).Say(" looked for ").Say(Possessive(who)).Say(" ").Say(person.animal).Say(" and called, ");
      OpenQuote().Say(person.pet_name).Say("!\"");
    }
  }

  void Move(int who) {
    BeginSentence();
    people_[who].place = Draw(kPlaces);
    Subject(who).Say(" took the ").Say(people_[who].colour).Say(" ").Say(goods_, 1).Say(" to the ");
    Say(people_[who].place).Say(".");
  }

  void Stay(int who) {
    BeginSentence();
    Subject(who).Say(" stayed at the ").Say(people_[who].place).Say(" and was ").Say(Draw(kMoods)).Say(".");
  }

  // A question by one person, answered by another, about one who is not the asker.
  void Ask(int asker) {
    const int other = AnotherPerson(asker);
    const int about = AnotherPerson(asker);
    const Person& person = people_[about];
    const int kind = PickWeighted({3, 3, 3, person.animal >= 0 ? 3 : 0});
    BeginSentence();
    OpenQuote();
    switch (kind) {
      case 0:
        Say("where is ").Say(person.name);
        break;
      case 1:
        Say("how many ").Say(goods_, 1).Say(" has ").Say(person.name);
        break;
      case 2:
        Say("who comes from ").Say(person.town);
        break;
      default:
        Say("whose ").Say(person.animal).Say(" is ").Say(person.pet_name);
    }
    Say("?\" asked ").Say(people_[asker].name).Say(". ");
    OpenQuote();
    switch (kind) {
      case 0:
        Say("at the ").Say(person.place);
        break;
      case 1:
        Say(person.goods).Say(" ").Say(person.colour).Say(" ").Say(goods_, 1);
        break;
      case 2:
        Say(person.name).Say(" the ").Say(person.job);
        break;
      default:
        Say("it belongs to ").Say(person.name).Say(" the ").Say(person.job);
    }
    Say(",\" said ").Say(people_[other].name).Say(".");
  }

  void SayQuote(const Quote& quote) {
    const int column = quote.several ? 1 : 0;
    Say("the ").Say(quote.quality).Say(" ").Say(quote.thing, column).Say(" ").Say(quote.habit, column).Say(" ");
    Say(quote.manner);
  }
  void Speak(int who) {
    Quote quote{who, Pick(2) == 1, -1, -1, -1, -1};
    quote.quality = Draw(kQualities);
    quote.thing = Draw(kThings);
    quote.habit = Draw(kHabits);
    quote.manner = Draw(kManners);
    quotes_.push_back(quote);
    BeginSentence();
    Subject(who).Say(" said, ").OpenQuote();
    SayQuote(quote);
    Say(".\"");
  }
  void Remember() {
    const Quote quote = quotes_[Pick(static_cast<int>(quotes_.size()))];
    const int who = AnotherPerson(quote.speaker);
    BeginSentence();
    Subject(who).Say(" remembered the words of ").Say(people_[quote.speaker].name).Say(": ").OpenQuote();
    SayQuote(quote);
    Say(".\"");
  }

  // Agreement of a verb with a noun several words before it.
  void Sight(int who) {
    const bool several = Pick(2) == 1;
    const int companion = AnotherPerson(who);
    BeginSentence();
    Say("the ").Say(Draw(kThings), several ? 1 : 0).Say(" that ").Say(people_[who].name).Say(" saw with ");
    Say(people_[companion].name).Say(" at the ").Say(Draw(kPlaces)).Say(several ? " were " : " was ");
    Say(Draw(kQualities)).Say(".");
  }

  void NextDay() {
    weekday_ = (weekday_ + 1) % 7;
    EndLine(1);
    BeginSentence();
    Say("the next day was ").Say(kWeekdays[weekday_]).Say(", and it was ").Say(Draw(kWeather)).Say(".");
  }

  int chapter_ = -1;
  int sentences_left_ = 0;
  int goods_ = -1;  // what everybody in the chapter has some of
  int weekday_ = 0;
  std::vector<Person> people_;
  std::vector<Quote> quotes_;
  int last_subject_ = -1;  // of the sentence before, or -1
  int next_subject_ = -1;  // of the sentence being written
};

}  // namespace

Story WriteStory(uint64_t seed, int64_t index, int64_t min_bytes) {
  CROSSTALK_CHECK(index >= 0, "story ", index, ": the number of a story must not be negative");
  return StoryWriter(ExampleKey(seed, "models.text.story", index)).Write(min_bytes);
}

namespace {

// The validation part is the same sequence of stories, from here on.
constexpr int64_t kFirstValidationStory = int64_t{1} << 62;

}  // namespace

std::string SyntheticSource::Describe() const {
  return StrCat("built-in stories, seed ", seed_, first_ == 0 ? ", training part" : ", validation part");
}

TextSegment SyntheticSource::ReadDocuments(uint64_t, int64_t example, int64_t, int64_t min_bytes, Order) const {
  return {WriteStory(seed_, first_ + example, min_bytes).text, {0}};
}

std::optional<double> SyntheticSource::EntropyBound(int64_t example, const ChunkLocation& chunk,
                                                    const std::vector<bool>& hidden, const Tokenizer& tokenizer) const {
  const Story story = WriteStory(seed_, first_ + example, static_cast<int64_t>(chunk.text.size()));
  return StoryEntropyBound(story, chunk.tokens, hidden, tokenizer);
}

TextCorpus MakeSyntheticCorpus(uint64_t seed) {
  return {std::make_shared<SyntheticSource>(seed, 0), std::make_shared<SyntheticSource>(seed, kFirstValidationStory),
          StrCat("built-in stories, seed ", seed)};
}

namespace {

// Let Z be everything drawn in the writing of the story except the words S whose every mention among the tokens is
// hidden, together with the mask and the number of tokens of each word. The visible tokens are a function of Z. The
// words of S are a function of Z and the targets, and given Z they are still uniform over the rows that nobody of their
// group took and that have the same number of tokens wherever they are mentioned. So for any model
//   E[-ln p(targets | inputs)] ≥ H(targets | inputs) ≥ H(targets | Z) ≥ H(S | Z) = E[Σ_S ln(rows left)].

// How a word stands in the text, which decides how many tokens it has.
struct Form {
  int column;  // of its row
  bool capitalised;
  bool quoted;  // straight after a quotation mark

  friend bool operator==(const Form&, const Form&) = default;
};

// The number of tokens of a word in that form, a quotation mark before it counted.
size_t CountTokens(const StoryRow& row, const Form& form, const Tokenizer& tokenizer) {
  std::string text(form.quoted ? "\"" : "");
  const size_t first = text.size();
  text += row[form.column];
  if (form.capitalised && text[first] >= 'a' && text[first] <= 'z') text[first] += 'A' - 'a';
  return tokenizer.Encode(text).size();
}

enum class Seen { kOutside, kHidden, kVisible };

// Whether the bytes [begin, end) stand in the tokens, and if so whether all tokens that touch them are hidden. Bytes
// that only begin inside count as visible: the targets do not tell them whole.
Seen Look(int64_t begin, int64_t end, const std::vector<TokenSpan>& tokens, const std::vector<bool>& hidden) {
  const auto first = std::upper_bound(tokens.begin(), tokens.end(), begin,
                                      [](int64_t byte, const TokenSpan& token) { return byte < token.end; });
  if (first == tokens.end()) return Seen::kOutside;
  if (tokens.back().end < end) return Seen::kVisible;
  for (auto token = first; token != tokens.end() && token->begin < end; ++token) {
    if (!hidden[token - tokens.begin()]) return Seen::kVisible;
  }
  return Seen::kHidden;
}

}  // namespace

double StoryEntropyBound(const Story& story, const std::vector<TokenSpan>& tokens, const std::vector<bool>& hidden,
                         const Tokenizer& tokenizer) {
  CROSSTALK_CHECK(tokens.size() == hidden.size(), "entropy bound of a story: ", tokens.size(), " tokens but a mask of ",
                  hidden.size());
  double nats = 0;
  for (size_t i = 0; i < story.choices.size(); ++i) {
    const WordChoice& choice = story.choices[i];
    std::vector<Form> forms;  // of its mentions among the tokens
    bool told = false;        // by something visible, or by a number computed from it
    for (const ChoiceMention& mention : choice.mentions) {
      const Seen seen = Look(mention.begin, mention.end, tokens, hidden);
      if (seen == Seen::kOutside) continue;
      if (seen == Seen::kVisible || mention.column < 0) {
        told = true;
        break;
      }
      const bool quoted = mention.begin > 0 && story.text[mention.begin - 1] == '"';
      const Form form = {mention.column, mention.capitalised, quoted};
      if (std::find(forms.begin(), forms.end(), form) == forms.end()) forms.push_back(form);
    }
    if (told || forms.empty()) continue;
    const std::vector<StoryRow>& rows = StoryRows(choice.table);
    std::vector<bool> possible(rows.size(), true);
    for (const Form& form : forms) {
      const size_t count = CountTokens(rows[choice.row], form, tokenizer);
      for (size_t row = 0; row < rows.size(); ++row) {
        if (possible[row] && CountTokens(rows[row], form, tokenizer) != count) possible[row] = false;
      }
    }
    if (choice.group >= 0) {
      for (size_t j = 0; j < story.choices.size(); ++j) {
        const WordChoice& other = story.choices[j];
        if (j != i && other.table == choice.table && other.group == choice.group) possible[other.row] = false;
      }
    }
    nats += Log(static_cast<double>(std::count(possible.begin(), possible.end(), true)));
  }
  return nats;
}

}  // namespace crosstalk
