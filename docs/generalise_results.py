"""Tables of the comparisons of encoder–decoders, from ``benchmarks/results/``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from docs.measured import Table, read
from docs.phase_results import hundredths


def accuracy(name: str) -> Table:
    """A row per model and split: the share that is right, and the difference to the first model;
    what a step took where the file says it."""
    found = read(name)
    sizes = {run["model"]: run["n_parameters"] for run in found["runs"]}
    times: dict[str, list[float]] = {}
    for run in found["runs"]:
        if run.get("step_seconds") is not None:
            times.setdefault(run["model"], []).append(1000 * run["step_seconds"])
    differences = {
        (row["model"], row["split"]): row for row in found["differences"] if row["kind"] == "all"
    }
    fits = {
        model: [
            row["accuracy"]
            for row in found["curve_ends"]
            if row["model"] == model and row["split"] == "train"
        ]
        for model in sizes
    }
    rows = []
    for row in found["summary"]:
        if row["kind"] != "all":
            continue
        model, split = row["model"], row["split"]
        other = differences.get((model, split))
        own = times.get(model, [])
        spread = f" ({min(own):.1f}–{max(own):.1f})" if len(own) > 1 else ""
        time = f"{median(own):.1f}{spread}" if own else "–"
        rows.append(
            [
                f"`{model}`",
                split,
                f"{points(row['mean'])} ({points(row['smallest'])}–{points(row['largest'])})",
                "–" if other is None else difference(other),
                "–" if other is None else f"{other['p_holm']:.2f}",
                f"{points(sum(fits[model]) / len(fits[model]))}",
                f"{sizes[model]:,}",
                *([time] if times else []),
                str(row["n_seeds"]),
            ]
        )
    heads = ["model", "split", "right, % (seeds)", "difference, 95 %", "p (Holm)"]
    heads += [
        "of training, %",
        "parameters",
        *(["ms a step while training"] if times else []),
    ]
    return [*heads, "seeds"], rows


def curves(name: str) -> Table | None:
    """A row per look during training: what is right of a sample of the training and of the last
    split, means over the seeds that were kept. None where the file has no curves."""
    found = read(name)
    if not found.get("curve"):
        return None
    values: dict[tuple[str, str, int], list[float]] = {}
    for row in found["curve"]:
        place = (row["model"], row["split"], row["step"])
        values.setdefault(place, []).append(row["accuracy"])
    models = list(dict.fromkeys(model for model, _, _ in values))
    splits = ("train", list(dict.fromkeys(split for _, split, _ in values))[-1])
    rows = []
    for step in sorted({step for _, _, step in values}):
        shares = ([values.get((model, split, step), []) for split in splits] for model in models)
        cells = (
            " / ".join(points(sum(each) / len(each)) if each else "–" for each in both)
            for both in shares
        )
        rows.append([f"{step:,}", *cells])
    return ["step", *(f"`{model}`, {' / '.join(splits)}, %" for model in models)], rows


def by_type(name: str, split: str) -> Table:
    """A row per type of a split: the share that each model gets right."""
    found, cells = read(name), dict[tuple[str, str], str]()
    for row in found["summary"]:
        if row["split"] == split:
            ends = (points(row[end]) for end in ("mean", "smallest", "largest"))
            cells[row["kind"], row["model"]] = "{} ({}–{})".format(*ends)
    models = found["config"]["models"]
    kinds = [kind for kind in dict.fromkeys(kind for kind, _ in cells) if kind != "all"]
    rows = [[f"`{kind}`", *(cells[kind, model] for model in models)] for kind in kinds]
    return ["type", *(f"`{model}`" for model in models)], rows


def pairs(name: str) -> Table:
    """A row for every two models."""
    rows = [
        [f"`{row['model']}` − `{row['other']}`", row["split"], difference(row), f"{row['p']:.3f}"]
        for row in read(name)["pairs"]
    ]
    return ["models", "split", "difference, 95 %", "p"], rows


def inside(name: str) -> Table:
    """A row per model: what is read from its last encoder layer, and what cuts leave; means over
    seeds, the smallest and the largest in parentheses."""
    found = read(name)
    rows = []
    for model in dict.fromkeys(row["model"] for row in found["read_back"]):
        last = max(row["layer"] for row in found["read_back"] if row["model"] == model)
        own = {
            table: [row for row in found[table] if row["model"] == model]
            for table in ("read_back", "probes", "cuts")
        }
        top = {
            table: [row for row in own[table] if row["layer"] == last]
            for table in ("read_back", "probes")
        }
        cuts = [
            _seeds(
                row["n_right"] / row["n_clean"]
                for row in own["cuts"]
                if (row["split"], row["layers"], row["earlier"], row["stack"])
                == (*WITHOUT_EMBEDDINGS, stack)
            )
            for stack in ("encoder", "decoder")
        ]
        roles = [row for row in top["probes"] if row["probe"] == "role"]
        read_back = _seeds(row["r2"] for row in top["read_back"])
        told = [_seeds(row[which] for row in roles) for which in ("accuracy", "control")]
        rows.append([f"`{model}`", read_back, *told, *cuts])
    heads = ["model", "R² of the embeddings, last layer", "role", "role, control"]
    return [*heads, "still right without embeddings, encoder", "… decoder"], rows


def layers(name: str) -> Table:
    """A row per model and residual of the encoder: what probes read from it, with their control
    and selectivity, and R² of the embeddings."""
    found = read(name)
    rows = []
    for model, layer in dict.fromkeys((row["model"], row["layer"]) for row in found["read_back"]):
        here = {
            table: [row for row in found[table] if (row["model"], row["layer"]) == (model, layer)]
            for table in ("probes", "read_back")
        }
        cells, majority = [], 0.0
        for probe in ("word", "role"):
            own = [row for row in here["probes"] if row["probe"] == probe]
            cells += [_seeds(row[which] for row in own) for which in ("accuracy", "control")]
            cells.append(_seeds(row["accuracy"] - row["control"] for row in own))
            majority = own[0]["majority"]
        r2 = _seeds(row["r2"] for row in here["read_back"])
        seeds = str(len(here["read_back"]))
        rows.append([f"`{model}`", str(layer), *cells, f"{majority:.2f}", r2, seeds])
    heads = ["word", "its control", "selectivity", "role", "its control", "selectivity"]
    return ["model", "layer", *heads, "commonest role", "R²", "seeds"], rows


def cuts() -> Table:
    """A row per layer and what is cut out of its fuse-attention: of the sequences that are right
    uncut, the share that is right; a column per task, model and split."""
    columns = [
        ("fusion_length", "lrf-relative", "train"),
        ("fusion_length", "lrf-relative", "test"),
        ("fusion_length", "previous-relative", "test"),
        ("fusion_cogs", "lrf", "train"),
        ("fusion_cogs", "lrf", "test"),
    ]
    places = ("stack", "layers", "earlier")
    found, heads = [], []
    for name, model, split in columns:
        kept = read(name)
        found.append([r for r in kept["cuts"] if (r["model"], r["split"]) == (model, split)])
        heads.append(f"{kept['config']['grammar'].upper()}, `{model}`, {split}")
    rows = []
    top = max(row["earlier"] for row in found[0])
    for place in dict.fromkeys(tuple(row[key] for key in places) for row in found[0]):
        if place[1:] == ("all", top):  # the last layer alone reads it
            continue
        own = [
            _seeds(r["n_right"] / r["n_clean"] for r in rs if tuple(r[k] for k in places) == place)
            for rs in found
        ]
        stack, of, earlier = place
        rows.append([stack, "all" if of == "all" else f"block {of}", read_out(earlier), *own])
    return ["stack", "of the fuse-attention of", "cut out", *heads], rows


def read_out(earlier: int) -> str:
    """What fuse-attention reads, by its number."""
    return f"output of block {earlier - 1}" if earlier else "embeddings"


def pooled(name: str) -> Table:
    """A row per model and split: of the sequences that the clean model gets right, the share that
    is right with phrases pooled, and with as many tokens at random places; of each layer that all
    models have."""
    found = [row for row in read(name)["cap"] if row["split"] in ("train", "test")]
    models = list(dict.fromkeys((row["model"], row["split"]) for row in found))
    layers = min(max(row["layer"] for row in found if row["model"] == one) for one, _ in models) + 1
    units = sorted({row["unit"] for row in found}, reverse=True)
    cells = [(unit, layer) for unit in units for layer in range(layers)]

    def share(**asked: object) -> str:
        rows = [row for row in found if all(row[key] == one for key, one in asked.items())]
        return _seeds(row["n_right"] / row["n_clean"] for row in rows)

    rows = [
        [
            f"`{model}`",
            split,
            *(
                f"{share(spans='phrases', **place)}, {share(spans='shuffled', **place)}"
                for unit, layer in cells
                for place in [{"model": model, "split": split, "unit": unit, "layer": layer}]
            ),
        ]
        for model, split in models
    ]
    heads = [f"{unit}, layer {layer}: pooled, shuffled" for unit, layer in cells]
    return ["model", "split", *heads], rows


def heads(name: str) -> Table | None:
    """A row per model, stack, layer and head that reads several layers: the mean weight of each on
    the test split, and the entropy of the layer as a share of the largest. None where the file
    does not have them."""
    found = read(name)
    if "reads" not in found:
        return None
    place = ("model", "stack", "layer")
    rows = []
    of_test = [row for row in found["reads"] if row["split"] == "test" and row["layer"] > 0]
    for *at, head in dict.fromkeys((*(r[k] for k in place), r["head"]) for r in of_test):
        own = [r for r in of_test if [*(r[k] for k in place), r["head"]] == [*at, head]]
        earlier = sorted({row["earlier"] for row in own})
        if len(earlier) < 2:
            continue
        weights = (_seeds(r["weight"] for r in own if r["earlier"] == one) for one in earlier)
        entropy = _seeds(
            row["share"]
            for row in found["entropies"]
            if row["split"] == "test" and [row[key] for key in place] == at
        )
        model, stack, layer = at
        rows.append([f"`{model}`", stack, str(layer), str(head), ", ".join(weights), entropy])
    titles = ["model", "stack", "block", "head", "weight of the embeddings, of block 0's output, …"]
    return [*titles, "entropy, as a share of the largest"], rows


def kinds_of_tokens(name: str) -> Table:
    """A row per type of the last split: of how many sequences all tokens of a kind are right, given
    those before; of each model, every seed."""
    found = read(name)
    split, models = found["config"]["splits"][-1], found["config"]["models"]
    rows = [row for row in found["tokens"] if row["split"] == split]
    seeds = sorted({row["seed"] for row in rows})
    shares = {
        (row["type"], row["kind"], row["model"], row["seed"]): row["n_whole"] / row["n_pairs"]
        for row in rows
    }
    places = list(itertools.product(("structure", "predicate", "name"), models))
    told = ", ".join(map(str, seeds))
    return ["type", *(f"{kind}: {model}, seeds {told}" for kind, model in places)], [
        [
            f"`{type_}`",
            *(
                ", ".join(f"{shares[type_, kind, model, seed]:.2f}" for seed in seeds)
                for kind, model in places
            ),
        ]
        for type_ in sorted({row["type"] for row in rows})
    ]


WITHOUT_EMBEDDINGS = ("test", "all", 0)
"""Split, layers and earlier layer of a cut."""


def _seeds(values: Iterable[float]) -> str:
    found = list(values)
    if not found:
        return "–"
    mean, low, high = (
        f"{hundredths(value):.2f}" for value in (sum(found) / len(found), min(found), max(found))
    )
    between = " to " if min(found) < 0 else "–"
    return (mean + f" ({low}{between}{high})" * (len(found) > 1)).replace("-", "−")


def cost() -> Table:
    """A row per shape: what a training step costs, as ratios of one run."""
    found = read("seq2seq_cpu")
    rows = []
    for name in ("small", "iwslt"):
        one = found[name]
        shape, kept, weights = one["shape"], one["kept_bytes"], one["parameters"]
        layers = f"{shape['n_encoder_layers']} + {shape['n_decoder_layers']}"
        ratios = ("lrf_over_transformer", "lrf_over_parameters", "plain_over_library")
        rows.append(
            [
                f"{layers}, {shape['d_model']}",
                *(f"{one[ratio]:.2f} ({_range(one[f'{ratio}_range'])})" for ratio in ratios),
                f"{weights['both'] / weights['none']:.2f}",
                f"{fused_products(shape, one['batch']):.2f}",
                f"{kept['both'] / kept['none']:.2f}",
            ]
        )
    epoch = found["scan"]
    ratio, ends = epoch["plain_epoch_over_library"], epoch["plain_epoch_over_library_range"]
    rows.append(["2 + 2, 64, an epoch", "–", "–", f"{ratio:.2f} ({_range(ends)})", "–", "–", "–"])
    heads = ["layers, width", "LRF / Transformer", "LRF / `parameters`"]
    heads += ["`torch.nn.Transformer` / Transformer", "parameters, LRF / Transformer"]
    return [*heads, "products, LRF / Transformer", "memory, LRF / Transformer"], rows


def fused_products(shape: Mapping[str, int], batch: Sequence[int]) -> float:
    """Multiplications of a forward pass of LRF over those of the Transformer, at the least: those
    with weights and of attention, and of fuse-attention its four d_model × d_model matrices alone.
    """
    _, source, target = batch
    width, mlp = shape["d_model"], 2 * shape["d_model"] * shape["d_mlp"]
    square = width**2
    encoder = source * (4 * square + mlp + 2 * source * width)
    own = target * (4 * square + mlp + 2 * target * width)
    cross = 2 * (source + target) * square + 2 * source * target * width
    n_encoder, n_decoder = shape["n_encoder_layers"], shape["n_decoder_layers"]
    plain = n_encoder * encoder + n_decoder * (own + cross) + target * width * shape["d_vocab_out"]
    return 1 + 4 * square * (n_encoder * source + n_decoder * target) / plain


def decoding() -> Table:
    """A row per size and number of beams."""
    rows = [
        [
            row["size"],
            "greedy" if row["n_beams"] == 1 else f"{row['n_beams']} beams",
            f"{row['ours_tokens_s']:,.0f}",
            f"{row['hugging_face_tokens_s']:,.0f}",
            f"{row['ratio']:.2f} ({_range(row['range'])})",
        ]
        for row in read("decoding")["sizes"]
    ]
    return ["model", "search", "tokens / s", "Hugging Face", "ratio"], rows


def _range(ends: list[float]) -> str:
    return f"{ends[0]:.2f}–{ends[1]:.2f}"


def points(share: float) -> str:
    """In per cent."""
    return f"{100 * share:.1f}"


def difference(row: dict[str, float]) -> str:
    """With the ends of its interval, in points."""
    ends = (_signed(row[name]) for name in ("difference", "ci_low", "ci_high"))
    return "{} ({} to {})".format(*ends)


def _signed(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "−")
