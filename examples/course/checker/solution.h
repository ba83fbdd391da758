// A student's file: compiled, loaded by a process of its own (box.h), and checked by this one, which has the verdict.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "examples/course/checker/checker.h"

namespace course {

// How a solution is compiled: into a shared object, whose functions of the library are the checker's own.
struct Compiler {
  std::string command;       // of the shell, before "FILE -o OBJECT"
  std::string kernel_flags;  // more of them, for exercises whose time is measured
  std::string work;          // a folder for what it makes
};

struct Submission {
  std::string folder;               // the student's, of 1_1.cc, 1_2.cc and so on
  std::vector<std::string> hidden;  // folders that it may not read, beside its own in them
  unsigned seconds = 0;             // that a program may run; 0: what its exercise says
  bool echo = false;                // what the compiler and the program print appears on standard output
};

// "1_1.cc"
std::string FileOf(const Exercise& exercise);

// Compiles and checks one exercise. stub: the text of the file that a student begins with. The caller has one thread
// and no children.
Outcome CheckFile(const Exercise& exercise, const Submission& submission, const Compiler& compiler,
                  const std::string& stub);

// A number that changes with the file, those beside it that it may include, the compiler's command and this program.
std::string Fingerprint(const Exercise& exercise, const Submission& submission, const Compiler& compiler);

// {"exercise": "5.2", "title": …, "points": 0, "of": 3, "state": "wrong", "message": …, "hint": …, …}
crosstalk::Json ToJson(const Exercise& exercise, const Outcome& outcome);

}  // namespace course
