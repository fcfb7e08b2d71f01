# make run · make check · make test · make coverage · make display · make lint · make house · make bench · make package · make bundle · make docs · make screenshots · make demo · make notebook · make clean
# `make PYTHON=python3.12 run` chooses the interpreter that makes .venv.

PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
IN := $(VENV)/bin/python
# The interpreter that the checks use: that of .venv once it is there.
BASE := $(or $(wildcard $(IN)),$(PYTHON))
PIP := $(IN) -m pip --disable-pip-version-check install

.PHONY: help run test test-all check check-style check-tests snapshots display plugins coverage map check-changed mutants faults fuzz safety-report lint house bench bench-peers gpu gpu-dry package package-check bundle bundle-check deb deb-check docs docs-site docs-longest docs-commands screenshots demo notebook lock sbom clean ready

help:
	@echo "make run         open the viewer (installs it into .venv first)"
	@echo "make check       what a change most often breaks, before it is proposed (under three minutes)"
	@echo "make test        run the tests, without a display (8 minutes); make test-all: every case"
	@echo "make display     drive the window by mouse and keyboard on a virtual X display"
	@echo "make snapshots   write what tests compare with files, the words of users among it; read the diff"
	@echo "make plugins     the same tests with the examples of docs/adding.md in place"
	@echo "make coverage    the branches that tests take in kernels, checkpoints, runs; 95 % or it fails"
	@echo "make check-changed  the tests that run the lines you changed (make map: which those are, once)"
	@echo "make mutants     put small bugs in, count those that the tests notice (hours; resumable)"
	@echo "make faults      kill, starve and mislead it (one to two hours)"
	@echo "make fuzz        change checkpoints until one breaks the reader, a bounded run (minutes)"
	@echo "make safety-report  what both found: build/safety/cases.md, and figures in docs/safety.md"
	@echo "make lint        ruff, mypy, import-linter"
	@echo "make house       figures of names, docstrings, imports and documents; nothing passes or fails"
	@echo "make bench       time the kernels beside plain torch (minutes); bench-peers: neural-tangents"
	@echo "make gpu         on a CUDA card: its tests, then its table, in less than eight minutes"
	@echo "make gpu-dry     all of that on the CPU, small, to see that it runs (two minutes)"
	@echo "make package     build wheel and sdist into dist/; package-check: install and start them elsewhere"
	@echo "make bundle      one folder with Python and torch, in dist/ (minutes); bundle-check: start it"
	@echo "make deb         that folder as a Debian package; deb-check: install, run and remove it (root)"
	@echo "make docs        build the documentation site into build/site, run its slow commands (a minute)"
	@echo "make screenshots take the pictures of README and docs again (minutes)"
	@echo "make demo        film the window for the README, docs/images/demo.gif (minutes)"
	@echo "make notebook    run docs/notebooks again and store their outputs"
	@echo "make lock        resolve requirements/ again, with digests; make sbom: the list of parts"
	@echo "make clean       remove .venv and everything built"

run: ready $(VENV)/installed
	@$(IN) -m dgn_viewer

# Where it is set, each of the hundreds of processes of the tests would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

# No display is needed; one thread, because more of them slow small networks down.
test test-all plugins screenshots demo: export QT_QPA_PLATFORM := offscreen
test test-all plugins screenshots demo: export OMP_NUM_THREADS := 1

# So many tests side by side; worksteal, because a few take as long as hundreds of others.
WORKERS ?= 2
EVERYTHING := 'not faults and not display and not gpu'
test: ready $(VENV)/installed-test
	$(IN) -m pytest --numprocesses $(WORKERS) --dist worksteal

# All of it, with every case of the tests that are wide: nightly, 17 minutes on two cores.
test-all: ready $(VENV)/installed-test
	$(IN) -m pytest --numprocesses $(WORKERS) --dist worksteal -m $(EVERYTHING)

# What a change most often breaks: style, types, imports, the commands of README and how-to pages as
# they stand, every plug-in against its slow twin, one real window.
check check-tests: export QT_QPA_PLATFORM := offscreen
check check-tests: export OMP_NUM_THREADS := 1
check: ready $(VENV)/installed-test
	@begin=$$(date +%s); \
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-style check-tests && \
	echo "make check: all well, after $$(( $$(date +%s) - begin )) s"
check-style: $(VENV)/installed-test
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/ruff format --quiet --check .
	@$(VENV)/bin/lint-imports
	@$(IN) -m mypy
