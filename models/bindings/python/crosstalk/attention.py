"""The attention layer: multi-head, talking-heads and the rest of the family, in one class."""

from ctypes import byref, c_void_p

from ._library import Handle, call, json_of, to_json
from .passes import run
from .tensor import Parameters, Tensor, Tensors, take_arrays


class Attention(Handle):
    """A layer with its parameters.

        Attention(d_model=512, attention="talking", heads=8)
        Attention(d_model=512, attention="dynamic", heads=8, causality="causal", seed=2, dtype="float64")
        Attention(d_X=512, d_M=256, d_Y=512, h_k=8, h=8, h_v=8, d_k=64, d_v=64, mixing=["P_l", "P_w"])

    Options are the members of docs/family.md. In short d_model and the options of `crosstalk train` that say what
    attention is make them, and members that these do not say may stand beside them.
    """

    def __init__(self, **options):
        handle = c_void_p()
        call("attention_create", to_json(options), byref(handle))
        super().__init__(handle.value)

    @property
    def description(self):
        """What the layer is: {"description", "dtype", "implementation", "parameters", "configuration"}. Such a
        configuration makes another: Attention(**layer.description["configuration"])."""
        return json_of("describe", self)

    @property
    def parameters(self):
        """The parameters by name: P_q[d_X, h_k, d_k], P_k[d_M, g_k, d_k], P_v[d_M, g_v, d_v], P_o[h_v, d_v, d_Y],
        P_l[h_k, h], P_w[h, h_v], …. The arrays are the layer's own memory: the next computation uses what is
        written there, parameters["P_l"] = array too."""
        return Parameters.of(self)

    def forward(self, X, M=None, *, key_padding_mask=None, attention_mask=None, bias=None, weights=False,
                training=False, seed=1, step=0, record=True):
        """X[b, n, d_X], M[b, m, d_M] (None: X) → a Pass with Y[b, n, d_Y] and, with weights, W[b, n, m, h].

        key_padding_mask bool[b, m], attention_mask bool[b, n, m]: True = attend. bias[h, n, m] is added to the logits.
        training drops what dropout_rate says, by the numbers of (seed, step). Of the pass, backward("Y", dY) gives the
        gradients of X, M, bias and each parameter; X and M must not change until then."""
        inputs = Tensors({"X": X, "M": M, "key_padding_mask": key_padding_mask, "attention_mask": attention_mask,
                          "bias": bias})
        options = to_json({"weights": weights, "training": training, "seed": seed, "step": step})
        return run("attention_forward", self, inputs, options, record)

    def __call__(self, X, M=None, **arguments):
        """The same without gradients: Y[b, n, d_Y], or with weights=True (Y, W)."""
        outputs = self.forward(X, M, record=False, **arguments).outputs
        return (outputs["Y"], outputs["W"]) if "W" in outputs else outputs["Y"]

    def decode(self, memory=None):
        """A Cache to compute position by position: of self-attention, or over memory[b, m, d_M]."""
        given = None if memory is None else memory if isinstance(memory, Tensor) else Tensor(memory)
        cache = c_void_p()
        call("attention_begin", self, given, byref(cache))
        return Cache(self, cache.value)


class Cache(Handle):
    """What a layer keeps of the positions that it has read."""

    def __init__(self, layer, handle):
        super().__init__(handle)
        self._layer = layer

    def step(self, X, *, key_padding_mask=None, attention_mask=None, bias=None):
        """The next position X[b, 1, d_X] (into an empty cache the first n; over a memory any n) → Y[b, n, d_Y]. Masks and
        bias cover the whole cache."""
        inputs = Tensors({"X": X, "key_padding_mask": key_padding_mask, "attention_mask": attention_mask, "bias": bias})
        outputs = c_void_p()
        call("attention_step", self._layer, self, inputs, byref(outputs))
        return take_arrays(outputs.value)["Y"]
