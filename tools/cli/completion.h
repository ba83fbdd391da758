// Completion of crosstalk's command line in a shell: subcommands, options, choices that a table knows, and paths.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/runtime/enum_names.h"
#include "tools/cli/command.h"

namespace crosstalk {

enum class Shell { kBash, kZsh, kFish };
template <>
struct EnumNames<Shell> {
  static constexpr EnumName<Shell> kTable[] = {{Shell::kBash, "bash"}, {Shell::kZsh, "zsh"}, {Shell::kFish, "fish"}};
};

// The script that the shell reads.
std::string CompletionScript(Shell shell, const std::vector<Command>& commands);

}  // namespace crosstalk
