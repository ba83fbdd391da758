// 7. Crosstalk from C: an attention layer on the program's own arrays, with its gradients; then a training run, step by
// step or by hand, and what the models write. docs/embedding_c.md goes through it.
//
//   embed_c [FOLDER [STEPS]]    without a folder, the layer alone; FOLDER-by-hand is that of a loop of one's own
#include <crosstalk.h>
#include <stdio.h>
#include <stdlib.h>

// Ends the program where a call failed, with the status that the command would have.
static void check(ct_status status) {
  if (status == CT_OK) return;
  fprintf(stderr, "%s\n", ct_last_error());
  exit((int)status);
}

static void attend(void) {
  enum { kRows = 2, kLength = 5, kWidth = 32 };
  static float x[kRows * kLength * kWidth];  // X[b, n, d_X], which the library reads where it is
  for (int i = 0; i < kRows * kLength * kWidth; ++i) x[i] = (float)(i % 7) / 7;
  const int64_t shape[] = {kRows, kLength, kWidth};
  const ct_array array = {.data = x, .dtype = CT_FLOAT32, .rank = 3, .shape = shape};

  ct_attention* layer;
  ct_tensor* X;
  ct_tensors* inputs;
  check(ct_attention_create("{\"d_model\": 32, \"attention\": \"talking\", \"heads\": 4}", &layer));
  check(ct_tensor_wrap(&array, NULL, NULL, &X));
  check(ct_tensors_create(&inputs));
  check(ct_tensors_add(inputs, "X", X));

  ct_tensors *outputs, *gradients;
  ct_pass* pass;
  check(ct_attention_forward(layer, inputs, NULL, &outputs, &pass));
  ct_tensor *Y, *dP_l;
  check(ct_tensors_find(outputs, "Y", &Y));
  check(ct_backward(pass, "Y", Y, &gradients));  // of the loss ½·Σ Y², whose gradient of Y is Y
  check(ct_tensors_find(gradients, "P_l", &dP_l));

  ct_array y, dp;
  check(ct_tensor_array(Y, &y));
  check(ct_tensor_array(dP_l, &dp));
  printf("Y[%d, %d, %d] begins with %.4f; dP_l[%d, %d] with %.4f\n", (int)y.shape[0], (int)y.shape[1], (int)y.shape[2],
         ((const float*)y.data)[0], (int)dp.shape[0], (int)dp.shape[1], ((const float*)dp.data)[0]);

  void* const handles[] = {layer, X, inputs, outputs, gradients, pass, Y, dP_l};
  for (size_t i = 0; i < sizeof handles / sizeof *handles; ++i) check(ct_free(handles[i]));
}

static void train(const char* folder, int steps) {
  char configuration[200];
  snprintf(configuration, sizeof configuration,
           "{\"model\": \"lm\", \"tokenizer\": \"bytes\", \"d_model\": 32, \"d_ff\": 64, \"layers\": 1, \"heads\": 4,"
           " \"input_length\": 32, \"steps\": %d}",
           steps);
  ct_training* training;
  check(ct_training_open(folder, configuration, "auto", NULL, &training));  // a new run, or the one that is there
  int more = 1;
  for (check(ct_training_step(training, &more)); more; check(ct_training_step(training, &more))) {
    const char* metrics;
    check(ct_training_metrics(training, &metrics));
    printf("%s\n", metrics);
  }
  check(ct_free(training));
}

// The same without a run: a model, its batches and an optimizer of one's own.
static void train_by_hand(const char* folder, int steps) {
  ct_model* model;
  ct_dataset* dataset;
  ct_batches* batches;
  ct_optimizer* optimizer;
  check(ct_model_create("{\"model\": \"lm\", \"tokenizer\": \"bytes\", \"d_model\": 32, \"heads\": 4, \"layers\": 1}",
                        &model));
  check(ct_dataset_create(model, NULL, NULL, &dataset));  // the built-in stories; or {"data": "novels/"}, or ids
  check(ct_batches_create(dataset, "{\"input_length\": 32}", &batches));
  check(ct_optimizer_create(model, "{\"optimizer\": \"adamw\", \"learning_rate\": 0.01, \"clip\": 1}", &optimizer));
  for (int step = 0; step < steps; ++step) {
    ct_tensors *batch, *outputs, *gradients;
    ct_pass* pass;
    const char* metrics;
    check(ct_batches_at(batches, step, &batch));
    check(ct_model_loss(model, batch, NULL, &outputs, &pass));
    check(ct_backward(pass, "loss", NULL, &gradients));
    check(ct_optimizer_step(optimizer, gradients, NULL, &metrics));
    printf("%s\n", metrics);
    void* const handles[] = {batch, outputs, pass, gradients};
    for (size_t i = 0; i < sizeof handles / sizeof *handles; ++i) check(ct_free(handles[i]));
  }
  check(ct_model_save(model, folder, optimizer));  // a folder for ct_model_open and every command
  void* const handles[] = {optimizer, batches, dataset, model};
  for (size_t i = 0; i < sizeof handles / sizeof *handles; ++i) check(ct_free(handles[i]));
}

static int print_piece(void* context, const char* piece, size_t length, int by_the_model) {
  (void)context;
  (void)by_the_model;
  fwrite(piece, 1, length, stdout);
  return 0;  // anything else would end the text here
}

static void write_text(const char* folder) {
  ct_model* model;
  check(ct_model_open(folder, NULL, &model));
  check(ct_model_generate(model, "It was", 6, "{\"max_length\": 40}", print_piece, NULL, NULL, NULL));
  printf("\n");
  check(ct_free(model));
}

int main(int argc, char** argv) {
  printf("Crosstalk %s\n", ct_version());
  attend();
  if (argc > 1) {
    const int steps = argc > 2 ? atoi(argv[2]) : 100;
    char by_hand[1000];
    snprintf(by_hand, sizeof by_hand, "%s-by-hand", argv[1]);
    train(argv[1], steps);
    train_by_hand(by_hand, steps);
    write_text(argv[1]);
    write_text(by_hand);
  }
  return 0;
}
