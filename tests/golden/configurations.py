"""The commands and calls, in small."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import torch

import interp_compose as ic
from tests.studies.conftest import TEXTS
from tests.test_cli_contract import COMMANDS as SMALL, READS

PAPERS: Final = ("carma", "complexity", "lrf", "cat")
SHAPED: Final = "--d-model 8 --n-heads 2 --d-mlp 8 --max-steps 2"
MORE: Final[Mapping[str, str]] = {
    "cap, three poolings": "cap --model mini-idm --task mini-idm --limit 20 "
    "--pooling mean max sum --device cpu",
    "cap, broadcast": "cap --model GPT-2 --task rows.jsonl --mode broadcast --device cpu",
    "cap of the shipped base": "cap --model mini-base --task mini-sst --limit 12 --device cpu",
    "transplants, shipped": "transplant --limit 12 --device cpu",
    "heads": "ablate --model GPT-2 --task rows.jsonl --what heads --how mean --device cpu",
    "mlp": "ablate --model GPT-2 --task rows.jsonl --what mlp --device cpu",
    "words by kind": "ablate --model mini-idm --task mini-idm --limit 12 --what words "
    "--tagger kind --device cpu",
    "similarity of last": "similarity --model GPT-2 --task pairs.tsv --embedding last --device cpu",
    "weights of mini-idm": "weights --model mini-idm --device cpu",
    "scan": "phases --task scan-turn-left --sizes 40 --gammas 0.5 --weight-decays 0.01 --seeds 1 "
    f"{SHAPED} --n-looks 1 --n-curve 20 --where here",
    "proofs": "task-phases --task prontoqa-1 --sizes 40 --gammas 0.5 --weight-decays 0.01 "
    f"--seeds 1 {SHAPED} --n-looks 1 --n-curve 20 --where here",
    "generalise, by workers": "generalise --task scan-jump --limit 30 --models previous,deeper "
    f"--seeds 1 {SHAPED} --n-looks 1 --workers 2",
    "cat of the last block": "pretrain --data-dir people.txt --sememes sememes --models cat-last "
    "--seeds 1 --vocab-size 52 --held-out 0.2 --held-out-words 0.3 --n-ctx 24 --n-layers 2 "
    f"{SHAPED} --n-codes 5 --batch-tokens 200 --n-looks 1 --n-curve 5 --where here",
}
ON_RESULTS: Final[Mapping[str, str]] = {
    "plot": "plot out/cap --format png",
    "compare": "compare out/cap out/cap_broadcast --out out/compare",
}


def commands() -> dict[str, list[str]]:
    """Name -> arguments; what opens trained runs comes after what trains them."""
    found = {}
    for name, options in SMALL.items():
        trained = READS.get(name, ("", ""))[0]
        options = (
            options.replace(f"--runs {trained}", f"--runs out/{trained}") if trained else options
        )
        found[name] = [name, *options.split(), "--out", f"out/{name}"]
    for name, line in MORE.items():
        found[name] = [*line.split(), "--out", f"out/{name.replace(', ', '_').replace(' ', '_')}"]
    return found | {name: line.split() for name, line in ON_RESULTS.items()}


def named(name: str) -> Any:
    """A public name: the library's own, or in a paper's namespace."""
    for place in (ic, *(getattr(ic, paper, None) for paper in PAPERS)):
        if place is not None and name in dir(place):
            return getattr(place, name)
    raise AttributeError(name)


def public_names() -> list[str]:
    found = {name for name in dir(ic) if not name.startswith("__")} - {*PAPERS}
    for paper in PAPERS:
        found |= (
            {one for one in dir(getattr(ic, paper, None)) if not one.startswith("_")}
            if hasattr(ic, paper)
            else set()
        )
    return sorted(found)


def signatures() -> dict[str, str]:
    """Of each public name, and of the public methods of its class, without modules' names."""
    found = {}
    for name in public_names():
        one = named(name)
        found[name] = _signature(one)
        members = vars(one).items() if inspect.isclass(one) else ()
        for member, value in members:
            if not member.startswith("_"):
                value = getattr(value, "__func__", value)
                found[f"{name}.{member}"] = _signature(value) if callable(value) else "value"
    return found


