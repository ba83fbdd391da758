// SuperGLUE's half that reads rows, for the half that has its predictions and scores.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/tasks/task.h"

namespace crosstalk {

std::vector<TaskRow> ReadSuperGlue(const TaskType& type, const std::string& path, TaskSplit split);
std::string SuperGlueAnswerOfText(const TaskType& type, const TaskRow& row, const std::string& text);

// Common to reading and predictions. Rows of RTE and AX-b also come in GLUE's files.
bool IsJsonl(std::string_view path);
std::string SuperGluePredictionsFile(const TaskType& type);  // "BoolQ.jsonl"

}  // namespace crosstalk
