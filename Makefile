# Everything runs in .venv, which is made on first use: a machine needs Python 3.11 to 3.14 with pip, and make.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo gallery notebooks pictures docs test docs-test nightly lint format core bench gpu gpu-test gpu-bench \
	gpu-carry clean

# The first Python that is new enough; `make PYTHON=/path/to/python test` picks another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null \
	&& { echo $$p; break; }; done)

VENV := .venv
CORE := .venv-core
BENCH := .venv-bench
GALLERY := .venv-gallery
DOCS := .venv-docs
BIN := $(VENV)/bin
INSTALL := python -m pip install --quiet --disable-pip-version-check

# Tests run on all cores, but not more than four: every process compiles for itself.
JOBS ?= 4

# `make test ORDER=random` shuffles the tests and prints the seed; `make test ORDER=1234` repeats it.
ORDER ?=
SHUFFLED = $(if $(ORDER),--random-order-bucket=global $(if $(filter-out random,$(ORDER)),--random-order-seed=$(ORDER)))

PYTEST = $(BIN)/python -m pytest --numprocesses logical --maxprocesses $(JOBS) --dist worksteal $(SHUFFLED)

help:
	@echo "make demo    run a stencil on photographs; pictures appear in demo-output/"
	@echo "make gallery draw the pictures of examples/gallery; they appear in gallery-output/"
	@echo "make docs    make the documentation site; it begins with site/index.html"
	@echo "make notebooks  execute examples/course and examples/blog as notebooks, beside the scripts"
	@echo "make test    run the tests; ORDER=random shuffles them"
	@echo "make docs-test  run what the pages, docstrings, notebooks and examples show"
	@echo "make nightly run the tests that both leave out: more of the same, damage, interrupts"
	@echo "make lint    check style, types, the direction of imports and the size of packages"
	@echo "make format  rewrite the files in the project's style"
	@echo "make core    check that NumPy and Numba alone are enough"
	@echo "make bench   print the benchmark table and put it into the README"
	@echo "make gpu     on a machine with a GPU: run the tests that need one, and measure; see docs/gpu.md"
	@echo "make clean   remove what the other commands made"

# Where Debian ships venv without ensurepip, the second line brings pip from outside. Dependency
# groups need pip 25.1, and a new environment may have an older one.
define make_venv
	@test -n "$(PYTHON)" || { echo "ninepoint needs Python 3.11 to 3.14"; exit 1; }
	rm -rf $(1)
	$(PYTHON) -m venv $(1) || { rm -rf $(1) && $(PYTHON) -m venv --without-pip $(1) \
	&& $(PYTHON) -m pip --python $(1)/bin/python install pip; }
	$(1)/bin/$(INSTALL) --upgrade 'pip>=25.1'
endef

$(VENV)/.made: pyproject.toml
	$(call make_venv,$(VENV))
	$(BIN)/$(INSTALL) --editable '.[all,distributed]' --group dev
	@touch $@

# Apart from .venv, because some peers hold NumPy and others back to older versions.
$(BENCH)/.made: pyproject.toml
	$(call make_venv,$(BENCH))
	$(BENCH)/bin/$(INSTALL) --editable '.[images]' --group benchmarks
	@touch $@

$(GALLERY)/.made: pyproject.toml
	$(call make_venv,$(GALLERY))
	$(GALLERY)/bin/$(INSTALL) --editable . --group gallery
	@touch $@

$(DOCS)/.made: pyproject.toml
	$(call make_venv,$(DOCS))
	$(DOCS)/bin/$(INSTALL) --editable '.[all]' --group docs
	@touch $@

# Not editable: this also proves that the built package is complete.
$(CORE)/.made: pyproject.toml $(shell find src -name '*.py' -o -name '*.h')
	$(call make_venv,$(CORE))
	$(CORE)/bin/$(INSTALL) .
	@touch $@

demo: $(VENV)/.made
	$(BIN)/python examples/demo.py

gallery: $(GALLERY)/.made
	$(GALLERY)/bin/python examples/draw.py gallery-output

