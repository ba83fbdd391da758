// 6. The files of the task "stories" (models/tasks/registry.cc), made from the built-in stories: the same bytes on
// every machine.
//
//   build/examples/stories_task FOLDER      writes FOLDER/train.tsv, dev.tsv and test.tsv; examples/stories has them
//
// A row is a question that somebody asks in a story, and what somebody says. Labelled "yes", it is the story's answer;
// labelled "no", it is the answer to a question of another kind: where, how many, who, or whose.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/text.h"

using namespace crosstalk;  // an example may

namespace {

constexpr uint64_t kSeed = 20'200'303;  // not a seed that anyone trains with by default
constexpr int64_t kStoryBytes = 4'000;

struct Pair {
  std::string first, second;
};

// A sentence ends with a full stop or a closing quotation mark after one.
std::vector<std::string> SentencesOf(const std::string& text) {
  std::vector<std::string> sentences;
  for (size_t begin = 0, i = 0; i + 1 < text.size(); ++i) {
    const bool ends = text[i] == '.' || (text[i] == '"' && (text[i - 1] == '.' || text[i - 1] == '!'));
    if (!ends || (text[i + 1] != ' ' && text[i + 1] != '\n')) continue;
    sentences.push_back(text.substr(begin, i + 1 - begin));
    begin = text.find_first_not_of(" \n", i + 1);
    if (begin == std::string::npos) break;
  }
  return sentences;
}

bool IsQuestion(std::string_view sentence) {
  return sentence.starts_with('"') && sentence.find("?\" asked ") != std::string_view::npos;
}
bool IsAnswer(std::string_view sentence) {
  return sentence.starts_with('"') && sentence.find(",\" said ") != std::string_view::npos;
}
// "Where", "How", "Who", "Whose".
std::string_view KindOf(const Pair& pair) { return std::string_view(pair.first).substr(1, pair.first.find(' ') - 1); }

// The next `count` pairs of stories from number *story on; none stands in two files.
std::vector<Pair> NextPairs(size_t count, int64_t* story, std::set<std::string>* seen) {
  std::vector<Pair> pairs;
  for (; pairs.size() < count; ++*story) {
    const std::vector<std::string> sentences = SentencesOf(WriteStory(kSeed, *story, kStoryBytes).text);
    for (size_t i = 0; i + 1 < sentences.size() && pairs.size() < count; ++i) {
      if (!IsQuestion(sentences[i]) || !IsAnswer(sentences[i + 1])) continue;
      if (seen->insert(sentences[i]).second) pairs.push_back({sentences[i], sentences[i + 1]});
    }
  }
  return pairs;
}

// What answers the next question of another kind.
const std::string& AnotherAnswer(const std::vector<Pair>& pairs, size_t place) {
  size_t other = place;
  do other = (other + 1) % pairs.size();
  while (KindOf(pairs[other]) == KindOf(pairs[place]));
  return pairs[other].second;
}

void WriteSplit(const std::string& folder, const char* split, size_t count, int64_t* story,
                std::set<std::string>* seen) {
  const bool labelled = std::string_view(split) != "test";
  std::string file = labelled ? "index\tquestion\tanswer\tlabel\n" : "index\tquestion\tanswer\n";
  const std::vector<Pair> pairs = NextPairs(count, story, seen);
  const RandomKey key = {.seed = kSeed, .stream = StreamId(StrCat("examples.stories_task.", split)), .step = 0};
  size_t yes_rows = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const bool yes = key.Bits(i) % 2 == 0;
    yes_rows += yes ? 1 : 0;
    file += StrCat(i, "\t", pairs[i].first, "\t", yes ? pairs[i].second : AnotherAnswer(pairs, i));
    file += labelled ? (yes ? "\tyes\n" : "\tno\n") : "\n";
  }
  WriteFileAtomically(StrCat(folder, "/", split, ".tsv"), file);
  std::printf("%s/%s.tsv: %zu rows, %zu of them \"yes\"\n", folder.c_str(), split, pairs.size(), yes_rows);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: stories_task FOLDER\n");
    return 2;
  }
  try {
    int64_t story = 0;
    std::set<std::string> seen;
    CreateDirectories(argv[1]);
    WriteSplit(argv[1], "train", 2000, &story, &seen);
    WriteSplit(argv[1], "dev", 300, &story, &seen);
    WriteSplit(argv[1], "test", 300, &story, &seen);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stories_task: %s\n", error.what());
    return 1;
  }
}
