"""clang's -Wthread-safety over the sources that have a mutex (process/mutex.h): what it guards is touched with it.

Only the analysis: nothing is generated. Headers that are not ours are compiled once for all sources.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTEX = "process/mutex.h"
INCLUDE = re.compile(r'^#include (["<])([^">]+)[">]$', re.MULTILINE)
GENERATED = ("shoal/v1/", "etcd/v3/")
OF_PLUGIN = ("pytorch/src/", "tests/pytorch/")
TORCH = ROOT / f"build/venv/lib/python{sysconfig.get_python_version()}/site-packages/torch/include"
CLANG = [
    "clang++-19", "-std=c++20", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety",
    "-I.", "-Iworker/include", "-Ibuild/scheduler", "-isystem", "build/proto/gen",
]  # fmt: skip
CLANG_FOR_PLUGIN = [
    *CLANG, "-isystem", str(TORCH), "-isystem", str(TORCH / "torch/csrc/api/include"),
    "-isystem", sysconfig.get_paths()["include"],
]  # fmt: skip


def includes(path: pathlib.Path) -> list[tuple[str, str]]:
    return INCLUDE.findall(path.read_text())


def sources_with_a_mutex() -> list[pathlib.Path]:
    """Those that name the header, and those next to a header of theirs that does."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cc"],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    files = [ROOT / name for name in listed if (ROOT / name).is_file()]
    direct = {path for path in files if ('"', MUTEX) in includes(path)}

    def shows_a_mutex(path: pathlib.Path) -> bool:
        return any(ROOT / name in direct and (ROOT / name).parent == path.parent for _, name in includes(path))

    return [path for path in files if path.suffix == ".cc" and (path in direct or shows_a_mutex(path))]


def headers_of_others(sources: list[pathlib.Path]) -> str:
    """What the sources and the headers next to them include and is not ours, as one header."""
    files = {file for source in sources for file in (source, source.with_suffix(".h")) if file.is_file()}
    names = {(mark, name) for file in files for mark, name in includes(file)
             if name.startswith(GENERATED) or not (ROOT / name).exists() and (mark == "<" or name.startswith("absl/"))}
    return "".join(f"#include {mark}{name}{'>' if mark == '<' else mark}\n" for mark, name in sorted(names))


def findings(command: list[str], sources: list[pathlib.Path], folder: pathlib.Path) -> list[str]:
    """What clang says of each source."""
    header, compiled = folder / "others.h", folder / "others.pch"
    header.write_text(headers_of_others(sources))
    subprocess.run([*command, "-fpch-instantiate-templates", "-x", "c++-header", str(header), "-o", str(compiled)],
                   cwd=ROOT, check=True)

    def look_at(source: pathlib.Path) -> str:
        done = subprocess.run([*command, "-fsyntax-only", "-include-pch", str(compiled), str(source)],
                              cwd=ROOT, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stderr or f"{source}: clang ended with {done.returncode}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [text for text in pool.map(look_at, sources) if text]


@pytest.mark.parametrize("of_plugin", [False, True], ids=["shoal", "plugin"])
def test_what_a_mutex_guards_is_touched_with_it_alone(of_plugin, tmp_path):
    sources = [path for path in sources_with_a_mutex()
               if path.relative_to(ROOT).as_posix().startswith(OF_PLUGIN) == of_plugin]
    assert len(sources) > (5 if of_plugin else 40)
    found = findings(CLANG_FOR_PLUGIN if of_plugin else CLANG, sources, tmp_path)
    if found:
        pytest.fail("Take the mutex, or say that the caller has it (process/mutex.h):\n" + "".join(found),
                    pytrace=False)


WRONG = """
#include "process/mutex.h"
#include <condition_variable>

class Counter {
 public:
  int ReadRightly() {
    shoal::MutexLock lock(mutex_);
    changed_.wait(lock, [this]() SHOAL_REQUIRES(mutex_) { return count_ > 0; });
    lock.unlock();
    lock.lock();
    return count_;
  }
  int ReadWithoutMutex() { return count_; }
  int ReadAfterUnlock() {
    shoal::MutexLock lock(mutex_);
    lock.unlock();
    return count_;
  }
  void CallWithoutMutex() { Count(); }
  int ReadAlthoughTaken() {
    if (!mutex_.try_lock()) return count_;
    mutex_.unlock();
    return 0;
  }

 private:
  void Count() SHOAL_REQUIRES(mutex_) { ++count_; }

  shoal::Mutex mutex_;
  std::condition_variable changed_;
  int count_ SHOAL_GUARDED_BY(mutex_) = 0;
};
"""


def test_the_analysis_finds_what_is_touched_without_its_mutex(tmp_path):
    source = tmp_path / "counter.cc"
    source.write_text(WRONG)
    (text,) = findings(CLANG, [source], tmp_path)
    lines = WRONG.splitlines()
    found = {lines[int(line) - 1].strip() for line in re.findall(r"counter\.cc:(\d+):\d+: error", text)}
    assert found == {"int ReadWithoutMutex() { return count_; }", "return count_;",
                     "void CallWithoutMutex() { Count(); }", "if (!mutex_.try_lock()) return count_;"}
    assert text.count("error:") == 4, text


def test_no_source_takes_a_mutex_that_the_analysis_does_not_know():
    """std::mutex has no words for clang."""
    plain = re.compile(r"\bstd::(recursive_|timed_|shared_)?mutex\b|\bstd::(lock_guard|scoped_lock)\b"
                       r"|no_thread_safety_analysis")
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.h", "*.cc"],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    problems = [f"{name}:{number}: {line.strip()}" for name in listed if name != MUTEX and (ROOT / name).is_file()
                for number, line in enumerate((ROOT / name).read_text().splitlines(), start=1) if plain.search(line)]
    if problems:
        pytest.fail(f"Use Mutex and MutexLock of {MUTEX}:\n" + "\n".join(problems), pytrace=False)
