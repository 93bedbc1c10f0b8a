"""Tables of encoder–decoders that generalise, from the files ``generalise_*`` and ``fusion_*``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from docs import measured
from docs.measured import (
    DIFFERENCE,
    RIGHT,
    Cell,
    Columns,
    Table,
    cell,
    chosen,
    compared,
    each,
    frame,
    over,
    pivot,
    points as points,
    records,
    table,
)


def accuracy(name: str) -> Table:
    """A row per model and split: the share that is right, and the difference to the first
    model."""
    of_model = frame(name, "runs").groupby("model").agg(n_parameters=("n_parameters", "first"))
    ends = frame(name, "curve_ends").query("split == 'train'")
    of_model["fitted"] = ends.groupby("model")["accuracy"].mean()
    rows = compared(name, ["model", "split", "kind"]).query("kind == 'all'")
    columns: dict[str, Cell] = {
        "model": "`{model}`",
        "split": "{split}",
        "right, % (seeds)": RIGHT,
        "difference, 95 %": DIFFERENCE,
        "p (Holm)": "{p_holm:.2f}",
        "of training, %": "{fitted:.1points}",
        "parameters": "{n_parameters:,}",
        "seeds": "{n_seeds}",
    }
    return table(rows.merge(of_model, left_on="model", right_index=True), columns)


def curves(name: str) -> Table | None:
    """A row per look during training: what is right of a sample of the training and of the last
    split, means over the seeds that were kept. None where the file has no curves."""
    if not measured.read(name).get("curve"):
        return None
    curve = frame(name, "curve")
    means = curve.groupby(["step", "model", "split"], sort=False)["accuracy"].mean().reset_index()
    last = curve["split"].unique()[-1]
    train, test = (means[means["split"] == split] for split in ("train", last))
    rows = train.merge(test, on=["step", "model"]).sort_values("step", kind="stable")
    head, both = f"`{{model}}`, train / {last}, %", "{accuracy_x:.1points} / {accuracy_y:.1points}"
    return pivot(rows, {"step": "{step:,}"}, ["model"], {head: both})


def by_type(name: str, split: str) -> Table:
    """A row per type of a split: the share that each model gets right."""
    rows = frame(name, "summary").query("split == @split and kind != 'all'")
    return pivot(rows, {"type": "`{kind}`"}, ["model"], {"`{model}`": RIGHT})


def exposures(name: str) -> Table:
    """A row per number of times that training showed what is tested, and what was repeated: the
    share of the generalisation set that each model gets right."""
    rows = frame(name, "summary").query("split == 'gen' and kind == 'all'")
    rows = rows.assign(n=rows["seen"].round()).sort_values(
        ["exposures_of", "n"], ascending=[False, True], kind="stable"
    )
    by: Columns = {
        "seen": "{n:.0f}",
        "repeated in an epoch": lambda row: (
            "nothing" if row["exposures"] == 1 else f"{row['exposures_of']}, × {row['exposures']}"
        ),
    }
    return pivot(rows, by, ["model"], {"`{model}`": RIGHT, "seeds": "{n_seeds}"})


def pairs(name: str) -> Table:
    """A row for every two models."""
    columns: Columns = {
        "models": "`{model}` − `{other}`",
        "split": "{split}",
        "difference, 95 %": DIFFERENCE,
        "p": "{p:.3f}",
    }
    return table(frame(name, "pairs"), columns)


def inside(name: str) -> Table:
    """A row per model: what is read from its last encoder layer, and what is left of the test split
    without embeddings in fuse-attention; over seeds."""
    read_back, probes = (
        _last_layer(_of_encoder(frame(name, key))) for key in ("read_back", "probes")
    )
    roles = over(probes.query("probe == 'role'"), ["model"])
    rows = over(read_back, ["model"]).merge(roles, on="model")
    cuts = frame(name, "cuts").query("split == 'test' and layers == 'all' and earlier == 0")
    for stack in ("encoder", "decoder"):
        left = over(_left(cuts[cuts["stack"] == stack]), ["model"]).set_index("model")["left"]
        rows[stack] = rows["model"].map(left)
    columns: Columns = {
        "model": "`{model}`",
        "R² of the embeddings, last layer": "{r2:hundredths}",
        "role": "{accuracy:hundredths}",
        "role, control": "{control:hundredths}",
        "still right without embeddings, encoder": "{encoder:hundredths}",
        "… decoder": "{decoder:hundredths}",
    }
    return table(rows, columns)


def layers(name: str) -> Table:
    """A row per model and residual of the encoder: what probes read from it, with their control
    and selectivity, and R² of the embeddings; over seeds."""
    place = ["model", "layer"]
    probes = _of_encoder(frame(name, "probes"))
    probes["selectivity"] = probes["accuracy"] - probes["control"]
    rows = over(_of_encoder(frame(name, "read_back")), place)
    for probe in ("word", "role"):
        values = over(probes[probes["probe"] == probe], place).set_index(place)
        rows = rows.merge(values.add_prefix(f"{probe}_"), left_on=place, right_index=True)
    columns: list[tuple[str, Cell]] = [
        ("model", "`{model}`"),
        ("layer", "{layer}"),
        ("word", "{word_accuracy:hundredths}"),
        ("its control", "{word_control:hundredths}"),
        ("selectivity", "{word_selectivity:hundredths}"),
        ("role", "{role_accuracy:hundredths}"),
        ("its control", "{role_control:hundredths}"),
        ("selectivity", "{role_selectivity:hundredths}"),
        ("commonest role", "{role_majority[0]:.2f}"),
        ("R²", "{r2:hundredths}"),
        ("seeds", lambda row: str(len(row["seed"]))),
    ]
    return table(rows, columns)


def entangled(name: str) -> Table:
    """A row per model, stack and residual: what probes of the role tell, and of the word, fitted
    with all values of the other label and without those that they are tested on, over seeds."""
    place = ["model", "stack", "layer"]
    rows = frame(name, "entanglement")
    rows["less"] = rows["within"] - rows["across"]
    role, word = (over(rows[rows["probe"] == probe], place) for probe in ("role", "word"))
    both = role.merge(word, on=place, suffixes=("_role", "_word"))
    columns: list[tuple[str, Cell]] = [
        ("model", "`{model}`"),
        ("stack", "{stack}"),
        ("layer", "{layer}"),
    ]
    for probe in ("role", "word"):
        columns += [
            (probe, f"{{within_{probe}:hundredths}}"),
            ("across", f"{{across_{probe}:hundredths}}"),
            ("entanglement", f"{{less_{probe}:hundredths}}"),
        ]
    return table(both, columns)


FUSED = [
    ("fusion_length", "lrf-relative", "train"),
    ("fusion_length", "lrf-relative", "test"),
    ("fusion_length", "previous-relative", "test"),
    ("fusion_cogs_exposed", "lrf", "train"),
    ("fusion_cogs_exposed", "lrf", "gen"),
]
"""File, model and split of the columns of :func:`cuts`."""


def cuts() -> Table:
    """A row per layer and what is knocked out in its fuse-attention: of the sequences that are
    right in the clean model, the share that is right, over seeds; a column per task, model and
    split."""
    parts = [
        frame(name, "cuts").assign(file=name, task=measured.read(name)["config"]["grammar"].upper())
        for name in dict.fromkeys(name for name, _, _ in FUSED)
    ]
    rows = chosen(_left(pd.concat(parts)), ["file", "model", "split"], FUSED)
    # What the last layer alone reads is knocked out in it, not in all
    rows = rows[(rows["layers"] != "all") | (rows["earlier"] < rows["earlier"].max())]
    where, what = ["stack", "layers", "earlier"], ["task", "model", "split"]
    by: Columns = {
        "stack": "{stack}",
        "of the fuse-attention of": (
            lambda row: "all" if row["layers"] == "all" else f"block {row['layers']}"
        ),
        "knocked out": lambda row: read_out(row["earlier"]),
    }
    columns = {"{task}, `{model}`, {split}": "{left:hundredths}"}
    return pivot(over(rows, [*where, *what]), by, what, columns)


def _left(rows: pd.DataFrame) -> pd.DataFrame:
    """With the share ``left`` of what the clean model gets right."""
    return rows.assign(left=rows["n_right"] / rows["n_clean"])


def _of_encoder(rows: pd.DataFrame) -> pd.DataFrame:
    """Those of the encoder, where a file has the decoder's, too."""
    return rows[rows["stack"] == "encoder"].copy() if "stack" in rows else rows


