// The host program's own: no other may take it for theirs.
#pragma once

namespace host {
struct Module {
  int answer = 42;
};
}  // namespace host
