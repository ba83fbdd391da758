// TextPieces: the text of a growing sequence of tokens, a piece at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

// A token's text can depend on the one before it, and a character can have several tokens: each piece is
// the growth of the text of the last few tokens, without an unfinished character at its end.
class TextPieces {
 public:
  // `before`: tokens whose text stands already.
  explicit TextPieces(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<int32_t>& before = {});

  // The text that stands once the token has been added, less what stood: valid UTF-8, with U+FFFD for bytes that are
  // none. Empty while a character is not whole.
  std::string Add(int32_t id);
  // The text held back, at the end.
  std::string Rest();

 private:
  // The text of ids_ from shown_ to `end`, which then stands.
  std::string Take(const std::string& whole, size_t end);

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<int32_t> ids_;  // the last few
  size_t shown_ = 0;          // bytes of their text that stand
  int unfinished_ = 0;        // tokens of the character at its end
};

}  // namespace crosstalk
