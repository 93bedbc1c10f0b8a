# On a fresh machine: make demo, make test, make check, and make docs for pages and notebooks.
PYTHON ?= python3
BIN := .venv/bin
BIN3 := .venv-tl3/bin

.PHONY: venv demo explore test test-long check test-tl3 test-newest test-gpu test-gpu-dry gpu-packages bench docs release clean

venv: .venv/.ready
.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,docs,parse]"
	@touch $@

# Threads that wait, wait asleep: a busy machine would else lose most of its time in spinning.
demo test test-long docs: export OMP_WAIT_POLICY = PASSIVE

demo: venv
	$(BIN)/interp-compose cap --model mini-idm --task mini-idm --out out/

# The page on which mini-idm runs in a browser.
explore: venv
	$(BIN)/python -m docs.explore_page out/explore.html

test: venv
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not docs and not gpu_dry and not long'

# What make test leaves out because it takes long (tests/long.py).
test-long: venv
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'long and not docs and not gpu_dry'

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.venv-tl3/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-tl3
	grep -v '^transformer-lens' constraints.txt > .venv-tl3/constraints.txt
	$(BIN3)/python -m pip install --quiet -c .venv-tl3/constraints.txt pip
	$(BIN3)/python -m pip install --quiet -c .venv-tl3/constraints.txt "transformer-lens==3.9.*" -e ".[dev]"
	@touch $@

test-tl3: .venv-tl3/.ready
	$(BIN3)/python -m pytest -m tl3 tests/models tests/interventions tests/papers

# Past the bounds of pyproject.toml; prints warnings, and never fails.
test-newest: venv
	$(BIN)/python -m tests.newest

test-gpu: venv
	$(BIN)/python -m pytest -m gpu

# What benchmarks.gpu measures, in small, on the CPU: one minute.
test-gpu-dry: venv
	$(BIN)/python -m pytest -m gpu_dry tests/test_benchmarks.py

# out/packages.tar.xz (30 MB; the wheels would be 86): what benchmarks.gpu needs on a machine without a network that has
# Python 3.12, torch and the usual packages (accelerate, numpy, pandas, pytest, scikit-learn, tokenizers and their like).
CARRIED := annotated-types beartype blis catalogue cloudpathlib confection cymem datasets defusedxml dill docstring_parser \
	fancy-einsum multiprocess murmurhash nltk plotly preshed pydantic pydantic_core smart_open spacy spacy-legacy \
	spacy-loggers srsly thinc transformer-lens transformers typeguard typing-inspection tyro wasabi weasel
gpu-packages: venv
	rm -rf out/packages
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --only-binary=:all: --implementation cp --python-version 3.12 \
		--platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
		--target out/packages $(foreach name,$(CARRIED),$(shell grep -i '^$(name)==' constraints.txt))
	find out/packages -name '*.so' -exec strip --strip-unneeded {} +
	tar c -C out packages | xz -3 > out/packages.tar.xz

# Some need data. NLTK_DATA: a folder with WordNet; INTERP_COMPOSE_TEST_DATA: one with bird, paws_qqp, sst, cogs and hownet, as
# docs/tasks.md names them. In the working directory: links to these (bird, paws_qqp, sst, cogs, hownet, nltk_data), and texts.
# texts: a folder with the Collaborative International Dictionary of English and the King James Bible, as .txt or .txt.gz.
# cat_watched looks at trainings that other runs open; concept_graphs_normal is on no page.
RUNS := $(basename $(notdir $(wildcard benchmarks/runs/*.toml)))
bench: venv
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.outcomes cat_watched $(filter-out cat_watched concept_graphs_normal,$(RUNS))

docs: venv
	$(BIN)/sphinx-build -W -b html docs docs/_build/html
	$(BIN)/python -m pytest -n 2 --dist loadfile -m docs tests/test_docs.py tests/test_notebooks.py

# sdist and wheel in out/dist, checked; the wheel installed alone with the lowest and the highest packages that it allows, and
# tried. torch as in constraints.txt: RELEASE='--torch ""' leaves it to pip and its index.
release: venv
	$(BIN)/python -m tests.release $(RELEASE)

clean:
	rm -rf .venv .venv-tl3 out docs/_build
