#include "examples/course/checker/solution.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/checksum.h"
#include "crosstalk/runtime/text.h"
#include "examples/course/checker/box.h"

namespace course {
namespace {

namespace fs = std::filesystem;
using crosstalk::Json;
using crosstalk::StrCat;
using State = Outcome::State;

constexpr uint64_t kMostText = 1 << 20, kMostIncluded = 64 << 10;  // of a file, and of others that count as part of it
constexpr size_t kMostFiles = 100, kMostMessage = 2000;
constexpr unsigned kCompileSeconds = 30;
constexpr uint64_t kCompileBytes = uint64_t{3} << 30, kRunBytes = uint64_t{4} << 30;

std::string FirstLineWith(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  if (at == std::string::npos) return "";
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

// ---- What the student's process answers: a letter, then results or a sentence ----

template <typename T>
void Put(std::string& bytes, const T* values, size_t count) {
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

std::string Encode(const Results& results) {
  std::string bytes = "r";
  for (const Array& array : results) {
    const uint64_t head[] = {array.sizes().size(), array.values().size()};
    Put(bytes, head, 2);
    Put(bytes, array.sizes().data(), head[0]);
    Put(bytes, array.values().data(), head[1]);
  }
  return bytes;
}

Results Decode(std::string_view bytes) {
  const auto take = [&](auto* values, uint64_t count) {
    if (count > bytes.size() / sizeof(*values)) throw Stopped{State::kSilent, "its results are cut off"};
    std::memcpy(values, bytes.data(), count * sizeof(*values));
    bytes.remove_prefix(count * sizeof(*values));
  };
  Results results;
  while (!bytes.empty()) {
    uint64_t head[2];
    take(head, 2);
    if (head[0] > 4 || head[1] > bytes.size() / sizeof(double)) {
      throw Stopped{State::kSilent, "its results are no arrays"};
    }
    std::vector<int64_t> sizes(head[0]);
    take(sizes.data(), head[0]);
    uint64_t count = 1;
    for (const int64_t size : sizes) {
      if (size < 0 || size > int64_t{1} << 24) throw Stopped{State::kWrong, StrCat("a result has the size ", size)};
      count = std::min(count * static_cast<uint64_t>(size), kMostAnswer);
    }
    if (sizes.empty()) count = 0;
    if (count != head[1]) {
      throw Stopped{State::kWrong, StrCat("a result of the sizes ", ListOf(sizes), " has ", head[1], " elements")};
    }
    Array array(sizes);
    array.values().resize(count);
    take(array.values().data(), count);
    results.push_back(array);
  }
  return results;
}

// The compiler's error for what the linker found missing, which is noticed when the file is loaded.
std::string LoadError(const std::string& error) {
  constexpr const char* kUndefined = "undefined symbol: ";
  const size_t at = error.find(kUndefined);
  if (at == std::string::npos) return error;
  const std::string symbol = error.substr(at + std::strlen(kUndefined));
  char* name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr);
  const std::string text = StrCat("error: nothing defines ", name != nullptr ? name : symbol.c_str());
  std::free(name);
  return text;
}

// In the student's process: loads the file, calls the function and answers.
void Answer(const Exercise& exercise, const std::function<Results()>& student, int descriptor) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::string answer;
  try {
    if (dlopen(StrCat("/proc/self/fd/", kInput).c_str(), RTLD_NOW) == nullptr) {
      throw Stopped{State::kNotCompiled, LoadError(dlerror())};
    }
    if (AllRegistered().size() != 1) {
      throw Stopped{State::kSilent, "the file must end with one line EXERCISE(…), as its stub does"};
    }
    if (AllRegistered().front().id != exercise.id) {
      std::string name = FileOf(exercise), id = name.substr(0, name.find('.'));
      throw Stopped{State::kSilent, StrCat(name, " must end with EXERCISE(", id, ", …), not with that of exercise ",
                                           AllRegistered().front().id)};
    }
    answer = Encode(student());
  } catch (...) {
    const Stopped stopped = StoppedByException();
    answer = StrCat(static_cast<char>('a' + static_cast<int>(stopped.state)), stopped.message);
  }
  std::fflush(stdout);
  WriteWhole(descriptor, answer);
  _exit(0);
}

// Why a process ended without an answer.
Stopped StoppedBy(const Ended& ended, unsigned seconds) {
  if (ended.out_of_time) return {State::kOutOfTime, StrCat("it did not end within ", seconds, " s")};
  if (ended.printed_too_much) return {State::kDied, "it printed more than 1 MB"};
  if (!WIFSIGNALED(ended.status)) {
    return {State::kSilent, "it ended before it was checked: does it call exit?"};
  }
  const int signal = WTERMSIG(ended.status);
  switch (signal) {
    case SIGSEGV:
      return {
          State::kDied,
          "it reads or writes memory that is not its own: an index or a pointer is wrong, or a function calls itself "
          "without end"};
    case SIGBUS:
      return {State::kDied, "a bus error: it reads or writes at a place that no memory has; a pointer is wrong"};
    case SIGFPE:
      return {State::kDied, "it divides an integer by zero"};
    case SIGILL:
    case SIGTRAP:
      return {State::kDied, "it runs into an instruction that ends it: does a function end without its return?"};
    case SIGABRT: {
      std::string why;
      for (const char* part : {"Assertion", "what():", "terminate called"}) {
        const std::string line = FirstLineWith(ended.output, part);
        if (why.empty() && !line.empty()) why = line.substr(line.find(part));
      }
      return {State::kDied, "it calls abort" + (why.empty() ? ", or what it calls does" : ": " + why)};
    }
    case SIGKILL:
      return {State::kDied, "it was killed, or killed itself: was memory used up?"};
    default:
      return {State::kDied, StrCat("it ended by a signal: ", strsignal(signal))};
  }
}

// A folder that is removed at the end.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& in) : path_(in + "/XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error(StrCat(in, ": ", std::strerror(errno)));
    path_ = fs::canonical(path_).string();
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Why a hand-in cannot be one; empty: it can.
std::string NotAFile(const fs::path& file) {
  struct stat status;
  if (lstat(file.c_str(), &status) != 0) return errno == ENOENT ? "" : StrCat("it cannot be read: ", strerror(errno));
  const std::string name = file.filename().string();
  switch (status.st_mode & S_IFMT) {
    case S_IFREG:
      return static_cast<uint64_t>(status.st_size) > kMostText ? name + " is larger than 1 MB" : "";
    case S_IFDIR:
      return name + " is a folder";
    case S_IFLNK:
      return name + " is a link";
    case S_IFIFO:
      return name + " is a pipe (a FIFO)";
    default:
      return name + " is a device or a socket";
  }
}

std::string CommandOf(const Exercise& exercise, const Compiler& compiler) {
  return compiler.command + (exercise.measured ? " " + compiler.kernel_flags : "");
}

void Compile(const Exercise& exercise, const Submission& submission, const Compiler& compiler,
             const std::string& folder) {
  const std::string command = CommandOf(exercise, compiler) + " " +
                              crosstalk::ShellQuoted((fs::path(submission.folder) / FileOf(exercise)).string()) +
                              " -o " + crosstalk::ShellQuoted(folder + "/solution.so");
  Box box = {.hidden = submission.hidden,
             .shown = fs::canonical(submission.folder).string(),
             .writable = folder,
             .milliseconds = 1000 * kCompileSeconds,
             .bytes = kCompileBytes,
             .echo = submission.echo};
  const Ended ended = RunBoxed(box, [&](int) {
    setenv("TMPDIR", folder.c_str(), 1);
    setenv("CCACHE_DISABLE", "1", 1);  // its folder cannot be written
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  });
  if (ended.out_of_time) {
    throw Stopped{State::kNotCompiled, StrCat("the compiler did not end within ", kCompileSeconds, " s")};
  }
  if (!WIFEXITED(ended.status) || WEXITSTATUS(ended.status) != 0) {
    const std::string line = FirstLineWith(ended.output, "rror:");
    const std::string first = ended.output.substr(0, ended.output.find('\n'));
    throw Stopped{State::kNotCompiled, (line.empty() ? first : line).substr(0, kMostMessage)};
  }
}

}  // namespace

std::string FileOf(const Exercise& exercise) {
  std::string name = exercise.id + ".cc";
  name[name.find('.')] = '_';
  return name;
}

Outcome CheckFile(const Exercise& exercise, const Submission& submission, const Compiler& compiler,
                  const std::string& stub) {
  Outcome outcome;
  try {
    const fs::path file = fs::path(submission.folder) / FileOf(exercise);
    const std::string reason = NotAFile(file);
    if (!reason.empty() || !crosstalk::Exists(file.string())) throw Stopped{State::kMissing, reason};
    if (crosstalk::ReadFile(file.string(), kMostText) == stub) {
      throw Stopped{State::kUnsolved, Unsolved(exercise.id).what()};
    }
    const WorkFolder work(compiler.work);
    Compile(exercise, submission, compiler, work.path());
    const int object = open((work.path() + "/solution.so").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (object < 0) throw Stopped{State::kNotCompiled, "the compiler made nothing of it"};
    fchmod(object, 0644);
    const unsigned seconds = submission.seconds != 0 ? submission.seconds : exercise.seconds;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    Box box = {.hidden = submission.hidden,
               .shown = fs::canonical(submission.folder).string(),
               .computes = true,
               .echo = submission.echo,
               .input = object};
    // Sanitizers reserve more addresses than any machine has memory.
    if (compiler.command.find("-fsanitize") == std::string::npos) box.bytes = kRunBytes;
    outcome = RunCheck(exercise, nullptr, [&](const std::function<Results()>& student) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
      box.milliseconds = static_cast<uint64_t>(std::max<int64_t>(left, 1));
      const Ended ended = RunBoxed(box, [&](int answer) { Answer(exercise, student, answer); });
      const std::string& answer = ended.answer;
      if (answer.empty() || !WIFEXITED(ended.status) || ended.printed_too_much || ended.out_of_time) {
        throw StoppedBy(ended, seconds);
      }
      if (answer[0] == 'r') return Decode(std::string_view(answer).substr(1));
      const int state = answer[0] - 'a';
      if (state <= 0 || state > static_cast<int>(State::kSilent)) {
        throw Stopped{State::kSilent, "it writes to the checker itself"};
      }
      throw Stopped{static_cast<State>(state), answer.substr(1, kMostMessage)};
    });
    close(object);
  } catch (const Stopped& stopped) {
    outcome.state = stopped.state;
    outcome.message = stopped.message;
  }
  return outcome;
}

std::string Fingerprint(const Exercise& exercise, const Submission& submission, const Compiler& compiler) {
  static const std::string program = crosstalk::Sha256OfFile("/proc/self/exe");
  crosstalk::Crc64 crc;
  crc.Update(program + CommandOf(exercise, compiler));
  std::vector<fs::path> files;
  std::error_code ignored;
  fs::recursive_directory_iterator at(submission.folder, ignored);
  for (; at != fs::recursive_directory_iterator() && files.size() < kMostFiles; at.increment(ignored)) {
    const fs::path name = at->path().filename();
    const auto is_file_of = [&](const Exercise& other) { return name == FileOf(other); };
    const bool another = std::any_of(Exercises().begin(), Exercises().end(), is_file_of);
    if (!another || name == FileOf(exercise)) files.push_back(at->path());
  }
  // What is not looked at may have changed.
  if (files.size() == kMostFiles) crc.Update(StrCat(std::chrono::system_clock::now().time_since_epoch().count()));
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    struct stat status = {};
    lstat(file.c_str(), &status);
    crc.Update(StrCat("\n", file.lexically_relative(submission.folder).string(), "\n", status.st_mode, "\n"));
    if (!S_ISREG(status.st_mode)) continue;
    try {
      crc.Update(crosstalk::ReadFile(file.string(), file.filename() == FileOf(exercise) ? kMostText : kMostIncluded));
    } catch (const crosstalk::Error&) {
      crc.Update(StrCat(status.st_size, " ", status.st_mtim.tv_sec));
    }
  }
  return crosstalk::ChecksumText(crc.value());
}

Json ToJson(const Exercise& exercise, const Outcome& outcome) {
  Json notes = Json::MakeArray(), measures = Json::MakeObject();
  for (const std::string& note : outcome.notes) notes.Append(note);
  for (const auto& [name, value] : outcome.measures) measures.Set(name, value);
  return Json::MakeObject({{"exercise", exercise.id},
                           {"title", exercise.title},
                           {"points", outcome.state == State::kSolved ? exercise.points : 0},
                           {"of", exercise.points},
                           {"state", Name(outcome.state)},
                           {"message", outcome.message},
                           {"hint", outcome.hint},
                           {"notes", notes},
                           {"measures", measures}});
}

}  // namespace course