check-tests: $(VENV)/installed-test
	@$(IN) -m pytest -q --numprocesses $(WORKERS) --dist worksteal -m 'check and not nightly' \
	  $$(grep --recursive --files-with-matches --include='test_*.py' 'mark\.check' tests)

# What tests compare with files, written again: read the diff before it is committed.
snapshots: export QT_QPA_PLATFORM := offscreen
snapshots: export OMP_NUM_THREADS := 1
snapshots: $(VENV)/installed-test
	$(IN) -m tests.wording
	rm -rf tests/recorded
	$(IN) -m pytest -q --write-snapshots -m $(EVERYTHING) \
	  $$(grep --recursive --files-with-matches --include='test_*.py' 'recorded: Recorded' tests)
	git diff --stat -- tests/recorded tests/wording.txt

# On a real X server without a screen: mouse, keys and files dragged from another program.
display: export QT_QPA_PLATFORM := xcb
display: export OMP_NUM_THREADS := 1
display: ready $(VENV)/installed-test
	xvfb-run --auto-servernum --server-args='-screen 0 1920x1200x24' \
	  $(IN) -m pytest -m display tests/viewer/display

# The same in a copy that holds every example of docs/adding.md.
plugins: ready $(VENV)/installed-test
	$(IN) -m tests.architecture.examples --numprocesses $(WORKERS) --dist worksteal

# -s: it prints tables of what was injected and what was survived. SOAK_MINUTES=30 runs the whole window
# for so long, not for three; FAULT_STRIDE=10 lets only every tenth write of a run fail.
faults: export QT_QPA_PLATFORM := offscreen
faults: export OMP_NUM_THREADS := 1
faults: ready $(VENV)/installed-test
	rm -f build/faults.json
	DGN_FAULTS_JSON=build/faults.json $(IN) -m pytest -m faults -s -q

# atheris beside the environment, not in it; where it has no build for this Python, hypothesis.
FUZZ_RUNS ?= 100000
fuzz: ready $(VENV)/installed-test
	@$(PIP) --quiet --no-deps --target build/atheris 'atheris>=3,<4' || \
	  echo "atheris cannot be installed for this Python; hypothesis instead."
	rm -f build/fuzz.json
	PYTHONPATH=build/atheris DGN_FAULTS_JSON=build/fuzz.json \
	  $(IN) -m tests.faults.guided_fuzzing --runs $(FUZZ_RUNS)

# Branches of the kernels, of the reader of checkpoints and of run folders: 95 % of each, or it fails.
coverage: ready $(VENV)/installed-test
	$(IN) -m tests.branches --numprocesses $(WORKERS)

# Which tests run which line: the suite under coverage, for the two below.
map check-changed mutants: export QT_QPA_PLATFORM := offscreen
map check-changed mutants: export OMP_NUM_THREADS := 1
map: ready $(VENV)/installed-test
	$(IN) -m tests.mutants map --workers $(WORKERS)

# The tests that run the lines that were changed since the map was made: a minute or two.
check-changed: $(VENV)/installed-test
	$(IN) -m tests.mutants changed --seconds 120

# A seeded sample of bugs; it goes on where it was stopped.
MUTANTS ?= 80
mutants: ready $(VENV)/installed-test
	test -e build/mutants/map.json || $(MAKE) map
	$(IN) -m tests.mutants run --each $(MUTANTS)
	$(IN) -m tests.mutants report

# Every case of both as tables, and the figures in docs/safety.md; of a row that was measured again the
# last counts.
RESULTS ?= build/faults.json build/fuzz.json
safety-report: $(VENV)/installed-test
	$(IN) -m tests.faults.report $(RESULTS) --page docs/safety.md --cases build/safety/cases.md

lint: $(VENV)/installed-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(IN) -m mypy
	$(IN) -m tests.architecture.examples types
	$(VENV)/bin/lint-imports

house: $(VENV)/installed-test
	@$(IN) -m benchmarks.house

bench bench-peers: export OMP_NUM_THREADS := 1

bench: $(VENV)/installed
	$(IN) -m benchmarks --out build/bench.json
	QT_QPA_PLATFORM=offscreen $(IN) -m benchmarks.watching --out build/bench-watching.json

