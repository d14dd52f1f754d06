"""The rules of the code that a program can check (CONTRIBUTING.md has the reasons). A failure names file, line and
rule."""

import pathlib
import re
import subprocess
import warnings

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
THIS_FILE = pathlib.Path(__file__).resolve().relative_to(ROOT)


def list_files() -> list[pathlib.Path]:
    """What git tracks or would track, relative to the root."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return sorted(path for path in map(pathlib.Path, output.split("\0")) if path.name and (ROOT / path).is_file())


FILES = list_files()
CODE_SUFFIXES = {".cc", ".h", ".py", ".sh", ".proto", ".cmake", ".txt"}
CXX_FILES = [path for path in FILES if path.suffix in {".cc", ".h"}]


def read(path: pathlib.Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def fail_with(problems: list[str], advice: str) -> None:
    if problems:
        pytest.fail("\n".join([advice, *problems]), pytrace=False)


def strip_comments(text: str) -> str:
    """Blanks C++ comments and the contents of string literals; line numbers stay."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return pattern.sub(lambda match: "\n" * match.group().count("\n"), text)


# ---- folders: what is pure, and who may include whom (docs/architecture.md, rings) ----

PUBLIC_HEADER = "shoal/worker.h"
# Beside these every folder that is named `machine`.
PURE = {"core", "reduce", "scheduler/insight", "server/lease", "worker/membership"}
# By folder, with what it may include beside itself. A folder that holds sources and is missing here fails a test.
MAY_INCLUDE = {
    "core": set(),
    "reduce": {"core"},
    # What people see of a program. No machine and no library has a face.
    "program": {"core"},
    "process": {"core", "program"},
    "metrics": {"core", "process"},
    "proto": {"core", "process"},
    "net": {"core", "process"},
    "net/loopback": {"core", "net", "process"},
    "net/shm": {"core", "net", "process"},
    "net/tcp": {"core", "net", "process"},
    "net/ucx": {"core", "net", "net/tcp", "process"},
    "net/data_plane": {"core", "net", "process", "net/shm", "net/tcp", "net/ucx"},
    # The roles' rooms: what is decided, how it is carried out, and what stands around it.
    "server/machine": {"core", "reduce"},
    "server/lease": {"core", "server/machine"},
    "server/loop": {"core", "reduce", "net", "server/machine", "server/lease"},
    "server/rpc": {"core", "proto", "process", "server/machine", "server/lease"},
    "server/thread": {"core", "net", "net/data_plane", "process", "server/machine", "server/loop"},
    "server": {
        "core", "metrics", "net", "net/data_plane", "net/ucx", "process", "program", "proto", "server/machine",
        "server/lease", "server/loop", "server/rpc", "server/thread",
    },
    # The membership knows nothing of who looks on, so that nobody can change what it decides from there.
    "scheduler/machine": {"core"},
    "scheduler/insight": {"core", "scheduler/machine"},
    "scheduler/store": {"core", "proto", "process", "scheduler/machine"},
    "scheduler/rpc": {"core", "proto", "process", "scheduler/machine"},
    "scheduler/loop": {"core", "scheduler/machine", "scheduler/insight", "scheduler/store", "scheduler/rpc"},
    "scheduler/leading": {
        "core", "proto", "process", "scheduler/config", "scheduler/machine", "scheduler/store", "scheduler/rpc",
        "scheduler/loop",
    },
    "scheduler/config": {"core", "process", "program", "scheduler/store"},
    "scheduler/page": {"core", "metrics", "process", "proto"},
    "scheduler": {
        "core", "metrics", "process", "program", "proto", "scheduler/config", "scheduler/machine", "scheduler/page",
        "scheduler/rpc", "scheduler/store", "scheduler/leading",
    },
    "worker/include": set(),
    "worker/machine": {"core"},
    "worker/membership": {"core", "worker/machine"},
    "worker/local_reduce": {"core", "reduce", "net", "net/shm", "process", "worker/machine"},
    "worker/device": {"core", "reduce", "process", "worker/machine"},
    "worker/loop": {
        "core", "reduce", "net", "worker/device", "worker/local_reduce", "worker/machine", "worker/membership",
    },
    "worker/rpc": {"core", "proto", "process", "worker/machine", "worker/membership"},
    # A worker process can have a scheduler and a server of its own (the set-up with nothing else running).
    "worker/colocated": {"core", "process", "server", "server/thread", "scheduler"},
    "worker/library": {
        "core", "reduce", "net", "net/data_plane", "net/shm", "process", "proto", "worker/device",
        "worker/include", "worker/local_reduce", "worker/machine", "worker/membership", "worker/loop",
        "worker/rpc", "worker/colocated",
    },
    "cli": {"core", "process", "program", "proto"},
    "perf": {"core", "process", "program", "worker/include"},
    "sim": {
        "core", "process", "program", "reduce", "net", "net/shm", "server/machine", "server/lease", "server/loop",
        "scheduler/machine", "scheduler/store", "scheduler/rpc", "scheduler/loop", "scheduler/leading",
        "worker/machine", "worker/membership", "worker/device", "worker/local_reduce", "worker/loop",
    },
    "examples": {"worker/include"},
    "pytorch/src": {"process", "worker/include"},
}  # fmt: skip

