// SuperGLUE (Wang et al., 2019): BoolQ, CB, COPA, MultiRC, ReCoRD, RTE, WiC, WSC and the diagnostics AX-b and AX-g, an
// object a line. Labels are those of the official files, or, as Hugging Face exports them, their places.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/tasks/task.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

// WSC as text to text (T5): a marked pronoun, and whether a model's text names its referent.

// The text with the pronoun, its word number `index` from 0, as *he*. Where another word stands there (of two texts of
// the original files), the nearest one that is the pronoun is marked, the later of two. The pronoun may have
// punctuation on it, which is set apart: "him,\"" is "*him* ,\"". Error(kData) at `key` of `object` where there is
// none.
std::string MarkPronoun(std::string_view text, std::string_view pronoun, int64_t index, const JsonReader& object,
                        const char* key);

// The span as it stands in the text: where it does not, with white space for line ends, without a full stop, and with
// the case of the letter at word number `index`. Source: the corrected WSC ("wsc.fixed") that T5 is trained on.
std::string ReferentIn(const std::string& text, const std::string& span, int64_t index);

// Whether words name the referent: after case and determiners are dropped, the words of one are all among those of the
// other, and both or neither have an apostrophe. Nothing of words that say nothing.
std::optional<bool> NamesReferent(std::string_view words, std::string_view referent);

// The functions of their lines in registry.cc. RTE reads GLUE's .tsv too, and is written in both forms; AX-b reads
// diagnostic-full.tsv, of whose labels neutral and contradiction are one.
std::vector<TaskRow> ReadSuperGlue(const TaskType& type, const std::string& path, TaskSplit split);
std::string SuperGlueAnswerOfText(const TaskType& type, const TaskRow& row, const std::string& text);
std::vector<TaskFile> WriteSuperGlue(const TaskType& type, const std::vector<TaskRow>& rows,
                                     const std::vector<TaskPrediction>& predictions, TaskSplit split);
std::vector<TaskPrediction> ReadSuperGluePredictions(const TaskType& type, const std::string& path,
                                                     const std::vector<TaskRow>& rows);

// Common to reading and predictions. Rows of RTE and AX-b also come in GLUE's files.
bool IsJsonl(std::string_view path);
std::string SuperGluePredictionsFile(const TaskType& type);  // "BoolQ.jsonl"

}  // namespace crosstalk
