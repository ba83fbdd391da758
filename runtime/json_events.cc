#include <locale.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr int kMaxDepth = 64;

// Reads characters and counts them where the receiver of the events can see it: the SAX interface tells positions
// for its own errors only.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  size_t* count_;
};

// While one lives, this thread has the locale "C": nlohmann reads numbers by strtod, and takes the host program's
// decimal point for one byte.
class ClassicLocale {
 public:
  ClassicLocale() {
    static const locale_t classic = newlocale(LC_ALL_MASK, "C", nullptr);
    before_ = uselocale(classic);
  }
  ~ClassicLocale() { uselocale(before_); }
  ClassicLocale(const ClassicLocale&) = delete;

 private:
  locale_t before_;
};

// nlohmann's wording without its prefix "[json.exception…] parse error at line 1, column 2: ", in ASCII.
std::string PlainReason(std::string_view what) {
  if (const size_t bracket = what.find("] "); bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
  if (what.substr(0, 11) == "parse error") {
    if (const size_t colon = what.find(": "); colon != std::string_view::npos) what.remove_prefix(colon + 2);
  }
  std::string reason(what);
  for (char& c : reason) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return reason;
}

// Hands nlohmann's events on, and stops what it would let pass.
class EventsAdapter {
 public:
  EventsAdapter(JsonEvents& events, const std::string& source, const size_t& offset)
      : events_(events), source_(source), offset_(offset) {}

  bool null() { return events_.OnNull(offset_), true; }
  bool boolean(bool value) { return events_.OnBool(value, offset_), true; }
  bool number_integer(int64_t value) { return events_.OnNegative(value, offset_), true; }
  bool number_unsigned(uint64_t value) { return events_.OnUnsigned(value, offset_), true; }
  bool number_float(double value, const std::string& text) {
    // An integer beyond 64 bits arrives here, rounded.
    if (text.find_first_of(".eE") == std::string::npos) return events_.OnBigInteger(text, offset_), true;
    return events_.OnDouble(value, offset_), true;
  }
  bool string(std::string& value) { return events_.OnString(std::move(value), offset_), true; }
  bool binary(std::vector<uint8_t>&) { return false; }  // not in text
  bool key(std::string& key) { return events_.OnKey(std::move(key), offset_), true; }
  bool start_object(size_t) {
    Enter();
    return events_.OnObjectBegin(offset_), true;
  }
  bool end_object() {
    --depth_;
    return events_.OnObjectEnd(offset_), true;
  }
  bool start_array(size_t) {
    Enter();
    return events_.OnArrayBegin(offset_), true;
  }
  bool end_array() {
    --depth_;
    return events_.OnArrayEnd(offset_), true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    // At the end of the text the position counts one byte that is not there.
    FailAtByte(source_, std::min(position, offset_), Excerpt(PlainReason(error.what()), 300));
  }

 private:
  void Enter() {
    if (++depth_ > kMaxDepth) FailAtByte(source_, offset_, StrCat("nested deeper than ", kMaxDepth));
  }

  JsonEvents& events_;
  const std::string& source_;
  const size_t& offset_;
  int depth_ = 0;
};

}  // namespace

void FailAtByte(const std::string& source, size_t offset, const std::string& reason) {
  Fail(ErrorKind::kData, source, ": byte ", offset, ": ", reason);
}

void ParseJsonEvents(std::string_view text, const std::string& source, JsonEvents& events) {
  // Two things that the parser takes without a word: a NUL as the end of the text, and a byte-order mark.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) FailAtByte(source, nul, "a NUL byte");
  if (text.substr(0, 3) == "\xef\xbb\xbf") FailAtByte(source, 0, "begins with a byte-order mark");
  if (text.empty()) FailAtByte(source, 0, "the text is empty");
  size_t offset = 0;
  EventsAdapter adapter(events, source, offset);
  const ClassicLocale numbers_have_points;
  const CountingIterator begin(text.data(), &offset);
  const CountingIterator end(text.data() + text.size(), &offset);
  if (!nlohmann::json::sax_parse(begin, end, &adapter)) FailAtByte(source, offset, "not JSON");
}

}  // namespace crosstalk
