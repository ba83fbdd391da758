/* crosstalk.h: Crosstalk from C, and from whatever can call C. docs/embedding_c.md is the guide.
 *
 * Every object has a handle. Its bits are a number, not an address: it is looked up at each call, so that one
 * that was freed, is of another kind or was never given out is an error of the call. What a call needs of its arguments
 * it keeps: a handle may be freed as soon as the call that it was passed to has returned.
 *
 * A function that can fail returns a ct_status. If that is not CT_OK, nothing was written through its pointers
 * unless its comment says so, and ct_last_error() says what is wrong. No exception leaves the library.
 *
 * Configurations and reports are JSON text, so that the signatures never grow. A NULL configuration is "{}". A key that
 * is not known is an error.
 *
 * Threads. Every function may be called by any thread at any time. One that only reads an object may run in several
 * threads at once; one that changes it (each says so: "alone") waits until no other thread uses the object. A call from
 * a callback that needs alone what the call around it uses is CT_USAGE. Two objects that share memory (tensors) are not
 * guarded against each other: who writes elements must know that nobody reads them.
 *
 * fork(): the child goes on, its loops on one thread. An object that another thread was using at that moment stays in
 * use in the child for good.
 *
 * Texts that come out (const char*) belong to the library, and hold until this thread's next call that gives a text.
 */
#ifndef CROSSTALK_C_H
#define CROSSTALK_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CT_API __attribute__((visibility("default")))

/* ---- What every call has ---------------------------------------------------------------------------------------- */

/* The kinds of error, as the exit codes of the command number them. */
typedef enum ct_status {
  CT_OK = 0,
  CT_FAILURE = 1,   /* none of the below */
  CT_USAGE = 2,     /* an argument or a configuration that cannot be honoured */
  CT_DATA = 3,      /* a data, model or checkpoint file that was rejected */
  CT_NUMERICAL = 4, /* a loss or a gradient that is not finite */
  CT_RESOURCE = 5,  /* no memory, or no room on the disk */
  CT_STOPPED = 6    /* a callback asked to stop */
} ct_status;

typedef struct ct_tensor ct_tensor;       /* elements with a type, a shape and strides */
typedef struct ct_tensors ct_tensors;     /* tensors by name, in order */
typedef struct ct_attention ct_attention; /* an attention layer with its parameters */
typedef struct ct_cache ct_cache;         /* what a layer keeps of earlier positions while it decodes */
typedef struct ct_pass ct_pass;           /* a forward pass that gradients can be taken of */
typedef struct ct_model ct_model;         /* a model with its parameters and, if there is one, its tokenizer */
typedef struct ct_training ct_training;   /* a training run in a folder */
typedef struct ct_dataset ct_dataset;     /* what a model learns: text, tasks or ids */
typedef struct ct_batches ct_batches;     /* its examples, in numbered batches */
typedef struct ct_optimizer ct_optimizer; /* what updates the parameters of a layer or a model */

/* "0.2.0", of the library that is loaded. */
CT_API const char* ct_version(void);
/* What failed in this thread's last failed call, and what to do; "" before the first. Holds until this thread's
 * next call that fails. */
CT_API const char* ct_last_error(void);
/* Its status; CT_OK before the first. */
CT_API ct_status ct_last_status(void);
/* The configuration field at fault ("d_model"), or "". */
CT_API const char* ct_last_error_field(void);
/* Threads that the library computes with, 1 to 4096; by default the processors that this process may use, by its
 * affinity mask and the quota of its control group. Changes no bit. Not while another thread computes. */
CT_API ct_status ct_set_threads(int threads);
/* How many these are. */
CT_API ct_status ct_threads(int* threads);
/* Gives a handle of any kind back; NULL is none. Frees the object when no call and no other object uses it any more. A
 * training loses the steps since its last checkpoint. */