IMPURE_HEADERS = re.compile(
    r"^(chrono|ctime|time\.h|thread|stop_token|mutex|shared_mutex|condition_variable|semaphore|latch|barrier|future"
    r"|iostream|fstream|ostream|istream|cstdio|stdio\.h|filesystem|unistd\.h|fcntl\.h|poll\.h|pthread\.h|random"
    r"|sys/.*|netinet/.*|arpa/.*|linux/.*|net/.*|ucp/.*|ucs/.*|uct/.*|grpc.*|google/protobuf/.*|shoal/v1/.*"
    r"|absl/time/clock\.h|absl/synchronization/.*|absl/random/.*|absl/log/.*|absl/base/thread_annotations\.h)$"
)
IMPURE_CALLS = re.compile(
    r"\b(secure_getenv|getenv|srand|rand|random_device|printf|fprintf|system_clock|steady_clock)\b"
)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def is_pure(folder: str) -> bool:
    return folder in PURE or folder.endswith("/machine")


def folder_of(path: pathlib.Path) -> str:
    return path.parent.as_posix()


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def test_pure_code_has_no_clock_thread_lock_input_output_or_randomness():
    problems = []
    for path in CXX_FILES:
        if path.parts[0] == "tests" or not is_pure(folder_of(path)):
            continue
        text = read(path)
        for match in INCLUDE.finditer(text):
            header = match.group(2)
            if IMPURE_HEADERS.match(header):
                problems.append(f"{path}:{line_of(text, match.start())}: includes {header}")
        code = strip_comments(text)
        for match in IMPURE_CALLS.finditer(code):
            problems.append(f"{path}:{line_of(code, match.start())}: uses {match.group()}")
    fail_with(
        problems, "Pure code takes time, randomness and data as arguments; move the effect to a loop or an adapter:"
    )


def folder_of_include(header: str) -> str | None:
    """The project folder that a header belongs to; None: it isn't ours."""
    if header == PUBLIC_HEADER or header.startswith("worker/include/"):
        return "worker/include"
    if header.startswith("shoal/v1/"):
        return "proto"
    folder = header.rpartition("/")[0]
    return folder if folder in MAY_INCLUDE else None


def test_descriptors_are_watched_in_one_place():
    """A forked child's copy of a descriptor keeps an epoll awake, which only that place knows."""
    place = "process/file_descriptor.cc"
    problems = [f"{path}: epoll_ctl" for path in CXX_FILES
                if str(path) != place and path.parts[0] != "tests" and "epoll_ctl(" in strip_comments(read(path))]
    fail_with(problems, f"Use WatchedDescriptor or WatchBorrowed of {place}:")


def test_includes_point_inward():
    problems = []
    for path in CXX_FILES:
        folder = "worker/include" if path.is_relative_to("worker/include") else folder_of(path)
        if folder not in MAY_INCLUDE:
            continue
        text = read(path)
        for match in INCLUDE.finditer(text):
            included = folder_of_include(match.group(2)) if match.group(1) == '"' else None
            if included is not None and included != folder and included not in MAY_INCLUDE[folder]:
                problems.append(f"{path}:{line_of(text, match.start())}: includes {match.group(2)}")
    fail_with(problems, "Arrows point inward only (MAY_INCLUDE in this test says who may include whom):")


def test_machines_include_values_and_each_other_only():
    for folder, allowed in MAY_INCLUDE.items():
        if is_pure(folder):
            impure = [other for other in allowed if not is_pure(other)]
            assert not impure, f"{folder} is pure, so it may not include {impure}"


