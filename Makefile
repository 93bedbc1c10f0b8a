# On a fresh machine: make demo, make test, make check, and make docs for pages and notebooks.
PYTHON ?= python3
BIN := .venv/bin
BIN3 := .venv-tl3/bin

.PHONY: venv demo explore test check test-tl3 test-newest test-gpu gpu-packages bench docs clean

venv: .venv/.ready
.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev,docs,parse]"
	@touch $@

# Threads that wait, wait asleep: a busy machine would else lose most of its time in spinning.
demo test docs: export OMP_WAIT_POLICY = PASSIVE

demo: venv
	$(BIN)/interp-compose cap --model mini-idm --task mini-idm --out out/

# The page on which mini-idm runs in a browser.
explore: venv
	$(BIN)/python -m docs.explore_page out/explore.html

test: venv
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not docs'

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
bench: venv
	$(BIN)/python -m benchmarks.cap_sweep
	$(BIN)/python -m benchmarks.alignment
	$(BIN)/python -m benchmarks.losses
	$(BIN)/python -m benchmarks.decoding
	$(BIN)/python -m benchmarks.carma
	$(BIN)/python -m benchmarks.carma_study
	$(BIN)/interp-compose carma --model mini-base --task mini-idm --seeds 5 --out out/carma-idm
	$(BIN)/python -m benchmarks.carma_outcomes out/carma-idm
	$(BIN)/interp-compose carma --model mini-base --task mini-sst --seeds 5 --out out/carma-sst
	$(BIN)/python -m benchmarks.carma_outcomes out/carma-sst
	$(BIN)/python -m benchmarks.carma_controls out/carma-idm
	$(BIN)/python -m benchmarks.carma_labels out/carma-sst
	$(BIN)/python -m benchmarks.carma_search --out out/search
	$(BIN)/python -m benchmarks.circuits
	$(BIN)/python -m benchmarks.transplant_sweep
	$(BIN)/python -m benchmarks.audit_cost
	$(BIN)/python -m benchmarks.watch_cost
	$(BIN)/python -m benchmarks.carma_watched --out out/carma-watched
	$(BIN)/python -m benchmarks.shuffled_draws
	$(BIN)/python -m benchmarks.panel_minutes
	$(BIN)/interp-compose transplant --out out/transplants
	$(BIN)/python -m benchmarks.transplant_outcomes out/transplants --figures expected untouched
	$(BIN)/interp-compose phases --gammas 0.5,0.8 --weight-decays 0.01 --seeds 1 --out out/two-phases
	$(BIN)/interp-compose transplant --model out/two-phases/runs/b33aed3e4b70dfb2/model --task anchors --out out/transplants-0.5
	$(BIN)/interp-compose transplant --model out/two-phases/runs/edf94df624c50ba6/model --task anchors --out out/transplants-0.8
	$(BIN)/python -m benchmarks.transplant_outcomes out/transplants-0.5 --name anchors_0.5
	$(BIN)/python -m benchmarks.transplant_outcomes out/transplants-0.8 --name anchors_0.8
	$(BIN)/python -m benchmarks.stable_rank
	$(BIN)/python -m benchmarks.complexity_report
	$(BIN)/python -m benchmarks.phases
	$(BIN)/python -m benchmarks.phase_diagram --out out/phases
	$(BIN)/python -m benchmarks.phase_diagram --unclipped --out out/phases-unclipped
	$(BIN)/python -m benchmarks.phase_diagram --first-seed 300 --again --out out/phases-again
	$(BIN)/python -m benchmarks.phase_diagram --norm post --out out/phases-post
	$(BIN)/python -m benchmarks.phase_seeds --out out/phase-seeds
	$(BIN)/python -m benchmarks.phase_seeds --norm post --out out/phases-post
	$(BIN)/python -m benchmarks.inside --runs out/phases
	$(BIN)/python -m benchmarks.inside --runs out/phases-post --norm post
	$(BIN)/python -m benchmarks.unseen_pairs --runs out/phases-again --norm pre --first-seed 300
	$(BIN)/python -m benchmarks.unseen_pairs --runs out/phases-post --norm post
	$(BIN)/python -m benchmarks.post_ln --out out/post_ln
	$(BIN)/python -m benchmarks.unseen_sum --out out/unseen_sum
	$(BIN)/python -m benchmarks.anchors_watched --out out/anchors-watched
	$(BIN)/python -m benchmarks.lrf_watched --out out/lrf-watched
	$(BIN)/python -m benchmarks.cat_watched --data-dir texts --sememes hownet --out out/pretrain
	$(BIN)/interp-compose pretrain --data-dir texts --sememes hownet --models bert,cat-last --seeds 3 --out out/pretrain
	$(BIN)/interp-compose encoders --runs out/pretrain --tasks bird=bird,paws-qqp=paws_qqp,sst=sst --shares 0.1,0.3,0.5,0.7,0.9,1 --out out/judged
	$(BIN)/python -m benchmarks.encoder_outcomes small out/pretrain out/judged
	$(BIN)/interp-compose codes --runs out/pretrain --phrases bird --wordnet nltk_data --out out/codes
	$(BIN)/python -m benchmarks.code_outcomes small out/codes
	$(BIN)/python -m benchmarks.cat_pooled out/pretrain
	$(BIN)/interp-compose pretrain --data-dir texts --sememes hownet --models bert,cat --code-norm unit --guided 0.1 --sparsity 0.01 --seeds 3 --out out/every
	$(BIN)/interp-compose encoders --runs out/every --tasks bird=bird,paws-qqp=paws_qqp,sst=sst --out out/every-judged
	$(BIN)/python -m benchmarks.encoder_outcomes every out/every out/every-judged
	$(BIN)/interp-compose codes --runs out/every --phrases bird --wordnet nltk_data --out out/every-codes
	$(BIN)/python -m benchmarks.code_outcomes every out/every-codes
	$(BIN)/interp-compose pretrain --data-dir texts --sememes hownet --models cat --seeds 1 --max-steps 400 --n-looks 8 --out out/causes-1
	$(BIN)/interp-compose pretrain --data-dir texts --sememes hownet --models cat --seeds 1 --max-steps 400 --n-looks 8 --guided 0 --sparsity 0 --reconstruction 0 --nuance 0 --sufficiency 0 --out out/causes-2
	$(BIN)/interp-compose pretrain --data-dir texts --sememes hownet --models cat --seeds 1 --max-steps 400 --n-looks 8 --code-norm unit --out out/causes-3
	$(BIN)/interp-compose pretrain --data-dir texts --sememes hownet --models cat --seeds 1 --max-steps 400 --n-looks 8 --code-norm unit --guided 0 --sparsity 0 --reconstruction 0 --nuance 0 --sufficiency 0 --out out/causes-4
	$(BIN)/python -m benchmarks.every_block out/causes-1 out/causes-2 out/causes-3 out/causes-4 out/every
	$(BIN)/python -m benchmarks.fitting_speed --out out/speed
	$(BIN)/python -m benchmarks.fitting_speed --norm post --out out/speed-post
	$(BIN)/python -m benchmarks.seq2seq
	$(BIN)/python -m benchmarks.decoding
	$(BIN)/interp-compose generalise --task scan-length-26 --models transformer,transformer-relative,lrf-relative,parameters-relative,previous-relative,deeper-relative --seeds 5 --out out/length
	$(BIN)/python -m benchmarks.sequence_outcomes out/length
	$(BIN)/interp-compose fusion --runs out/length --models transformer-relative,lrf-relative,parameters-relative,previous-relative,deeper-relative --seed 0 --out out/fusion-0
	$(BIN)/interp-compose fusion --runs out/length --models transformer-relative,lrf-relative,parameters-relative,previous-relative,deeper-relative --seed 1 --out out/fusion-1
	$(BIN)/interp-compose fusion --runs out/length --models transformer-relative,lrf-relative,parameters-relative,previous-relative,deeper-relative --seed 2 --out out/fusion-2
	$(BIN)/interp-compose fusion --runs out/length --models transformer-relative,lrf-relative,parameters-relative,previous-relative,deeper-relative --seed 3 --out out/fusion-3
	$(BIN)/interp-compose fusion --runs out/length --models transformer-relative,lrf-relative,parameters-relative,previous-relative,deeper-relative --seed 4 --out out/fusion-4
	$(BIN)/python -m benchmarks.fusion_outcomes length out/fusion-0 out/fusion-1 out/fusion-2 out/fusion-3 out/fusion-4
	$(BIN)/interp-compose generalise --task scan-turn-left --models transformer,lrf,parameters,previous,deeper --seeds 5 --out out/turn-left
	$(BIN)/python -m benchmarks.sequence_outcomes out/turn-left
	$(BIN)/interp-compose generalise --task scan-jump --models transformer,lrf,parameters,previous,deeper --seeds 5 --out out/jump
	$(BIN)/python -m benchmarks.sequence_outcomes out/jump
	$(BIN)/interp-compose generalise --task cogs --data-dir cogs --epochs 16 --models transformer,lrf,parameters,previous,deeper --seeds 5 --out out/cogs
	$(BIN)/python -m benchmarks.sequence_outcomes out/cogs
	$(BIN)/interp-compose fusion --runs out/cogs --models transformer,lrf --n-pairs 2100 --n-probe 1500 --seed 0 --out out/cogs-inside-0
	$(BIN)/interp-compose fusion --runs out/cogs --models transformer,lrf --n-pairs 2100 --n-probe 1500 --seed 4 --out out/cogs-inside-4
	$(BIN)/python -m benchmarks.fusion_outcomes cogs out/cogs-inside-0 out/cogs-inside-4
	$(BIN)/interp-compose phases --task scan-turn-left --sizes 5000,10000,21890 --gammas 0.5 --weight-decays 0.01 --seeds 5 --out out/turn-left-large
	$(BIN)/python -m benchmarks.sequence_outcomes out/turn-left-large
	$(BIN)/interp-compose phases --task scan-turn-left --sizes 5000,10000,21890 --gammas 0.7 --weight-decays 0.1 --seeds 5 --out out/turn-left-small
	$(BIN)/python -m benchmarks.sequence_outcomes out/turn-left-small
	$(BIN)/interp-compose transplant --model out/turn-left-large/runs/06fed6f98cb66a9d/model --task scan --pooling mean --out out/scan-large-3
	$(BIN)/interp-compose transplant --model out/turn-left-large/runs/09e2ee08f81f619e/model --task scan --pooling mean --out out/scan-large-4
	$(BIN)/python -m benchmarks.transplant_outcomes out/scan-large-3 out/scan-large-4 --name scan_0.5
	$(BIN)/interp-compose transplant --model out/turn-left-small/runs/8194da43e84ab0bd/model --task scan --pooling mean --out out/scan-small-3
	$(BIN)/interp-compose transplant --model out/turn-left-small/runs/090bcd20fc69c3c5/model --task scan --pooling mean --out out/scan-small-4
	$(BIN)/python -m benchmarks.transplant_outcomes out/scan-small-3 out/scan-small-4 --name scan_0.7
	$(BIN)/interp-compose phases --task cogs --data-dir cogs --sizes 6000,12000,24155 --gammas 0.5 --weight-decays 0.01 --seeds 3 --out out/cogs-large
	$(BIN)/python -m benchmarks.sequence_outcomes out/cogs-large
	$(BIN)/interp-compose phases --task cogs --data-dir cogs --sizes 6000,12000,24155 --gammas 0.7 --weight-decays 0.1 --seeds 3 --out out/cogs-small
	$(BIN)/python -m benchmarks.sequence_outcomes out/cogs-small
	$(BIN)/interp-compose phases --task addition-99 --n-heads 1 --epochs 100 --gammas 0.5,0.7 --weight-decays 0.01,0.1 --seeds 5 --out out/addition
	$(BIN)/python -m benchmarks.sequence_outcomes out/addition
	$(BIN)/python -m benchmarks.inside_tasks out/addition
	$(BIN)/interp-compose phases --task addition-99 --model mini-base --weight-decays 0.01,0.1 --epochs 40 --seeds 5 --out out/fine-tuned
	$(BIN)/python -m benchmarks.sequence_outcomes out/fine-tuned
	$(BIN)/interp-compose phases --task prontoqa-1 --sizes 2000,6000,20000 --n-heads 2 --lr 2e-3 --epochs 100 --max-steps 12000 --gammas 0.5 --weight-decays 0.01 --seeds 3 --out out/proofs-large
	$(BIN)/python -m benchmarks.sequence_outcomes out/proofs-large
	$(BIN)/interp-compose phases --task prontoqa-1 --sizes 2000,6000,20000 --n-heads 2 --lr 2e-3 --epochs 100 --max-steps 12000 --gammas 0.7 --weight-decays 0.1 --seeds 3 --out out/proofs-small
	$(BIN)/python -m benchmarks.sequence_outcomes out/proofs-small
	$(BIN)/interp-compose phases --task concept-graphs --gammas 0.3,0.5,0.7 --seeds 3 --out out/concepts
	$(BIN)/python -m benchmarks.sequence_outcomes out/concepts
	$(BIN)/interp-compose phases --task text --data-dir texts --gammas 0.5 --weight-decays 0.01 --seeds 3 --out out/text-large
	$(BIN)/python -m benchmarks.sequence_outcomes out/text-large
	$(BIN)/interp-compose phases --task text --data-dir texts --gammas 0.7 --weight-decays 0.1 --seeds 3 --out out/text-small
	$(BIN)/python -m benchmarks.sequence_outcomes out/text-small
	$(BIN)/python -m benchmarks.inside_tasks out/turn-left-large out/turn-left-small
	$(BIN)/interp-compose pretrain --model sentence-transformers/all-MiniLM-L6-v2 --frozen --models cat-last,cat-last-fixed,cat-last-mlp --data-dir texts/gcide.txt.gz --sememes hownet --n-ctx 32 --batch-tokens 1024 --max-steps 400 --n-looks 4 --held-out 0.005 --seeds 3 --out out/minilm
	$(BIN)/interp-compose encoders --runs out/minilm --tasks bird=bird,paws-qqp=paws_qqp --limit 1700 --out out/minilm-judged
	$(BIN)/python -m benchmarks.encoder_outcomes minilm out/minilm out/minilm-judged
	$(BIN)/interp-compose encoders --runs out/minilm --models cat-last --tasks bird=bird,paws-qqp=paws_qqp --tuned end-to-end --embeddings cls --limit 1700 --out out/minilm-tuned
	$(BIN)/python -m benchmarks.encoder_outcomes minilm_tuned out/minilm out/minilm-tuned
	$(BIN)/python -m benchmarks.encoder_steps --repeats 5
	$(BIN)/python -m benchmarks.encoder_steps --memory --shapes small
	$(BIN)/python -m benchmarks.decoder_steps --repeats 15
	$(BIN)/python -m benchmarks.side_by_side
	$(BIN)/python -m benchmarks.generation
	$(BIN)/python -m benchmarks.idm_counts
	$(BIN)/python -m benchmarks.similarity

docs: venv
	$(BIN)/sphinx-build -W -b html docs docs/_build/html
	$(BIN)/python -m pytest -n 2 --dist loadfile -m docs tests/test_docs.py tests/test_notebooks.py

clean:
	rm -rf .venv .venv-tl3 out docs/_build
