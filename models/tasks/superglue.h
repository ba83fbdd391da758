// SuperGLUE (Wang et al., 2019): BoolQ, CB, COPA, MultiRC, ReCoRD, RTE, WiC, WSC and the diagnostics AX-b and AX-g, an
// object a line. Labels are those of the official files, or, as Hugging Face exports them, their places.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

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