def test_folders_include_in_no_circle():
    """What a folder may include, directly or by way of others, never leads back to it."""

    def reach(folder: str, seen: set[str]) -> set[str]:
        for other in MAY_INCLUDE[folder] - seen:
            seen.add(other)
            reach(other, seen)
        return seen

    circles = sorted(folder for folder in MAY_INCLUDE if folder in reach(folder, set()))
    fail_with(circles, "These folders include each other in a circle:")


def test_every_source_folder_is_in_the_layer_table():
    folders = {folder_of(path) for path in CXX_FILES if path.parts[0] not in {"tests", "bench"}}
    unknown = sorted(folders - set(MAY_INCLUDE) - {"worker/include/shoal"})
    fail_with(unknown, "Say in MAY_INCLUDE what these folders may include:")
    unused = sorted(set(MAY_INCLUDE) - folders - {"worker/include"})
    fail_with(unused, "These folders of MAY_INCLUDE hold no source:")


PORTS_TABLE = pathlib.Path("docs/architecture.md")
PORT_IN_TABLE = re.compile(r"^\| `([\w/]+\.h)` \|", re.MULTILINE)


def test_loops_include_ports_and_no_adapter():
    """Of folders that hold adapters, a loop knows the headers that the table of ports lists."""
    ports = set(PORT_IN_TABLE.findall(read(PORTS_TABLE)))
    assert ports, f"{PORTS_TABLE} has no table of ports"
    problems = []
    for path in CXX_FILES:
        folder = folder_of(path)
        if path.parts[0] == "tests" or not folder.endswith("/loop"):
            continue
        text = read(path)
        for match in INCLUDE.finditer(text):
            included = folder_of_include(match.group(2)) if match.group(1) == '"' else None
            if included not in {None, folder} and not is_pure(included) and match.group(2) not in ports:
                problems.append(f"{path}:{line_of(text, match.start())}: includes {match.group(2)}")
    fail_with(problems, f"A loop reaches what is outside through the ports that {PORTS_TABLE} lists:")


def test_grpc_is_set_up_in_one_place_for_each_side():
    """A server or channel that is made elsewhere would go without the probes and times that the one place gives it."""
    places = {
        r"AddListeningPort|GRPC_ARG_KEEPALIVE|GRPC_ARG_ALLOW_REUSEPORT": {"scheduler/rpc/control_server.cc"},
        r"Create(Custom)?Channel": {"proto/scheduler_channel.cc", "scheduler/store/etcd_client.cc"},
    }
    sources = [path for path in CXX_FILES if path.parts[0] != "tests"]
    problems = []
    for pattern, expected in places.items():
        found = {str(path) for path in sources if re.search(pattern, read(path))}
        problems += [f"{path}: {pattern}" for path in sorted(found ^ expected)]
    for path in sources:
        builders = re.findall(r"\bServerBuilder (\w+);", read(path))
        problems += [f"{path}: {name}" for name in builders if not re.search(rf"ListenOn\(\w+, &{name}, ", read(path))]
    fail_with(problems, "Servers listen by scheduler/rpc/control_server.h, channels are opened where the others are:")


TESTED_ELSEWHERE = pathlib.Path("tests/unit/README.md")


def test_unit_tests_mirror_the_sources():
    """Each folder of the sources has its folder in tests/unit, or the README.md there says which tests it has."""
    table = read(TESTED_ELSEWHERE).partition("| source folder |")[2].partition("\n\n")[0]
    elsewhere = {}
    for row in table.splitlines()[2:]:
        sources, tests = row.split("|")[1:3]
        for folder in re.findall(r"`([\w/]+)`", sources):
            elsewhere[folder] = re.findall(r"`([\w/]+)`", tests)
    assert elsewhere, f"{TESTED_ELSEWHERE} has no table of what is tested elsewhere"
    mirrored = {
        folder_of(path.relative_to("tests/unit"))
        for path in FILES
        if path.is_relative_to("tests/unit") and path.name.endswith("_test.cc")
    }
    problems = [f"{folder}: has no tests/unit/{folder}" for folder in MAY_INCLUDE.keys() - mirrored - elsewhere.keys()]
    problems += [f"tests/unit/{folder}: there is no folder {folder}" for folder in mirrored - MAY_INCLUDE.keys()]
    problems += [f"{folder}: has a folder in tests/unit as well" for folder in mirrored & elsewhere.keys()]
    problems += [f"{folder}: there is no such folder" for folder in elsewhere.keys() - MAY_INCLUDE.keys()]
    for folder, tests in elsewhere.items():
        problems += [f"{folder}: there is no tests/{test}" for test in tests if not (ROOT / "tests" / test).is_dir()]
    fail_with(sorted(problems), f"Write the missing test, or say in {TESTED_ELSEWHERE} what holds the folder:")