def _signature(one: Any) -> str:
    try:
        text = str(inspect.signature(one))
    except (TypeError, ValueError):
        return type(one).__name__
    return re.sub(r"\b[a-z_][\w]*(\.[a-z_]\w*)*\.(?=[A-Z])|interp_compose[\w.]*\.", "", text)


@cache
def loaded(name: str) -> Any:
    return ic.load_model(name, device="cpu")


@cache
def idm() -> Any:
    return ic.load_task("mini-idm", loaded("mini-idm"))


TEXT: Final = "a small wooden house in the mountains"
ROWS: Final = [(f'{text} "', answer) for text, answer in zip(TEXTS, "abcde", strict=True)]
TINY: Final[dict[str, Any]] = {"where": "here", "seeds": 1, "progress": False}
SHAPE: Final = {"n_layers": 1, "d_model": 8, "n_heads": 2, "d_mlp": 8}


def interventions() -> Any:
    """Logits without and with each."""
    model = loaded("mini-idm")
    found = {"clean": model(TEXT), "resid_pre": model.resid_pre(TEXT, 1)}
    blocks: dict[str, Callable[[], Any]] = {
        "exclude": lambda: ic.mask_attention(model, keys="small", layers=[0]),
        "zero": lambda: ic.mask_attention(model, keys=[1, 2], queries=[4], mode="zero"),
        "residual": lambda: ic.mask_residual(model, positions=[2], part="mlp"),
        "pooled": lambda: ic.pool_at(model, 1, unit="word"),
        "broadcast": lambda: ic.pool_at(model, 1, "wooden", "max", mode="broadcast"),
        "heads": lambda: ic.ablate(model, heads=[(0, 1)]),
        "neurons": lambda: ic.ablate(model, neurons=[0, 3], layers=[1]),
        "hooks": lambda: model.hooks([("blocks.0.hook_resid_post", lambda x, hook: x * 0.5)]),
    }
    for name, block in blocks.items():
        with block():
            found[name] = model(TEXT), model.active_hooks
    found["leak"] = ic.attention_leak(model, TEXT, keys="small", mode="zero", draws=2)
    found["words"] = ic.word_vectors(model, TEXT, 1)
    found["generated"] = model.generate(model.tokenize(TEXT).tokens, max_new_tokens=4)
    return found


def weights() -> Any:
    model = loaded("mini-base")
    matrix = model.weight("W_in")[0]
    return {
        "names": sorted(model.state_dict()),
        "stable_rank": ic.stable_rank(matrix),
        "effective_rank": ic.effective_rank(matrix),
        "spectral_entropy": ic.spectral_entropy(matrix),
        "condensation": ic.condensation(matrix.mT).mean_abs_cosine,
        "geometry": named("embedding_geometry")(model.weight("W_E")[:40], permutations=9),
        "report": ic.complexity_report(model, progress=False),
    }


def data() -> Any:
    task = named("AnchorTask")()
    found: dict[str, Any] = {
        "mini-idm": idm().test[:5],
        "mini-sst": ic.load_task("mini-sst", loaded("mini-base")).test[:5],
        "idm transplants": ic.load_transplants("mini-idm", loaded("mini-idm"))[:5],
        "examples": ic.read_examples("rows.jsonl"),
        "pairs": ic.read_pairs("pairs.tsv"),
        "sememes": named("load_sememes")("sememes"),
        "text": ic.load_text("people.txt"),
        "prompts": ic.tokenize_prompts(loaded("GPT-2").tokenizer, [TEXT]),
        "bleu": named("bleu")(["a b c d e"], ["a b c d f"], tokenize="13a"),
    }
    for name, sequences in {
        "addition": named("addition")(largest=19, square=(7, 12)),
        "proofs": named("prontoqa")(hops=1, n_train=20, n_test=5),
        "scan": ic.load_sequences("scan-jump"),
    }.items():
        found[name] = {split: pairs[:5] for split, pairs in sequences.splits.items()}
    anchors = task.sample("ood", 20, seed=0)
    found["anchors"] = anchors, named("anchor_examples")(task, anchors)[:5]
    found["anchors' tokens"] = named("anchor_tokenizer")(task).get_vocab()
    return found


