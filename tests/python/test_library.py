"""Which shared library the package loads, and which it refuses."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import crosstalk

PACKAGE = pathlib.Path(crosstalk.__file__).parents[1]


def imported(**environment):
    """What `import crosstalk` says in another process."""
    done = subprocess.run([sys.executable, "-c", "import crosstalk; print(crosstalk.__version__)"],
                          env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment}, capture_output=True, text=True)
    return done.stdout + done.stderr


def compile_library(path, source, *arguments):
    subprocess.run(["gcc", "-x", "c", "-", "-shared", "-fPIC", "-o", path, "-x", "none", *arguments], input=source,
                   text=True, check=True)


class LibraryTest(unittest.TestCase):
    def test_the_package_has_the_version_of_the_headers(self):
        header = (pathlib.Path(os.environ["CROSSTALK_SOURCE"]) / "runtime/version.h").read_text()
        self.assertEqual(crosstalk.__version__, ".".join(re.findall(r"#define CROSSTALK_VERSION_\w+ (\d+)", header)))

    def test_a_library_that_is_not_there_is_named(self):
        self.assertIn("ImportError: crosstalk: there is no shared library at /no/where.so",
                      imported(CROSSTALK_LIBRARY="/no/where.so"))

    def test_a_library_of_another_version_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for version, api, says in (("0.0.9", 1, "is version 0.0.9"), (crosstalk.__version__, 0, "is version")):
                library = folder + f"/lib{version}{api}.so"
                compile_library(library,
                                f'static int table; const char* ct_version(void) {{ return "{version}"; }}\n'
                                f"const void* ct_get_api(unsigned v) {{ return v <= {api} ? &table : 0; }}")
                self.assertIn(says, imported(CROSSTALK_LIBRARY=library))
                self.assertIn(f"this package is for {crosstalk.__version__}", imported(CROSSTALK_LIBRARY=library))

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


if __name__ == "__main__":
    unittest.main()