bench-peers: $(VENV)/installed
	@test -e $(PEERS)/installed || { $(PYTHON) -m venv $(PEERS) && \
	  $(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
	    --requirement benchmarks/peers-requirements.txt && touch $(PEERS)/installed; } || true
	$(IN) -m benchmarks.peers --out build/bench-peers.json

# Tests marked `gpu`, then a table: build/gpu.json and build/gpu.md. Without a card: a sentence and code 3.
# `make GPU_PYTHON=python3 gpu` takes that interpreter as it is: it has torch, and nothing is fetched.
GPU_PYTHON ?= $(IN)
gpu gpu-dry: export OMP_NUM_THREADS := 1
gpu gpu-dry: $(if $(filter $(IN),$(GPU_PYTHON)),ready $(VENV)/installed-test)
gpu:
	$(GPU_PYTHON) -m benchmarks.gpu --out build/gpu.json
gpu-dry:
	$(GPU_PYTHON) -m benchmarks.gpu --dry

package: $(VENV)/installed-package
	$(IN) -m hatchling build -d dist

# The same bytes twice, twine, check-wheel-contents, both programs in a fresh environment.
package-check: export QT_QPA_PLATFORM := offscreen
package-check: $(VENV)/installed-package
	$(IN) packaging/package_check.py dist

# Python, torch and Qt with the program, in dist/dgn-viewer: it runs where there is no Python.
bundle: $(VENV)/installed-package
	$(IN) -m PyInstaller --noconfirm --log-level WARN --distpath dist --workpath build/bundle \
	  packaging/dgn-viewer.spec

bundle-check: export QT_QPA_PLATFORM := offscreen
bundle-check:
	$(BASE) packaging/bundle_check.py dist/dgn-viewer

deb-check:
	$(BASE) packaging/debian_check.py dist/dgn-viewer_*.deb

deb:
	PYTHONPATH=app $(BASE) packaging/debian_package.py dist/dgn-viewer dist


# Strict: a lost link, a page outside the navigation or anything from the net is an error. Beside it
# run the commands and the Python of documents that take longer than a test, the longest by itself.
LONGEST := docs/start/own-cnn.md
docs docs-site docs-longest docs-commands: export NO_MKDOCS_2_WARNING := 1
docs docs-site docs-longest docs-commands: export OMP_NUM_THREADS := 1
docs: $(VENV)/installed-docs
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target docs-longest docs-commands docs-site
	@echo "build/site/index.html"
docs-site: $(VENV)/installed-docs
	$(IN) -m mkdocs build --quiet
docs-longest: $(VENV)/installed-docs
	$(IN) -m documentation.shell_commands $(LONGEST)
docs-commands: $(VENV)/installed-docs
	$(IN) -m documentation.shell_commands --without $(LONGEST)

screenshots: ready $(VENV)/installed-test
	$(IN) -m documentation.screenshots

demo: ready $(VENV)/installed-test
	$(IN) -m documentation.screenshots.demo docs/images/demo.gif

notebook: export OMP_NUM_THREADS := 1
notebook: $(VENV)/installed-test
	for each in docs/notebooks/*.ipynb; do $(IN) -m documentation.notebook_runner $$each || exit; done

# TORCH: a wheel of a CPU build, else from the index of PyTorch.
TORCH ?= torch
lock: $(IN)
	$(IN) requirements/lock.py lock --torch $(TORCH)

sbom:
	$(BASE) requirements/lock.py sbom build/sbom.json

clean:
	rm -rf $(VENV) $(PEERS) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# What only the system can provide, all of it named at once and before anything is downloaded:
# these checks need nothing but Python itself.
ready:
	@$(BASE) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dgn-viewer needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; \
	  exit 2; }
	@found=0; \
	$(BASE) -c 'import ensurepip, venv' 2>/dev/null || { found=2; \
	  echo "Python cannot make virtual environments here; run: sudo apt-get install python3-venv" >&2; }; \
	PYTHONPATH=app $(BASE) -m dgn_viewer.system_libraries || found=2; \
	exit $$found

$(IN): | ready
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(IN)
	@echo "Installing dgn-viewer into $(VENV); the first time this takes a few minutes."
	@$(PIP) --editable .
	@touch $@

$(VENV)/installed-test: pyproject.toml | $(IN)
	@echo "Installing dgn-viewer and what its tests need into $(VENV)."
	@$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml | $(IN)
	@echo "Installing dgn-viewer and what its documentation needs into $(VENV)."
	@$(PIP) --editable '.[docs]'
	@touch $@ $(VENV)/installed

# The tools that build and check packages come with their digests where requirements/ is for this
# Python and this platform.
$(VENV)/installed-package: pyproject.toml requirements/package.txt | $(IN)
	@echo "Installing dgn-viewer and what builds its packages into $(VENV)."
	@if $(IN) requirements/lock.py fits; then \
	  $(PIP) --require-hashes --no-deps --requirement requirements/package.txt && $(PIP) --editable .; \
	else $(PIP) --editable '.[package]'; fi
	@touch $@ $(VENV)/installed
