// A host in C: loads the library at run time and finds its functions by their names, has threads of OpenMP and signal
// handlers of its own, forks, and finds both as they were. Compiled and run by tests/sessions/install.session:
//   host libcrosstalk.so
#include <crosstalk.h>
#include <dlfcn.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// The functions that this host calls.
#define FUNCTIONS(F) \
  F(last_error) \
  F(free) \
  F(tensor_wrap) \
  F(tensor_array) F(tensors_create) F(tensors_add) F(tensors_find) F(attention_create) F(attention_forward)
#define DECLARE(name) __typeof__(ct_##name)* name;
static struct { FUNCTIONS(DECLARE) } api;

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n", what, api.last_error != NULL ? api.last_error() : "");
  exit(1);
}

static void on_signal(int number) { (void)number; }

// The handlers of all signals, as one array.
static void read_handlers(void (*handlers[65])(int)) {
  for (int number = 1; number < 65; ++number) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    handlers[number] = sigaction(number, NULL, &action) == 0 ? action.sa_handler : NULL;
  }
}

// A layer on ones; the first element of Y.
static float compute(void) {
  static float x[2 * 3 * 8];
  for (int i = 0; i < 2 * 3 * 8; ++i) x[i] = 1;
  const int64_t shape[] = {2, 3, 8};
  const ct_array array = {.data = x, .dtype = CT_FLOAT32, .rank = 3, .shape = shape};
  ct_attention* layer = NULL;
  ct_tensor *X = NULL, *Y = NULL;
  ct_tensors *inputs = NULL, *outputs = NULL;
  require(api.attention_create("{\"d_model\": 8, \"heads\": 2}", &layer) == CT_OK, "attention_create");
  require(api.tensor_wrap(&array, NULL, NULL, &X) == CT_OK, "tensor_wrap");
  require(api.tensors_create(&inputs) == CT_OK, "tensors_create");
  require(api.tensors_add(inputs, "X", X) == CT_OK, "tensors_add");
  require(api.attention_forward(layer, inputs, NULL, &outputs, NULL) == CT_OK, "attention_forward");
  require(api.tensors_find(outputs, "Y", &Y) == CT_OK, "tensors_find");
  ct_array y;
  require(api.tensor_array(Y, &y) == CT_OK, "tensor_array");
  const float first = ((const float*)y.data)[0];
  void* const handles[] = {layer, X, Y, inputs, outputs};
  for (size_t i = 0; i < sizeof handles / sizeof *handles; ++i) require(api.free(handles[i]) == CT_OK, "free");
  return first;
}

int main(int argc, char** argv) {
  require(argc == 2, "usage: host libcrosstalk.so");
  signal(SIGINT, on_signal);
  signal(SIGUSR1, on_signal);
  omp_set_num_threads(3);
  void (*before[65])(int);
  void (*after[65])(int);
  read_handlers(before);

  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  require(library != NULL, "dlopen");
#define FIND(name) \
  *(void**)&api.name = dlsym(library, "ct_" #name); \
  require(api.name != NULL, "ct_" #name);
  FUNCTIONS(FIND)

  const float expected = compute();
  int threads = 0, wrong = 0;
#pragma omp parallel reduction(+ : threads, wrong)  // the host's threads call at once
  {
    ++threads;
    for (int i = 0; i < 20; ++i) wrong += compute() != expected;
  }
  require(threads == 3, "the host's number of threads");
  require(wrong == 0, "results of several threads");
  require(omp_get_max_threads() == 3, "the host's number of threads, after");

  const pid_t child = fork();
  if (child == 0) _exit(compute() == expected ? 0 : 1);
  int status = -1;
  require(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child");

  read_handlers(after);
  require(memcmp(before + 1, after + 1, sizeof before - sizeof *before) == 0, "the host's signal handlers");
  printf("the host is as it was\n");
  return 0;
}
