"""Models: from a run, a checkpoint or a published folder; forward, gradients, text."""

import json
import os
from collections.abc import Mapping
from ctypes import byref, c_char_p, c_size_t, c_void_p

import numpy

from . import _errors
from ._errors import UsageError
from ._library import Handle, OnText, call, check, json_of, status_of, text_at, to_json, to_text
from .passes import run
from .tensor import Parameters, Tensor, Tensors


class Model(Handle):
    """A model and, where it has one, its tokenizer.

        Model("runs/novels")                      # the newest checkpoint of a run
        Model("t5-small", dtype="float64")        # a published model's folder
        Model("runs/novels", precision="bf16", implementation="composed")
    """

    def __init__(self, path, *, dtype=None, precision=None, implementation=None):
        handle = c_void_p()
        options = to_json({"dtype": dtype, "precision": precision, "implementation": implementation})
        call("model_open", os.fsencode(path), options, byref(handle))
        super().__init__(handle.value)

    @classmethod
    def new(cls, **options):
        """A new model, by the options of `crosstalk train`:

            Model.new(model="lm", heads=4, d_model=64, layers=2, tokenizer="bytes", data="novels/")
            Model.new(model="lm", heads=4, tokenizer="none", vocabulary=5000)   # of ids: 0, 1, 2 are padding, end, unknown

        What they say of the optimizer, of batches and of loss are the defaults of Optimizer, Batches and loss()."""
        handle = c_void_p()
        call("model_create", to_json(options), byref(handle))
        return cls._of(handle.value)

    @classmethod
    def _of(cls, handle):
        model = cls.__new__(cls)
        Handle.__init__(model, handle)
        return model

    @property
    def description(self):
        """What the model is: {"description", "source", "dtype", "precision", "parameters", "configuration", …}."""
        return json_of("describe", self)

    @property
    def parameters(self):
        """The parameters by name, as arrays over the model's own memory; an assignment writes there."""
        return Parameters.of(self)

    def forward(self, *, detail="results", training=False, seed=1, step=0, record=True, **inputs):
        """Inputs by the names that Hugging Face gives them → a Pass with outputs by theirs.

        input_ids[b, n] and attention_mask[b, n]; labels[b, n], of which -100 counts nothing; … → logits[b, n, vocabulary],
        and with labels the scalar loss, of which backward("loss") gives the gradients of the parameters. detail="all":
        also what each layer computes."""
        options = to_json({"detail": detail, "training": training, "seed": seed, "step": step})
        return run("model_forward", self, Tensors(inputs), options, record)

    def loss(self, batch, *, training=True, seed=None, step=0, record=True):
        """What a training minimises of a batch by name → a Pass with loss and each measure ("ln_ppl").

        float(loss) is its value, and loss.backward() gives the gradients by the parameters' names. A batch of Batches, or
        arrays by the same names: a language model's inputs[b, n] and targets[b, n]. With training=False there are neither
        dropout, whose numbers are those of (seed, step), nor z-loss."""
        if isinstance(batch, Mapping) and "labels" in batch:
            raise UsageError("batch: labels are of forward(input_ids=…, labels=…), whose loss is the published one")
        options = to_json({"training": training, "seed": seed, "step": step})
        return run("model_loss", self, Tensors(batch), options, record)

    def save(self, folder, optimizer=None):
        """Saves it in a folder that Model() and every command reads, and that is made if it is missing: as the checkpoint of
        the optimizer's step with its state, or without one of step 0. One of the same step is replaced."""
        call("model_save", self, os.fsencode(folder), optimizer)

    def load(self, path):
        """Takes the parameters of a model of the same kind: what save() or a training has written, or what is published.
        A UsageError, before anything is changed, if its configuration or its tokenizer is another."""
        mine = self.description
        with Model(path, dtype=mine["dtype"]) as other:
            theirs = other.description
            ours, given = ({key: value for key, value in one["configuration"].items() if "dropout" not in key}
                           for one in (mine, theirs))
            for key in {**ours, **given}:
                if ours.get(key) != given.get(key):
                    raise UsageError(f"{os.fsdecode(path)}: its {key} is {given.get(key)}, and here it is {ours.get(key)}",
                                     key)
            ids = numpy.arange(ours["vocabulary"], dtype="int32")
            if mine["tokenizer"] != theirs["tokenizer"] or (mine["tokenizer"] and self.decode(ids) != other.decode(ids)):
                raise UsageError(f"{os.fsdecode(path)}: its tokenizer gives other ids to texts", "tokenizer")
            self.parameters.update(other.parameters)

    def __call__(self, **inputs):
        """The same without gradients: the outputs by name."""
        return self.forward(record=False, **inputs).outputs

    def generate(self, prompt="", on_text=None, **options):
        """What the model makes of a text. A language model goes on with it, a T5 fills its blanks (___) or answers it.

        Options are those of `crosstalk generate`: max_length, temperature, top_k, top_p, seed, beams, length_penalty,
        length_normalisation, early_stopping. on_text(piece, by_the_model) is called for each piece as soon as it is
        known; what is true of its results ends the text there."""
        raised = []

        @OnText
        def listen(_, piece, length, by_the_model):
            try:
                return bool(on_text(text_at(piece, length), bool(by_the_model)))
            except BaseException as error:  # continues after the library's call
                raised.append(error)
                return 1

        prompt, text, length = to_text(prompt), c_void_p(), c_size_t()
        status = status_of("model_generate", self, prompt, len(prompt), to_json(options),
                           listen if on_text is not None else OnText(), None, byref(text), byref(length))
        if raised:
            raise raised[0]
        if status != _errors.STOPPED:
            check(status)
        return text_at(text.value, length.value)

    def search(self, input_ids, attention_mask=None, **options):
        """The answers to input_ids[b, n], for each row a list of {"ids", "score"}, best first. Options as of generate, and
        answers and batch; by default the likeliest token each time, up to 128."""
        text = c_void_p()
        inputs = Tensors({"input_ids": input_ids, "attention_mask": attention_mask})
        call("model_search", self, inputs, to_json(options), byref(text))
        return json.loads(text_at(text.value))

    def embed(self, texts, **options):
        """The vectors [texts, d_model] of a list of texts: the last states of what reads them, pooled. Options: pooling
        ("mean", "cls", "last", "max"), normalize, max_length (tokens read of a text), batch; by default as the model's
        folder says (modules.json), else the mean. A vector's bits do not depend on the other texts."""
        texts, vectors = [to_text(text) for text in ([texts] if isinstance(texts, (str, bytes)) else texts)], c_void_p()
        call("model_embed", self, (c_char_p * len(texts))(*texts), (c_size_t * len(texts))(*map(len, texts)), len(texts),
             to_json(options), byref(vectors))
        return Tensor._of(vectors.value).numpy()

    def encode(self, text):
        """The ids int32[n] of a text, without an end token."""
        text, ids = to_text(text), c_void_p()
        call("model_encode", self, text, len(text), byref(ids))
        return Tensor._of(ids.value).numpy()

    def decode(self, ids):
        """The text of ids[n], int32 or int64."""
        text, length = c_void_p(), c_size_t()
        call("model_decode", self, Tensor(ids), byref(text), byref(length))
        return text_at(text.value, length.value)
