"""``docs/verdicts.md``: the claims of the four papers, the runs that test them, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from docs import carma_verdicts, complexity_verdicts
from docs.generalise_results import read_out
from docs.measured import Table, read
from docs.phase_results import share
from docs.verdicts import (
    BREAK,
    NOT,
    REPRODUCED,
    RULES,
    UNDECIDED,
    VERDICTS,
    Claims,
    Found,
    agreed,
    by_ranges,
)

NO_DATA: Final = "the model and the measure are built; the data are not at hand"
NO_ROBERTA: Final = "neither a RoBERTa of this size nor the data are at hand"
NOT_TRAINED: Final = "implemented, not trained: a GPU's work, and the data are not at hand"
LRF: Final = Claims()


FUSED: Final = {
    "length": ("generalise_scan_length_26", "test", "transformer-relative", "lrf-relative"),
    "turn-left-fused": ("generalise_scan_turn_left", "test", "transformer", "lrf"),
    "jump-fused": ("generalise_scan_jump", "test", "transformer", "lrf"),
    "cogs-fused": ("generalise_cogs", "gen", "transformer", "lrf"),
}
"""The runs that test LRF, with the split and the two models that they compare."""


@LRF.add("Fusing the outputs of all earlier layers helps to generalise", "abstract", *FUSED)
def _fused() -> Found:
    each, verdicts = [], []
    for run, (name, split, *models) in FUSED.items():
        summary = read(name)["summary"]
        found = {
            row["model"]: row for row in summary if (row["split"], row["kind"]) == (split, "all")
        }
        ends = [found[model] for model in models]
        text = ", ".join(
            f"{which} {share(row['mean'])} [{share(row['smallest'])}–{share(row['largest'])}]"
            for which, row in zip(("without", "with"), ends, strict=True)
        )
        each.append(f"run {run}: {text}")
        verdicts.append(by_ranges(*((row["smallest"], row["largest"]) for row in ends)))
    head = (
        "sequences that are right: commands of SCAN, longer ones or with an unseen use of a word, "
        "and COGS' generalisation set"
    )
    return BREAK.join([head, *each]), agreed(verdicts)


Ends = tuple[float, float, float]
"""Mean, smallest and largest of the seeds."""


def _told(ends: Mapping[str, Ends]) -> str:
    """Like "without .46 [.25–.59], with .37 [.20–.44]"; of one seed without a range."""
    return ", ".join(
        f"{which} {share(mean)}" + (f" [{share(low)}{between}{share(high)}]" if low < high else "")
        for which, (mean, low, high) in ends.items()
        for between in [" to " if low < 0 else "–"]
    )


def _ends(values: Iterable[float]) -> Ends:
    found = list(values)
    return sum(found) / len(found), min(found), max(found)


INSIDE: Final = {"SCAN": ("fusion_length", "-relative"), "COGS": ("fusion_cogs", "")}
"""What was found inside, by task, with the end of the models' names."""


def _named(task: str, measure: str) -> str:
    """Like "COGS, role, one seed"."""
    seeds = {row["seed"] for row in read(INSIDE[task][0])["read_back"]}
    return f"{task}, {measure}{', one seed' if len(seeds) == 1 else ''}"


LRF.untested("… on CFQ", "abstract", NOT_TRAINED)
LRF.untested(
    "… on CoGnition: 20.0 % and 50.3 % errors by instance and aggregate",
    "introduction",
    NOT_TRAINED,
)
LRF.untested("… beyond competitive baselines and specialised methods", "introduction", NOT_TRAINED)


@LRF.add(
    "It is several earlier layers, fused at each layer, that lead to better results",
    "introduction",
    *FUSED,
)
def _several() -> Found:
    """Fuse-attention that sees all earlier layers, one of them, or none."""
    each, verdicts = [], []
    for run, (name, split, _, fused) in FUSED.items():
        found = {
            row["model"]: row
            for row in read(name)["summary"]
            if (row["split"], row["kind"]) == (split, "all")
        }
        ends = {
            told: (row["mean"], row["smallest"], row["largest"])
            for told, model in (
                ("all", "lrf"),
                ("the layer before alone", "previous"),
                ("none, as many parameters", "parameters"),
            )
            for row in [found[fused.replace("lrf", model)]]
        }
        each.append(f"run {run}: {_told(ends)}")
        own, *controls = (seeds for _, *seeds in ends.values())
        verdicts += [by_ranges((low, high), (own[0], own[1])) for low, high in controls]
    head = "the same sequences, by the earlier layers that fuse-attention sees"
    return BREAK.join([head, *each]), agreed(verdicts)


def _read(
    task: str, model: str, table: str, value: Callable[[dict[str, Any]], float], **where: str
) -> list[list[float]]:
    """Of every residual of the encoder, a value of each seed."""
    name, end = INSIDE[task]
    asked = {"model": model + end, **where}
    by_layer: dict[int, list[float]] = {}
    for row in read(name)[table]:
        if all(row[key] == asked[key] for key in asked):
            by_layer.setdefault(row["layer"], []).append(value(row))
    return [by_layer[layer] for layer in sorted(by_layer)]


def _seeds_apart(smaller: Sequence[float], larger: Sequence[float]) -> str:
    """Rule 3: the second is larger; one seed decides nothing."""
    if min(len(smaller), len(larger)) < 2:
        return UNDECIDED
    return by_ranges((min(smaller), max(smaller)), (min(larger), max(larger)))


def _accuracy(row: dict[str, Any]) -> float:
    return float(row["accuracy"])


