# gluonops. `make help` lists the targets; each installs what it needs into $(VENV) first.

VENV   ?= .venv
MXNET  ?= cpu
OUT     = out/demo
SITE    = docs/_build/html
EXAMPLE =
NAME    =
SECONDS = 600
KILLS   = 50
SEED    = 0
# More workers than this cost more in imports of MXNet than they save.
# Neighbouring tests share what they have compiled; the long ones at the end go to whoever is idle.
PYTEST ?= -n auto --maxprocesses 8 --dist worksteal

BIN     := $(VENV)/bin
LIBRARY := gluonops/native/libgluonops.so
# What has been installed: what the demo runs, and with it what the tests, the pages and the checks need.
DEMO    := $(VENV)/.demo-$(MXNET)
STAMP   := $(VENV)/.gluonops-$(MXNET)
# make compiles the C++ library itself, where one can see it. Python compiles the modules that are imported, a quarter of
# those that pip would compile. It has to keep what it has compiled: each process would take a second longer otherwise.
PIP     := GLUONOPS_COMPILE=0 $(BIN)/python -m pip install --quiet --no-compile
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all mutants coverage test-matrix test-processors test-kill soak fuzz native sanitize cuda-check cuda-sanitize cuda-ptx cuda-import-check arm-check fresh-check wheels bench lint format table docs gallery new-op clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1 /p' Makefile | while read -r name text; do printf '  make %-17s %s\n' "$$name" "$$text"; done
	@echo
	@echo "  MXNET=cu117 installs MXNet for NVIDIA GPUs, PYTHON=... chooses the Python of a new $(VENV),"
	@echo "  PYTEST='-x tests/ops' takes the place of pytest's options."

demo: $(DEMO) ## train, export and run the digits network; results under OUT=out/demo
	@if [ -f $(LIBRARY) ]; then echo "The operators run on the native backend, the C++ library."; \
	else echo "The operators run on the builtin backend. The C++ library is faster: make native compiles it in minutes."; fi
	$(if $(wildcard $(LIBRARY)),,GLUONOPS_BACKEND=builtin) $(BIN)/python examples/train_digits.py --out $(OUT)

test: $(STAMP) ## the tests, without the slow ones
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" $(PYTEST)

test-torch: $(STAMP) ## install PyTorch, and run the tests of gops.export.torch
	$(BIN)/python -m pip install -q torch==2.13.0
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" $(PYTEST) tests/export/pytorch tests/numpy_mode \
		tests/export/test_plain_blocks.py "tests/test_docs.py::test_examples[there_and_back]" \
		"tests/test_docs.py::test_what_commands_print[there_and_back]"

test-all: $(STAMP) ## all tests, and operators with every dtype, request, backend and mode
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --every-mode $(PYTEST)

mutants: $(STAMP) ## plant faults in a copy of the source; the daily tests have to find them; half an hour; ONLY=cuda
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants.py $(if $(ONLY),--only $(ONLY))

coverage: $(STAMP) ## the lines of Python and C++ that the tests run, per file; an hour
	$(PIP) 'gluonops[coverage]'
	sh tools/coverage.sh $(BIN)/python $(PYTEST)

fuzz: $(STAMP) ## random cases of every operator and damaged files of every kind for SECONDS=600 from SEED=0; OP=reorg for one
	$(BIN)/python tests/fuzz/fuzz_driver.py --seconds $(SECONDS) --seed $(SEED) $(if $(OP),--op $(OP))

test-matrix: $(STAMP) ## the core tests on each supported Python that is installed, and five releases of NumPy; QUICK=1
	$(BIN)/python tools/python_matrix.py $(if $(QUICK),--quick) $(PYTEST)

test-processors: $(STAMP) ## the core tests as on other processors, and the first steps on emulated ones; 20 minutes; QUICK=1
	$(BIN)/python tools/processors.py $(if $(QUICK),--quick) $(if $(JSON),--json $(JSON)) $(PYTEST)

test-kill: $(STAMP) ## SIGKILL the training scripts and the exporter, KILLS=50 times each; nothing may be lost
	OMP_NUM_THREADS=1 $(BIN)/python tests/kill/kill_driver.py --kills $(KILLS) --seed $(SEED)

soak: $(STAMP) ## the memory that long use takes, per backend; several minutes
	OMP_NUM_THREADS=1 $(BIN)/python tests/soak/soak_driver.py

native: $(DEMO) ## compile the C++ library again; make test does it at first
	$(BIN)/python -m gluonops.native.build