def _last_layer(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["layer"] == rows.groupby("model")["layer"].transform("max")]


def read_out(earlier: int) -> str:
    """What fuse-attention reads, by its number."""
    return f"output of block {earlier - 1}" if earlier else "embeddings"


def pooled(name: str) -> Table:
    """A row per model and split: of the sequences that the clean model gets right, the share that
    is right with phrases pooled, and with as many tokens at random places, over seeds; of each
    layer that all models have."""
    rows = _left(frame(name, "cap").query("split in ('train', 'test')"))
    rows = rows[rows["layer"] <= rows.groupby("model")["layer"].max().min()]
    place = ["model", "split", "unit", "layer"]
    phrases, shuffled = (
        over(rows[rows["spans"] == spans], place) for spans in ("phrases", "shuffled")
    )
    both = phrases.merge(shuffled, on=place, suffixes=("", "_shuffled"))
    both = both.sort_values(["unit", "layer"], ascending=[False, True], kind="stable")
    shares = "{left:hundredths}, {left_shuffled:hundredths}"
    columns = {"{unit}, layer {layer}: pooled, shuffled": shares}
    return pivot(both, {"model": "`{model}`", "split": "{split}"}, ["unit", "layer"], columns)


def heads(name: str) -> Table:
    """A row per model, stack, layer and head that reads several layers: the mean weight of each on
    the test split, and the entropy of the layer as a share of the largest, over seeds."""
    place = ["model", "stack", "layer"]
    reads, entropies = (
        frame(name, key).query("split == 'test' and layer > 0") for key in ("reads", "entropies")
    )
    weights = over(reads, [*place, "head", "earlier"]).sort_values("earlier", kind="stable")
    weights["weight"] = [cell("{weight:hundredths}", row) for row in records(weights)]
    rows = over(weights[[*place, "head", "weight"]], [*place, "head"])
    rows = rows[rows["weight"].map(len) > 1].merge(over(entropies, place)[[*place, "share"]])
    columns: Columns = {
        "model": "`{model}`",
        "stack": "{stack}",
        "block": "{layer}",
        "head": "{head}",
        "weight of the embeddings, of block 0's output, …": each("weight"),
        "entropy, as a share of the largest": "{share:hundredths}",
    }
    return table(rows, columns)