def test_images_are_built_from_all_folders_that_their_programs_include():
    """.dockerignore leaves out what it does not name, and CMake builds what it finds."""

    def reach(folders: set[str]) -> set[str]:
        more = folders.union(*(MAY_INCLUDE[folder] for folder in folders))
        return folders if more == folders else reach(more)

    programs = {folder for folder in MAY_INCLUDE if folder.split("/")[0] in {"server", "scheduler", "cli", "perf"}}
    needed = {folder.split("/")[0] for folder in reach(programs)}
    named = {line[1:].strip() for line in read(pathlib.Path(".dockerignore")).splitlines() if line.startswith("!")}
    fail_with(sorted(needed - named), "Name these folders in .dockerignore, or no image can be built:")


# ---- size and names ----

LINES_WARNED = 500
LINES_MAX = 600


def test_files_are_short():
    problems = []
    for path in FILES:
        if path.suffix not in CODE_SUFFIXES or read(path).startswith("// Made by scripts/"):  # which nobody reads
            continue
        lines = read(path).count("\n")
        if lines > LINES_MAX:
            problems.append(f"{path}: {lines} lines")
        elif lines > LINES_WARNED:
            warnings.warn(f"{path} has {lines} lines and wants to be two files", stacklevel=1)
    fail_with(problems, f"More than {LINES_MAX} lines; about 400 is where a file wants to be two:")


def test_names_say_what_is_inside():
    banned = re.compile(r"^(.*_)?(utils?|common|helpers?|manager|impl|misc)$")
    problems = [
        str(path) for path in FILES for part in (*path.parts[:-1], path.name.split(".")[0]) if banned.match(part)
    ]
    fail_with(problems, "Name a file or folder after what is inside it:")


def test_text_is_finished():
    left_over = re.compile(r"\b(TODO|FIXME|XXX)\b|\bnot (yet )?implemented\b", re.IGNORECASE)
    problems = []
    for path in FILES:
        if path == THIS_FILE or path.suffix not in CODE_SUFFIXES | {".md", ".yaml", ".js", ".html"}:
            continue
        for number, line in enumerate(read(path).splitlines(), start=1):
            if left_over.search(line):
                problems.append(f"{path}:{number}: {line.strip()}")
    fail_with(problems, "Finish it, or open an issue and take the text out:")


def test_sources_have_the_projects_format():
    check = subprocess.run(["scripts/format.sh", "--check"], cwd=ROOT, capture_output=True, text=True, check=False)
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error:", check.stderr, re.MULTILINE)))
    fail_with(wrong, "Run `make format`:")
    assert check.returncode == 0, check.stderr


def test_python_lines_end_where_those_of_cxx_do():
    columns_max = 120
    problems = []
    for path in FILES:
        if path.suffix == ".py":
            long_lines = [n for n, line in enumerate(read(path).splitlines(), start=1) if len(line) > columns_max]
            problems += [f"{path}:{number}" for number in long_lines]
    fail_with(problems, f"More than {columns_max} columns:")


# ---- what exists is used ----


def test_every_cxx_test_is_registered():
    problems = []
    for path in CXX_FILES:
        if path.parts[0] != "tests" or not path.name.endswith("_test.cc"):
            continue
        lists = [parent / "CMakeLists.txt" for parent in path.parents if (ROOT / parent / "CMakeLists.txt").is_file()]
        names = [re.escape(path.relative_to(file.parent).as_posix()) for file in lists]
        if not any(re.search(rf"(?<![\w/]){name}(?!\w)", read(file)) for name, file in zip(names, lists)):
            problems.append(str(path))
    fail_with(problems, "A test that no CMakeLists.txt names never runs:")


