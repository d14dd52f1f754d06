"""What well-known linters say of the scripts: ruff of Python (ruff.toml), ShellCheck of shells (.shellcheckrc)."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def shell_scripts() -> list[str]:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            check=True, capture_output=True, text=True).stdout
    paths = [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    return [name for name in paths if (ROOT / name).read_bytes()[:40].split(b"\n")[0].endswith((b"bash", b"/sh"))]


def run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(done.stdout + done.stderr, pytrace=False)


def test_ruff_finds_nothing():
    run([sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", "."])


def test_shellcheck_finds_nothing():
    scripts = shell_scripts()
    assert len(scripts) > 20
    run([str(pathlib.Path(sys.executable).with_name("shellcheck")), "--external-sources", "--format", "gcc", *scripts])
