"""The shared library: where it is, its functions by ctypes, and what every call of them has."""

import contextlib
import ctypes
import json
import math
import operator
import os
import pathlib
import sysconfig
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p

from . import _errors

__version__ = "0.2.0"
_LIBDIR = "lib"  # below the prefix; `make install` writes its LIBDIR here


class Array(ctypes.Structure):
    """struct ct_array."""

    _fields_ = [("data", c_void_p), ("dtype", c_int), ("rank", c_int32), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("read_only", c_int32)]


Release = ctypes.CFUNCTYPE(None, c_void_p)
OnText = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_int)
OnMessage = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)
Stop = ctypes.CFUNCTYPE(c_int, c_void_p)


class Observer(ctypes.Structure):
    """struct ct_observer."""

    _fields_ = [("context", c_void_p), ("message", OnMessage), ("evaluation", OnMessage), ("stop", Stop)]


class _Ended(c_char_p):
    """Bytes that end at their first 0; c_char_p are those whose length is the next argument."""


_TEXT = POINTER(c_void_p)  # not c_char_p, which would copy up to the first 0
_SIGNATURES = {
    "set_threads": [c_int],
    "threads": [POINTER(c_int)],
    "free": [c_void_p],
    "describe": [c_void_p, _TEXT],
    "parameters": [c_void_p, POINTER(c_void_p)],
    "tensor_wrap": [POINTER(Array), Release, c_void_p, POINTER(c_void_p)],
    "tensor_array": [c_void_p, POINTER(Array)],
    "tensor_from_dlpack": [c_void_p, c_int, POINTER(c_void_p)],
    "tensor_to_dlpack": [c_void_p, c_int, POINTER(c_void_p)],
    "tensors_create": [POINTER(c_void_p)],
    "tensors_add": [c_void_p, _Ended, c_void_p],
    "tensors_size": [c_void_p, POINTER(c_size_t)],
    "tensors_at": [c_void_p, c_size_t, _TEXT, POINTER(c_void_p)],
    "attention_create": [_Ended, POINTER(c_void_p)],
    "attention_forward": [c_void_p, c_void_p, _Ended, POINTER(c_void_p), POINTER(c_void_p)],
    "attention_begin": [c_void_p, c_void_p, POINTER(c_void_p)],
    "attention_step": [c_void_p, c_void_p, c_void_p, POINTER(c_void_p)],
    "backward": [c_void_p, _Ended, c_void_p, POINTER(c_void_p)],
    "model_open": [_Ended, _Ended, POINTER(c_void_p)],
    "model_create": [_Ended, POINTER(c_void_p)],
    "model_loss": [c_void_p, c_void_p, _Ended, POINTER(c_void_p), POINTER(c_void_p)],
    "model_save": [c_void_p, _Ended, c_void_p],
    "model_forward": [c_void_p, c_void_p, _Ended, POINTER(c_void_p), POINTER(c_void_p)],
    "model_generate": [c_void_p, c_char_p, c_size_t, _Ended, OnText, c_void_p, _TEXT, POINTER(c_size_t)],
    "model_search": [c_void_p, c_void_p, _Ended, _TEXT],
    "model_embed": [c_void_p, POINTER(c_char_p), POINTER(c_size_t), c_size_t, _Ended, POINTER(c_void_p)],
    "model_encode": [c_void_p, c_char_p, c_size_t, POINTER(c_void_p)],
    "model_decode": [c_void_p, c_void_p, _TEXT, POINTER(c_size_t)],
    "training_open": [_Ended, _Ended, _Ended, POINTER(Observer), POINTER(c_void_p)],
    "training_step": [c_void_p, POINTER(c_int)],
    "training_metrics": [c_void_p, _TEXT],
    "training_save": [c_void_p],
    "training_model": [c_void_p, POINTER(c_void_p)],
    "dataset_create": [c_void_p, c_void_p, _Ended, POINTER(c_void_p)],
    "batches_create": [c_void_p, _Ended, POINTER(c_void_p)],
    "batches_size": [c_void_p, POINTER(c_int64)],
    "batches_at": [c_void_p, c_int64, POINTER(c_void_p)],
    "optimizer_create": [c_void_p, _Ended, POINTER(c_void_p)],
    "optimizer_step": [c_void_p, c_void_p, _Ended, _TEXT],
    "optimizer_state": [c_void_p, POINTER(c_void_p)],
    "optimizer_load": [c_void_p, c_void_p],
}


def _candidates():
    """The library that CROSSTALK_LIBRARY names; else that of the wheel this package came with, of the prefix it is
    installed under, or of the source tree it stands in."""
    named = os.environ.get("CROSSTALK_LIBRARY")
    if named:
        return [pathlib.Path(named)]
    folder = pathlib.Path(__file__).resolve().parent
    bundled = folder / "lib" / "libcrosstalk.so"
    if bundled.exists():
        return [bundled]
    if folder.parent.name != "dist-packages":
        return [folder.parents[3] / "build" / "lib" / "libcrosstalk.so"]
    prefix, soname = folder.parents[3], "libcrosstalk.so." + ".".join(__version__.split(".")[:2])
    # Debian's package is one for all architectures.
    architecture = sysconfig.get_config_var("MULTIARCH") or ""
    return list(dict.fromkeys([prefix / _LIBDIR / soname, prefix / "lib" / architecture / soname]))


