# make setup | run | test | bench | torture | lint | docs      (each installs what it needs)
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
RUN    := runs/quickdraw
FIRST  := runs/quickdraw-pretrained
# Processes that run tests: one more than cores, since some tests wait (for a browser, for processes they started).
WORKERS ?= 4

.PHONY: setup run test pytest bench torture lint style types docs clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

# Train in two stages on the drawings that ship with the package, test on unseen classes, plot the results. About five minutes.
run: $(READY)
	$(BIN)/tpn pretrain --episodes 780 --out $(FIRST) --resume
	$(BIN)/tpn train tpn --init $(FIRST) --episodes 800 --schedule cosine --validate-every 200 --out $(RUN) --resume
	$(BIN)/tpn evaluate $(RUN) --shot 1
	$(BIN)/tpn evaluate $(RUN) --shot 5
	$(BIN)/tpn plot $(RUN) --shot 1 --query 12

lint: style types

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy
	$(BIN)/lint-imports

# The tests run beside mypy, which uses one core only.
test: style
	$(MAKE) --jobs=2 types pytest

pytest: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

bench: $(READY)
	$(BIN)/python -m benchmarks

# Try to break it: kills, full disks, damaged files, wrong command lines. 20 minutes; the same command goes on.
torture: $(READY)
	$(BIN)/python -m torture

# The documentation site, into build/site: open build/site/index.html through a web server (python -m http.server -d build/site).
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
