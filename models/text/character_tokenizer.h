// A tokenizer whose tokens are the characters of a text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

// pad 0, end 1, unknown 2, then `characters` (UTF-8, each once) in their order, then, where asked for, [CLS], [SEP] and
// [MASK], then the sentinels. Any other character becomes one unknown token. Error(kData) with `name` for text that is
// not UTF-8 or names a character twice.
std::shared_ptr<const Tokenizer> MakeCharacterTokenizer(std::string_view characters, const std::string& name,
                                                        int num_sentinels, MaskTokens mask_tokens = MaskTokens::kNo);

// Makes a tokenizer of a source's characters, in the order of their code points: all, or the `most` most frequent if
// there are more. Reads all of a source, and of one without an end at most the first 1,000,000 bytes' worth.
// Interrupted where `stop` says so.
std::shared_ptr<const Tokenizer> CollectCharacterTokenizer(const TextSource& source, int64_t most, int num_sentinels,
                                                           const StopRequest& stop = {},
                                                           MaskTokens mask_tokens = MaskTokens::kNo);

}  // namespace crosstalk