def _load():
    tried = _candidates()
    path = next((path for path in tried if path.exists()), None)
    if path is None:
        raise ImportError("crosstalk: there is no shared library at " + " or ".join(map(str, tried)) +
                          "; run `make build/lib/libcrosstalk.so`, or name one in CROSSTALK_LIBRARY")
    try:
        library = ctypes.CDLL(str(path))
        library.ct_version.restype = c_char_p
        version = library.ct_version().decode()
    except (OSError, AttributeError) as error:  # a library that it needs is missing; it has no C interface
        raise ImportError(f"crosstalk: {path} cannot be used: {error}") from None
    if version.split(".")[:2] != __version__.split(".")[:2]:
        raise ImportError(f"crosstalk: {path} is version {version}, and this package is for {__version__}")
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, "ct_" + name)
        function.restype, function.argtypes = c_int, arguments
    for name in ("last_error", "last_error_field"):
        getattr(library, "ct_" + name).restype = c_char_p
    return library


_loaded = _load()


def check(status):
    """Raises the exception of a status that is not CT_OK."""
    if status:
        message = _loaded.ct_last_error().decode(errors="replace")
        raise _errors.BY_STATUS[status](message, _loaded.ct_last_error_field().decode(errors="replace"))


def call(name, *arguments):
    """ct_NAME(arguments…), or the exception of its status."""
    check(status_of(name, *arguments))


def status_of(name, *arguments):
    """ct_NAME(arguments…) as it is. Objects are passed as their handles, and live until it returns."""
    for argument, kind in zip(arguments, _SIGNATURES[name]):
        if kind is _Ended and argument is not None and b"\0" in argument:
            raise _errors.UsageError(f"{argument.decode(errors='replace')!r} has a NUL character in it")
    passed = [argument.handle if isinstance(argument, Handle) else argument for argument in arguments]
    return getattr(_loaded, "ct_" + name)(*passed)


def text_at(pointer, length=None):
    """A text that the library gave: `length` bytes, or up to the first 0."""
    return (ctypes.string_at(pointer) if length is None else ctypes.string_at(pointer, length)).decode(errors="replace")


def to_text(text):
    """The bytes of a text as the library takes it."""
    if isinstance(text, str):
        return text.encode()
    if not isinstance(text, (bytes, bytearray)):
        raise TypeError(f"a text is a str or UTF-8 bytes, not {type(text).__name__}")
    return bytes(text)


def to_json(values):
    """The JSON text of options, as the library takes it; those that are None are not given."""
    def plain(value):  # paths, and numbers of numpy's
        return value.item() if hasattr(value, "item") else os.fspath(value)

    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise _errors.UsageError(f"{name}: {value} is not a finite number", name)
    return json.dumps({name: value for name, value in values.items() if value is not None}, default=plain).encode()


def json_of(name, handle):
    """What ct_NAME(handle, &text) gives, parsed."""
    text = c_void_p()
    call(name, handle, byref(text))
    return json.loads(text_at(text.value))


class Handle:
    """An object of the library's, given back when Python is done with it, or by close()."""

    def __init__(self, handle):
        self._handle = handle

    @property
    def handle(self):
        if self._handle is None:
            raise _errors.UsageError(f"this {type(self).__name__} was closed, or is of a call that recorded nothing")
        return self._handle

    def _describe(self):
        text = c_void_p()
        if status_of("describe", self, byref(text)):  # its kind has none
            return ""
        return json.loads(text_at(text.value)).get("description", "")

    def __repr__(self):
        name = f"crosstalk.{type(self).__name__}"
        if self._handle is None:
            return f"<{name}, closed>"
        described = self._describe()
        return f"<{name}: {described}>" if described else f"<{name}>"

    def close(self):
        """Gives the object back; nothing may be asked of it after that."""
        handle, self._handle = self._handle, None
        if handle is not None:
            call("free", handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        handle = getattr(self, "_handle", None)
        if handle is not None and _loaded is not None:
            self._handle = None
            _loaded.ct_free(handle)

    def __reduce__(self):
        raise TypeError(f"{type(self).__name__}: cannot be copied or pickled")


def whole_number(name, value, bits=32):
    """An int that C's type of so many bits holds: ctypes would cut it off."""
    try:
        number = operator.index(value)
    except TypeError:
        raise _errors.UsageError(f"{name}: is {value!r}, and must be a whole number", name) from None
    if not -2**(bits - 1) <= number < 2**(bits - 1):
        raise _errors.UsageError(f"{name}: {number} is too large", name)
    return number


def set_threads(threads):
    """The number of threads that the library computes with: by default the processors. Changes no bit."""
    call("set_threads", whole_number("threads", threads))


@contextlib.contextmanager
def threads(count):
    """with threads(2): the library computes with so many, and after it with as many as before."""
    before = c_int()
    call("threads", byref(before))
    set_threads(count)
    try:
        yield
    finally:
        set_threads(before.value)
