"""Crosstalk in Python: attention layers, models and training runs on numpy arrays.

    import crosstalk, numpy
    layer = crosstalk.Attention(d_model=32, heads=4, attention="talking", causality="causal")
    X = numpy.random.default_rng(1).standard_normal((2, 5, 32), dtype=numpy.float32)   # X[b, n, d_X]
    forward = layer.forward(X)
    gradients = forward.backward("Y", forward["Y"])                                    # {"X": …, "P_q": …, …}

Arrays go in and come out without copies. docs/embedding_python.md is the guide.
"""

from ._errors import DataError, Error, NumericalError, ResourceError, Stopped, UsageError
from ._library import __version__, set_threads, threads
from .attention import Attention, Cache
from .loop import Batches, Dataset, Optimizer
from .model import Model
from .passes import Pass
from .tensor import Tensor
from .training import Training

__all__ = ["Attention", "Batches", "Cache", "DataError", "Dataset", "Error", "Model", "NumericalError", "Optimizer", "Pass",
           "ResourceError", "Stopped", "Tensor", "Training", "UsageError", "__version__", "set_threads", "threads"]
