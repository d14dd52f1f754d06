"""The source distribution of the Python package has all that its sources include, and the package says its types."""

import pathlib
import subprocess
import sys
import sysconfig
import tarfile

import pytest
import torch.utils.cpp_extension

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("package")
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", folder, "sdist", "--dist-dir", folder]
    subprocess.run(command, cwd=ROOT / "pytorch", check=True, capture_output=True, timeout=120)
    (archive,) = folder.glob("shoal-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder)
    return folder / archive.name.removesuffix(".tar.gz")


def test_a_source_distribution_has_every_header(unpacked):
    for source in sorted((unpacked / "src").glob("*.cc")):
        folders = [unpacked / "root", *torch.utils.cpp_extension.include_paths(), sysconfig.get_path("include")]
        command = ["g++", "-std=c++20", "-M", *(f"-I{folder}" for folder in folders), source]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stderr
        used = [pathlib.Path(path) for path in result.stdout.replace("\\\n", " ").split() if str(ROOT) in path]
        # The environment with torch lies in build/.
        own = [str(path) for path in used if not path.is_relative_to(ROOT / "build")]
        assert not own, f"{source.name} uses files of the repository: {own}"


def test_a_source_distribution_has_types(unpacked):
    assert (unpacked / "shoal" / "py.typed").is_file()
    assert "class GroupOptions" in (unpacked / "shoal" / "_C.pyi").read_text(encoding="utf-8")
