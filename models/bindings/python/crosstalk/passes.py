"""A forward pass, of a layer or a model, that gradients can be taken of."""

from ctypes import byref, c_void_p

from ._library import Handle, call
from .tensor import Tensor, take_arrays


class Pass(Handle):
    """What was computed, by name as a dictionary is read (`forward["Y"]`), until its gradients are taken."""

    def __init__(self, outputs, handle):
        super().__init__(handle)
        self.outputs = outputs

    def __getitem__(self, name):
        return self.outputs[name]

    def __float__(self):
        """The loss, of a pass that has one."""
        return float(self.outputs["loss"])

    def backward(self, output="loss", seed=None):
        """d loss / d each input and parameter that `output` depends on, by their names. `seed` is d loss / d output, in
        its shape and type; None: the output is the loss. Once for a pass."""
        given = None if seed is None else seed if isinstance(seed, Tensor) else Tensor(seed)
        gradients = c_void_p()
        call("backward", self, output.encode(), given, byref(gradients))
        return take_arrays(gradients.value)


def run(name, handle, inputs, options, record):
    """ct_NAME(handle, inputs, options, …): a Pass, which without `record` has no gradients."""
    outputs, made = c_void_p(), c_void_p()
    call(name, handle, inputs, options, byref(outputs), byref(made) if record else None)
    try:
        return Pass(take_arrays(outputs.value), made.value)
    except BaseException:
        if made.value is not None:
            call("free", made.value)
        raise
