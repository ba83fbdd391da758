// The built-in corpora: what is read where no text is given.
#pragma once

#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Stories are those of stories/synthetic_corpus.h; the others are the puzzles of puzzles/puzzles.h.
enum class CorpusKind { kStories, kRetrieval, kCopying, kLetterBlocks };
template <>
struct EnumNames<CorpusKind> {
  static constexpr EnumName<CorpusKind> kTable[] = {{CorpusKind::kStories, "stories"},
                                                    {CorpusKind::kRetrieval, "retrieval"},
                                                    {CorpusKind::kCopying, "copying"},
                                                    {CorpusKind::kLetterBlocks, "letter-blocks"}};
};

}  // namespace crosstalk
