# Everything a person needs to start; what each target does is in scripts/. A bare Debian 12 with git and make is enough.
.DEFAULT_GOAL := help
.PHONY: help setup build test test-long test-sanitizers test-cluster demo dist wheel bench bench-kernels soak mutants chaos upgrade-check format clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

setup:  ## install what build and test need: Debian packages (as root or with sudo), a Python environment in build/venv
	@scripts/setup.sh

build:  ## set up, compile: programs in build/bin, library in build/lib, the PyTorch plugin in build/venv
	@scripts/build.sh

test: build  ## build, then run the tests that every commit has to pass
	@scripts/test.sh

test-long: build  ## build, then run those that search or take long: fuzzers, chaos, stragglers, RDMA (as root, half an hour): tests/results/
	@scripts/test_long.sh

test-sanitizers: setup  ## build with address, undefined and thread sanitizers and run tests with them; clang-tidy (hours)
	@scripts/test_sanitizers.sh

test-cluster: setup  ## build images, train on a Kubernetes of two nodes, and break it (as root, half an hour the first time): CLUSTER=--results
	@scripts/test_cluster.sh $(CLUSTER)

demo:  ## install and build what it needs, minutes; then train through reduction servers, beside Gloo, and kill a server
	@scripts/build.sh demo
	@build/venv/bin/python examples/demo.py

dist: build  ## build, then pack programs, plugin sources and GPU checks for a machine without a network: build/dist/
	@scripts/dist.py

wheel: build  ## build, then make the wheel that users install, for torch 2.11 to 2.15: build/wheel/
	@build/venv/bin/python scripts/wheel.py $(foreach python,$(PYTHONS),--python $(python))

bench: build  ## build, then measure beside Gloo and OpenMPI (as root, hours): bench/results/; PART=links for one part
	@bench/setup.sh
	@build/venv/bin/python bench/run.py $(PART)

bench-kernels: build  ## build, then measure the reduction kernels beside this core's caches and memory (half a minute)
	@build/venv/bin/python bench/kernels/run.py

soak: build  ## build, then run SCHEDULES=10000 seeds of the simulator on all cores: sim/results/
	@build/venv/bin/python scripts/soak.py $(SCHEDULES)

mutants: build  ## build, then try whether the simulator and tests find deliberate bugs (an hour): sim/results/; PART=device for a part
	@build/venv/bin/python tests/mutations/run_mutations.py $(if $(PART),--only $(PART))

chaos: build  ## build, then break the real programs' network and processes (as root): MINUTES=30 SEED=7; tests/chaos/results/
	@build/venv/bin/python tests/chaos/run.py --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1) --results --shrink $(CHAOS)

upgrade-check: build  ## build, and that of commit FROM; replace one by the other in a running cluster: tests/upgrade/results/
	@build/venv/bin/python tests/upgrade/run.py --from $(FROM)

format:  ## put the C++ sources into the project's format
	@scripts/format.sh

clean:  ## remove what was built; keeps build/venv and build/tools, which take long to fetch
	@scripts/clean.sh
