"""docker/compose.yaml fits the Dockerfile, the programs' options, and itself."""

import json
import re
import subprocess

import yaml
from chart import ROOT

COMPOSE = yaml.safe_load((ROOT / "docker/compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8")


def test_every_image_is_a_target_of_the_dockerfile_and_has_the_projects_version():
    cmake = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    version = re.search(r"project\(shoal VERSION ([\d.]+)", cmake).group(1)
    for service in SERVICES.values():
        build = service["build"]
        assert (ROOT / "docker" / build["context"] / build["dockerfile"]).samefile(ROOT / "docker/Dockerfile")
        assert re.search(rf"^FROM \S+ AS {build['target']}$", DOCKERFILE, re.MULTILINE)
        assert service["image"] == f"localhost/shoal/{build['target']}:{version}"


def options(words: list[str]) -> set[str]:
    return set(re.findall(r"(?<!\S)--[a-z-]+", " ".join(words)))


def test_the_programs_know_their_options():
    for name, words in (("scheduler", SERVICES["scheduler"]["command"]), ("server", SERVICES["server"]["entrypoint"])):
        command = [str(ROOT / f"build/bin/shoal-{name}"), "--help"]
        known = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        assert options(words) and options(words) <= options(known.split()), name


def test_services_are_where_the_others_look_for_them():
    [listens] = [word for word in SERVICES["scheduler"]["command"] if word.startswith("--listen=")]
    address = f"scheduler:{listens.rpartition(':')[2]}"
    assert f"--scheduler={address} " in SERVICES["server"]["entrypoint"][-1]
    environment = SERVICES["trainer"]["environment"]
    assert environment["SHOAL_SCHEDULER"] == address
    assert int(environment["SHOAL_MIN_SERVERS"]) == SERVICES["server"]["scale"]
    script = re.search(r"/shoal/(\S+\.py)", SERVICES["trainer"]["command"]).group(1)
    assert (ROOT / script).is_file()


def test_what_listens_beyond_its_container_says_that_it_is_open():
    """The programs refuse to do so without certificates unless they are told."""
    [started] = re.findall(r"^CMD (\[.*--listen.*\])$", DOCKERFILE, re.MULTILINE)
    commands = {"Dockerfile": json.loads(started)}
    commands |= {name: str(SERVICES[name].get("command", "")).split() for name in ("scheduler", "server")}
    for name, words in commands.items():
        text = " ".join(words)
        is_beyond = re.search(r"--(listen|http)=(?!127\.0\.0\.1:)", text) is not None
        assert ("--insecure-network" in text) == is_beyond == (name != "server"), name


def test_nothing_but_the_page_is_reachable_from_outside_and_that_from_this_machine_alone():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:9470:9470"]
