# Every target sets up what it needs in .venv, once. `make help` lists them.
#   PYTHON=python3.12     the interpreter to build .venv with (default: the newest of 3.11 to 3.13 found)
#   TORCH_INDEX=URL       where torch comes from (default: PyTorch's CPU index on Linux, then pip's own; `default` = pip's own)
#   ARGS="-k masks"       more arguments for pytest or for the benchmark
#   WORKERS=1             tests side by side (default: one more than cores, since they often wait for other processes)
#   JOBS=2                trainings side by side, for tables of results

PYTHON ?=
TORCH_INDEX ?=
ARGS ?=
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)
JOBS ?= 2
export PYTHON TORCH_INDEX

bin := .venv/bin

# An interpreter that was upgraded away leaves a .venv that cannot start; set it up again.
$(shell [ -x $(bin)/python ] || rm -f .venv/.ready-demo .venv/.ready-dev)

.PHONY: help demo test test-slow test-versions bench bench-translate bench-language gallery results-translate results-vision results-pictures results-language lint clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

demo: .venv/.ready-demo ## translate with the shipped model, and see where each word came from
	@sh tools/demo.sh $(bin)

test: lint ## ruff, mypy, import-linter and the tests
	@$(bin)/python -m pytest -n $(WORKERS) $(ARGS)

test-slow: .venv/.ready-dev ## the tests that take minutes
	@$(bin)/python -m pytest -m slow $(ARGS)

test-versions: ## the contracts on the oldest and the newest torch, each in its own environment, .versions/NAME
	@"$$(sh tools/setup.sh python)" tools/versions.py $(ARGS)

bench: .venv/.ready-demo ## speed and memory against plain PyTorch and peers
	@$(bin)/regard bench attention $(ARGS)

bench-translate: .venv/.ready-dev ## speed of translation against other toolkits, each in its own environment, .peers/NAME
	@$(bin)/python tools/bench_translate.py $(ARGS)

bench-language: .venv/.ready-dev ## GPT training and generation against Hugging Face, sampled softmax against full
	@$(bin)/regard bench language $(ARGS)

gallery: .venv/.ready-dev ## draw the pictures of docs/gallery.md again
	@$(bin)/python tools/gallery.py

results-translate: .venv/.ready-dev ## train and measure docs/results.md's translation tables: hours, goes on where it stopped
	@$(bin)/python tools/results_translate.py --jobs $(JOBS) $(ARGS)

results-vision: .venv/.ready-dev ## the same for those on vision
	@$(bin)/python tools/results_vision.py --jobs $(JOBS) $(ARGS)

results-pictures: .venv/.ready-dev ## the same for those on captions, video, sets, recipes and visual questions
	@$(bin)/python tools/results_pictures.py --jobs $(JOBS) $(ARGS)

results-language: .venv/.ready-dev ## the same for those on pre-training, tags, summaries and conversation
	@$(bin)/python tools/results_language.py --jobs $(JOBS) $(ARGS)

lint: .venv/.ready-dev ## ruff, mypy and import-linter
	@$(bin)/ruff check .
	@$(bin)/mypy
	@$(bin)/lint-imports --no-logo

clean: ## remove .venv, .peers, .versions and every cache
	rm -rf .venv .venv.unfinished .peers .versions build dist .pytest_cache .hypothesis .ruff_cache .mypy_cache .import_linter_cache
	find regard tests examples tools -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are written last, so an install that was cut off leaves none.
.venv/.ready-demo: pyproject.toml constraints.txt
	@sh tools/setup.sh cli,plot,sound,text,web
	@touch $@

# After the other one, so that `make -j demo test` never runs two installs at once.
.venv/.ready-dev: .venv/.ready-demo
	@sh tools/setup.sh dev
	@touch $@
