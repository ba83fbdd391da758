"""Small RoBERTas with random weights, and what their equations give in float64: the folders beside this file.

    python3 roberta.py roberta_mlm roberta_seqcls

Positions: pad + the number of ids up to it that are no padding; padding has the position pad. Post-norm blocks as BERT's;
the head for hidden tokens is dense, gelu (erf), LayerNorm, the embedding's table and a bias; that of a classification
is dense, tanh, out_proj, of the first token.
"""
import json
import math
import os
import struct
import sys

import numpy

D, HEADS, FF, LAYERS, VOCABULARY, POSITIONS, PAD, EPSILON, CLASSES = 12, 3, 20, 2, 30, 14, 1, 1e-5, 3
IDS = [[0, 7, 12, 29, 5, 2, 1, 1], [1, 1, 0, 9, 9, 17, 28, 2], [0, 4, 21, 6, 11, 3, 19, 2]]
LABELS = [[-100, 7, -100, 3, 5, -100, -100, -100], [-100, -100, -100, 9, -100, 22, 28, -100], [-100] * 4 + [11] + [-100] * 3]
CLASS_LABELS = [2, 0, 1]


def store(path, tensors):
    names = {"float32": "F32", "float64": "F64", "int64": "I64"}
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, value in sorted(tensors.items()):
        header[name] = {"dtype": names[str(value.dtype)], "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, value in sorted(tensors.items()):
            file.write(numpy.ascontiguousarray(value).tobytes())


def weights(kind):
    random = numpy.random.RandomState(5)
    shapes = {"embeddings.word_embeddings.weight": (VOCABULARY, D), "embeddings.position_embeddings.weight": (POSITIONS, D),
              "embeddings.token_type_embeddings.weight": (1, D), "embeddings.LayerNorm.weight": (D,),
              "embeddings.LayerNorm.bias": (D,)}
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        for name, (out, width) in {"attention.self.query": (D, D), "attention.self.key": (D, D), "attention.self.value": (D, D),
                                   "attention.output.dense": (D, D), "intermediate.dense": (FF, D),
                                   "output.dense": (D, FF)}.items():
            shapes[layer + name + ".weight"], shapes[layer + name + ".bias"] = (out, width), (out,)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[layer + name + ".weight"] = shapes[layer + name + ".bias"] = (D,)
    shapes = {"roberta." + name: shape for name, shape in shapes.items()}
    if kind == "roberta_mlm":
        shapes.update({"lm_head.dense.weight": (D, D), "lm_head.dense.bias": (D,), "lm_head.layer_norm.weight": (D,),
                       "lm_head.layer_norm.bias": (D,), "lm_head.bias": (VOCABULARY,)})
    else:
        shapes.update({"classifier.dense.weight": (D, D), "classifier.dense.bias": (D,),
                       "classifier.out_proj.weight": (CLASSES, D), "classifier.out_proj.bias": (CLASSES,)})
    return {name: (random.randn(*shape) * 0.4 + ("orm.weight" in name)).astype("float32") for name, shape in shapes.items()}


def forward(w, kind):
    w = {name: value.astype("float64") for name, value in w.items()}
    ids = numpy.array(IDS)
    linear = lambda x, name: x @ w[name + ".weight"].T + w[name + ".bias"]
    gelu = lambda x: x * 0.5 * (1 + numpy.vectorize(math.erf)(x / math.sqrt(2)))

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / numpy.sqrt((centred ** 2).mean(-1, keepdims=True) + EPSILON)
        return scaled * w[name + ".weight"] + w[name + ".bias"]

    def heads_of(x):
        return x.reshape(*ids.shape, HEADS, D // HEADS).transpose(0, 2, 1, 3)

    def softmax(x):
        e = numpy.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    positions = numpy.where(ids != PAD, PAD + (ids != PAD).cumsum(1), PAD)
    x = (w["roberta.embeddings.word_embeddings.weight"][ids] + w["roberta.embeddings.position_embeddings.weight"][positions] +
         w["roberta.embeddings.token_type_embeddings.weight"][0])
    x = norm(x, "roberta.embeddings.LayerNorm")
    for i in range(LAYERS):
        layer = f"roberta.encoder.layer.{i}."
        q, k, v = (heads_of(linear(x, layer + "attention.self." + name)) for name in ("query", "key", "value"))
        logits = q @ k.transpose(0, 1, 3, 2) / math.sqrt(D // HEADS)
        mixed = softmax(numpy.where((ids != PAD)[:, None, None, :], logits, -1e30)) @ v
        mixed = mixed.transpose(0, 2, 1, 3).reshape(*ids.shape, D)
        x = norm(x + linear(mixed, layer + "attention.output.dense"), layer + "attention.output.LayerNorm")
        x = norm(x + linear(gelu(linear(x, layer + "intermediate.dense")), layer + "output.dense"), layer + "output.LayerNorm")
    if kind == "roberta_mlm":
        hidden = norm(gelu(linear(x, "lm_head.dense")), "lm_head.layer_norm")
        logits = hidden @ w["roberta.embeddings.word_embeddings.weight"].T + w["lm_head.bias"]
        labels = numpy.array(LABELS)
    else:
        logits = linear(numpy.tanh(linear(x[:, 0], "classifier.dense")), "classifier.out_proj")
        labels = numpy.array(CLASS_LABELS)
    rows, wanted = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    rows, wanted = rows[wanted >= 0], wanted[wanted >= 0]
    loss = -numpy.log(softmax(rows)[numpy.arange(len(wanted)), wanted]).mean()
    return {"last_hidden_state": x, "logits": logits, "loss": numpy.array([loss])}, labels


for folder in sys.argv[1:]:
    os.makedirs(folder, exist_ok=True)
    masked = folder.endswith("mlm")
    config = {"architectures": ["RobertaForMaskedLM" if masked else "RobertaForSequenceClassification"], "bos_token_id": 0,
              "eos_token_id": 2, "hidden_act": "gelu", "hidden_size": D, "intermediate_size": FF, "layer_norm_eps": EPSILON,
              "max_position_embeddings": POSITIONS, "model_type": "roberta", "num_attention_heads": HEADS,
              "num_hidden_layers": LAYERS, "pad_token_id": PAD, "type_vocab_size": 1, "vocab_size": VOCABULARY}
    if not masked:
        config["id2label"] = {str(i): f"LABEL_{i}" for i in range(CLASSES)}
    with open(folder + "/config.json", "w") as file:
        file.write(json.dumps(config, indent=2) + "\n")
    model = weights(os.path.basename(folder))
    outputs, labels = forward(model, os.path.basename(folder))
    store(folder + "/model.safetensors", model)
    store(folder + "/inputs.safetensors", {"input_ids": numpy.array(IDS), "labels": labels,
                                           "attention_mask": (numpy.array(IDS) != PAD).astype("int64")})
    store(folder + "/expected.safetensors", outputs)
