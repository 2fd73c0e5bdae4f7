"""Builds the wheel: CMake makes the module _core (release preset, build/release), setuptools packs it."""
import pathlib
import re
import shutil
import subprocess
import sysconfig

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent


def version():
    found = re.search(r"project\(\w+\s+VERSION\s+([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.IGNORECASE)
    if not found:
        raise SystemExit("setup.py: CMakeLists.txt names no version")
    return found.group(1)


class CMakeBuild(build_ext):
    def build_extension(self, extension):
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True)
        subprocess.run(["cmake", "--build", "build/release", "--target", "millrace_module"], cwd=ROOT, check=True)
        module = ROOT / "build" / "python" / "millrace" / ("_core" + sysconfig.get_config_var("EXT_SUFFIX"))
        if not module.exists():
            raise SystemExit(f"setup.py: {module} was not built: build/release is for another Python; "
                             "configure it with cmake --preset release -DPython3_EXECUTABLE=…")
        target = pathlib.Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(module, target)
        mpi = module.with_name("libmillrace_mpi.so")
        if mpi.exists():  # for ranks that mpirun starts
            shutil.copyfile(mpi, target.with_name(mpi.name))


(ROOT / "build").mkdir(exist_ok=True)
setup(
    version=version(),
    package_dir={"": "src/python"},
    packages=find_packages("src/python"),
    package_data={"millrace": ["py.typed", "*.pyi"]},
    ext_modules=[Extension("millrace._core", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    options={"egg_info": {"egg_base": "build"}, "build": {"build_base": "build/wheel"}},
)
