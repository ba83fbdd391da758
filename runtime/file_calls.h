// The system's calls on files, as all code here makes them: repeated when a signal interrupted them, and never with a
// descriptor of standard input, output or error, which a user or a host program may have closed: what is printed there
// would end up in the file. They report by errno; see atomic_file.h for those that throw.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

namespace crosstalk {

// call(), again as long as it gives -1 with EINTR. Not for close: an interrupted one has closed.
template <typename Call>
auto RetryInterrupted(const Call& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// open(2), with O_CLOEXEC. The descriptor is 3 or more; -1 with errno if there is none.
int OpenFile(const std::string& path, int flags, mode_t mode = 0666);

// All of the bytes from where the descriptor stands. False with errno if some could not be written.
bool WriteAll(int descriptor, const void* data, size_t size);

// Appends the names in a directory to `names`, without "." and ".."; `flags` are more of OpenFile's. 0, or the errno.
int NamesIn(const std::string& directory, int flags, std::vector<std::string>* names);

// Removes a file, or a directory with all that is in it; symbolic links are not followed. 0, also if there is
// nothing; else the errno of the first thing that stays.
int RemoveTree(const std::string& path);

// "a/b/" and "a/b" are the same directory.
std::string WithoutTrailingSlash(std::string path);
// "a" of "a/b", "." of "b".
std::string ParentOf(const std::string& path);

// "No such file or directory"
std::string ReasonOf(int error);

// Throws "PATH: cannot DOING: REASON". Error(kResource) where the disk is full or memory or descriptors are used up;
// else Error(kFailure), or Error(kData) of a read that failed because of what is at the path: nothing, a directory, ….
[[noreturn]] void FailWriting(const std::string& doing, const std::string& path, int error);
[[noreturn]] void FailReading(const std::string& doing, const std::string& path, int error);

}  // namespace crosstalk