CT_API ct_status ct_free(void* handle);
/* An attention layer, model or training as JSON: what it is and how it is configured. Reads. */
CT_API ct_status ct_describe(const void* handle, const char** json);
/* The parameters of an attention layer or a model by their names. Their elements are the object's own: the next
 * computation uses what is written there. Reads. */
CT_API ct_status ct_parameters(const void* handle, ct_tensors** parameters);

/* ---- Tensors ---------------------------------------------------------------------------------------------------- */

/* Types of elements. */
typedef int32_t ct_dtype;
enum {
  CT_FLOAT32 = 0,
  CT_FLOAT64 = 1,
  CT_INT32 = 2,
  CT_INT64 = 3,
  CT_BOOL = 4,    /* one byte, 0 or 1 */
  CT_BFLOAT16 = 5 /* of parameters only: nothing computes with it */
};

/* Elements in memory. At most 8 dimensions. */
typedef struct ct_array {
  void* data; /* aligned to an element */
  ct_dtype dtype;
  int32_t rank;           /* 0: one element */
  const int64_t* shape;   /* rank sizes */
  const int64_t* strides; /* rank steps, in elements, not negative; NULL: row-major without gaps */
  int32_t read_only;      /* not 0: nobody may write */
} ct_array;

/* Zeros; `strides` and `data` of the array are not read. */
CT_API ct_status ct_tensor_create(const ct_array* array, ct_tensor** tensor);
/* Over the caller's memory, without a copy, which must stay until `release`, which may be NULL, is called with
 * `context`: once, when nothing refers to the memory any more, by any thread. The library never writes there. Strides
 * may have gaps or be 0; what needs dense elements copies them for itself. */
CT_API ct_status ct_tensor_wrap(const ct_array* array, void (*release)(void* context), void* context,
                                ct_tensor** tensor);
/* Where its elements are, as long as the handle is not freed. Reads. */
CT_API ct_status ct_tensor_array(const ct_tensor* tensor, ct_array* array);

/* DLPack's two forms of a tensor in memory: https://dmlc.github.io/dlpack. */
typedef int32_t ct_dlpack;
enum {
  CT_DLPACK_UNVERSIONED = 0, /* struct DLManagedTensor; says nothing of read-only memory, which is refused therefore */
  CT_DLPACK_VERSIONED = 1    /* struct DLManagedTensorVersioned, of version 1 */
};

/* Without a copy. `managed` is such a struct on a CPU; after CT_OK it is the library's, which calls its deleter once,
 * as ct_tensor_wrap calls `release`. */
CT_API ct_status ct_tensor_from_dlpack(void* managed, ct_dlpack form, ct_tensor** tensor);
/* Without a copy: `*managed` is such a struct, whose deleter must be called once. It keeps the elements, also when the
 * handle is freed. */
CT_API ct_status ct_tensor_to_dlpack(const ct_tensor* tensor, ct_dlpack form, void** managed);

/* An empty list. */
CT_API ct_status ct_tensors_create(ct_tensors** tensors);
/* Adds one under a name that is not there yet. Alone. */
CT_API ct_status ct_tensors_add(ct_tensors* tensors, const char* name, const ct_tensor* tensor);
/* Reads. */
CT_API ct_status ct_tensors_size(const ct_tensors* tensors, size_t* size);
/* Number `index`, from 0; `name` and `tensor` may be NULL. The handle is the caller's. Reads. */
CT_API ct_status ct_tensors_at(const ct_tensors* tensors, size_t index, const char** name, ct_tensor** tensor);
/* The one of that name; CT_USAGE lists what is there. The handle is the caller's. Reads. */
CT_API ct_status ct_tensors_find(const ct_tensors* tensors, const char* name, ct_tensor** tensor);

/* ---- Attention -------------------------------------------------------------------------------------------------- */

/* A layer, with initial values of "seed" (1), in "dtype" ("float32" or "float64"). The configuration has the members of
 * docs/family.md, {"d_X": 512, "d_M": 512, "d_Y": 512, "h_k": 8, …, "mixing": ["P_l"]}, as ct_describe gives it. In
 * short {"d_model": 512, "attention": "talking", "heads": 8, …} makes them, by the options of `crosstalk train` that
 * say what attention is, and members that these do not say may stand beside them ("causality": "causal"). CT_USAGE
 * names what is unknown and what both say. */