def _selectivity(row: dict[str, Any]) -> float:
    return float(row["accuracy"] - row["control"])


def _layers(task: str, probe: str, value: Callable[[dict[str, Any]], float]) -> str:
    """What a probe tells of the Transformer's layers, the embeddings first."""
    found = _read(task, "transformer", "probes", value, probe=probe)
    return _told({f"layer {layer}": _ends(each) for layer, each in enumerate(found)})


def _at_the_top(
    task: str, table: str, value: Callable[[dict[str, Any]], float], **where: str
) -> Found:
    """Of the last encoder layer, without fuse-attention and with it."""
    without, fused = (_read(task, one, table, value, **where)[-1] for one in ("transformer", "lrf"))
    return _told({"without": _ends(without), "with": _ends(fused)}), _seeds_apart(without, fused)


@LRF.add(
    "The bottom layers contain more syntactic information",
    "introduction",
    "inside",
    "inside-cogs",
)
def _syntax() -> Found:
    """By accuracy on SCAN, where a word alone does not tell its role; COGS has the same order."""
    roles = _read("SCAN", "transformer", "probes", _accuracy, probe="role")
    text = BREAK.join(
        [
            "Roles of words that a linear probe tells from the encoder (0: the embeddings), "
            "without fuse-attention",
            f"{_named('SCAN', 'accuracy')}: {_layers('SCAN', 'role', _accuracy)}",
            f"{_named('COGS', 'selectivity')}: {_layers('COGS', 'role', _selectivity)}",
        ]
    )
    return text, _seeds_apart(roles[-1], roles[1])


@LRF.add("… while the top ones contain more semantic information", "introduction", "inside")
def _semantics() -> Found:
    words = _read("SCAN", "transformer", "probes", _selectivity, probe="word")
    text = _layers("SCAN", "word", _selectivity)
    return f"The word, selectivity on SCAN: {text}", _seeds_apart(words[1], words[-1])


@LRF.add("Residual connections forget what distant layers held", "introduction", "inside")
def _forgotten() -> Found:
    text, verdict = _at_the_top("SCAN", "read_back", lambda row: float(row["r2"]))
    return f"R² of the embeddings, read back from the encoder's last layer: {text}", verdict


@LRF.add(
    "Syntax and semantics are gradually entangled from bottom to top",
    "introduction",
    "inside",
    "inside-cogs",
)
def _gradually() -> Found:
    """Selectivity falls from the first layer to the last."""
    verdicts, each = [], []
    for task, probe in product(INSIDE, ("role", "word")):
        each.append(f"{_named(task, probe)}: {_layers(task, probe, _selectivity)}")
        found = _read(task, "transformer", "probes", _selectivity, probe=probe)
        verdicts.append(_seeds_apart(found[-1], found[1]))
    head = (
        "Selectivity of linear probes, by layer of the encoder, without fuse-attention (on SCAN "
        "the control of the role is learned by heart)"
    )
    return BREAK.join([head, *each]), agreed(verdicts)


@LRF.add(
    "Hence syntax and semantics are entangled at the top",
    "introduction",
    "inside",
    "inside-cogs",
)
def _entangled() -> Found:
    each, verdicts = [], []
    for task, (measure, value) in product(
        INSIDE, (("accuracy", _accuracy), ("selectivity", _selectivity))
    ):
        text, verdict = _at_the_top(task, "probes", value, probe="role")
        each.append(f"{_named(task, measure)}: {text}")
        verdicts.append(verdict)
    head = "Roles of words that a linear probe tells there"
    return BREAK.join([head, *each]), agreed(verdicts)


@LRF.add(
    "Each layer accesses and fuses what earlier ones hold, effectively",
    "method",
    "inside",
    "inside-cogs",
)
def _used() -> Found:
    """Rule 4, of the layers and what each reads: that cut out, fewer are right in every seed."""
    each, used = [], list[bool]()
    for task, (name, end) in INSIDE.items():
        left: dict[tuple[str, str, int], list[float]] = {}
        for row in read(name)["cuts"]:
            if (row["model"], row["split"]) == (f"lrf{end}", "test") and row["layers"] != "all":
                place = (row["stack"], row["layers"], row["earlier"])
                left.setdefault(place, []).append(row["n_right"] / row["n_clean"])
        own = [max(seeds) < 1 for seeds in left.values()]
        ends = {
            f"{stack} block {layer} without {read_out(earlier)}": _ends(seeds)
            for (stack, layer, earlier), seeds in left.items()
        }
        each.append(f"{_named(task, 'test')}: {sum(own)} of {len(own)}; {_told(ends)}")
        used += own if min(map(len, left.values())) > 1 else []
    head = (
        "The embeddings or a block's output cut out of one block's fuse-attention: how often "
        "fewer test sequences are right in every seed, and the share that is left"
    )
    verdict = REPRODUCED if all(used) else UNDECIDED if any(used) else NOT
    return BREAK.join([head, *each]), verdict


LRF.untested("It applies to any sequence-to-sequence model", "method", "one architecture was built")

CAT: Final = Claims()


@CAT.add(
    "Models agree with people far less on mirror pairs (BiRD-ABBA) than on all of BiRD",
    "5.2.1, Table 2",
    "bird",
)
def _mirror() -> Found:
    found = {row["subset"]: row for row in read("similarity_bird")["table"]}
    ends = {name: (r["clean_pearson_low"], r["clean_pearson_high"]) for name, r in found.items()}
    text = "; ".join(
        f"{name} {share(row['clean_pearson'])} [{', '.join(map(share, ends[name]))}]"
        for name, row in found.items()
    )
    return f"Pearson's r, clean model: {text}", by_ranges(ends["mirror"], ends["all"])


