#include "tools/mpi/ending.h"

#include <mpi.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <system_error>

namespace crosstalk::mpi {
namespace {

int code_of_deadline = 1;
size_t length_of_line = 0;
char line_of_deadline[512];

void Arm(int64_t micros) {
  itimerval timer = {};
  timer.it_value = {.tv_sec = micros / 1'000'000, .tv_usec = micros % 1'000'000};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

std::string TextOf(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<size_t>(length)};
}

void Check(int code) {
  if (code != MPI_SUCCESS) throw std::runtime_error(TextOf(code));
}

void PrintLine(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "crosstalk: %s\n", text);  // unbuffered, but glibc writes a whole call at once
}

void Deadline::Set(std::chrono::duration<double> time, int code, std::string_view line) {
  code_of_deadline = code;
  length_of_line = std::min(line.size(), sizeof line_of_deadline);
  std::copy_n(line.data(), length_of_line, line_of_deadline);
  struct sigaction action = {};
  action.sa_handler = [](int) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line_of_deadline, length_of_line);
    _exit(code_of_deadline);
  };
  sigaction(SIGALRM, &action, nullptr);
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
  Arm(std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::microseconds>(time).count()));
}

void Deadline::Cancel() { Arm(0); }

void EndAllRanks(int code) {
  Deadline::Set(kAbortTime, code, "");
  MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

int CodeOf(const std::exception& error) {
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  const bool no_resource = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                           (system != nullptr && (system->code() == std::errc::resource_unavailable_try_again ||
                                                  system->code() == std::errc::not_enough_memory));
  return no_resource ? 5 : 1;
}

}  // namespace crosstalk::mpi
