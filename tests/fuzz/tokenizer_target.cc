#include <memory>

#include "crosstalk/models/text/tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace crosstalk::fuzz {

// A tokenizer's file.
void FuzzTokenizer(std::string_view input) {
  std::shared_ptr<const Tokenizer> tokenizer;
  if (Accepts([&] { tokenizer = LoadTokenizer(input, "input"); })) RequireTokenizer(*tokenizer, input);
}

}  // namespace crosstalk::fuzz
