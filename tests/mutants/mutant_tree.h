// A copy of the sources with everything built, into which one fault is put at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/mutants/mutation.h"

namespace crosstalk {

struct Verdict {
  enum class Kind {
    kNoticed,     // a test failed, died or did not end
    kUnnoticed,   // every test passed
    kInvalid,     // it does not compile
    kEquivalent,  // the compiler makes the same code of it
  };
  Kind kind;
  std::string by;  // the test, or how many passed
};
const char* Name(Verdict::Kind kind);

class MutantTree {
 public:
  // Copies the sources of the working directory to `folder`, or brings the copy there up to date; builds everything,
  // `jobs` files at a time; and runs every test. Error where one fails without a fault.
  static MutantTree Create(const std::string& folder, int jobs);
  // The same, built, at another place.
  MutantTree Copy(const std::string& folder) const;

  // Puts the fault in, looks for a test that notices it, and takes it out again.
  Verdict Try(const Mutation& mutation);

 private:
  struct TestProgram {
    std::string target;    // "build/tests/kernels/softmax_test"
    double seconds = 0.0;  // that it takes without a fault
  };

  MutantTree(std::string folder, std::vector<TestProgram> programs)
      : folder_(std::move(folder)), programs_(std::move(programs)) {}

  bool Make(const std::string& targets, int jobs) const;
  // "" if it passes; else how it failed.
  std::string RunTest(const TestProgram& program, double limit_seconds) const;
  // The objects of the library and the command that the file is compiled into, below build/objects/.
  std::vector<std::string> ObjectsOf(const std::string& file) const;
  // The programs, nearest to the file first, in three groups: of the same name or folder, of the same layer, the rest.
  std::vector<std::vector<TestProgram>> Groups(const std::string& file) const;
  // True if the compiler made of the file what it makes without the fault.
  bool SameCode(const std::string& file) const;
  Verdict Judge(const Mutation& mutation) const;
  void Restore(const std::string& file) const;

  std::string folder_;
  std::vector<TestProgram> programs_;
};

}  // namespace crosstalk
