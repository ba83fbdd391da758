/* The C interface between the command and libcrosstalk_mpi.so, the only part of Crosstalk that is linked to MPI. The
 * command loads it where it was started as one of several ranks. Neither needs a symbol of the other. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with each change of this file. */
#define CROSSTALK_MPI_VERSION 2

struct CrosstalkMpiOptions {
  int version;            /* CROSSTALK_MPI_VERSION */
  double timeout_seconds; /* a rank that says nothing for so long is lost; 0: never */
  size_t piece_bytes;     /* longer messages are cut, 1 to 2^30 bytes; the same on every rank */
};

/* Every function may be called from any thread. Texts stay valid until the same thread's next call. */
struct CrosstalkMpi {
  int version;
  int (*rank)(void);
  int (*size)(void);
  int (*local_size)(void); /* ranks on this host */
  const char* (*host)(int rank);
  int (*largest_tag)(void);

  /* Begin to send, or to receive at most `size` bytes, and return at once. The bytes must stay until wait has returned
   * or test has said 1. Messages of one rank and tag, 0 to largest_tag(), arrive in the order in which they were sent.
   */
  uint64_t (*send)(int to, int tag, const void* bytes, size_t size);
  uint64_t (*receive)(int from, int tag, void* bytes, size_t size);
  /* Returns NULL, and the message's bytes in *received, or the text of an error. Ends the request. */
  const char* (*wait)(uint64_t request, size_t* received);
  /* 1: wait would return at once. */
  int (*test)(uint64_t request);

  /* Ends the processes of all ranks, this one with the exit code. Does not return. */
  void (*abort)(int code);
  /* Returns once every rank has called it; the others' waits for this rank's messages fail from then on. Ends MPI: no
   * function may be called afterwards. With messages still under way it ends all ranks with exit code 1. */
  void (*close)(void);
};

/* Starts MPI, once in a process. NULL, a text in error[error_size] and an exit code: it cannot; the code is 5 if
 * there is no memory or no thread, else 1. */
const struct CrosstalkMpi* crosstalk_mpi_open(const struct CrosstalkMpiOptions* options, char* error, size_t error_size,
                                              int* code);

#ifdef __cplusplus
}
#endif
