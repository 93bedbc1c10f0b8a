"""Language models on a user's text: windows, losses by hand, resume, what is kept, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, strategies as st

import interp_compose as ic
from interp_compose import cli
from interp_compose.errors import CorruptFileError, InputError, NonFiniteError, OptionError
from interp_compose.papers.complexity.models.init import init_weights
from interp_compose.papers.complexity.studies.text_phases.data import encoded, kept
from interp_compose.papers.complexity.studies.text_phases.measure import TextRun
from interp_compose.papers.complexity.training.text import NextToken, Windows, total_loss
from interp_compose.papers.shared.models.decoder import SmallDecoder

NAMES = ("ann", "bob", "eve", "joe", "kim")
DOCUMENTS = [
    f"{a} {verb} {b}.\n{b} {verb} {c}; so {a} {verb} {c}."
    for a, b, c in product(NAMES, repeat=3)
    for verb in ("knows", "hears")
    if len({a, b, c}) == 3
]
CORPUS = ic.TextCorpus("people", tuple(DOCUMENTS[8:]), tuple(DOCUMENTS[:8]), {"files": 1})
TINY = ic.complexity.TextTraining(
    vocab_size=280, n_ctx=10, n_layers=1, d_model=8, n_heads=2, d_mlp=8, max_steps=6,
    batch_size=4, n_looks=2, n_curve=5,
)  # fmt: skip
RATES, DECAYS, SIZES = (0.3, 0.5), (0.0, 0.1), (30, 70)
CONFIG = {
    "task": "people", "init_rates": [0.3, 0.5], "weight_decays": [0.0, 0.1], "sizes": [30, 70],
    "seeds": [0, 1], "n_layers": 1, "d_model": 8, "n_curve": 5, "n_looks": 2,
}  # fmt: skip


def frames() -> dict[str, pd.DataFrame]:
    """A loss of 2 − γ + seed / 10 − size / 1000."""
    runs, held_out, curve = [], [], []
    for seed, size, decay, rate in product((0, 1), SIZES, DECAYS, RATES):
        place = {"init_rate": rate, "weight_decay": decay, "size": size, "seed": seed}
        about = {"n_parameters": 9, "steps": 4, "step_seconds": 0.5, "first_loss": 2.0}
        found = {"last_loss": 0.5, "stable_rank": 2.0 + rate, "mean_abs_cosine": 0.5}
        runs.append({**place, **about, **found})
        loss = 2 - rate + seed / 10 - size / 1000
        held_out.append({**place, "loss": loss, "n": 100, "n_bytes": 250})
        for step, split in product((0, size), ("held-out", "train")):
            curve.append(
                {**place, "step": step, "split": split, "loss": 5.0 - step / 20 - rate, "n": 30}
            )
    made = {"runs": runs, "held_out": held_out, "curve": curve}
    return {name: pd.DataFrame(rows) for name, rows in made.items()}


def result() -> ic.complexity.TextPhases:
    return ic.complexity.TextPhases.from_runs(frames(), CONFIG)


def test_measures_and_differences_by_hand() -> None:
    found = result()
    rows = found.frame.query("init_rate == 0.5 and weight_decay == 0.1 and size == 70")
    by_measure = rows.set_index("measure")
    losses = np.array([1.43, 1.53])
    assert by_measure.loc["loss", "mean"] == pytest.approx(losses.mean())
    assert by_measure.loc["perplexity", "mean"] == pytest.approx(np.exp(losses).mean())
    ends = losses.mean() + np.array([-1, 1]) * 12.706205 * losses.std(ddof=1) / math.sqrt(2)
    assert by_measure.loc["loss", ["low", "high"]].tolist() == pytest.approx(ends.tolist())
    nats = by_measure.loc["perplexity", ["low", "high"]].tolist()
    assert nats == pytest.approx(np.exp(ends).tolist())
    bits = losses * 100 / math.log(2) / 250
    assert by_measure.loc["bits_per_byte", "largest"] == pytest.approx(bits.max())
    assert set(found.frame["n"]) == {100}
    differences = found.differences.set_index(["setting", "size"])["difference"]
    assert differences["γ 0.5, wd 0.1", 30] == pytest.approx(-0.2)
    assert differences["γ 0.3, wd 0.1", 70] == pytest.approx(0)
    assert set(found.differences["other"]) == {"γ 0.3, wd 0"}
    text = found.summary()
    assert "perplexity of 100 held-out tokens" in text
    assert "(95 % interval, not corrected for the number of comparisons, p is by Holm)" in text
    assert f"{np.exp(losses).mean():.2f}" in text


# ---- windows and losses ---------------------------------------------------------------------


@given(st.lists(st.integers(1, 23), min_size=1, max_size=6), st.integers(1, 9), st.booleans())
def test_every_token_is_predicted_once_from_those_before_it(
    lengths: list[int], n_ctx: int, by_document: bool
) -> None:
    """Written out: a token's context starts at the last multiple of n_ctx before it, counted from
    the stream's or the document's first token."""
    parts = [[0, *range(1, n + 1)] for n in lengths]
    stream = np.array([token for part in parts for token in part] + [0])
    expected: dict[int, list[int]] = {}
    for at in range(1, len(stream)):
        start = max(i for i in range(at) if stream[i] == 0) if by_document else 0
        if by_document and stream[at] == 0:
            continue
        first = start + (at - start - 1) // n_ctx * n_ctx
        expected[at] = stream[first:at].tolist()
    made = Windows.by_document(stream, n_ctx, 0) if by_document else Windows.of(stream, n_ctx)
    assert sum(made.lengths) == len(expected)
    batch = made.batch(np.arange(len(made)))
    assert batch.tokens.shape[1] <= n_ctx
    found = {}
    for row, (low, _) in enumerate(made.bounds.tolist()):
        for column in np.flatnonzero(batch.valid[row]).tolist():
            at = low + column + 1
            assert at not in found
            found[at] = batch.tokens[row, : column + 1].tolist()
            assert batch.target[row, column] == stream[at]
    assert found == expected


@torch.no_grad()
def reference_loss(model: SmallDecoder, stream: np.ndarray, n_ctx: int) -> tuple[float, int]:
    """Token by token in float64, each document alone."""
    model, total, n = model.double(), 0.0, 0
    for document in "".join(map(chr, stream)).strip("\0").split("\0"):
        ids = [0, *map(ord, document)]
        for at in range(1, len(ids)):
            context = ids[(at - 1) // n_ctx * n_ctx : at]
            logits = model(torch.tensor([context]))[0, -1]
            total += float(logits.logsumexp(0) - logits[ids[at]])
            n += 1
    return total, n


def test_the_loss_of_held_out_text_by_hand() -> None:
    data = encoded(CORPUS, TINY.vocab_size)
    model = SmallDecoder(run_of().shape(d_vocab=280, n_ctx=10))
    init_weights(model, 0.2, seed=1)
    windows = Windows.by_document(data.held_out, 10, 0)
    found, n = total_loss(model, windows), sum(windows.lengths)
    assert (expected := reference_loss(model, data.held_out, 10))[1] == n
    assert found == pytest.approx(expected[0], rel=1e-5)
    assert n == data.report["held_out_tokens"] == len(data.held_out) - 9
    tokenizer = data.tokenizer
    assert n == sum(len(tokenizer(text)["input_ids"]) - 1 for text in CORPUS.held_out)


def test_byte_pairs_are_those_of_the_training_part() -> None:
    other = ic.TextCorpus("people", CORPUS.train, ("zzzz zzzz zzzz",), {})
    assert encoded(other, 280).tokenizer.saved() == encoded(CORPUS, 280).tokenizer.saved()


def test_a_loss_that_is_no_number_stops_a_run() -> None:
    model = SmallDecoder(run_of().shape(d_vocab=280, n_ctx=10))
    model.unembed.b_U.data[3] = float("nan")
    windows = Windows.of(encoded(CORPUS, 280).train, 10).first(2)
    trainer: Any = type("Trainer", (), {"model": model})
    with pytest.raises(NonFiniteError, match="the loss on the split 'train' is nan"):
        NextToken(windows, {"train": windows}).evaluate(trainer)


# ---- the study ------------------------------------------------------------------------------


def run_of(**changes: Any) -> TextRun:
    given = {"data": "", "init_rate": 0.4, "weight_decay": 0.1, "size": 70, **vars(TINY), **changes}
    return TextRun(**given)


def study(out: Path, **asked: Any) -> ic.complexity.TextPhases:
    given: dict[str, Any] = {"seeds": 1, "run": TINY, "where": "here", "progress": False}
    return ic.complexity.text_phases(CORPUS, RATES, [0.1], out, **{**given, **asked})


def test_a_grid_is_trained_and_its_models_are_measured(tmp_path: Path) -> None:
    whole = study(tmp_path / "whole", sizes=[30, 70])
    assert (
        whole.frames["curve"].groupby(["init_rate", "size", "split"])["step"].nunique().eq(3).all()
    )
    data = encoded(CORPUS, 280)
    assert set(whole.frames["held_out"]["n"]) == {data.report["held_out_tokens"]}
    assert set(whole.frames["held_out"]["n_bytes"]) == {len("".join(CORPUS.held_out).encode())}

    row = whole.frames["held_out"].iloc[0]
    folders = [path.parent for path in (tmp_path / "whole" / "runs").glob("*/model")]
    own = [ic.load_model(folder / "model") for folder in folders]
    losses = [reference_loss(model.lens, data.held_out, 10)[0] / row["n"] for model in own]
    assert sorted(losses) == pytest.approx(sorted(whole.frames["held_out"]["loss"]), rel=1e-5)


def test_a_model_is_loaded_with_its_tokenizer_and_measured(tmp_path: Path) -> None:
    study(tmp_path / "out", sizes=[70])
    model = ic.load_model(next((tmp_path / "out" / "runs").glob("*/model")))
    text = "ann knows zoe"
    expected = encoded(CORPUS, 280).tokenizer.stream([text])[:-1].tolist()
    assert model.tokenizer(text)["input_ids"] == expected
    assert len(model.tokenizer) == 280
    examples = [{"prompt": text, "answer": "."}]
    curve = ic.cap_curve(model, examples, progress=False)
    with torch.no_grad():
        logits = model.plain(torch.tensor([expected]))[0, -1].log_softmax(-1)
    (answer,) = model.tokenizer.encode(".", add_special_tokens=False)
    found = curve.clean["target_logprob"].iloc[0]
    assert found == pytest.approx(float(logits[answer]), abs=1e-5)
    again = ic.load_model(ic.save_model(model, tmp_path / "again"))
    assert again.tokenizer.saved() == model.tokenizer.saved()


def test_data_that_were_altered_are_refused(tmp_path: Path) -> None:
    data = encoded(CORPUS, 280)
    data.keep(tmp_path)
    (path,) = (tmp_path / "data").iterdir()
    assert kept(tmp_path, data.digest).digest == data.digest
    content = path.read_bytes()
    for broken, message in (
        (content[:-1] + bytes([content[-1] ^ 1]), "was altered"),
        (content[:50], "cannot be read"),
    ):
        kept.cache_clear()
        path.write_bytes(broken)
        with pytest.raises(CorruptFileError, match=message):
            kept(tmp_path, data.digest)
    path.unlink()
    with pytest.raises(CorruptFileError, match="cannot be read"):
        kept(tmp_path, data.digest)


def test_what_cannot_be_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    n = len(encoded(CORPUS, 280).train) - 1
    for asked, message in (
        ({"sizes": [9]}, f"size=9: expected n_ctx=10 to {n} training tokens"),
        ({"sizes": [n + 1]}, f"size={n + 1}: expected n_ctx=10 to {n}"),
        ({"sizes": [30, 30]}, "sizes holds 30 twice"),
        ({"sizes": []}, "sizes=.*expected numbers"),
        ({"workers": 2}, "workers=2 with where='here'"),
        ({"run": replace(TINY, vocab_size=100)}, "vocab_size=100: expected 257 or more"),
        ({"run": replace(TINY, vocab_size=9999)}, "vocab_size=9999: the training part supports"),
        ({"run": replace(TINY, d_model=9)}, "n_heads=2 do not divide d_model=9"),
        ({"run": replace(TINY, n_ctx=0)}, "n_ctx=0"),
        ({"run": replace(TINY, n_curve=0)}, "n_curve=0"),
        ({"run": replace(TINY, accumulate=5)}, "accumulate=5"),
    ):
        with pytest.raises(OptionError, match=message):
            study(tmp_path / "out", **asked)
    with pytest.raises(InputError, match=f"has {n} tokens, and a context n_ctx=99999"):
        study(tmp_path / "out", run=replace(TINY, n_ctx=99999))
    for rates, decays, message in (
        ([], [0.1], "init_rates=.*expected numbers"),
        ([0.5, 0.5], [0.1], "init_rates holds 0.5 twice"),
        ([0.5], [-0.1], "weight_decays holds -0.1"),
        ([-0.5], [0.1], "init_rates holds -0.5: expected 0 or more"),
        ([300.0], [0.1], "300"),
    ):
        with pytest.raises(OptionError, match=message):
            ic.complexity.text_phases(
                CORPUS, rates, decays, tmp_path / "out", where="here", run=TINY
            )
    assert not (tmp_path / "out").exists()


# ---- the paper's setting, and the command -----------------------------------------------------


def test_the_papers_shape_and_tokens() -> None:
    """GPT-2 medium has 302 M parameters in its blocks; 40 billion tokens."""
    run = cli._parsed(["text-phases", "--paper"]).run
    shape = run_of(**vars(run)).shape(d_vocab=run.vocab_size, n_ctx=run.n_ctx)
    with torch.device("meta"):
        blocks = SmallDecoder(shape).blocks
    assert sum(weight.numel() for weight in blocks.parameters()) == 24 * (12 * 1024**2 + 13 * 1024)
    assert run.max_steps is not None
    assert 0 <= run.max_steps * run.batch_size * run.n_ctx - 40_000_000_000 < 512 * 1024


def test_the_papers_setting_starts_steps_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything but the size is the preset's: precision, parts of a batch, schedule."""
    for i, text in enumerate(DOCUMENTS):
        (tmp_path / f"{i}.txt").write_text(text, encoding="utf-8")
    small = "--vocab-size 280 --n-ctx 10 --n-layers 2 --d-model 16 --d-mlp 16 --max-steps 2 "
    small += "--batch-size 8 --accumulate 4"
    argv = [
        "phases",
        "--task",
        "text",
        "--data-dir",
        str(tmp_path),
        "--paper",
        *small.split(),
        "-q",
    ]
    argv += ["--held-out", "0.1", "--gammas", "0.6", "--weight-decays", "0.1"]
    saved, real = [0], NextToken.loss

    def stops(self: Any, *args: Any) -> Any:
        saved[0] += 1
        if saved[0] == 5:  # of 4 parts a step
            raise KeyboardInterrupt
        return real(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(NextToken, "loss", stops)
        with pytest.raises(SystemExit):
            cli.main([*argv, "--out", str(tmp_path / "out")])
    (checkpoints,) = (tmp_path / "out").glob("runs/*/checkpoints")
    assert any(checkpoints.iterdir())
    cli.main([*argv, "--out", str(tmp_path / "out")])
    found = ic.complexity.TextPhases.load(tmp_path / "out")
    asked = {"precision": "bfloat16", "lr": 3e-4, "n_heads": 16, "documents": "file"}
    known = {**found.config, **found.config["data_report"]}
    assert {name: known[name] for name in asked} == asked
    assert found.frames["runs"]["steps"].tolist() == [2]
    loss = found.frames["held_out"]["loss"].iloc[0]
    assert loss == pytest.approx(math.log(280), rel=0.1)
