// What the readers of published tokenizers share, and the Unigram models of a `tokenizer.json`: published_tokenizer.h.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/published_tokenizer.h"
#include "crosstalk/models/text/traced_text.h"

namespace crosstalk {

std::unique_ptr<Tokenizer> ReadUnigram(const JsonReader& file, const JsonReader& model, const std::string& name,
                                       const std::vector<AddedToken>& tokens, int num_sentinels,
                                       const TokenizerSettings& settings);

// A value that must be of one of the kinds that are understood.
[[noreturn]] void RefuseType(const JsonReader& reader, std::string_view understood);

// Calls visit(step, its type) for each step of the file's normalizer, in their order.
void ForEachStep(const JsonReader& file, const std::string& name,
                 const std::function<void(const JsonReader& step, const std::string& type)>& visit);
// A step that is a rewriting; nullopt of another kind.
std::optional<Rewrite> ReadRewrite(const JsonReader& step, const std::string& type);
struct Strip {
  bool left, right;
};
Strip ReadStrip(const JsonReader& step);
void AppendStrip(const Strip& strip, std::vector<Rewrite>* rewrites);

}  // namespace crosstalk
