# Everything a developer does. Each target sets up what it needs first; set-up is a no-op when it is current.
# PYTHON=python3.12 chooses the Python; ARGS="…" is handed on, e.g. make test ARGS="-k pager".

BIN := .venv/bin
ARGS ?=
SETUP := python3 packaging/setup.py
SYSTEM := $(shell uname)

.PHONY: setup run test test-long lint bench screenshots docs app dmg lock clean

setup:
	@$(SETUP) $(if $(PYTHON),--python "$(PYTHON)")

run: setup
	@$(BIN)/mlxr $(ARGS)

test: setup
	$(BIN)/pytest -m "not long" $(ARGS)

test-long: setup
	$(BIN)/pytest --hypothesis-profile exploring $(ARGS)

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --project pyproject.toml
	$(BIN)/lint-imports --no-logo

bench: setup
	@$(BIN)/mlxr bench $(ARGS)

screenshots: setup
	$(BIN)/pytest -q tests/app/test_screenshots.py tests/app/test_models_screenshots.py tests/app/test_readme_picture.py tests/app/test_bad_start_window.py tests/app/test_docs_pictures.py tests/app/dashboard/test_dashboard_pictures.py tests/app/about/test_about_pictures.py tests/app/crash/test_crash_pictures.py $(ARGS)
	@ls build/screenshots/*.png

docs: setup
	$(BIN)/python packaging/docs_commands.py
	$(BIN)/mkdocs build --strict --quiet -f packaging/mkdocs.yml
	@echo build/docs/index.html

ifeq ($(SYSTEM),Darwin)
# MACOS=26 makes the app of MLX's wheels for macOS 26, which only that and later systems load.
MACOS ?= 14
app: setup
	MLXR_MACOS=$(MACOS) $(BIN)/python packaging/macos/freezing.py

dmg: app
	MLXR_MACOS=$(MACOS) $(BIN)/python packaging/macos/disk_image.py build/app/macos$(MACOS)/MLXR.app build/app/MLXR-macos$(MACOS)-arm64.dmg
else
app: setup
	@$(BIN)/python packaging/freeze.py $(ARGS)

dmg:
	@echo "error: make dmg needs a Mac: codesign, hdiutil and the Finder" >&2; exit 1
endif

lock:
	@$(SETUP) --lock

clean:
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find app engine metal resources tests packaging -name __pycache__ -type d -prune -exec rm -rf {} +
