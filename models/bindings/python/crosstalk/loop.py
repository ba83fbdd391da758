"""What a training loop of one's own is made of: data sets, batches and optimizers."""

import itertools
import json
import os
import warnings
from ctypes import byref, c_int64, c_void_p

from ._library import Handle, call, json_of, text_at, to_json, whole_number
from .tensor import Tensor, Tensors, take_arrays


class Dataset(Handle):
    """What a model learns, as its tokenizer reads it; a twentieth is held out.

        Dataset(model)                                # what it was made with
        Dataset(model, "novels/")                     # a file or a folder, as the option `data`
        Dataset(model, ["A first text.", "Another"])  # texts
        Dataset(model, ids)                           # int32 or int64[n]: one text, tokenised
        Dataset(model, task="sst-2", task_data="glue/")
    """

    def __init__(self, model, source=None, **options):
        ids = None
        if isinstance(source, (str, os.PathLike)):
            options["data"] = source
        elif isinstance(source, (list, tuple)) and source and all(isinstance(text, str) for text in source):
            ids = Tensor(model.encode("\n\n".join(source)))
        elif source is not None:
            ids = source if isinstance(source, Tensor) else Tensor(source)
        handle = c_void_p()
        call("dataset_create", model, ids, to_json(options), byref(handle))
        super().__init__(handle.value)
        for remark in json_of("describe", self)["remarks"]:
            warnings.warn(remark, stacklevel=2)

    @property
    def description(self):
        """What is read, for people."""
        return json_of("describe", self)["description"]


class Batches(Handle):
    """Batches of a data set: dictionaries of arrays, which Model.loss takes.

        Batches(dataset, batch=16, seed=2)             # of training, in an order of the seed, without end
        Batches(dataset, part="held-out", batch=16)    # each once

    Options are those of `crosstalk train` that say what an example is (input_length, noise_density, …). batches[i] is
    always the same batch, and `size` how many there are in one pass over the text; 0: it has no end.
    """

    def __init__(self, dataset, *, part="training", **options):
        self._part, handle = part, c_void_p()
        call("batches_create", dataset, to_json({"part": part, **options}), byref(handle))
        super().__init__(handle.value)

    @property
    def size(self):
        size = c_int64()
        call("batches_size", self, byref(size))
        return size.value

    def __getitem__(self, index):
        batch = c_void_p()
        call("batches_at", self, whole_number("index", index, bits=64), byref(batch))
        return take_arrays(batch.value)

    def __iter__(self):
        return map(self.__getitem__, itertools.count() if self._part == "training" else range(self.size))


class Optimizer(Handle):
    """AdamW, Adafactor or LAMB for the parameters of a layer or a model, with a schedule and clipping.

        Optimizer(model, optimizer="adamw", learning_rate=3e-3, schedule="cosine", steps=500, clip=1)

    Options are those of `crosstalk train`.
    """

    def __init__(self, owner, **options):
        handle = c_void_p()
        call("optimizer_create", owner, to_json(options), byref(handle))
        super().__init__(handle.value)

    def step(self, gradients, *, learning_rate=None):
        """One update by gradients as backward() gives them, at the schedule's rate or learning_rate → {"step",
        "learning_rate", "gradient_norm"}. Parameters without a gradient stay as they are, and gradients of a layer's inputs
        are passed over. A gradient that is not finite is a NumericalError that names it, and changes nothing."""
        text = c_void_p()
        call("optimizer_step", self, Tensors(gradients), to_json({"learning_rate": learning_rate}), byref(text))
        return json.loads(text_at(text.value))

    @property
    def description(self):
        """{"step", "configuration"}: updates made, and the options with their defaults."""
        return json_of("describe", self)

    @property
    def state(self):
        """Arrays by name: over the optimizer's memory, and "step". numpy.savez(path, **optimizer.state) keeps them."""
        state = c_void_p()
        call("optimizer_state", self, byref(state))
        return take_arrays(state.value)

    def load(self, state):
        """Takes over such a state of the same parameters: load(numpy.load(path))."""
        call("optimizer_load", self, Tensors(state))
