#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "tests/fuzz/fuzz.h"

namespace crosstalk::fuzz {

// What is parsed is written as text that parses to the same, in a size that the input bounds.
void FuzzJson(std::string_view input) {
  Json value;
  if (!Accepts([&] { value = ParseJson(input, "input"); })) return;
  Require(FindInvalidUtf8(input) == std::string_view::npos, "text that is not UTF-8 was parsed");
  const std::string text = value.Dump();
  Require(text.size() <= 16 * input.size() + 16, input.size(), " bytes became ", text.size());
  const Json again = ParseJson(text, "Dump");
  Require(again == value, "not the value that was written: ", text);
  Require(again.Dump() == text, "not the text that was written: ", text);
  Require(ParseJson(value.DumpPretty(), "DumpPretty") == value, "not the value that was written over lines: ", text);
  const Json copy = value;
  Require(copy == value, "a copy differs");
}

}  // namespace crosstalk::fuzz
