"""build_wheel.py LIBRARY VERSION FOLDER: a wheel of the package for Python, with LIBRARY in it, into FOLDER.

Beside the library stand the shared libraries that it needs, which its RPATH finds, with their licences; those of every
Linux (glibc, libstdc++, libgcc) are the system's. The tag is that of the glibc it was built with. The only date is that
of the last commit, so that the same tree gives the same bytes.
"""

import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import time
import zipfile

SYSTEMS_OWN = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libstdc++.so",
               "libgcc_s.so")
METADATA = """\
Metadata-Version: 2.1
Name: crosstalk
Version: {version}
Summary: Transformers whose attention heads exchange information, on CPUs
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy
Description-Content-Type: text/markdown

{page}"""


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def date_of(source):
    """The last commit's, or where that is not known, of files without a repository, the first that an archive can hold."""
    try:
        return time.gmtime(int(output("git", "-C", source, "log", "-1", "--format=%ct")))[:6]
    except (OSError, subprocess.CalledProcessError):
        return (1980, 1, 1, 0, 0, 0)


def needed(library):
    """The files of the libraries that it needs, and that these need, by name."""
    found = {}
    for line in output("ldd", library).splitlines():
        name, _, where = line.strip().partition(" => ")
        if name.split("/")[-1].startswith(SYSTEMS_OWN):
            continue
        if not where.startswith("/"):
            sys.exit(f"make wheel: {library}: {line.strip()}")
        found[name] = pathlib.Path(where.split(" (")[0])
    return found


def licence(path):
    """What the package of a library says of its copyright."""
    real = str(path.resolve())
    for one in (real, real.removeprefix("/usr")):  # /lib is a link to /usr/lib
        owner = subprocess.run(["dpkg", "-S", one], capture_output=True, text=True).stdout.split(":")[0]
        if owner:
            return f"{owner}.txt", pathlib.Path("/usr/share/doc", owner, "copyright").read_bytes()
    sys.exit(f"make wheel: {path} is of no package, whose licence the wheel could have")


def main(library, version, folder):
    source = pathlib.Path(__file__).resolve().parents[2]
    info = f"crosstalk-{version}.dist-info"
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    tag = f"py3-none-manylinux_{glibc}_{os.uname().machine}"
    files = {f"crosstalk/{path.name}": path.read_bytes()
             for path in (source / "models/bindings/python/crosstalk").glob("*.py")}
    files["crosstalk/lib/libcrosstalk.so"] = pathlib.Path(library).read_bytes()
    files[f"{info}/licenses/LICENSE"] = (source / "LICENSE").read_bytes()
    for name, path in needed(library).items():
        files[f"crosstalk/lib/{name}"] = path.read_bytes()
        text, content = licence(path)
        files[f"{info}/licenses/{text}"] = content
    page = (source / "docs/embedding_python.md").read_text()
    files[f"{info}/METADATA"] = METADATA.format(version=version, page=page).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: crosstalk\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = f"{info}/RECORD"
    rows = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()}"
            f",{len(content)}\n" for name, content in sorted(files.items())]
    files[record] = "".join([*rows, f"{record},,\n"]).encode()

    date = date_of(source)
    path = pathlib.Path(folder, f"crosstalk-{version}-{tag}.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in sorted(files.items(), key=lambda file: (file[0] == record, file[0])):
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = (0o100755 if ".so" in name else 0o100644) << 16
            wheel.writestr(entry, content, zipfile.ZIP_DEFLATED)
    print(path)


main(*sys.argv[1:])