sanitize: $(STAMP) ## the C++ kernels under AddressSanitizer and UndefinedBehaviorSanitizer, their threads under ThreadSanitizer
	$(BIN)/python -m gluonops.native.build --sanitize --output out/sanitize/libgluonops.so
	GLUONOPS_LIBRARY=$(CURDIR)/out/sanitize/libgluonops.so OMP_NUM_THREADS=1 sh tests/sanitize.sh \
		$(BIN)/python -m pytest -m "not slow" -k native $(PYTEST) tests/ops tests/native/test_native_kernels.py
	sh tests/native/thread_sanitize.sh

cuda-check: $(STAMP) ## compile every CUDA kernel for sm_60 to sm_90 (no GPU needed); registers and spills; QUICK=1
	$(BIN)/python tools/cuda_check.py $(if $(QUICK),--quick)

cuda-sanitize: $(STAMP) ## the CUDA kernels, run on the CPU, under AddressSanitizer
	GLUONOPS_CUDA_SANITIZE=1 OMP_NUM_THREADS=1 sh tests/sanitize.sh $(BIN)/python -m pytest -m "not slow" -k cuda $(PYTEST) tests/cuda/test_cuda_kernels.py tests/ops

cuda-ptx: $(STAMP) ## the CUDA kernels' PTX in an interpreter, every small case under three schedules; races and bounds
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "slow or not slow" $(PYTEST) tests/ptx

cuda-import-check: $(STAMP) ## install the real CUDA wheels, and import them with a stub for a driver; 5 GB of disk
	$(BIN)/python tools/cuda_import_check.py

arm-check: $(STAMP) ## gluonops and MXNet for aarch64, cross-compiled and run in qemu; ten minutes, 2 GB of disk, root
	$(BIN)/python tools/arm_check.py

fresh-check: ## demo and test in a fresh Debian 12 and 13; DEBIAN=13, TARGET=demo for one of each; an hour, 6 GB of disk, root
	python3 tools/fresh_check.py $(if $(DEBIAN),--debian $(DEBIAN)) $(if $(PYTHON),--python $(PYTHON)) \
		$(if $(TARGET),--target '$(TARGET)')

wheels: $(STAMP) ## wheels with the C++ library for x86-64 and Arm, in dist/; ten minutes, and g++-aarch64-linux-gnu
	$(BIN)/python tools/wheels.py

bench: $(STAMP) ## benchmarks against the peers; OP=reorg for one operator
	$(BIN)/python -m benchmarks.operators $(if $(OP),--op $(OP))

lint: $(STAMP) ## ruff
	$(BIN)/python -m ruff check --output-format concise .

format: $(STAMP) ## ruff, mending what it can; it leaves the layout of the code alone
	$(BIN)/python -m ruff check --fix .

table: $(STAMP) ## write the tables that stand in README.md and in pages anew
	$(BIN)/python tools/table.py

docs: $(STAMP) ## the pages of docs/ as a web site, under docs/_build/html
	@echo "Drawing the pictures and building the pages. It takes about a minute."
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs $(SITE)
	@echo "The site is built. Open $(SITE)/index.html"

gallery: $(STAMP) ## run the examples shortly, and write docs/gallery.md with their results; EXAMPLE=x for one of them
	$(BIN)/python docs/gallery.py $(EXAMPLE)

new-op: $(STAMP) ## NAME=x: start an operator; its tests fail until its files are filled
	$(BIN)/python tools/new_op.py "$(NAME)"

clean: ## remove what was built and cached; keeps .venv and out/
	rm -rf build dist *.egg-info docs/_build docs/ops docs/api docs/drawn docs/tables .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(DEMO): setup.py pyproject.toml gluonops/version.py
	@sh tools/venv.sh $(VENV) $(PYTHON)
	$(BIN)/python gluonops/runtime/mxnet_wheel.py $(MXNET)
	$(PIP) -e '.[$(MXNET),examples,onnx,safetensors]'
	@touch $@

$(STAMP): $(DEMO)
	@# pip finds the project that it has installed, and does not build it again.
	$(PIP) 'gluonops[test,dev,docs]'
	@# gluoncv wants opencv-python, which needs libraries of a desktop. The other build has the same files without them.
	$(PIP) --no-deps --force-reinstall opencv-python-headless==$$($(BIN)/python -m pip show opencv-python | sed -n 's/^Version: //p')
	-$(BIN)/python -m gluonops.native.build
	@touch $@