CT_API ct_status ct_attention_create(const char* configuration, ct_attention** attention);
/* Inputs, in the layer's type where they are numbers:
 *   X[b, n, d_X]; M[b, m, d_M], without which M is X
 *   key_padding_mask bool[b, m], attention_mask bool[b, n, m]: true = attend
 *   bias[h, n, m], added to the logits
 * Outputs: Y[b, n, d_Y]; with "weights": true also W[b, n, m, h]. "training": true drops what the configuration's
 * dropout_rate says, by the numbers of "seed" and "step". Where `pass` is not NULL, ct_backward can follow: until
 * then the elements of inputs, outputs and parameters must not change. Reads the layer. */
CT_API ct_status ct_attention_forward(const ct_attention* attention, const ct_tensors* inputs, const char* options,
                                      ct_tensors** outputs, ct_pass** pass);
/* A cache to decode with: of self-attention that has read nothing yet, or with a memory[b, m, d_M] of cross-attention,
 * which is projected once. Reads the layer. */
CT_API ct_status ct_attention_begin(const ct_attention* attention, const ct_tensor* memory, ct_cache** cache);
/* The next position, X[b, 1, d_X], or into an empty cache the first n, X[b, n, d_X]; masks and bias as above, over the
 * whole cache. Outputs: Y[b, n, d_Y]. A step that fails at a mask or a bias ends the use of the cache. Reads the layer;
 * the cache of self-attention alone. */
CT_API ct_status ct_attention_step(const ct_attention* attention, ct_cache* cache, const ct_tensors* inputs,
                                   ct_tensors** outputs);

/* The gradients of what was computed by the pass, by the names of what they are of: inputs that are not integers (a
 * layer's), and parameters; each that `output` depends on. `seed` is d loss / d output, in its shape and type; NULL for
 * an output of one element, which is a loss. Each pass gives gradients once. The layer or model alone. */
CT_API ct_status ct_backward(ct_pass* pass, const char* output, const ct_tensor* seed, ct_tensors** gradients);

/* ---- Models ----------------------------------------------------------------------------------------------------- */

/* A model from the folder of a run (its newest good checkpoint), a checkpoint, an imported model, or a published
 * model's folder. {"dtype": "float32", "precision": "fp32", "implementation": "fused"}; by default float32, and as the
 * model was trained. In float64 there is neither "bf16" nor "fused": CT_USAGE. */
CT_API ct_status ct_model_open(const char* path, const char* options, ct_model** model);
/* A new model, by the configuration of a training (ct_training_open): {"model": "lm", "heads": 4, "data": "novels/",
 * "tokenizer": "bytes", …}. What it says of the optimizer, of batches and of loss are defaults of the calls for a loop
 * of one's own, below. With the tokenizer "none" there are "vocabulary" ids, of which 0, 1 and 2 are padding, end and
 * unknown, and nothing reads or writes text. */
CT_API ct_status ct_model_create(const char* configuration, ct_model** model);
/* Inputs and outputs have the names that Hugging Face gives them, as `crosstalk forward` has; ids int32 or int64:
 *   input_ids[b, n]; attention_mask[b, n]; labels, of which -100 counts nothing; …
 *   logits[b, n, vocabulary], …, and with labels loss, a scalar
 * {"detail": "all"} also what each layer computes; "training", "seed" and "step" as of a layer. Reads the model. */
CT_API ct_status ct_model_forward(const ct_model* model, const ct_tensors* inputs, const char* options,
                                  ct_tensors** outputs, ct_pass** pass);
