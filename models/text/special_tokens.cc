#include "crosstalk/models/text/special_tokens.h"

#include <algorithm>

#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

struct TokenField {
  const char* name;
  int32_t SpecialTokens::*id;
};
constexpr TokenField kTokenFields[] = {
    {"pad", &SpecialTokens::pad},         {"end", &SpecialTokens::end},
    {"unknown", &SpecialTokens::unknown}, {"decoder_start", &SpecialTokens::decoder_start},
    {"begin", &SpecialTokens::begin},     {"separator", &SpecialTokens::separator},
    {"mask", &SpecialTokens::mask}};

}  // namespace

SpecialTokens WithMaskTokens(SpecialTokens tokens, int32_t first) {
  tokens.begin = first;
  tokens.separator = first + 1;
  tokens.mask = first + 2;
  return tokens;
}

const FieldTable<SpecialTokens>& SpecialTokensFields() {
  static const FieldTable<SpecialTokens> table = [] {
    FieldTable<SpecialTokens> rows;
    for (const TokenField& token : kTokenFields) {
      rows.push_back(MakeField(token.name, token.id, {.range = {kNoToken, INT32_MAX}}));
    }
    return rows;
  }();
  return table;
}

void CheckSpecialTokens(const SpecialTokens& tokens, int64_t vocabulary,
                        std::initializer_list<int32_t SpecialTokens::*> needed) {
  for (const TokenField& field : kTokenFields) {
    const int32_t id = tokens.*field.id;
    const bool must_be_there = std::find(needed.begin(), needed.end(), field.id) != needed.end();
    CROSSTALK_CHECK_FIELD((id >= 0 && id < vocabulary) || (id == kNoToken && !must_be_there),
                          StrCat("tokens.", field.name), "id ", id, " is not in the vocabulary of ", vocabulary);
  }
}

}  // namespace crosstalk
