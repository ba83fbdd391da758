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


class LibraryTest(unittest.TestCase):
    def test_the_package_has_the_version_of_the_headers(self):
        header = (pathlib.Path(os.environ["CROSSTALK_SOURCE"]) / "runtime/version.h").read_text()
        self.assertEqual(crosstalk.__version__, ".".join(re.findall(r"#define CROSSTALK_VERSION_\w+ (\d+)", header)))

    def test_a_library_that_is_not_there_is_named(self):
        self.assertIn("ImportError: crosstalk: there is no shared library at /no/where.so",
                      imported(CROSSTALK_LIBRARY="/no/where.so"))

    def test_a_library_of_another_version_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for version, api, says in (("0.0.9", 1, "is version 0.0.9"), (crosstalk.__version__, 0, "is version"),
                                       (None, 0, "without a C interface")):
                library = folder + f"/lib{version}{api}.so"
                source = "int ct_another;" if version is None else (
                    f'static int table; const char* ct_version(void) {{ return "{version}"; }}\n'
                    f"const void* ct_get_api(unsigned v) {{ return v <= {api} ? &table : 0; }}")
                subprocess.run(["gcc", "-x", "c", "-", "-shared", "-fPIC", "-o", library], input=source, text=True,
                               check=True)
                self.assertIn(says, imported(CROSSTALK_LIBRARY=library))
                self.assertIn(f"this package is for {crosstalk.__version__}", imported(CROSSTALK_LIBRARY=library))


if __name__ == "__main__":
    unittest.main()
