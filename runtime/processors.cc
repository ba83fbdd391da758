// AvailableProcessors (parallel.h), and what it is made of. A container's processors are limited by the quota of a
// control group: the scheduler stops all its threads for the rest of a period once they have used that up, so that more
// threads than the quota has processors are many times slower than as many.
//
//   /proc/self/cgroup      4:cpu,cpuacct:/docker/12ab    version 1: the group in the hierarchy of these controllers
//                          0::/system.slice/a.service    version 2: the group in the only hierarchy
//   /proc/self/mountinfo   36 25 0:31 /docker/12ab /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
//
// The mount shows the groups from its root (/docker/12ab) on, so a group's folder is the mount's with the rest of the
// group's path. A container cannot see a group that is not below the root: the mount's own is read then.
#include "crosstalk/runtime/processors.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/file_calls.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// A file of the kernel's, whose size is not known before it is read. Empty where it cannot be read.
std::string ReadKernelFile(const std::string& path) {
  constexpr size_t kMostBytes = 1 << 20;
  const int descriptor = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (descriptor < 0) return "";
  std::string text;
  char bytes[4096];
  for (ssize_t size = 1; size > 0 && text.size() < kMostBytes;) {
    size = RetryInterrupted([&] { return read(descriptor, bytes, sizeof bytes); });
    if (size > 0) text.append(bytes, static_cast<size_t>(size));
  }
  close(descriptor);
  return text;
}

enum class GroupVersion { kOne = 1, kTwo = 2 };

bool Lists(const std::string& list, const char* item) {
  const std::vector<std::string> items = Split(list, ',');
  return std::find(items.begin(), items.end(), item) != items.end();
}

// The path of the process's group in the hierarchy that limits processors.
std::optional<std::string> GroupOf(GroupVersion version, const std::string& groups) {
  for (const std::string& line : Split(groups, '\n')) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_it = version == GroupVersion::kTwo ? line.starts_with("0::") : Lists(controllers, "cpu");
    if (is_it) return line.substr(second + 1);
  }
  return std::nullopt;
}

// As mountinfo writes a path: blanks, tabs, line ends and backslashes as \040 and so on.
std::string Unescaped(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = 0;
    const bool escape = text[i] == '\\' && i + 3 < text.size() &&
                        std::from_chars(&text[i + 1], &text[i + 4], code, 8).ptr == &text[i + 4] && code < 256;
    plain += escape ? static_cast<char>(code) : text[i];
    if (escape) i += 3;
  }
  return plain;
}

struct GroupMount {
  std::string root, point;
};

std::optional<GroupMount> MountOf(GroupVersion version, const std::string& mounts) {
  for (const std::string& line : Split(mounts, '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> place = Split(std::string_view(line).substr(0, dash), ' ');
    const std::vector<std::string> kind = Split(std::string_view(line).substr(dash + 3), ' ');
    if (place.size() < 5 || kind.size() < 3) continue;
    const bool is_it =
        version == GroupVersion::kTwo ? kind[0] == "cgroup2" : kind[0] == "cgroup" && Lists(kind[2], "cpu");
    if (is_it) return GroupMount{Unescaped(place[3]), Unescaped(place[4])};
  }
  return std::nullopt;
}

std::optional<double> NumberOf(std::string_view text) {
  int64_t number = 0;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool positive = error == std::errc() && end == text.data() + text.size() && number > 0;  // -1: no limit
  return positive ? std::optional(static_cast<double>(number)) : std::nullopt;
}

// The quota in one group's folder.
std::optional<double> QuotaIn(GroupVersion version, const std::string& folder) {
  std::optional<double> time, period;
  if (version == GroupVersion::kTwo) {
    const std::vector<std::string> words = Split(ReadKernelFile(folder + "/cpu.max"), ' ');  // "150000 100000"
    time = NumberOf(words[0]);
    if (words.size() == 2) period = NumberOf(words[1]);
  } else {
    time = NumberOf(ReadKernelFile(folder + "/cpu.cfs_quota_us"));
    period = NumberOf(ReadKernelFile(folder + "/cpu.cfs_period_us"));
  }
  return time && period ? std::optional(*time / *period) : std::nullopt;
}

}  // namespace

int ProcessorsOfMask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int own = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  // OpenMP counts what the process may use, also where it has bound this thread to a part of it.
  return std::max({1, own, omp_get_num_procs()});
}

std::optional<double> ProcessorQuota(const std::string& root) {
  const std::string groups = ReadKernelFile(root + "/proc/self/cgroup");
  const std::string mounts = ReadKernelFile(root + "/proc/self/mountinfo");
  std::optional<double> least;
  for (const GroupVersion version : {GroupVersion::kOne, GroupVersion::kTwo}) {
    const std::optional<std::string> group = GroupOf(version, groups);
    const std::optional<GroupMount> mount = MountOf(version, mounts);
    if (!group || !mount) continue;
    const std::string top = mount->root == "/" ? "" : mount->root;
    const bool is_seen = (*group + "/").starts_with(top + "/") && !group->starts_with("/..");
    for (std::string below = is_seen ? group->substr(top.size()) : "";;) {
      const std::optional<double> quota = QuotaIn(version, root + mount->point + below);
      if (quota) least = std::min(*quota, least.value_or(*quota));
      if (below.empty()) break;
      below.erase(below.rfind('/'));
    }
  }
  return least;
}

int AvailableProcessors() {
  const int of_mask = ProcessorsOfMask();
  const std::optional<double> quota = ProcessorQuota();
  return quota && *quota < of_mask ? static_cast<int>(std::ceil(*quota)) : of_mask;
}

}  // namespace crosstalk