def test_no_test_module_imports_another():
    imports = re.compile(r"^\s*(?:from|import)\s+(?:[\w.]+\.)?(test_\w+)\b", re.MULTILINE)
    problems = []
    for path in FILES:
        if path.suffix == ".py":
            text = read(path)
            problems += [f"{path}:{line_of(text, m.start(1))}: imports {m.group(1)}" for m in imports.finditer(text)]
    fail_with(problems, "Move what tests share into a module that is named after what it holds:")


def test_scripts_can_be_run():
    problems = [str(path) for path in FILES if read_start(path) == b"#!" and not (ROOT / path).stat().st_mode & 0o111]
    fail_with(problems, "Files with a #! line need chmod +x:")


def read_start(path: pathlib.Path) -> bytes:
    with open(ROOT / path, "rb") as file:
        return file.read(2)


# ---- documents point at what exists ----

MARKDOWN_FILES = [path for path in FILES if path.suffix == ".md"]


def test_stations_of_the_walk_exist():
    walk = pathlib.Path("docs/walk_of_a_chunk.md")
    references = re.findall(r"`([\w./-]+\.(?:cc|h|py|proto)):([\w:~]+)`", read(walk))
    assert references, f"{walk} names no `file:symbol`"
    problems = []
    for file, symbol in references:
        if pathlib.Path(file) not in FILES:
            problems.append(f"{file}: no such file")
        elif not re.search(rf"\b{re.escape(symbol.split('::')[-1])}\b", read(pathlib.Path(file))):
            problems.append(f"{file}: has no {symbol}")
    fail_with(problems, f"{walk} names what is not there:")


def test_links_in_documents_lead_somewhere():
    problems = []
    for path in MARKDOWN_FILES:
        for target in re.findall(r"\]\(([^)\s]+)\)", read(path)):
            target = target.split("#")[0]
            if target and "://" not in target and not (ROOT / path.parent / target).exists():
                problems.append(f"{path}: {target}")
    fail_with(problems, "These links lead nowhere:")


BENCHMARKS = pathlib.Path("docs/benchmarks.md")


def test_figures_of_benchmarks_stand_on_the_pages_that_their_rows_link():
    """As figures that round to them. The first cell of a row says what was measured, the last one links the page."""
    rows = re.findall(r"^\| [^|]+ \|(.+)\| \[[^\]]+\]\(([^)]+)\) \|$", read(BENCHMARKS), re.MULTILINE)
    assert len(rows) > 60, f"{BENCHMARKS} has no tables"
    problems = []
    for figures, target in rows:
        page = (ROOT / BENCHMARKS.parent / target).read_text(encoding="utf-8")
        stand_there = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", page)]
        for figure in re.findall(r"\d+(?:\.\d+)?", figures):
            half_a_digit = 0.5 * 10.0 ** -len(figure.partition(".")[2]) + 1e-9
            if not any(abs(number - float(figure)) <= half_a_digit for number in stand_there):
                problems.append(f"{figure} of the row{figures}is not in {target}")
    fail_with(problems, f"{BENCHMARKS} copies its figures from result pages:")


def test_records_have_one_format_and_stand_in_the_index():
    folder = pathlib.Path("docs/adr")
    index = read(folder / "README.md")
    problems = []
    for path in MARKDOWN_FILES:
        if path.parent != folder or path.name == "README.md":
            continue
        text = read(path)
        if re.findall(r"^## (.*)$", text, re.MULTILINE) != ["Status", "Context", "Decision", "Consequences"]:
            problems.append(f"{path}: its sections are not Status, Context, Decision, Consequences")
        if not text.startswith(f"# {path.name[:4]} "):
            problems.append(f"{path}: its title does not start with its number")
        if f"({path.name})" not in index:
            problems.append(f"{path}: {folder}/README.md does not list it")
    fail_with(problems, "Records of decisions are found and read alike (docs/adr/README.md):")


def test_folders_explain_themselves():
    readme_lines_max = 30
    problems = []
    for folder in sorted({path.parts[0] for path in CXX_FILES if path.parts[0] != "bench"}):
        readme = pathlib.Path(folder, "README.md")
        if readme not in FILES:
            problems.append(f"{readme} is missing")
        elif read(readme).count("\n") > readme_lines_max and folder not in {"examples", "pytorch"}:
            problems.append(f"{readme} has more than {readme_lines_max} lines")
    fail_with(problems, "A folder's README.md says in 30 lines: purpose, may depend on, where to start, invariants:")