OF_CAT: Final = {
    "bert": "BERT",
    "cont": "without composition",
    "comp": "composed",
    "mix": "mixed",
}
CATS: Final = {
    "small": ("encoders_small", "from random weights", "bert", "cat-last"),
    "minilm": ("encoders_minilm", "frozen MiniLM", "cat-last", "cat-last"),
}
"""By run: its file, what it is, the BERT beside it (of MiniLM, what it gives without composition)
and the model whose last block composes."""
TUNED: Final = {
    "minilm-tuned": (
        "encoders_minilm_tuned",
        "MiniLM, fine-tuned on PAWS-QQP",
        "cat-last",
        "cat-last",
    ),
}
"""The same, each output trained end to end before it is judged, as the paper's Table 2."""
READ_OUT: Final = (*CATS, *TUNED)


def _meant(run: str, output: str) -> tuple[str, str]:
    """The model and output that are meant; ``bert`` is the BERT."""
    _, _, bert, cat = (CATS | TUNED)[run]
    return (bert, "cont") if output == "bert" else (cat, output)


def _of_cat(
    part: str, smaller: str, larger: str, *, runs: Iterable[str] = CATS, **place: str
) -> Found:
    """The second of two outputs lies above the first, in each run; by rows of a part of its file
    at a place."""
    each, verdicts = [], []
    for run in runs:
        name, told, _, _ = (CATS | TUNED)[run]
        found = {
            (row["model"], row["output"]): row
            for row in read(name)[part]
            if all(row.get(key, one) == one for key, one in place.items())
        }
        rows = {output: found[_meant(run, output)] for output in (smaller, larger)}
        tell = "{:.3f}".format if part == "held_out" else share
        texts = [
            f"{OF_CAT[output]} {tell(row['mean'])} [{tell(row['smallest'])}–{tell(row['largest'])}]"
            for output, row in rows.items()
        ]
        each.append(f"{told}: {', '.join(texts)}")
        verdicts.append(by_ranges(*((row["smallest"], row["largest"]) for row in rows.values())))
    return BREAK.join(each), agreed(verdicts)


def _read_out(subset: str, smaller: str, larger: str) -> Found:
    """Agreement with people of two outputs by their ``[CLS]``, as the paper's."""
    place = {"task": "bird", "metric": "pearson", "embedding": "cls", "subset": subset}
    found = [
        _of_cat("summary", smaller, larger, runs=runs, tuned=tuned, **place)
        for runs, tuned in ((CATS, "no"), (TUNED, "end-to-end"))
    ]
    told = (text for text, _ in found)
    return BREAK.join(["Pearson's r, `[CLS]`", *told]), agreed(verdict for _, verdict in found)


CAT.add(
    "CAT's cosines agree better than BERT's (BiRD 27.7 against 19.5)",
    "5.2.1, Table 2",
    *READ_OUT,
)(lambda: _read_out("all", "bert", "mix"))
CAT.add("… on mirror pairs too (6.3 against 1.6)", "5.2.1, Table 2", *READ_OUT)(
    lambda: _read_out("mirror", "bert", "mix")
)
CAT.untested(
    "… and better than RoBERTa's (by 7.4, on mirror pairs by 3.04)",
    "5.2.1, Table 2",
    "no RoBERTa of this size is at hand",
)


@CAT.add("That comes of learning to compose primitives", "5.2.1", "minilm")
def _learned() -> Found:
    """Composed vectors of trained codes, and of the two controls, the means over tokens."""
    place = {"task": "bird", "metric": "pearson", "embedding": "mean", "output": "comp"}
    rows = [
        row
        for row in read("encoders_minilm")["summary"]
        if all(row[key] == one for key, one in place.items())
    ]
    named = {
        "cat-last": "trained codes",
        "cat-last-fixed": "random codes",
        "cat-last-mlp": "no codes",
    }
    each, verdicts = [], []
    for subset in ("all", "mirror"):
        found = {row["model"]: row for row in rows if row["subset"] == subset}
        ends = {name: (found[name]["smallest"], found[name]["largest"]) for name in named}
        text = ", ".join(
            f"{which} {share(found[name]['mean'])} [{share(low)}–{share(high)}]"
            for (name, which), (low, high) in zip(named.items(), ends.values(), strict=True)
        )
        each.append(f"{subset}: {text}")
        own, *controls = ends.values()
        verdicts += [by_ranges(control, own) for control in controls]
    return BREAK.join(["Pearson's r, means over tokens, composed", *each]), agreed(verdicts)


CAT.add(
    "Composed vectors agree better than mixed ones (BiRD 34.4 against 27.7)",
    "5.2.1, Table 2",
    *READ_OUT,
)(lambda: _read_out("all", "mix", "comp"))
CAT.add("… on mirror pairs too (7.2 against 6.3)", "5.2.1, Table 2", *READ_OUT)(
    lambda: _read_out("mirror", "mix", "comp")
)


@CAT.add(
    "Composed vectors suit what needs composition better than contextual ones",
    "App. C.3",
    *READ_OUT,
)
def _suits() -> Found:
    each = {subset: _read_out(subset, "cont", "comp") for subset in ("all", "mirror")}
    text = BREAK.join(f"BiRD, {subset}: {told}" for subset, (told, _) in each.items())
    return text, agreed(verdict for _, verdict in each.values())


