// The points of a student's solutions, or of many students': a table, and a file from which grading goes on.
#pragma once

#include <string>
#include <vector>

#include "examples/course/checker/solution.h"

namespace course {

struct GradeSettings {
  Compiler compiler;
  std::string folder;               // of 1_1.cc, 1_2.cc, …; with `students`, of such folders
  bool students = false;            // many
  std::string stubs;                // the folder of what students begin with
  std::vector<std::string> hidden;  // folders that no solution may read
  std::string chapters;             // "3,5"; empty: all
  unsigned seconds = 0;             // as Submission has it
  int jobs = 0;                     // solutions at a time; 0: on all processors but one
  std::string json, table;          // files to write
};

// Grades what has changed since `json` was written, prints the table and writes both files. Throws std::runtime_error
// where the folder or the file is none.
void GradeAll(const GradeSettings& settings);

// The text of a file that a student begins with.
std::string StubOf(const GradeSettings& settings, const Exercise& exercise);

}  // namespace course