def small_models() -> Any:
    """Logits, and that they are saved and loaded to the same."""
    ids = torch.arange(6)[None]
    decoder = named("small_decoder")(init_rate=0.5, seed=0)
    config = named("Seq2SeqConfig")(12, 14, 10, d_model=8, d_mlp=8, fuse="both")
    seq2seq = named("small_seq2seq")(config, seed=0)
    encoder = named("small_encoder")(
        named("EncoderConfig")(30, n_ctx=8, **SHAPE, composition="every", n_codes=5), seed=0
    )
    return {
        "decoder": decoder(ids),
        "encoder": encoder.encode(ids),
        "beams": named("beam_search")(seq2seq, ids + 3, n_beams=2, max_length=4),
        "greedy": named("greedy_search")(seq2seq, ids + 3, max_length=4),
        "saved": ic.load_model(ic.save_model(decoder, "out/decoder"))(ids),
        "audit": ic.audit(decoder, quick=True, progress=False).frame,
    }


def training() -> Any:
    """Two losses, and a fine-tuned model with its history and what was watched."""
    model = ic.load_model("mini-base", device="cpu")
    generator = torch.Generator().manual_seed(0)
    resid = torch.randn(3, 2, 6, 8, generator=generator)
    words = torch.tensor([[0, 0, 1, 1, 2, -1], [0, 1, 1, 1, 2, 2]])
    config = ic.TrainConfig(max_steps=3, batch_size=4, warmup_steps=0, evaluate_every=2)
    task = ic.load_task("mini-idm", model)
    watcher = ic.watch(model, every=1, budget=None)
    tuned = ic.finetune(
        model, task, carma=named("CarmaConfig")(), config=config, track=watcher, progress=False
    )
    return {
        "mutual information": named("mutual_information_loss")(resid, words),
        "stability": named("stability_loss")(resid, words >= 0),
        "history": tuned.history,
        "weights": dict(tuned.model.state_dict()),
        "name": tuned.model.name,
        "watched": watcher.result,
    }


CALLS: Final[dict[str, Callable[[], Any]]] = {
    "interventions": interventions,
    "weights": weights,
    "data": data,
    "small models": small_models,
    "training": training,
    "cap": lambda: ic.cap_curve(
        loaded("GPT-2"), ROWS, pooling=["mean", "sum"], unit="pretoken", progress=False
    ),
    "two curves": lambda: ic.compare_curves(
        {name: ic.cap_curve(loaded(name), ROWS, progress=False) for name in ("GPT-2", "mini-idm")},
        pooling="mean",
    ),
    "ablation": lambda: ic.ablation_curve(loaded("GPT-2"), ROWS, what="heads", progress=False),
    "similarity": lambda: ic.similarity_curve(
        loaded("BERT"), ic.read_pairs("pairs.tsv"), unit="word", progress=False
    ),
    "transplant": lambda: ic.transplant(
        loaded("mini-idm"), ic.load_transplants("mini-idm", loaded("mini-idm"))[:8], progress=False
    ),
    "embeddings": lambda: ic.embed_texts(loaded("BERT"), [TEXT, "the sea"]),
    "audit": lambda: ic.audit(loaded("mini-base"), quick=True, progress=False),
    "phases": lambda: named("phase_diagram")(
        [0.5],
        [0.01],
        "out/api-phases",
        run=named("PhaseRun")(d_model=8, samples=60, steps=4),
        **TINY,
    ),
    "generalise": lambda: named("generalise")(
        ic.load_sequences("scan-length"),
        ["transformer"],
        "out/api-generalise",
        run=named("SequenceTraining")(d_model=8, n_heads=2, d_mlp=8, max_steps=2),
        **TINY,
    ),
}
"""Calls of the library, after the commands."""
