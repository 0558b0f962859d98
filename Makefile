# Each target sets up what it needs; a second call starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
NOT_QUICK := slow or page or gpu or data

.PHONY: demo docs pictures security test test-slow test-page lint results reference snapshots wheel clean

demo: $(VENV)/core
	$(BIN)/newfound demo

test: $(VENV)/dev lint
	$(BIN)/pytest --numprocesses 2 --dist loadfile -m "not ($(NOT_QUICK))"

test-slow: $(VENV)/dev
	$(BIN)/pytest -m "slow and not (gpu or data)"

security: $(VENV)/dev
	rm -f tests/hostile/record.json
	NEWFOUND_RECORD=1 $(BIN)/pytest tests/hostile
	$(BIN)/python tools/security.py

test-page: $(VENV)/dev
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || { apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; }
	$(BIN)/pytest -m page

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict --follow-imports=silent --cache-dir=.mypy_cache/strict tests/typed/script.py

snapshots: $(VENV)/dev
	$(BIN)/python tests/plan/test_snapshots.py

results: $(VENV)/core
	$(BIN)/python benchmarks/tables/page.py
	$(BIN)/python tools/readme.py

docs: $(VENV)/docs build/gallery/demo.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

build/gallery/demo.html: $(VENV)/core
	$(BIN)/python tools/gallery.py

build/demo/report.html: $(VENV)/core
	rm -rf build/demo
	$(BIN)/newfound demo --out build/demo

pictures: $(VENV)/dev build/demo/report.html
	$(BIN)/python tools/pictures.py build/demo/report.html

reference: $(VENV)/core
	$(BIN)/python tools/reference.py

wheel: $(VENV)/dev
	rm -rf build
	$(BIN)/python -m build --wheel --quiet

$(VENV)/python:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/core: $(VENV)/python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	touch $@

$(VENV)/dev: $(VENV)/core
	$(INSTALL) --editable '.[dev]'
	touch $@

$(VENV)/docs: $(VENV)/core
	$(INSTALL) --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