FEW: Final = 10
"""In per cent: what a few codes are at most."""


@CAT.add("A word is decomposed into a few codes, not all of them", "3.1", "small", "minilm")
def _few_codes() -> Found:
    each, few = [], []
    for name, told, _, cat in CATS.values():
        blocks: dict[int, list[float]] = {}
        for row in read(name)["codes"]:
            if row["model"] == cat:
                share_of_codes = 100 * row["codes_per_word"] / row["n_codes"]
                blocks.setdefault(row["layer"], []).append(share_of_codes)
        few += [one < FEW for own in blocks.values() for one in own]
        text = "; ".join(
            f"block {layer} {min(own):.1f}–{max(own):.1f}" for layer, own in sorted(blocks.items())
        )
        each.append(f"{told}: {text}")
    verdict = REPRODUCED if all(few) else UNDECIDED if any(few) else NOT
    head = f"codes a word, % of the codebook; a few are less than {FEW} %"
    return BREAK.join([head, *each]), verdict


@CAT.add(
    "Composed and mixed vectors suffice for BERT's tasks without loss", "4.2", "small", "minilm"
)
def _suffice() -> Found:
    """Masked words: neither lies below the contextual vectors."""
    found = {
        output: _of_cat("held_out", "cont", output, measure="masked_accuracy")
        for output in ("comp", "mix")
    }
    verdicts = [verdict for _, verdict in found.values()]
    text = BREAK.join(told for told, _ in found.values())
    verdict = NOT if NOT in verdicts else agreed(verdicts)
    return BREAK.join(["share of masked tokens that are right", text]), verdict


def _sememes(side: str, told: str) -> Found:
    """How well the last block's codes name words' sememes: above both baselines, by word."""
    found = read("codes_small")
    rows, apart = (
        [row for row in found[part] if (row["measure"], row["side"]) == ("r_precision", side)]
        for part in ("summary", "differences")
    )
    (own,) = (row for row in rows if row["source"] == "codes")
    texts = [
        f"{row['other']} {row['difference']:+.3f} [{row['words_low']:+.3f}, "
        f"{row['words_high']:+.3f}]".replace("-", "−")
        for row in apart
    ]
    zero = (0.0, 0.0)
    verdicts = [by_ranges(zero, (row["words_low"], row["words_high"])) for row in apart]
    head = f"R-precision of {told}: {own['mean']:.3f}, {own['n']:,} words; less the baselines, 95 %"
    return BREAK.join([head, *texts]), NOT if NOT in verdicts else agreed(verdicts)


CAT.add("Codes of the last block stand for the sememes of words", "4.1", "small-codes")(
    lambda: _sememes("guiding", "words that guided training")
)
CAT.add("A few annotated words suffice to generalise to others", "App. B.1", "small-codes")(
    lambda: _sememes("held_out", "annotated words that guided nothing")
)
for _words, _where, _why in (
    ("RMSNorm makes the optimisation more stable", "3.1", "no model without it was built"),
    ("It tells swapped words better apart (PAWS, 89.3 against 88.2)", "5.2.1, Table 2", NO_DATA),
    ("It beats RoBERTa there, on less data", "5.2.1, Table 2", NO_ROBERTA),
    ("Composed representations are better there than mixed ones", "5.2.1, Table 2", NO_DATA),
    ("… while contextual ones are about like BERT's (89.1)", "5.2.1, Table 2", NO_DATA),
    ("Mixed ones generalise better to other distributions (+1.83)", "5.2.2, Table 3", NO_DATA),
    ("… while RoBERTa, best within, falls behind", "5.2.2, Table 3", NO_ROBERTA),
    ("Within, contextual ones are better than composed ones (+1.45)", "5.2.2, Table 3", NO_DATA),
    ("Mixed ones withstand misleading sentences (SQuAD, +3.09)", "5.3, Fig. 2", NO_DATA),
    ("… better than the best baseline (+1.26)", "5.3, Fig. 2", NO_ROBERTA),
    ("… and composed ones still better", "5.3, Fig. 2", NO_DATA),
    ("On GLUE mixed ones lose nothing (+0.09)", "5.4, Table 4", NO_DATA),
    ("… and contextual ones gain (+0.53)", "5.4, Table 4", NO_DATA),
    ("… while composed ones are weaker", "5.4, Table 4", NO_DATA),
    ("So contextual ones suit standard tasks better than composed ones", "5.4, App. C.3", NO_DATA),
    ("… and mixed ones strike a balance between the two", "5.2.2, 5.4, App. C.3", NO_DATA),
    (
        "ChatGPT follows people far less on mirror pairs (23.3 against 45.7)",
        "5.2.1, App. D",
        "no such model is at hand",
    ),
):
    CAT.untested(_words, _where, _why)


@CAT.add("Composed ones need no fewer examples", "App. C.2, Fig. 3, Table 7", "small")
def _examples() -> Found:
    """A classifier on the smallest share of SST: the composed vectors are not ahead."""
    place = {"task": "sst", "metric": "accuracy", "subset": "all", "embedding": "mean"}
    place |= {"tuned": "frozen", "model": "cat-last"}
    rows = [
        row
        for row in read("encoders_small")["summary"]
        if all(row[key] == one for key, one in place.items())
    ]
    least = min(row["share"] for row in rows)
    found = {row["output"]: row for row in rows if row["share"] == least}
    text = ", ".join(
        f"{OF_CAT[output]} {share(found[output]['mean'])} [{share(found[output]['smallest'])}–"
        f"{share(found[output]['largest'])}]"
        for output in ("cont", "comp", "mix")
    )
    ends = [(found[one]["smallest"], found[one]["largest"]) for one in ("comp", "cont")]
    return f"SST, {100 * least:g} % of the training sentences: {text}", by_ranges(*ends)


