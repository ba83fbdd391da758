// The published bits: tests/tools/commands/published_bits.txt holds the sha256 of the model that each of some short
// runs gives, on any machine. Here each is trained on every instruction set that this CPU has, on 1, 2, 3, 5 or 8
// threads. With CROSSTALK_PUBLISH_BITS=1 (make published-bits) the file is rewritten.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/run.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/fusing_targets.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_run.h"
#include "tools/cli/option_table.h"
#include "tools/cli/training.h"

namespace crosstalk {
namespace published_bits_test {

// A row of the file: options, and the model's sha256 on targets that fuse multiply-adds and on those that do not.
struct Row {
  std::string options, fma, no_fma;
};

struct Published {
  std::string head;    // the lines above the rows
  std::string always;  // options of every row that does not give them itself
  std::vector<Row> rows;
};

Published Read(const std::string& path) {
  Published published;
  for (const std::string& line : Split(ReadBytes(path), '\n')) {
    const std::vector<std::string> words = Split(line, ' ');  // of a hash's line: "", "", its name, …
    if (line.starts_with("--")) {
      published.rows.push_back({line, "", ""});
    } else if (published.rows.empty()) {
      published.head += line + "\n";
      if (words[0] == "always") published.always = line.substr(words[0].size() + 1);
    } else if (words.size() > 3 && (words[2] == "fma" || words[2] == "no-fma")) {
      (words[2] == "fma" ? published.rows.back().fma : published.rows.back().no_fma) = words.back();
    } else if (!line.empty()) {
      ADD_FAILURE() << path << ": what is " << line << "?";
    }
  }
  return published;
}

std::string Text(const Published& published) {
  std::string text = published.head;
  for (const Row& row : published.rows)
    text += row.options + "\n  fma    " + row.fma + "\n  no-fma " + row.no_fma + "\n";
  return text;
}

// Those of a row, after those of every row that it does not give itself.
std::string AllOptions(const std::string& always, const std::string& row) {
  const std::vector<std::string> of_all = Split(always, ' '), own = Split(row, ' ');
  std::string options;
  for (size_t i = 0; i + 1 < of_all.size(); i += 2) {
    const bool given = std::find(own.begin(), own.end(), of_all[i]) != own.end();
    if (!given) options += of_all[i] + " " + of_all[i + 1] + " ";
  }
  return options + row;
}

// As `crosstalk train` understands them.
ResolvedConfig ConfigOf(const std::string& options) {
  OptionTable table;
  table.AddFields(TrainingFields());
  table.Parse(Split(options, ' '));
  return ResolvedConfig(table.Over(TrainingFields(), TrainingConfig()));
}

std::string TrainedModel(const std::string& options) {
  const TempDir dir;
  TrainingRun(ConfigOf(options), dir / "run", {}, {}).Train();
  return Sha256OfFile(dir / "run/model.safetensors");
}

// The units that may multiply under the SIMD target in use; in float there is no choice.
std::vector<std::string> Units(const std::string& options) {
  if (ConfigOf(options)->optimization.precision == Precision::kFloat32) return {""};
  return kernels::SupportedBFloat16Units();
}

const char* Source() { return std::getenv("CROSSTALK_SOURCE"); }
std::string PublishedFile() { return std::string(Source()) + "/tests/tools/commands/published_bits.txt"; }

#define CROSSTALK_NEEDS_SOURCE() \
  if (Source() == nullptr) GTEST_SKIP() << "run by `make test`, which says where the sources are"

// Every target that fuses multiply-adds, and of the others one a row in turn: for them the kernels' tests compare all.
TEST(PublishedBitsTest, EachRunGivesThemOnEveryInstructionSetAndNumberOfThreads) {
  CROSSTALK_NEEDS_SOURCE();
  constexpr int kThreads[] = {1, 2, 3, 5, 8};
  // A run waits for the disk at each file; where temporary files may be in memory, they are.
  if (std::filesystem::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 1);
  const bool publish = std::getenv("CROSSTALK_PUBLISH_BITS") != nullptr;
  const std::vector<std::string> fusing = kernels::SimdTargetsOf("fma"), others = kernels::SimdTargetsOf("no-fma");
  Published published = Read(PublishedFile());
  size_t run = 0;
  for (size_t i = 0; i < published.rows.size(); ++i) {
    Row& row = published.rows[i];
    std::vector<std::string> targets = fusing;
    if (!others.empty()) targets.push_back(others[i % others.size()]);
    std::set<const std::string*> renewed;
    const std::string options = AllOptions(published.always, row.options);
    for (const std::string& target : targets) {
      kernels::RestrictSimdTarget(target);
      for (const std::string& unit : Units(options)) {
        kernels::RestrictBFloat16Unit(unit);
        const ThreadsScope threads(kThreads[run++ % std::size(kThreads)]);
        const std::string model = TrainedModel(options);
        std::string& expected = kernels::SimdBits() == "fma" ? row.fma : row.no_fma;
        if (publish && renewed.insert(&expected).second) expected = model;
        EXPECT_EQ(model, expected) << target << " " << unit << ", " << NumThreads() << " threads: " << row.options;
      }
      kernels::RestrictBFloat16Unit("");
    }
  }
  kernels::RestrictSimdTarget("");
  if (publish) WriteBytes(PublishedFile(), Text(published));
}

// Of each model every kind of attention, fused and composed, and every optimizer. An optimizer that is there with one
// kind is not asked for with the others: it does not know where gradients come from.
TEST(PublishedBitsTest, EveryModelAttentionAndOptimizerIsThere) {
  CROSSTALK_NEEDS_SOURCE();
  const Published published = Read(PublishedFile());
  std::set<std::string> rows;
  for (const Row& row : published.rows) {
    EXPECT_TRUE(rows.insert(row.options).second) << row.options;
    EXPECT_EQ(row.fma.size(), 64u) << row.options;
    EXPECT_EQ(row.no_fma.size(), 64u) << row.options;
  }
  std::set<std::string> there;
  for (const std::string& model : ModelNames()) {
    for (const std::string& implementation : NamesOf<AttentionImplementation>()) {
      for (const std::string& optimizer : NamesOf<OptimizerKind>()) {
        for (const std::string& kind : NamesOf<AttentionKind>()) {
          if (rows.contains(StrCat("--model ", model, " --implementation ", implementation, " --optimizer ", optimizer,
                                   " --attention ", kind))) {
            there.insert({StrCat(model, " ", implementation, " ", kind), StrCat(model, " ", optimizer)});
          }
        }
      }
    }
  }
  for (const std::string& model : ModelNames()) {
    for (const std::string& optimizer : NamesOf<OptimizerKind>()) {
      EXPECT_TRUE(there.contains(StrCat(model, " ", optimizer))) << "no row of " << model << ", " << optimizer;
    }
    for (const std::string& implementation : NamesOf<AttentionImplementation>()) {
      for (const std::string& kind : NamesOf<AttentionKind>()) {
        EXPECT_TRUE(there.contains(StrCat(model, " ", implementation, " ", kind)))
            << "no row of " << model << ", " << implementation << ", " << kind
            << ": add its options to published_bits.txt; make published-bits fills in the rest";
      }
    }
  }
}

}  // namespace published_bits_test
}  // namespace crosstalk
