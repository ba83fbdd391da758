// What the files beside a published tokenizer's own say of it, gathered into one description: tokenizer_config.json,
// special_tokens_map.json, added_tokens.json and the model's config.json, as Hugging Face's libraries write them.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/text_rules.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// A token that is found whole in a text. Its id is one of the vocabulary's, or the next above all of them.
struct AddedToken {
  LiteralToken literal;  // kNoToken as its id: that of the vocabulary's piece of this text
  bool special = false;
  std::string source = {};  // the file and key that have it, for messages
};

// All of the first, and those of the second whose texts are not among them. Error(kData) where they say different ids
// of one text.
std::vector<AddedToken> Merged(std::vector<AddedToken> first, const std::vector<AddedToken>& second);

// Whose code made the tokenizer, by its class or its model.
enum class TokenizerFamily {
  kUnsaid,
  kGeneral,  // whatever tokenizer.json says
  kBert,
  kT5,
  kAlbert,
  kByT5,
  kLlama,  // a SentencePiece model and its added tokens, without padding
  kGpt2,
  kRoberta,
  kQwen,
  kUnknown,
};

struct TokenizerSettings {
  TokenizerFamily family = TokenizerFamily::kUnsaid;
  std::string family_source;                // "tokenizer_config.json: tokenizer_class: \"T5Tokenizer\""
  std::map<std::string, AddedToken> roles;  // "mask_token": "[MASK]", by the keys of tokenizer_config.json
  std::vector<AddedToken> added;            // with ids and flags: added_tokens_decoder
  std::vector<AddedToken> listed;           // with ids alone, then those that are only named
  std::optional<bool> lower_case, strip_accents, space_chinese, keep_accents, split_punctuation;
  std::optional<bool> first_space_only;      // legacy: false
  std::optional<bool> no_space;              // add_prefix_space: false
  std::optional<bool> adds_begin, adds_end;  // add_bos_token, add_eos_token, of a Llama's
  bool special_tokens_are_text = false;      // split_special_tokens
  std::optional<int> extra_ids;              // sentinels
  std::optional<SpecialTokens> tokens;       // their ids, as a run keeps them
  std::vector<std::string> remarks;          // on what is not computed
};

// Reads the folder's files; absent ones say nothing. Error(kData) that names file and key for what is
// malformed, for two files that say different things, and for settings that change ids and are not computed.
TokenizerSettings ReadTokenizerSettings(const std::filesystem::path& folder);

// The members of a token, as every file writes them.
AddedToken ReadAddedToken(const JsonReader& reader, int32_t id, const std::string& source);

// Error(kData) where the family is none that a file of this kind is of: "vocab.txt".
void CheckFamily(const TokenizerSettings& settings, std::initializer_list<TokenizerFamily> understood,
                 const std::string& file);

}  // namespace crosstalk
