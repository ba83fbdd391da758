// Small faults put into C++ source, to see whether the tests notice them: mutation testing. A mutation exchanges one
// token for another that means something else and that compiles more often than not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace crosstalk {

struct Mutation {
  std::string file;
  int line = 0;         // from 1
  size_t offset = 0;    // of `before` in the source
  std::string before;   // the token: "<"
  std::string after;    // what takes its place: "<="
  std::string context;  // the whole line, trimmed
};

// Every mutation of the source, front to back: a sign or an arithmetic operator, a comparison's bound, a logical
// operator, an index moved by one, a constant. Comments, texts, preprocessor lines, static_assert and CROSSTALK_DCHECK
// (which checks what cannot happen) have none. The source is as clang-format leaves it: spaces around binary operators.
std::vector<Mutation> FindMutations(const std::string& file, const std::string& source);

std::string Apply(const Mutation& mutation, const std::string& source);

// Puts the mutations into an order that depends on the seed and on each one's own text, not on what stands elsewhere:
// an edit of another line changes no draw.
void Shuffle(uint64_t seed, std::vector<Mutation>* mutations);

// "kernels/softmax.cc:41: `<` becomes `<=` in: for (size_t i = 0; i < n; ++i) {"
std::string ToString(const Mutation& mutation);

}  // namespace crosstalk
