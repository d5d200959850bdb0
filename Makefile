# make audit   set up, then audit the reference model; ends by naming the report
# make test    set up, then every test
# make lint    style, types, walls between the rooms
# make reference   rebuild the reference model from nothing (hours on two cores)

PYTHON ?= python3
BIN := .venv/bin

.PHONY: audit test lint reference browser clean

audit: .venv/installed
	$(BIN)/clinometer audit

# A file's tests share what they set up, so a file stays in one process; those with slow tests begin.
test: .venv/installed-dev browser
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

lint: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

reference: .venv/installed-dev
	$(BIN)/python -m reference.build

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet -c constraints.txt -e .
	@touch $@

.venv/installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dev,reference]"
	@touch $@ .venv/installed

# The report is tested in a real browser: any Chromium on the PATH, or $CHROMIUM, or Debian's package.
browser:
	@test -n "$$CHROMIUM" || command -v chromium >/dev/null || { \
		command -v apt-get >/dev/null || { echo "The report's tests need Chromium: install it, or set CHROMIUM"; exit 1; }; \
		sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
		$$sudo apt-get update -qq && $$sudo apt-get install -y -qq chromium >/dev/null; }

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