def _less_complex(name: str, plain_told: str, told: str) -> Found:
    """Of two watched models: the second's matrices are the less complex ones, by both measures."""
    rows = read(name)["differences"]
    each, verdicts = [], []
    for measure, words, digits, sign in (
        ("stable_rank", "stable rank (lower)", 2, -1),
        ("mean_abs_cosine", "condensation (higher)", 4, 1),
    ):
        plain, own = [row for row in rows if row["measure"] == measure][:2]
        ends = sorted(sign * own[end] for end in ("ci_low", "ci_high"))
        low, high = (f"{own[end]:+.{digits}f}" for end in ("ci_low", "ci_high"))
        each.append(
            f"{words}: {plain['start']:.{digits}f} before, {plain_told} {plain['end']:.{digits}f}, "
            f"{told} {own['end']:.{digits}f}, difference {own['difference']:+.{digits}f} "
            f"({low} to {high})"
        )
        verdicts.append(by_ranges((0, 0), (ends[0], ends[1])))
    head = "mean over the matrices that both have, after the last step; in brackets 95 %, by seed"
    return BREAK.join([head, *each]).replace("-", "−"), agreed(verdicts)


CROSSED: Final = "crossed with complexity control"
CAT.add(
    "If low complexity lets a model compose, the weights of CAT are less complex than BERT's",
    CROSSED,
    "small-watched",
)(lambda: _less_complex("cat_watched", "BERT", "CAT"))
LRF.add(
    "If low complexity lets a model compose, fusing makes the weights less complex",
    CROSSED,
    "turn-left-watched",
)(lambda: _less_complex("lrf_watched", "without", "with"))


@dataclass(frozen=True)
class Paper:
    """A paper as the page names it."""

    name: str
    about: str
    claims: Claims


PAPERS: Final = (
    Paper(
        "CARMA",
        "*CARMA: Enhanced Compositionality in LLMs via Advanced Regularisation and Mutual "
        "Information Alignment* (anonymous ACL submission). Its models: GPT-2 small and large, "
        "Gemma 2B, Llama 3.2 1B and 3B, Qwen 2.5 0.5B and 3B, on definitions of WordNet and the "
        "Stanford Sentiment Treebank. Differences are CARMA minus plain fine-tuning in percentage "
        "points, ± standard error.",
        carma_verdicts.CLAIMS,
    ),
    Paper(
        "Complexity control",
        "Zhang, Lin, Wang, Zhang and Xu, *Complexity Control Facilitates Reasoning-Based "
        "Compositional Generalization in Transformers* (2025). Its models: ten layers of ten "
        "heads, 640 wide, pre-LN, on 900,000 sequences (Figs 3 and 5C); two layers of one head, "
        "400 wide, post-LN (Figs 4, 5A, 5B and, with two to four layers, 8). Means over seeds, "
        "smallest to largest seed in brackets. γ is the init rate: a larger one is a smaller "
        "start. ID is accuracy on seen pairs of anchors with new keys, OOD on unseen pairs. A cell "
        "is *not fitted* where the training accuracy is below .9, else in phase 1 where ID < .9, "
        "else in phase 2 where OOD ≤ .5, else in phase 3; 2c is phase 2 with commutativity (the "
        "share of unseen inputs answered alike when the anchors change places) of .7 or more. "
        "Where rows on section VII name two settings that differ in both γ and weight decay, which "
        "of the two decides is not told apart. More in "
        "[memorising or reasoning](phases.md).",
        complexity_verdicts.CLAIMS,
    ),
    Paper(
        "LRF",
        "Zheng, Lin, Li, Yuan, Lai, Liu, Fu, Chen and Shi, *Layer-Wise Representation Fusion for "
        "Compositional Generalization* (AAAI 2024). Its models, by the settings "
        "released with the data: 6 + 6 layers, 512 wide, on CoGnition; an encoder of "
        "RoBERTa-base's shape on CFQ. Here: 2 + 2 layers, 64 wide, on "
        "SCAN and COGS. Means over seeds, smallest to largest seed in brackets. More in "
        "[compositional tasks](generalise.md).",
        LRF,
    ),
    Paper(
        "CAT",
        "Huang, Qin, Lei and Lv, *Towards Equipping Transformer with the Ability of Systematic "
        "Compositionality* (AAAI 2024). Its models: four layers, 768 wide, pre-trained from "
        "scratch on BooksCorpus and Wikipedia. Here: its modules behind the last block of a frozen "
        "MiniLM, trained for 400 steps, and behind that of a small BERT, four layers, 128 wide, "
        "trained from random weights; a model with codes in every block, which learns with other "
        "settings, is not judged here. *BERT* is a BERT trained alike, without codes, or MiniLM "
        "itself; *without composition* are the contextual vectors of CAT, which behind a frozen "
        "MiniLM are the same. More in [encoders that compose](cat.md).",
        CAT,
    ),
)


def _carma(task: str) -> str:
    config = read(f"carma_mini_base_{task}")["config"]
    return (
        f"`{config['model']}`, {config['n_layers']} layers; {config['n_train']} training and "
        f"{config['n_test']} test prompts, {config['total_steps']} steps; {seeds(config)}"
    )


