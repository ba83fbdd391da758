"""Crosstalk's attention as a module of PyTorch's, on a CPU.

    from crosstalk.torch import TalkingHeadsAttention
    attend = TalkingHeadsAttention(512, heads=8, causality="causal")
    Y = attend(X)                                                      # X[b, n, 512] → Y[b, n, 512]
"""

import torch

from ._errors import UsageError
from .attention import Attention

_DTYPES = {torch.float32: "float32", torch.float64: "float64"}


def _name(dtype):
    return str(dtype).removeprefix("torch.")


class _Attend(torch.autograd.Function):
    """What a layer is called with, the names of tensors and these, its parameters among them → Y[b, n, d_Y]."""

    @staticmethod
    def _compute(layer, call, names, tensors):
        inputs = {name: tensor for name, tensor in zip(names, tensors) if name in ("X", "M", "bias")}
        return layer.forward(**{name: tensor.detach() for name, tensor in inputs.items()}, **call)

    @staticmethod
    def forward(ctx, layer, call, names, *tensors):
        # The parameters are where the layer computes from; autograd asks for them as arguments.
        ctx.layer, ctx.call, ctx.names = layer, call, names
        ctx.save_for_backward(*tensors)
        ctx.forward = _Attend._compute(layer, call, names, tensors)
        return torch.from_dlpack(ctx.forward["Y"])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dY):
        tensors = ctx.saved_tensors  # an error of PyTorch's if one was written to since
        # A pass gives its gradients once: a graph that is kept for more of them computes it again.
        forward = ctx.forward or _Attend._compute(ctx.layer, ctx.call, ctx.names, tensors)
        ctx.forward = None
        gradients = forward.backward("Y", dY.detach().contiguous())
        return (None, None, None, *(torch.from_dlpack(gradients[name]) for name in ctx.names))


class TalkingHeadsAttention(torch.nn.Module):
    """X[b, n, d_model], M[b, m, d_model] (None: X) → Y[b, n, d_model], by the fused kernel.

    Options are those of crosstalk.Attention, which has other kinds too (attention="dynamic"). Parameters are float32 or
    float64, by default PyTorch's; their first values follow torch.manual_seed.

    PyTorch's parameters are the layer's own memory. Where something has given them other memory or another type
    (.double(), p.data = …, load_state_dict(assign=True), a copy), the next call goes on from what they are then.
    """

    def __init__(self, d_model, heads, *, attention="talking", seed=None, dtype=None, **options):
        super().__init__()
        seed = int(torch.randint(2**62, ())) if seed is None else seed
        self.options = {"d_model": d_model, "heads": heads, "attention": attention, "seed": seed, **options}
        self._layer, self._memory = self._new(_name(dtype or torch.get_default_dtype()))
        self._drops = self._layer.description["configuration"].get("dropout_rate", 0) > 0
        for name, tensor in self._memory.items():
            self.register_parameter(name, torch.nn.Parameter(tensor))
        self._names = list(self._memory)

    def _new(self, dtype):
        layer = Attention(**self.options, dtype=dtype)
        return layer, {name: torch.from_dlpack(array) for name, array in layer.parameters.items()}

    def __getstate__(self):  # copies and files have PyTorch's parameters, and make a layer of these when they are called
        return {**self.__dict__, "_layer": None, "_memory": None}

    def extra_repr(self):
        return ", ".join(f"{key}={value!r}" for key, value in self.options.items())

    def _current(self, parameters):
        """The layer over these parameters. One that a pass has computed with keeps its values: what is not over the same
        memory any more gets a new layer."""
        first = self._names[0]
        for name, parameter in parameters.items():
            if parameter.device.type != "cpu" or parameter.dtype not in _DTYPES:
                raise UsageError(f"{name}: is {_name(parameter.dtype)} on {parameter.device}, and the layer computes in "
                                 "float32 or float64 on a CPU: .to(\"cpu\", torch.float32)", name)
            if parameter.dtype != parameters[first].dtype:
                raise UsageError(f"{name}: is {_name(parameter.dtype)}, and {first} {_name(parameters[first].dtype)}", name)

        def place(tensor):
            return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()

        memory = self._memory
        if memory is not None and all(place(parameters[name]) == place(memory[name]) for name in self._names):
            return self._layer
        layer, memory = self._new(_name(parameters[first].dtype))
        for name, parameter in parameters.items():
            if parameter.shape != memory[name].shape:
                raise UsageError(f"{name}: has shape {list(parameter.shape)}, and must have "
                                 f"{list(memory[name].shape)}", name)
            memory[name].copy_(parameter.detach())
        # What is computed from others (parametrizations, functional_call) or shared by processes keeps its own memory.
        if all(isinstance(one, torch.nn.Parameter) and not one.is_shared() for one in parameters.values()):
            for name, parameter in parameters.items():
                parameter.data = memory[name]
            self._layer, self._memory = layer, memory
        return layer

    def forward(self, X, M=None, *, key_padding_mask=None, attention_mask=None, bias=None):
        """Masks bool[b, m] and bool[b, n, m]: True = attend. bias[h, n, m] is added to the logits."""
        parameters = {name: getattr(self, name) for name in self._names}
        layer = self._current(parameters)
        tensors = {name: one for name, one in (("X", X), ("M", M), ("bias", bias)) if one is not None}
        dtype = parameters[self._names[0]].dtype
        for name, tensor in tensors.items():
            if tensor.dtype != dtype:
                raise UsageError(f"{name}: is {_name(tensor.dtype)}, and the parameters are {_name(dtype)}: "
                                 f"{name}.to(torch.{_name(dtype)})", name)
        tensors.update(parameters)
        call = {"key_padding_mask": key_padding_mask, "attention_mask": attention_mask}
        call["record"] = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors.values())
        if self._drops and self.training:
            call.update(training=True, seed=int(torch.randint(2**62, ())))
        return _Attend.apply(layer, call, tuple(tensors), *tensors.values())
