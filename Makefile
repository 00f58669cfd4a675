# The commands of the README are `make demo`, `make test` and `make attack`; each does all its own set-up.

# Behind a proxy that re-signs TLS, pip knows the company's CA; the builds of images then need it too.
export AGENT_SANDBOX_EXTRA_CA ?= $(PIP_CERT)

# Compiled tests are kept, whatever the shell says: compiling them again is a third of a run of the unit tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo check test test-unit test-deep test-lowest test-busy nightly images durations attack agents languages bench lock engine golden oracles clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-11s %s\n", $$1, $$2 }'

setup: ## Make .venv (finds a Python >= 3.12)
	@scripts/setup

demo: setup ## Show the main job end to end: the real stack where Docker runs, the proxy alone elsewhere; DAY=1: the first day
	@.venv/bin/python scripts/demo.py $(if $(DAY),--day)

check: setup ## Read the code: ruff, mypy, import-linter, shellcheck, shfmt
	@scripts/check

test: $(if $(CHECKED),setup,check) ## Run every test that can run here but the nightly ones, and say what was left out
	@scripts/test

test-unit: setup ## The unit and property tests alone, in two parts: seconds, while you write
	@scripts/test-unit

test-deep: setup ## Every law on a thousand fresh examples, floods that last longer: minutes
	@scripts/test-deep

attack: setup ## Attack it, row by row, on a real engine, and print the score
	@REQUIRE_ENGINE=1 scripts/test --quiet --attacks

agents: setup ## Build every agent, and let each talk to a fake model API: minutes
	@EVERY_AGENT=1 REQUIRE_ENGINE=1 scripts/test tests/e2e/test_agents.py

languages: setup ## Build one image with every language of `init --with`, and a program in each: minutes
	@EVERY_LANGUAGE=1 REQUIRE_ENGINE=1 scripts/test tests/e2e/test_languages.py

test-busy: setup ## The tests that wait or measure, twice, beside four busy loops
	@scripts/test-busy

nightly: setup ## All that is too long for each change: every test, agent and language, the lowest versions, fresh examples
	@NIGHTLY=1 EVERY_AGENT=1 EVERY_LANGUAGE=1 REQUIRE_ENGINE=1 scripts/test
	@scripts/test-lowest
	@scripts/test-deep

images: setup ## Build the images that the tests on the engine need, which they otherwise do first
	@.venv/bin/python tests/lab/prepared.py

AFTER ?= build/durations.json
durations: setup ## Compare the durations of two whole runs: BEFORE=file, AFTER=file (build/durations.json)
	@.venv/bin/python -P tests/lab/durations.py $(if $(BEFORE),$(BEFORE),$(error name a copy of build/durations.json: make durations BEFORE=file)) $(AFTER)

bench: setup ## Measure beside peers, as ratios
	@PYTHONPATH=. .venv/bin/python -P -m benchmarks

test-lowest: setup ## The unit tests with the lowest versions that pyproject.toml promises
	@scripts/test-lowest

lock: setup ## Pin every dependency anew
	@scripts/lock

engine: ## Bring up a Docker engine on a bare Debian 12 machine
	@scripts/engine

golden: setup ## Regenerate the golden files, docs/cli.md and the output in docs/policy/
	@.venv/bin/python scripts/golden

oracles: setup ## Ask Node and Go, where they are installed, how they read odd responses; tests compare the lane with that
	@.venv/bin/python tests/lab/response_oracles.py

clean: ## Remove what the above made
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