def _phases(name: str, extra: str = "") -> str:
    config = read(name)["config"]
    depths = config.get("depths", [config.get("n_layers")])
    layers = " to ".join(dict.fromkeys(map(str, (depths[0], depths[-1]))))
    return (
        f"{config['norm']}-LN, {layers} layers of {config['n_heads']} "
        f"head, {config['d_model']} wide; {config['samples']} sequences, {config['steps']} steps; "
        f"{extra}{seeds(config)}"
    )


def _grid(name: str) -> str:
    config = read(name)["config"]
    n = len(config["init_rates"]) * len(config["weight_decays"])
    return _phases(name, f"{n} cells, ")


def seeds(config: dict[str, Any]) -> str:
    """Like "5 seeds (0 to 4)"."""
    own = config["seeds"]
    return f"{len(own)} seeds ({min(own)} to {max(own)})"


def _search() -> str:
    found = read("carma_search_mini_idm")
    names = ("settings", "search_seeds", "chosen", "held_out_seeds")
    tried, few, chosen, held = (len(found[name]) for name in names)
    return f"mini-idm: {tried} settings on {few} seeds, {chosen} of them on {held} others"


def _overhead() -> str:
    found = read("carma_gpt2-small_cpu_float32")
    batch, tokens, turns = (found[name] for name in ("batch", "tokens", "turns"))
    return f"GPT-2 small's shape, random weights, {batch} × {tokens} tokens, {turns} turns"


def _bird() -> str:
    found = read("similarity_bird")
    return f"{found['model']}, {found['pairs']} pairs of BiRD"


def _leaks() -> str:
    found = read("circuits_cpu")["leaks"]
    return f"`mini-idm`, {found['mini-idm']['texts']} prompts, and models with random weights"


def _inside() -> str:
    config = read("fusion_length")["config"]
    probed = f"{config['n_probe']:,} sources for probes"
    return f"The models of run length, seeds 0 to 4 one by one; {probed}, of which a fourth tests"


def _generalised(task: str) -> str:
    config = read(f"generalise_{task}")["config"]
    report = config["data_report"]
    tested = "gen_all" if "gen_all" in report else "test_all"
    return (
        f"{config['n_encoder_layers']} + {config['n_decoder_layers']} layers, {config['d_model']} "
        f"wide; {report['train_all']:,} training and {report[tested]:,} test sequences, "
        f"{config['epochs']} epochs; {seeds(config)}"
    )


def _minilm() -> str:
    config = read("encoders_minilm")["config"]
    report = config["data_report"]
    return (
        f"all-MiniLM-L6-v2, frozen; {report['train_tokens']:,} tokens of definitions, "
        f"{config['max_steps']} steps; {seeds(config)}; trained as [measured](cat.md#measured)"
    )


def _small() -> str:
    config = read("encoders_small")["config"]
    report = config["data_report"]
    return (
        f"{config['n_layers']} layers, {config['d_model']} wide, from random weights; "
        f"{report['train_tokens']:,} tokens of a dictionary and a Bible, {config['max_steps']} "
        f"steps of {config['batch_tokens']:,}; the last block composes; {seeds(config)}; trained "
        "as [measured](cat.md#measured)"
    )


def _decoders(task: str, *splits: str) -> str:
    config = read(f"task_phases_{task}")["config"]
    report = config["data_report"]
    heads = f"{config['n_heads']} head{'' if config['n_heads'] == 1 else 's'}"
    counts = [f"{report[f'{split}_all']:,} of {split}" for split in ("train", *splits)]
    return (
        f"pre-LN, {config['n_layers']} layers of {heads}, {config['d_model']} wide; "
        f"{', '.join(counts)}, {config['epochs']} epochs; {seeds(config)}"
    )


def _concepts() -> str:
    config = read("concept_graphs")["config"]
    return (
        f"A U-Net of {', '.join(map(str, config['channels']))} channels on {config['samples']:,} "
        f"images of {config['pixels']} × {config['pixels']} pixels, {config['epochs']} epochs, "
        f"{config['n_images']} generated images of each node; {seeds(config)}"
    )


def _text() -> str:
    config = read("text_phases_text")["config"]
    report, size = config["data_report"], config["sizes"][0]
    return (
        f"{config['n_layers']} layers, {config['d_model']} wide, {config['vocab_size']:,} entries, "
        f"windows of {config['n_ctx']} tokens, {config['max_steps']:,} steps of "
        f"{config['batch_size']}; {size:,} training tokens of English (a dictionary and a Bible), "
        f"{report['held_out_documents']:,} documents held out; {seeds(config)}"
    )


def _sums() -> str:
    runs = read("unseen_sum")["runs"]
    per_task = len({run["seed"] for run in runs})
    return (
        f"Models as in pre and post at γ 0.8 and weight decay 0.01, on tasks that differ in d: "
        f"{len(runs)} runs, {per_task} seeds each"
    )


@dataclass(frozen=True)
class Run:
    """What claims are tested by: its file, its command, and what it trains or measures."""

    file: str
    command: str
    tell: Callable[[], str]