/* A piece of a text, whole UTF-8 characters, as soon as it is known. Not 0 ends the text there. */
typedef int (*ct_on_text)(void* context, const char* piece, size_t length, int by_the_model);
/* What the model makes of a text of `length` bytes, the prompt's words in it where they belong to it. A language model
 * goes on with it, a T5 fills its blanks (___) or answers it. The options are those of `crosstalk generate`:
 * {"max_length": 200, "temperature": 0.8, "top_k": 0, "top_p": 1, "seed": 1, "beams": 1, "length_penalty": 1,
 * "length_normalisation": "power", "early_stopping": false}. `on_text` may be NULL; with beams it is called once. The
 * text and its bytes are given also with CT_STOPPED, as far as it is known; text and text_length may be NULL. Reads the
 * model. */
CT_API ct_status ct_model_generate(const ct_model* model, const char* prompt, size_t length, const char* options,
                                   ct_on_text on_text, void* context, const char** text, size_t* text_length);
/* The same for ids: input_ids[b, n] and attention_mask[b, n], and also "answers" and "batch"; max_length is 128, and
 * temperature 0. JSON: for each row its answers, best first: [[{"ids": […], "score": -1.2}]]. Reads the model. */
CT_API ct_status ct_model_search(const ct_model* model, const ct_tensors* inputs, const char* options,
                                 const char** json);
/* Vectors of `count` texts, each of lengths[i] bytes, or NULL where all end with a NUL: float[count, d_model], the last
 * states of what reads a text, pooled. {"pooling": "mean", "cls", "last" or "max", "normalize": false, "max_length":
 * the tokens of a text that are read, "batch": 32}; by default as the model's folder says (modules.json, of the library
 * sentence-transformers), else the mean of as many as the model reads. A vector's bits do not depend on the other
 * texts. Reads the model. */
CT_API ct_status ct_model_embed(const ct_model* model, const char* const* texts, const size_t* lengths, size_t count,
                                const char* options, ct_tensor** vectors);
/* The ids int32[n] of a text, without an end token. Reads the model. */
CT_API ct_status ct_model_encode(const ct_model* model, const char* text, size_t length, ct_tensor** ids);
/* The text of ids[n], int32 or int64. Reads the model. */
CT_API ct_status ct_model_decode(const ct_model* model, const ct_tensor* ids, const char** text, size_t* length);

/* ---- Training --------------------------------------------------------------------------------------------------- */

/* What a training tells. Each function may be NULL, is called within a call of the library, and must not call for the
 * same training. */
typedef struct ct_observer {
  void* context;
  void (*message)(void* context, const char* sentence);
  void (*evaluation)(void* context, const char* json); /* as in metrics.jsonl */
  int (*stop)(void* context);                          /* not 0: end, with a checkpoint; asked often */
} ct_observer;

/* A run in `folder`, as `crosstalk train --out` makes it, from the same configuration: {"data": "novels/", "steps":
 * 2000, "attention": "talking", …}; what is not given has its default, or where a run is resumed, is as in that.
 * `resume` is NULL or "none" for a new run, "auto" or "if-any" for the newest checkpoint of the run in the folder, or a
 * new one if there is none, or the path of a checkpoint. Nothing of the run depends on who drives it: its bits are
 * the command's. `observer` is copied, and may be NULL. */
CT_API ct_status ct_training_open(const char* folder, const char* configuration, const char* resume,
                                  const ct_observer* observer, ct_training** training);
/* The next step, with the evaluation and the checkpoint that are due after it: *more is 1. Where all are done it ends
 * the run, which writes model.safetensors: *more is 0. CT_STOPPED where the observer asks for it: a checkpoint is saved
 * then. CT_NUMERICAL leaves parameters as they were. Alone. */
CT_API ct_status ct_training_step(ct_training* training, int* more);
/* JSON of the last step of this session, as a line of metrics.jsonl; null before it. "evaluation": the run's last
 * one, or null. Reads. */
CT_API ct_status ct_training_metrics(const ct_training* training, const char** json);
/* A checkpoint of the steps done, if there is none yet or the parameters were written to since. Alone. */
CT_API ct_status ct_training_save(ct_training* training);
/* The model as it is, whose parameters each step changes; it keeps the run. A step waits while it is used. */
CT_API ct_status ct_training_model(const ct_training* training, ct_model** model);