# The last of them is about 10,000 frames, and takes minutes.
notebooks: $(VENV)/.made
	$(BIN)/python examples/notebook.py examples/course/course.ipynb examples/course/[0-9]*.py
	$(BIN)/python examples/notebook.py examples/blog/post.ipynb examples/blog/post.py
	$(BIN)/python examples/notebook.py examples/blog/frames.ipynb examples/blog/frames.py

# The pictures of the README and the pages are those that these commands make.
pictures: demo $(GALLERY)/.made
	cp demo-output/smooth.png demo-output/filters.png docs/images/
	$(BIN)/python -m benchmarks plot
	$(GALLERY)/bin/python examples/draw.py gallery-output docs/images/gallery

# What was made before and has not changed is kept in docs/generated, the gallery's pictures too.
docs: $(DOCS)/.made
	$(DOCS)/bin/python -m sphinx -W --keep-going --jobs auto --builder html docs site
	$(DOCS)/bin/python docs/check_links.py site

test: $(VENV)/.made
	$(PYTEST) --ignore=tests/docs

docs-test: $(VENV)/.made
	$(PYTEST) tests/docs

# What takes longest: other types, seeds and borders, killed workers, flipped bits, protected pages.
nightly: $(VENV)/.made
	$(PYTEST) -m nightly

lint: $(VENV)/.made
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python tests/budget.py

format: $(VENV)/.made
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

core: $(CORE)/.made
	$(CORE)/bin/python -P tests/core_only.py

bench: $(BENCH)/.made
	$(BENCH)/bin/python -m benchmarks

# On a machine with a GPU the Python is that which has CuPy there. What else it lacks is brought along
# by `make gpu-carry`, made where there is a network: a GPU's machine may have none.
GPU_PYTHON ?= python3
GPU_PYTHON_VERSION ?= 3.12
GPU_SITE := .gpu-site
GPU_CARRIED := numba llvmlite ml-dtypes pytest pytest-timeout iniconfig pluggy pygments packaging dask toolz \
	cloudpickle fsspec partd locket pyyaml click psutil numba-cuda cuda-bindings cuda-core cuda-pathfinder
GPU_RESULTS ?= benchmarks/results.json
GPU_MINUTES ?= 9
GPU_RUN = test ! -f $(GPU_SITE).tar.xz -o -d $(GPU_SITE) || { mkdir $(GPU_SITE) && tar -C $(GPU_SITE) -xf $(GPU_SITE).tar.xz; }; \
	PYTHONUNBUFFERED=1 PYTHONPATH=src:$(GPU_SITE) $(GPU_PYTHON)

# Figures are worth having where a test fails.
gpu:
	@status=0; $(MAKE) gpu-test || status=1; $(MAKE) gpu-bench || status=1; exit $$status

gpu-test:
	$(GPU_RUN) -m pytest -m gpu tests/gpu tests/docs/test_docs.py

gpu-bench:
	$(GPU_RUN) -m benchmarks --only gpu --store --file $(GPU_RESULTS) --minutes $(GPU_MINUTES)

gpu-carry:
	rm -rf $(GPU_SITE) $(GPU_SITE).tar.xz
	python3 -m pip install --quiet --no-deps --target $(GPU_SITE) --only-binary :all: \
		--python-version $(GPU_PYTHON_VERSION) --implementation cp --platform manylinux_2_28_x86_64 \
		--platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
		$(GPU_CARRIED)
	-find $(GPU_SITE) -name '*.so' -size +8M -exec strip --strip-unneeded {} +
	tar -C $(GPU_SITE) -cf - . | xz -T0 -5 > $(GPU_SITE).tar.xz
	rm -rf $(GPU_SITE)

clean:
	rm -rf $(VENV) $(CORE) $(BENCH) $(GALLERY) $(DOCS) $(GPU_SITE) $(GPU_SITE).tar.xz build dist site docs/generated demo-output gallery-output \
		course-output examples/*/course-output examples/*/*.ipynb \
		.pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
