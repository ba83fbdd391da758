"""Arrays as the library sees them, and back, without copies."""

import ctypes
import itertools
from collections.abc import Mapping, MutableMapping
from ctypes import byref, c_int64, c_size_t, c_void_p

import numpy

from ._errors import UsageError
from ._library import Array, Handle, Release, call, text_at

_DTYPES = [numpy.dtype(name) for name in ("float32", "float64", "int32", "int64", "bool")]  # by ct_dtype
_UNVERSIONED, _VERSIONED = 0, 1                                                             # ct_dlpack
_CAPSULES = {_UNVERSIONED: (b"dltensor", b"used_dltensor"), _VERSIONED: (b"dltensor_versioned",
                                                                         b"used_dltensor_versioned")}
_CPU = (1, 0)

_kept = {}  # arrays whose memory the library refers to
_numbers = itertools.count(1)


@Release
def _release(number, kept=_kept):
    kept.pop(number, None)


class Tensor(Handle):
    """Elements in memory that the library and Python share. An array, or anything that has DLPack:

        Tensor(array)              # over the array's memory, which stays as long as the library needs it
        tensor.numpy()             # an array over the tensor's memory
        torch.from_dlpack(tensor)

    Types are float32, float64, int32, int64 and bool. Strides may have gaps; an array whose strides go backwards or that
    is not aligned is copied. The library never writes into an array that is given to it.
    """

    def __init__(self, values):
        if isinstance(values, numpy.ndarray) or not hasattr(values, "__dlpack__"):
            super().__init__(_wrap(numpy.asarray(values)))
        else:
            super().__init__(_from_dlpack(values))

    @classmethod
    def _of(cls, handle):
        tensor = cls.__new__(cls)
        Handle.__init__(tensor, handle)
        return tensor

    def _array(self):
        array = Array()
        call("tensor_array", self, byref(array))
        return array

    def _describe(self):
        names = [*map(str, _DTYPES), "bfloat16"]
        return f"{names[self._array().dtype]}{list(self.shape)}"

    @property
    def shape(self):
        array = self._array()
        return tuple(array.shape[i] for i in range(array.rank))

    @property
    def __array_interface__(self):
        array = self._array()
        if array.dtype >= len(_DTYPES):
            raise UsageError("numpy has no type for bfloat16")
        dtype = _DTYPES[array.dtype]
        return {"version": 3, "typestr": dtype.str, "data": (array.data or 0, bool(array.read_only)),
                "shape": tuple(array.shape[i] for i in range(array.rank)),
                "strides": tuple(array.strides[i] * dtype.itemsize for i in range(array.rank))}

    def numpy(self):
        """An array over the same memory, which it keeps."""
        return numpy.asarray(self)

    def __dlpack_device__(self):
        return _CPU

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule of DLPack, versioned for those that ask for version 1 or later. Never a copy."""
        if stream is not None or copy or (dl_device is not None and tuple(dl_device) != _CPU):
            raise BufferError("the elements are a CPU's, without a stream, and are not copied")
        form = _VERSIONED if max_version is not None and max_version[0] >= 1 else _UNVERSIONED
        managed = c_void_p()
        call("tensor_to_dlpack", self, form, byref(managed))
        return _new_capsule(managed, _CAPSULES[form][0], _drop)


def _wrap(array):
    if array.dtype not in _DTYPES:
        near = {"f": "float32", "i": "int64", "u": "int64"}.get(array.dtype.kind)
        raise UsageError(f"an array of {array.dtype}: there are {', '.join(map(str, _DTYPES))}" +
                         (f"; array.astype(\"{near}\") is one" if near else ""))
    size = array.itemsize
    if not array.flags.aligned or any(stride < 0 or stride % size for stride in array.strides):
        array = array.copy()
    shape = (c_int64 * max(array.ndim, 1))(*array.shape)
    strides = (c_int64 * max(array.ndim, 1))(*(stride // size for stride in array.strides))
    described = Array(array.ctypes.data, _DTYPES.index(array.dtype), array.ndim, shape, strides,
                      not array.flags.writeable)
    number, handle = next(_numbers), c_void_p()
    _kept[number] = array
    try:
        call("tensor_wrap", byref(described), _release, number, byref(handle))
    except BaseException:
        del _kept[number]
        raise
    return handle.value


# ---- Capsules of DLPack ----------------------------------------------------------------------------------------------
# An object that is being deallocated has no references to take, so that the destructor has its address instead.
_api = ctypes.pythonapi
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, ctypes.c_char_p, _Destructor)(("PyCapsule_New", _api))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(("PyCapsule_SetName", _api))


@_Destructor
def _drop(capsule):
    """Of a capsule that nobody took: the library takes it back, and frees it."""
    for form, (name, _) in _CAPSULES.items():
        if _is_valid(capsule, name):
            handle = c_void_p()
            call("tensor_from_dlpack", _pointer_of(capsule, name), form, byref(handle))
            call("free", handle)


def _from_dlpack(values):
    try:
        capsule = values.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before versions
        capsule = values.__dlpack__()
    address = id(capsule)
    for form, (name, used) in _CAPSULES.items():
        if _is_valid(address, name):
            handle = c_void_p()
            call("tensor_from_dlpack", _pointer_of(address, name), form, byref(handle))
            _set_name(address, used)
            return handle.value
    raise UsageError(f"what {type(values).__name__}.__dlpack__ gives is no capsule of DLPack")


# ---- Lists by name ---------------------------------------------------------------------------------------------------
class Tensors(Handle):
    """Tensors by name: what calls take, of those that are not None, and give."""

    def __init__(self, named):
        if not isinstance(named, Mapping):
            raise UsageError(f"arrays by name are wanted, a dictionary; this is {type(named).__name__}")
        handle = c_void_p()
        call("tensors_create", byref(handle))
        super().__init__(handle.value)
        for name, values in named.items():
            if values is None:
                continue
            tensor = values if isinstance(values, Tensor) else Tensor(values)
            call("tensors_add", self, str(name).encode(), tensor)


def take_arrays(handle):
    """The arrays of a list by their names; gives the list back."""
    arrays, size = {}, c_size_t()
    try:
        call("tensors_size", handle, byref(size))
        for index in range(size.value):
            name, tensor = c_void_p(), c_void_p()
            call("tensors_at", handle, index, byref(name), byref(tensor))
            arrays[text_at(name.value)] = Tensor._of(tensor.value).numpy()
    finally:
        call("free", handle)
    return arrays


class Parameters(dict):
    """Arrays by name over an object's own memory. An assignment writes there; the names are fixed."""

    @classmethod
    def of(cls, handle):
        """Those of a layer or a model."""
        parameters = c_void_p()
        call("parameters", handle, byref(parameters))
        return cls(take_arrays(parameters.value))

    def __setitem__(self, name, values):
        if name not in self:
            names = ", ".join(itertools.islice(self, 12)) + (", …" if len(self) > 12 else "")
            raise UsageError(f"there is no parameter {name!r}; there are {names}")
        mine, values = self[name], numpy.asarray(values)
        if (values.dtype, values.shape) != (mine.dtype, mine.shape):
            cast = f"; values.astype(\"{mine.dtype}\") fits" if values.shape == mine.shape else ""
            raise UsageError(f"{name}: is {mine.dtype}{list(mine.shape)}, and cannot be set to "
                             f"{values.dtype}{list(values.shape)}{cast}", name)
        mine[...] = values

    update = MutableMapping.update
    setdefault = MutableMapping.setdefault

    def __ior__(self, other):
        self.update(other)
        return self

    def __delitem__(self, *_):
        raise TypeError("the names of parameters are fixed")

    pop = popitem = clear = __delitem__

    def __reduce__(self):  # a copy is of the arrays alone
        return dict, (dict(self),)