RUNS: Final = {
    "mini-idm": Run(
        "carma_mini_base_mini_idm",
        "interp-compose carma --model mini-base --task mini-idm --seeds 5 --out out/carma-idm",
        lambda: _carma("mini_idm"),
    ),
    "mini-sst": Run(
        "carma_mini_base_mini_sst",
        "interp-compose carma --model mini-base --task mini-sst --seeds 5 --out out/carma-sst",
        lambda: _carma("mini_sst"),
    ),
    "carma-watched": Run(
        "carma_watched_mini_idm",
        "python -m benchmarks.carma_watched --out out/carma-watched",
        lambda: (
            f"As mini-idm, a look every {read('carma_watched_mini_idm')['config']['every']} steps; "
            f"{seeds(read('carma_watched_mini_idm')['config'])}"
        ),
    ),
    "controls": Run(
        "carma_controls_mini_idm",
        "python -m benchmarks.carma_controls out/carma-idm",
        lambda: f"The models of mini-idm, {seeds(read('carma_controls_mini_idm')['config'])}",
    ),
    "search": Run(
        "carma_search_mini_idm", "python -m benchmarks.carma_search --out out/search", _search
    ),
    "overhead": Run("carma_gpt2-small_cpu_float32", "python -m benchmarks.carma", _overhead),
    "pre": Run(
        "phase_diagram_pre",
        "python -m benchmarks.phase_diagram --out out/phases",
        lambda: _grid("phase_diagram_pre"),
    ),
    "post": Run(
        "phase_diagram_post",
        "python -m benchmarks.phase_diagram --norm post --out out/phases-post",
        lambda: _grid("phase_diagram_post"),
    ),
    "seeds-pre": Run(
        "phase_seeds",
        "python -m benchmarks.phase_seeds --out out/phase-seeds",
        lambda: _phases("phase_seeds"),
    ),
    "seeds-post": Run(
        "phase_seeds_post",
        "python -m benchmarks.phase_seeds --norm post --out out/phases-post",
        lambda: _phases("phase_seeds_post"),
    ),
    "watched": Run(
        "anchors_watched",
        "python -m benchmarks.anchors_watched --out out/anchors-watched",
        lambda: (
            "Models as in pre at γ 0.5 (all in phase 2) and 0.8 (all in phase 3), weight decay "
            f"0.01; {seeds(read('anchors_watched')['config'])}"
        ),
    ),
    "sums": Run("unseen_sum", "python -m benchmarks.unseen_sum --out out/unseen_sum", _sums),
    "length": Run(
        "generalise_scan_length_26",
        "interp-compose generalise --task scan-length-26 --models "
        "transformer,transformer-relative,lrf-relative,parameters-relative,previous-relative,"
        "deeper-relative --seeds 5 --out out/length",
        lambda: _generalised("scan_length_26"),
    ),
    "turn-left-fused": Run(
        "generalise_scan_turn_left",
        "interp-compose generalise --task scan-turn-left --models "
        "transformer,lrf,parameters,previous,deeper --seeds 5 --out out/turn-left",
        lambda: _generalised("scan_turn_left"),
    ),
    "jump-fused": Run(
        "generalise_scan_jump",
        "interp-compose generalise --task scan-jump --models "
        "transformer,lrf,parameters,previous,deeper --seeds 5 --out out/jump",
        lambda: _generalised("scan_jump"),
    ),
    "small": Run(
        "encoders_small",
        "interp-compose encoders --runs out/pretrain --tasks "
        "bird=bird,paws-qqp=paws_qqp,sst=sst --shares 0.1,0.3,0.5,0.7,0.9,1 --out out/judged",
        _small,
    ),
    "small-codes": Run(
        "codes_small",
        "interp-compose codes --runs out/pretrain --phrases bird --wordnet nltk_data --out "
        "out/codes",
        lambda: "The models of run small whose last block composes",
    ),
    "small-watched": Run(
        "cat_watched",
        "python -m benchmarks.cat_watched --data-dir texts --sememes hownet --out out/pretrain",
        lambda: "The trainings of run small, watched",
    ),
    "minilm": Run(
        "encoders_minilm",
        "interp-compose encoders --runs out/minilm --tasks bird=bird,paws-qqp=paws_qqp "
        "--limit 1700 --out out/minilm-judged",
        _minilm,
    ),
    "minilm-tuned": Run(
        "encoders_minilm_tuned",
        "interp-compose encoders --runs out/minilm --models cat-last --tasks "
        "bird=bird,paws-qqp=paws_qqp --tuned end-to-end --embeddings cls --limit 1700 --out "
        "out/minilm-tuned",
        lambda: "The models of run minilm, each output trained end to end on the first 1,700 pairs",
    ),
    "turn-left-watched": Run(
        "lrf_watched",
        "python -m benchmarks.lrf_watched --out out/lrf-watched",
        lambda: f"As turn-left-fused, watched; {seeds(read('lrf_watched')['config'])}",
    ),
    "cogs-fused": Run(
        "generalise_cogs",
        "interp-compose generalise --task cogs --data-dir cogs --epochs 16 --models "
        "transformer,lrf,parameters,previous,deeper --seeds 5 --out out/cogs",
        lambda: _generalised("cogs"),
    ),
    "turn-left": Run(
        "task_phases_scan_turn_left",
        "interp-compose phases --task scan-turn-left --sizes 5000,10000,21890 --gammas 0.7 "
        "--weight-decays 0.1 --seeds 5 --out out/turn-left-small",
        lambda: (
            _decoders("scan_turn_left", "test")
            + ". The other setting is a call of its own, with 0.5 and 0.01 and another --out"
        ),
    ),
    "cogs-decoders": Run(
        "task_phases_cogs",
        "interp-compose phases --task cogs --data-dir cogs --sizes 6000,12000,24155 --gammas 0.7 "
        "--weight-decays 0.1 --seeds 3 --out out/cogs-small",
        lambda: (
            _decoders("cogs", "test", "gen")
            + ". The other setting is a call of its own, with 0.5 and 0.01 and another --out"
        ),
    ),
    "addition": Run(
        "task_phases_addition_99",
        "interp-compose phases --task addition-99 --n-heads 1 --epochs 100 --gammas 0.5,0.7 "
        "--weight-decays 0.01,0.1 --seeds 5 --out out/addition",
        lambda: _decoders("addition_99", "outside", "inside"),
    ),
    "fine-tuned": Run(
        "task_phases_addition_99_mini_base",
        "interp-compose phases --task addition-99 --model mini-base --weight-decays 0.01,0.1 "
        "--epochs 40 --seeds 5 --out out/fine-tuned",
        lambda: (
            "The shipped model mini-base, in place of GPT-2: "
            + _decoders("addition_99_mini_base", "outside", "inside")
        ),
    ),
    "proofs": Run(
        "task_phases_prontoqa_1",
        "interp-compose phases --task prontoqa-1 --sizes 2000,6000,20000 --n-heads 2 --lr 2e-3 "
        "--epochs 100 --max-steps 12000 --gammas 0.7 --weight-decays 0.1 --seeds 3 "
        "--out out/proofs-small",
        lambda: (
            _decoders("prontoqa_1", "test")
            + ", 12,000 steps at most. The other setting is a call of its own, with 0.5 and 0.01 "
            "and another --out"
        ),
    ),
    "concepts": Run(
        "concept_graphs",
        "interp-compose phases --task concept-graphs --gammas 0.3,0.5,0.7 --seeds 3 "
        "--out out/concepts",
        _concepts,
    ),
    "text": Run(
        "text_phases_text",
        "interp-compose phases --task text --data-dir texts --gammas 0.7 "
        "--weight-decays 0.1 --seeds 3 --out out/text-small",
        lambda: _text() + ". The other setting is a call of its own, with 0.5 and 0.01",
    ),
    "inside": Run(
        "fusion_length",
        "interp-compose fusion --runs out/length --models transformer-relative,lrf-relative,"
        "parameters-relative,previous-relative,deeper-relative --seed 0 --out out/fusion-0",
        _inside,
    ),
    "inside-cogs": Run(
        "fusion_cogs",
        "interp-compose fusion --runs out/cogs --models transformer,lrf --n-pairs 2100 "
        "--n-probe 1500 --seed 0 --out out/cogs-inside-0",
        lambda: (
            "The Transformer and LRF of run cogs-fused, seeds "
            f"{' and '.join(sorted({str(row['seed']) for row in read('fusion_cogs')['cuts']}))}; "
            f"{read('fusion_cogs')['config']['n_probe']:,} sources for probes, of which a fourth "
            "tests"
        ),
    ),
    "leaks": Run("circuits_cpu", "python -m benchmarks.circuits", _leaks),
    "speed-pre": Run(
        "fitting_speed",
        "python -m benchmarks.fitting_speed --out out/speed",
        lambda: _phases("fitting_speed"),
    ),
    "speed-post": Run(
        "fitting_speed_post",
        "python -m benchmarks.fitting_speed --norm post --out out/speed-post",
        lambda: _phases("fitting_speed_post"),
    ),
    "bird": Run("similarity_bird", "python -m benchmarks.similarity", _bird),
}


