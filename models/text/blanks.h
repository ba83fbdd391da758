// Texts with blanks, and how a T5 reads them: as span corruption shows it hidden spans, a sentinel for each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

inline constexpr std::string_view kBlank = "___";

// The texts between the blanks of `text`, one more than there are: a blank is three underscores or more.
std::vector<std::string> SplitAtBlanks(std::string_view text);

// Token ids of the texts with Sentinel(k) between number k and k + 1, and the end token. The tokens of a text are those
// that it has in the whole, with spaces before a blank hidden with it. Error(kUsage) of the field "text" where there
// are more blanks than sentinels.
std::vector<int32_t> EncodeBlanks(const std::vector<std::string>& texts, const Tokenizer& tokenizer);

// Some words of a passage of `text` as blanks.
std::string MakeBlanks(const std::string& text);

}  // namespace crosstalk
