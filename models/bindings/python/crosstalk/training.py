"""Training runs, driven from a loop in Python."""

import json
import os
from ctypes import byref, c_int, c_void_p

from ._library import Handle, Observer, OnMessage, Stop, call, check, json_of, status_of, to_json
from .model import Model


class Training(Handle):
    """A run in a folder, as `crosstalk train` makes it, to the same bits.

        with Training("runs/novels", data="novels/", steps=2000, d_model=256, heads=8) as training:
            for metrics in training:
                print(metrics["step"], metrics["loss"])

    Options are those of `crosstalk train`; a `resume` of "if-any" (or "auto") goes on with the folder's run where it
    holds one, and then what is not given is as in that. on_message(sentence) and on_evaluation(metrics) are told what
    happens; a stop() that gives a true value ends the run with a checkpoint, and raises Stopped. A `with` saves the
    steps done when it is left, by Ctrl-C too; without one, what was not saved is lost.
    """

    def __init__(self, folder, *, resume="none", on_message=None, on_evaluation=None, stop=None, **options):
        self._raised = []
        self._observer = self._observe(on_message, on_evaluation, stop)  # its functions live as long as the run
        handle = c_void_p()
        status = status_of("training_open", os.fsencode(folder), to_json(options), os.fsencode(resume),
                           byref(self._observer), byref(handle))
        super().__init__(handle.value)
        self._end(status)

    def _observe(self, on_message, on_evaluation, stop):
        def guarded(function):
            def guard(*arguments):
                try:
                    return function(*arguments)
                except BaseException as error:  # continues after the library's call, which it ends
                    self._raised.append(error)
                    return 1
            return guard

        tell = guarded(lambda _, text: on_message(text.decode(errors="replace")))
        evaluated = guarded(lambda _, text: on_evaluation(json.loads(text)))
        ask = guarded(lambda _: bool(self._raised) or (stop is not None and bool(stop())))
        return Observer(None, OnMessage(lambda *a: (tell(*a), None)[1]) if on_message else OnMessage(),
                        OnMessage(lambda *a: (evaluated(*a), None)[1]) if on_evaluation else OnMessage(), Stop(ask))

    def _end(self, status):
        """Raises what a callback raised, or else the exception of the status."""
        if self._raised:
            raise self._raised.pop(0)
        check(status)

    def step(self):
        """The next step, with the evaluation and the checkpoint that are due after it. False where all are done: the run
        is then at its end, and model.safetensors written."""
        more = c_int()
        self._end(status_of("training_step", self, byref(more)))
        return more.value != 0

    def __iter__(self):
        """The metrics of each step that is left."""
        while self.step():
            yield self.metrics

    @property
    def metrics(self):
        """Of the last step: {"step", "loss", …, "tokens_per_second", "evaluation"}, the run's last evaluation."""
        return json_of("training_metrics", self)

    @property
    def description(self):
        """What the run is: {"description", "folder", "step", "parameters", "data", "configuration"}."""
        return json_of("describe", self)

    def save(self):
        """A checkpoint of the steps done, if there is none yet or the parameters were written to since."""
        call("training_save", self)

    def __exit__(self, *raised):
        try:
            self.save()
        finally:
            super().__exit__(*raised)

    @property
    def model(self):
        """The Model as it is, whose parameters each step changes. It keeps the run."""
        model = c_void_p()
        call("training_model", self, byref(model))
        return Model._of(model.value)