def counts() -> Table:
    """Heads and rows: claims by paper and verdict."""
    rows, every = [], Counter[str]()
    for paper in PAPERS:
        own = paper.claims.counts()
        every += own
        link = f"[{paper.name}](#{paper.name.lower().replace(' ', '-')})"
        rows.append([link, *(str(own[verdict]) for verdict in VERDICTS), str(own.total())])
    rows.append(["all", *(str(every[verdict]) for verdict in VERDICTS), str(every.total())])
    return ["", *VERDICTS, "claims"], rows


def run_section(name: str, run: Run) -> str:
    """What a run is, how to make it again, and where its numbers are."""
    return (
        f"### Run {name}\n\n{run.tell()}. Numbers: `benchmarks/results/{run.file}.json`.\n\n"
        f"```console\n$ {run.command}\n```"
    )


INTRODUCTION: Final = """\
# Verdicts

Every testable claim of the four papers, and four that join two of them (*crossed*), with its
verdict here. **None of the papers' own models was measured.** Ours are small and trained in
minutes: GPT-2s of four layers, 128 wide, on shipped data
([models](models.md)), decoders and encoder–decoders of two to four layers, 64 to 128 wide, small
BERTs and U-Nets; and, pre-trained by others, the sentence encoder all-MiniLM-L6-v2. *Reproduced*
means: seen at that scale. *Not reproduced* means that it was tested at that scale, and the
opposite was found, or no effect. Whether a claim holds in the papers' models is open either way.
"""


def page(table: Callable[[Sequence[str], Iterable[Sequence[str]]], str]) -> str:
    """The page's text; ``table`` writes Markdown."""
    parts = [INTRODUCTION, table(*counts()), f"## How a verdict comes about\n\n{RULES}"]
    for paper in PAPERS:
        parts.append(f"## {paper.name}\n\n{paper.about}")
        parts.append(table(*paper.claims.table()))
        if paper.claims is carma_verdicts.CLAIMS:
            parts.append(
                "### What its own tables show\n\nThe paper's Tables 4 and 5, CARMA compared with "
                "plain fine-tuning of the same model, task and rate, summed up. It gives neither "
                "intervals nor tests."
            )
            parts.append(table(*carma_verdicts.own_tables()))
    parts.append("## The runs")
    parts += [run_section(name, run) for name, run in RUNS.items()]
    return "\n\n".join(part.strip() for part in parts) + "\n"