/* ---- A training loop of one's own ------------------------------------------------------------------------------- */

/* What `model` can learn, read by its tokenizer. `ids` is NULL, or int32 or int64[n], a text as ids, whose last 5 % are
 * held out. Without ids the options are those of a training that say what is read: {"data": "novels/", "validation": …,
 * "text_field": …, "corpus": …, "task": …, "task_data": …}; where none is given, what the model was made with. Reads
 * the model. */
CT_API ct_status ct_dataset_create(const ct_model* model, const ct_tensor* ids, const char* options,
                                   ct_dataset** dataset);
/* Batches of examples under the model's objective. {"part": "training"} in an order of "seed", or "held-out"; "batch"
 * examples each; "eval_batches", the most that are held out; and the options of a training that say what an example is:
 * "input_length", "noise_density", …. Defaults are those that the model was made with, or a training's. */
CT_API ct_status ct_batches_create(const ct_dataset* dataset, const char* options, ct_batches** batches);
/* Batches of one pass over the text; 0: it has no end. Reads. */
CT_API ct_status ct_batches_size(const ct_batches* batches, int64_t* size);
/* Number `index`, from 0: the tensors that ct_model_loss takes. Of training there are as many as one likes, a pass
 * after the other. The same arguments give the same bits; ascending numbers are fast. Alone. */
CT_API ct_status ct_batches_at(ct_batches* batches, int64_t index, ct_tensors** batch);
/* What a training minimises of such a batch: `loss`, a scalar, the mean over its targets, and each measure as a scalar
 * float64 ("ln_ppl"). {"training": true, "seed": 1, "step": 0}: with false there are neither dropout nor z-loss. Reads
 * the model. */
CT_API ct_status ct_model_loss(const ct_model* model, const ct_tensors* batch, const char* options,
                               ct_tensors** outputs, ct_pass** pass);
/* An optimizer of a layer or a model. The options are those of a training: "optimizer", "learning_rate", "schedule",
 * "steps", "warmup", "decay", "final_learning_rate", "decay_power", "weight_decay", "adam_beta1", "adam_beta2",
 * "adam_epsilon", "bias_correction", "clip". Defaults are those that the model was made with, or a training's. */
CT_API ct_status ct_optimizer_create(const void* handle, const char* options, ct_optimizer** optimizer);
/* One update by gradients, clipped, of parameters by name, at the rate of the schedule or {"learning_rate": 0.01}. A
 * parameter without a gradient stays as it is; gradients of a layer's inputs are passed over. JSON, which may be NULL:
 * {"step", "learning_rate", "gradient_norm"}, steps done and the norm before clipping. CT_NUMERICAL, which names the
 * parameter, changes nothing. The layer or model alone. */
CT_API ct_status ct_optimizer_step(ct_optimizer* optimizer, const ct_tensors* gradients, const char* options,
                                   const char** json);
/* Its state as tensors over the optimizer's memory, and "step", a copy. Reads. */
CT_API ct_status ct_optimizer_state(const ct_optimizer* optimizer, ct_tensors** state);
/* Takes over such a state of the same parameters; CT_NUMERICAL where it is not finite. Alone. */
CT_API ct_status ct_optimizer_load(ct_optimizer* optimizer, const ct_tensors* state);
/* Saves a model in a folder that ct_model_open and every command reads, and makes that if it is missing: as the
 * checkpoint of the optimizer's step with its state, or of step 0 where that is NULL. It replaces one of the same step;
 * the newest "keep" (2) stay. CT_USAGE for a model in float64, and for a folder that holds a training's run, a later
 * checkpoint or other files. Reads. */
CT_API ct_status ct_model_save(const ct_model* model, const char* folder, const ct_optimizer* optimizer);

#ifdef __cplusplus
}
#endif

#endif
