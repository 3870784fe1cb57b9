"""Builds the hone_client wheel around a libhone.so; see deploy/wheel.sh, which makes both.

HONE_LIBHONE names the directory with lib/libhone.so.1 and include/hone/hone.h.
"""

import os
import pathlib
import shutil

from setuptools import Extension, find_packages, setup
from setuptools.command.build_py import build_py

LIBHONE = pathlib.Path(os.environ.get("HONE_LIBHONE", "../../build/libhone")).resolve()


class BuildWithLibrary(build_py):
    """Puts libhone.so.1 and the license texts of what is inside it beside the extension."""

    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib) / "hone_client"
        shutil.copy2(LIBHONE / "lib" / "libhone.so.1", package / "libhone.so.1")
        shutil.copytree(LIBHONE / "licenses", package / "licenses", dirs_exist_ok=True)


setup(
    name="hone-client",
    version=os.environ.get("HONE_VERSION", "0.1.0"),
    description="Tuned GPU kernels from a hone daemon, for torch, CuPy and anything with DLPack",
    python_requires=">=3.9",
    package_dir={"": "src"},
    packages=find_packages("src"),
    package_data={"hone_client": ["py.typed", "*.pyi"]},
    ext_modules=[
        Extension(
            "hone_client._native",
            ["src/native/module.c", "src/native/call.c", "src/native/arrays.c"],
            include_dirs=[str(LIBHONE / "include" / "hone")],
            extra_objects=[str(LIBHONE / "lib" / "libhone.so.1")],
            define_macros=[("Py_LIMITED_API", "0x03090000")],
            extra_compile_args=["-O2", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden"],
            extra_link_args=["-Wl,-rpath,$ORIGIN"],
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
    cmdclass={"build_py": BuildWithLibrary},
)
