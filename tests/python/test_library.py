"""Which shared library the package loads, and which it refuses."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import crosstalk
from crosstalk import _library

PACKAGE = pathlib.Path(crosstalk.__file__).parents[1]


def imported(**environment):
    """What `import crosstalk` says in another process."""
    done = subprocess.run([sys.executable, "-c", "import crosstalk; print(crosstalk.__version__)"],
                          env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment}, capture_output=True, text=True)
    return done.stdout + done.stderr


def header_text(path):
    """A header of the library's, without its comments, each run of spaces one."""
    text = (pathlib.Path(os.environ["CROSSTALK_SOURCE"]) / path).read_text()
    return re.sub(r"[ \t]+|\n +", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


def argument_type(parameter, next_parameter):
    """How ctypes passes "const ct_tensors* inputs"; a text that ends at its first 0 unless a length follows."""
    if "(*release)" in parameter:
        return _library.Release
    kind = parameter.rsplit(" ", 1)[0].removeprefix("const ")
    if kind == "char*":
        return ctypes.c_char_p if next_parameter == "size_t length" else _library._Ended
    known = {"int": ctypes.c_int, "size_t": ctypes.c_size_t, "int64_t": ctypes.c_int64,
             "int64_t*": ctypes.POINTER(ctypes.c_int64), "ct_dlpack": ctypes.c_int, "ct_on_text": _library.OnText,
             "char* const*": ctypes.POINTER(ctypes.c_char_p),
             "int*": ctypes.POINTER(ctypes.c_int), "size_t*": ctypes.POINTER(ctypes.c_size_t),
             "ct_array*": ctypes.POINTER(_library.Array), "ct_observer*": ctypes.POINTER(_library.Observer)}
    # Handles, texts that come out, and the caller's context.
    return known.get(kind) or {1: ctypes.c_void_p, 2: ctypes.POINTER(ctypes.c_void_p)}[kind.count("*")]


def compile_library(path, source, *arguments):
    subprocess.run(["gcc", "-x", "c", "-", "-shared", "-fPIC", "-o", path, "-x", "none", *arguments], input=source,
                   text=True, check=True)


class LibraryTest(unittest.TestCase):
    def test_in_the_source_tree_it_looks_for_the_librarys_build_there(self):
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("CROSSTALK_LIBRARY", None)
            (path,) = _library._candidates()
        self.assertEqual(path, pathlib.Path(os.environ["CROSSTALK_SOURCE"]).resolve() / "build/lib/libcrosstalk.so")

    def test_the_package_has_the_version_of_the_headers(self):
        numbers = re.findall(r"#define CROSSTALK_VERSION_\w+ (\d+)", header_text("runtime/version.h"))
        self.assertEqual(crosstalk.__version__, ".".join(numbers))

    def test_the_signatures_are_those_of_the_header(self):
        text = header_text("models/bindings/c/crosstalk.h")
        prototypes = dict(re.findall(r"CT_API ct_status ct_(\w+)\(([^;]*)\);", text))
        for name, arguments in _library._SIGNATURES.items():
            parameters = re.split(r", (?![^()]*\))", prototypes.pop(name))
            expected = [argument_type(*pair) for pair in zip(parameters, parameters[1:] + [""])]
            self.assertEqual(arguments, expected, f"ct_{name}")
        self.assertEqual(sorted(prototypes), ["last_status", "tensor_create", "tensors_find"])
        for struct in (_library.Array, _library.Observer):
            members = re.search(rf"typedef struct ct_{struct.__name__.lower()} {{(.*?)\n}}", text, re.DOTALL)[1]
            names = re.findall(r"(\w+)\)?(?:\([^()]*\))?;", members)
            self.assertEqual([name for name, _ in struct._fields_], names, struct.__name__)

    def test_a_library_that_is_not_there_is_named(self):
        self.assertIn("ImportError: crosstalk: there is no shared library at /no/where.so",
                      imported(CROSSTALK_LIBRARY="/no/where.so"))

    def test_a_library_of_another_version_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            library = folder + "/other.so"
            compile_library(library, 'const char* ct_version(void) { return "0.0.9"; }')
            self.assertIn(f"is version 0.0.9, and this package is for {crosstalk.__version__}",
                          imported(CROSSTALK_LIBRARY=library))

    def test_what_is_no_library_of_crosstalks_is_an_import_error(self):
        with tempfile.TemporaryDirectory() as folder:
            other, text, needy = (f"{folder}/{name}.so" for name in ("other", "text", "needy"))
            compile_library(other, "int another;")
            pathlib.Path(text).write_text("text")
            compile_library(needy, "extern int another; int needs(void) { return another; }", other)
            says = {other: "undefined symbol: ct_version", text: "file too short", needy: "other.so"}
            for library in (other, text):
                self.assertIn(f"ImportError: crosstalk: {library} cannot be used: ", imported(CROSSTALK_LIBRARY=library))
                self.assertIn(says[library], imported(CROSSTALK_LIBRARY=library))
            os.remove(other)
            self.assertIn(f"ImportError: crosstalk: {needy} cannot be used: ", imported(CROSSTALK_LIBRARY=needy))
            self.assertIn(says[needy], imported(CROSSTALK_LIBRARY=needy))
