// A host program of a country that writes 1.234,5, for tests that files and texts stay as they are. Its i has no
// capital of ASCII, as Turkish has it; nor has any letter but a.
#pragma once

#include <locale.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <locale>
#include <string>

#include "tests/support/run_command.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::testing {

// While one lives, the program has such a locale: C++'s, by std::locale::global, and C's, by setlocale, which is built
// for the purpose by localedef, of glibc's own programs.
class DecimalCommaScope {
 public:
  DecimalCommaScope() : before_(std::locale::global(std::locale(std::locale::classic(), new Comma))) {
    of_c_ = Built() && setlocale(LC_ALL, kName) != nullptr && *localeconv()->decimal_point == ',';
  }
  ~DecimalCommaScope() {
    setlocale(LC_ALL, "C");
    std::locale::global(before_);
  }
  DecimalCommaScope(const DecimalCommaScope&) = delete;

  bool of_c() const { return of_c_; }

 private:
  static constexpr char kName[] = "decimal_comma";

  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };

  // Once in a program, in a folder of its own.
  static bool Built() {
    static const TempDir folder;
    static const bool built =
        [] {
          setenv("LOCPATH", folder.path().c_str(), 1);
          std::ofstream(folder / "source")
              << "LC_CTYPE\ntoupper (<U0061>,<U0041>)\ntolower (<U0041>,<U0061>)\nEND LC_CTYPE\n"
              << "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n";
          // It warns of the other categories.
          RunCommand({"-c", "localedef -c -i '" + (folder / "source") + "' '" + (folder / kName) + "'"},
                     {.program = "/bin/sh"});
          return std::filesystem::exists(folder / kName);
        }();
    return built;
  }

  std::locale before_;
  bool of_c_ = false;
};

}  // namespace crosstalk::testing