def kinds_of_tokens(name: str) -> Table:
    """A row per type of the last split: of how many sequences all tokens of a kind are right, given
    those before; of each model, every seed."""
    config = measured.read(name)["config"]
    rows = frame(name, "tokens")
    rows = rows[rows["split"] == config["splits"][-1]]
    rows = rows.assign(share=rows["n_whole"] / rows["n_pairs"]).sort_values(["type", "seed"])
    kinds = [(kind, model) for kind in TOKENS for model in config["models"]]
    rows = over(chosen(rows, ["kind", "model"], kinds), ["type", "kind", "model"])
    seeds = ", ".join(map(str, rows["seed"].iloc[0]))
    columns = {f"{{kind}}: {{model}}, seeds {seeds}": each("share", ".2f")}
    return pivot(rows, {"type": "`{type}`"}, ["kind", "model"], columns)


TOKENS = ("structure", "predicate", "name")
"""Kinds of tokens of a logical form."""


def cost() -> Table:
    """A row per shape: what a training step costs, as ratios of one run."""
    contents = measured.read("seq2seq_cpu")
    rows = []
    for size in (contents["small"], contents["iwslt"]):
        shape = size["shape"]
        layers = f"{shape['n_encoder_layers']} + {shape['n_decoder_layers']}, {shape['d_model']}"
        over_plain = {
            key: size[key]["both"] / size[key]["none"] for key in ("parameters", "kept_bytes")
        }
        products = fused_products(shape, size["batch"])
        rows.append({**size, "layers": layers, "products": products, **over_plain})
    epoch = {key.replace("_epoch", ""): value for key, value in contents["scan"].items()}
    rows.append({**epoch, "layers": "2 + 2, 64, an epoch"})

    def ratio(name: str) -> str:
        return f"{{{name}:.2f}} ({{{name}_range[0]:.2f}}–{{{name}_range[1]:.2f}})"

    columns: Columns = {
        "layers, width": "{layers}",
        "LRF / Transformer": ratio("lrf_over_transformer"),
        "LRF / `parameters`": ratio("lrf_over_parameters"),
        "`torch.nn.Transformer` / Transformer": ratio("plain_over_library"),
        "parameters, LRF / Transformer": "{parameters:.2f}",
        "products, LRF / Transformer": "{products:.2f}",
        "memory, LRF / Transformer": "{kept_bytes:.2f}",
    }
    return table(pd.DataFrame(rows), columns)


def fused_products(shape: Mapping[str, int], batch: Sequence[int]) -> float:
    """Multiplications of a forward pass of LRF over those of the Transformer, at the least: those
    with weights and of attention, and of fuse-attention its four d_model × d_model matrices alone.
    """
    _, source, target = batch
    width, mlp = shape["d_model"], 2 * shape["d_model"] * shape["d_mlp"]
    square = width**2
    encoder = source * (4 * square + mlp + 2 * source * width)
    decoder = target * (4 * square + mlp + 2 * target * width)
    cross = 2 * (source + target) * square + 2 * source * target * width
    n_encoder, n_decoder = shape["n_encoder_layers"], shape["n_decoder_layers"]
    blocks = n_encoder * encoder + n_decoder * (decoder + cross)
    plain = blocks + target * width * shape["d_vocab_out"]
    return 1 + 4 * square * (n_encoder * source + n_decoder * target) / plain


def decoding() -> Table:
    """A row per size and number of beams."""
    columns: Columns = {
        "model": "{size}",
        "search": lambda row: "greedy" if row["n_beams"] == 1 else f"{row['n_beams']} beams",
        "tokens / s": "{ours_tokens_s:,.0f}",
        "Hugging Face": "{hugging_face_tokens_s:,.0f}",
        "ratio": "{ratio:.2f} ({range[0]:.2f}–{range[1]:.2f})",
    }
    return table(frame("decoding", "sizes"), columns)
