# make audit   set up, then audit the reference model; ends by naming the report
# make test    set up, then the tests of every property: what a contributor runs
# make test-all    the same, then the rest: rebuilt models, long simulations, dying clusters, every family of models
# make lint    style, types, walls between the rooms; ends with how large each room is
# make docs    the documentation as a site, in build/site; loads nothing from elsewhere
# make fuzz    everything that is read, changed at random: MINUTES (60) in all, from SEED (the time)
# make audit-dependencies   known vulnerabilities of what is installed; 3 where nobody can be asked
# make reference   rebuild the reference model from nothing (hours on two cores)

PYTHON ?= python3
BIN := .venv/bin
PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
MINUTES ?= 60
SEED ?= $(shell date +%s)
FUZZERS := $(patsubst tests/fuzz/%.py,%,$(filter-out %/__init__.py,$(wildcard tests/fuzz/*.py)))

.PHONY: audit test test-all test-rest lint docs fuzz audit-dependencies reference browser latex clean

audit: .venv/installed
	$(BIN)/clinometer audit

# Containers often forbid to keep compiled modules; then each command, and dozens of processes of the tests, would
# compile all they import.
audit test test-all test-rest: export PYTHONDONTWRITEBYTECODE :=

# A file's tests share what they set up, so a file stays in one process; those with slow tests begin.
# One process more than cores, because tests of networks, clusters and browsers wait; with two more it took as long.
PYTEST = $(BIN)/python -m pytest --numprocesses $(PROCESSES) --maxprocesses 4 --dist loadfile --no-loadscope-reorder --durations 10

test: .venv/installed-dev browser
	$(PYTEST) -m "not thorough"

test-rest: export REQUIRE_LATEX := 1
test-rest: .venv/installed-dev browser latex
	$(PYTEST) -m "thorough"

test-all: test
	$(MAKE) test-rest

lint: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/python docs/count_rooms.py

# Search needs the folder to be served; all else works from the files.
docs: export NO_MKDOCS_2_WARNING := 1
docs: .venv/installed-dev
	$(BIN)/python -m mkdocs build --strict
	@echo "The site is build/site; to read and search it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

# Each fuzzer has its share of the time; one that finds something does not keep the next from running.
fuzz: .venv/installed-dev
	@failed=; each=$$(awk 'BEGIN { print $(MINUTES) / $(words $(FUZZERS)) }'); \
	for fuzzer in $(FUZZERS); do \
		echo "$$fuzzer: seed $(SEED), $$each minutes"; \
		$(BIN)/python -m tests.fuzz.$$fuzzer --seed $(SEED) --minutes $$each || failed="$$failed $$fuzzer"; \
	done; \
	test -z "$$failed" || { echo "found something:$$failed"; exit 1; }

# In an environment of its own: what audits must not change what is audited.
audit-dependencies: .venv/installed-dev .venv/audit/bin/pip-audit
	@$(BIN)/python .ci/audit_dependencies.py .venv/audit/bin/pip-audit --path $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

.venv/audit/bin/pip-audit: | .venv/bin/python
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/pip install --quiet "pip-audit>=2.9"

reference: .venv/installed-dev
	$(BIN)/python -m reference.build

.venv/bin/python:
	$(PYTHON) -m venv .venv

# Python compiles a module when it is first imported; to compile all that is installed takes a minute.
.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --no-compile -c constraints.txt -e ".[models,web]"
	@touch $@

.venv/installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --no-compile -c constraints.txt -e ".[models,dev,reference]"
	@touch $@ .venv/installed

# The report is tested in a real browser: any Chromium on the PATH, or $CHROMIUM, or Debian's package.
browser:
	@test -n "$$CHROMIUM" || command -v chromium >/dev/null || { \
		command -v apt-get >/dev/null || { echo "The report's tests need Chromium: install it, or set CHROMIUM"; exit 1; }; \
		sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
		$$sudo apt-get update -qq && $$sudo apt-get install -y -qq chromium >/dev/null; }

# Tables for articles are compiled. Of Debian's texlive-science siunitx alone is taken: what it depends on is 83 MB more.
SIUNITX := /usr/share/texlive/texmf-dist/tex/latex/siunitx
latex:
	@kpsewhich siunitx.sty >/dev/null 2>&1 || { \
		command -v apt-get >/dev/null || { echo "The tests of tables need pdflatex with booktabs and siunitx: install them"; exit 1; }; \
		sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); place=$$(mktemp -d) && \
		$$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends texlive-latex-recommended >/dev/null && \
		(cd "$$place" && apt-get download -qq texlive-science && dpkg-deb -x texlive-science_*.deb .) && \
		$$sudo cp -r "$$place$(SIUNITX)" $(dir $(SIUNITX)) && $$sudo mktexlsr >/dev/null 2>&1 && rm -rf "$$place"; }

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
