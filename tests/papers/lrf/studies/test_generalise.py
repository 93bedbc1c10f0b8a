"""The comparison of encoder–decoders: numbers by hand, the same batches, resume, refusals."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import interp_compose as ic
from interp_compose import cli
from interp_compose.errors import CorruptFileError, InputError, ModelError, OptionError
from interp_compose.papers.lrf.studies.generalise import measure as run_file
from interp_compose.papers.lrf.studies.generalise.measure import SequenceRun
from interp_compose.papers.shared.grid.sequence_data import DATA, SequenceData, keep, kept
from interp_compose.papers.shared.text.vocabulary import BOS, EOS
from interp_compose.papers.shared.training.sequence_objective import exact_match
from interp_compose.training.order import BatchOrder

TINY = ic.lrf.SequenceTraining(
    d_model=8, n_heads=2, d_mlp=8, epochs=2, batch_tokens=60, n_looks=2, n_curve=3
)


def task(**splits: list[tuple[str, ...]]) -> ic.SequenceTask:
    made = {name: tuple(ic.SequencePair(*pair) for pair in pairs) for name, pairs in splits.items()}
    return ic.SequenceTask("toy", made, {})


def toy() -> ic.SequenceTask:
    """Words are copied; the generalisation split has two kinds."""
    texts = ["a", "b", "a b", "b a", "a a b", "b b a", "a b a"]
    gen = [("a b b", "A B B", "long"), ("b a b", "B A B", "long"), ("b b", "B B", "short")]
    return task(train=[(text, text.upper()) for text in texts], test=[("a a", "A A")], gen=gen)


def frames(rights: dict[str, list[tuple[int, int]]]) -> dict[str, pd.DataFrame]:
    """Of each model, by seed, how many of 10 and of 30 are right, of kinds x and y."""
    runs, accuracy, curve, reads, entropies = [], [], [], [], []
    for model, of_model in rights.items():
        for seed, counts in enumerate(of_model):
            place = {"model": model, "seed": seed}
            size = {"n_parameters": 100 * len(model), "steps": 4, "step_seconds": 0.5 + seed}
            runs.append({**place, **size, "first_loss": 2.0, "last_loss": 0.5})
            for kind, right, n in zip("xy", counts, (10, 30), strict=True):
                accuracy.append({**place, "split": "gen", "kind": kind, "n_right": right, "n": n})
            for split, earlier in (("train", 0), ("train", 1), ("gen", 0), ("gen", 1)):
                if model == "lrf":
                    of_layer = {"stack": "encoder", "layer": 1, "head": 0, "earlier": earlier}
                    for kind, n, at_embeddings in (("end", 1, 0.5), ("word", 3, 0.1)):
                        where = {**place, "step": 4, "split": split, **of_layer, "kind": kind}
                        weight = 1 - at_embeddings if earlier else at_embeddings
                        reads.append({**where, "n": n, "weight": weight})
                        if not earlier:
                            of_head = {k: v for k, v in where.items() if k != "earlier"}
                            nats = {"entropy": 0.5, "share": 0.5 / math.log(2), "n": n}
                            entropies.append({**of_head, **nats})
            for step in (0, 4):
                curve.append({**place, "step": step, "split": "gen", "accuracy": step / 4, "n": 5})
    made = {"runs": runs, "accuracy": accuracy, "curve": curve, "reads": reads}
    made["entropies"] = entropies
    return {name: pd.DataFrame(rows) for name, rows in made.items()}


RIGHTS = {
    "transformer": [(1, 3), (2, 9), (4, 6)],
    "lrf": [(4, 6), (5, 15), (9, 3)],
    "previous": [(0, 3), (3, 9), (5, 12)],
}
CONFIG = {
    "task": "toy", "models": list(RIGHTS), "seeds": [0, 1, 2], "n_encoder_layers": 2,
    "n_decoder_layers": 2, "d_model": 8, "n_curve": 5, "n_looks": 1,
}  # fmt: skip


def result(rights: dict[str, list[tuple[int, int]]] = RIGHTS) -> ic.lrf.Generalisation:
    return ic.lrf.Generalisation.from_runs(frames(rights), {**CONFIG, "models": list(rights)})


def test_shares_and_their_intervals_by_hand() -> None:
    found = result().frame.set_index(["model", "split", "kind"])
    shares = np.array([4 / 40, 11 / 40, 10 / 40])  # all kinds of the transformer
    row = found.loc[("transformer", "gen", "all")]
    assert row["mean"] == pytest.approx(shares.mean())
    assert (row["smallest"], row["largest"]) == (shares.min(), shares.max())
    half = stats.t.ppf(0.975, 2) * shares.std(ddof=1) / np.sqrt(3)
    assert row["low"] == pytest.approx(max(0.0, shares.mean() - half))  # a share
    assert row["high"] == pytest.approx(shares.mean() + half)
    assert (row["n"], row["n_seeds"]) == (40, 3)
    assert found.loc[("lrf", "gen", "y"), "mean"] == pytest.approx((6 + 15 + 3) / 90)
    assert found.loc[("lrf", "gen", "y"), "n"] == 30


def test_differences_are_paired_by_seed_and_corrected_within_their_family() -> None:
    found = result().differences.set_index(["model", "kind"])
    by_hand = {}
    for model in ("lrf", "previous"):
        for kind, column in (("x", 0), ("y", 1)):
            n = (10, 30)[column]
            one, two = (
                [counts[column] / n for counts in RIGHTS[name]] for name in (model, "transformer")
            )
            test = stats.ttest_rel(one, two)
            row = found.loc[(model, kind)]
            assert row["difference"] == pytest.approx(np.mean(one) - np.mean(two))
            assert row["p"] == pytest.approx(test.pvalue)
            low, high = test.confidence_interval()
            assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high))
            by_hand[model, kind] = test.pvalue
    order = sorted(by_hand, key=lambda key: by_hand[key])  # Holm: four tests of kinds
    adjusted = np.maximum.accumulate(
        [min(1.0, (4 - i) * by_hand[key]) for i, key in enumerate(order)]
    )
    for key, p in zip(order, adjusted, strict=True):
        assert found.loc[key, "p_holm"] == pytest.approx(p)
    overall = found.loc[("lrf", "all")]
    assert overall["p_holm"] <= 2 * overall["p"] + 1e-12  # a family of two
    assert (found["other"] == "transformer").all()


def test_one_seed_has_a_difference_and_no_test() -> None:
    found = result({name: rows[:1] for name, rows in RIGHTS.items()})
    assert found.frame["low"].isna().all()
    assert found.differences["difference"].notna().all()
    assert found.differences[["p", "p_holm", "ci_low"]].isna().all(axis=None)
    assert "differences to" not in found.summary()


def test_the_summary_names_every_model_and_number() -> None:
    lines = result().summary().splitlines()
    assert any(line.startswith("transformer") and " 20.83 " in line for line in lines)
    (told,) = (k for k, line in enumerate(lines) if line.startswith("differences to"))
    assert "in points (95 % interval, not corrected" in lines[told]
    assert lines[told + 2].split() == ["model", "split", "difference", "95", "%", "p", "(Holm)"]
    assert any(line.startswith("lrf") and "+14.17" in line for line in lines[told + 3 :])


def test_figures_there_are_for_kinds_and_without() -> None:
    assert set(result().figures()) == set(ic.lrf.Generalisation.FIGURES)
    plain = frames(RIGHTS)
    plain["accuracy"] = plain["accuracy"].query("kind == 'x'").assign(kind="")
    without = ic.lrf.Generalisation.from_runs(plain, CONFIG)
    reads = {"generalise_reads", "generalise_reads_kinds"}
    kinds = {"generalise_accuracy", "generalise_curve"}
    assert set(without.figures()) == kinds | reads
    plain["reads"] = plain["reads"].iloc[:0]
    unread = ic.lrf.Generalisation.from_runs(plain, CONFIG)
    assert set(unread.figures()) == kinds


def test_maps_of_what_is_read_are_means_over_tokens() -> None:
    """A kind of three tokens weighs three times as much as one of one."""
    drawn = result().figures()
    weights, depths = (drawn[name].chart for name in ("generalise_reads", "generalise_reads_kinds"))
    assert weights.rows == ["LRF encoder 1"]
    np.testing.assert_allclose(weights.values, [[(0.5 + 3 * 0.1) / 4, (0.5 + 3 * 0.9) / 4]])
    assert (depths.rows, depths.columns) == (
        ["LRF encoder 1, end", "LRF encoder 1, word"],
        ["4"],
    )
    np.testing.assert_allclose(depths.values, [[0.5], [0.9]])


def test_types_of_two_splits_are_rows_of_their_own() -> None:
    made = frames(RIGHTS)
    dev = made["accuracy"].query("kind == 'x'").assign(split="dev", n_right=10)
    made["accuracy"] = pd.concat([dev, made["accuracy"]], ignore_index=True)
    drawn = ic.lrf.Generalisation.from_runs(made, CONFIG).figures()["generalise_types"].chart
    assert drawn.rows == ["dev: x", "gen: x", "gen: y"]
    assert drawn.values[0] == [1.0, 1.0, 1.0]
    assert drawn.values[1][0] == pytest.approx((0.1 + 0.2 + 0.4) / 3)


def test_there_may_be_more_splits_than_styles() -> None:
    made = frames(RIGHTS)
    for table in ("accuracy", "curve"):
        copies = [made[table].assign(split=f"s{i}") for i in range(12)]
        made[table] = pd.concat(copies, ignore_index=True)
    assert ic.lrf.Generalisation.from_runs(made, CONFIG).figures()


def test_data_are_kept_once_beside_the_runs_and_checked(tmp_path: Path) -> None:
    digest = keep(toy().splits, tmp_path)
    assert keep(toy().splits, tmp_path) == digest
    data = kept(tmp_path, digest)
    assert (len(data.source), len(data.target), data.longest) == (5, 5, 4)
    first = data.splits["gen"][0]
    assert first.source.tolist() == [3, 4, 4, EOS]
    assert data.kinds["gen"] == ["long", "long", "short"]
    path = tmp_path / DATA / f"{digest}.json"
    path.write_text(path.read_text().replace("A B B", "A B A"))
    kept.cache_clear()
    with pytest.raises(CorruptFileError, match="altered"):
        kept(tmp_path, digest)


def test_tokens_that_training_does_not_have_are_in_the_vocabulary() -> None:
    unseen = SequenceData.of(task(train=[("a", "A")], gen=[("b", "C A", "")]).splits)
    assert unseen.splits["gen"][0].source.tolist() == [4, EOS]
    assert unseen.splits["gen"][0].target.tolist() == [4, 3, EOS]


def test_one_vocabulary_for_both_sides(tmp_path: Path) -> None:
    """A word that is copied is the same token, and fuse-attention and the rest act on it as
    before."""
    train = [("a b", "b a"), ("b", "b"), ("a", "a"), ("a a", "a a")]
    copied = task(train=train, test=[("b a", "a b")])
    one = SequenceData.of(copied.splits, one_vocabulary=True)
    assert one.source == one.target
    assert one.splits["test"][0].source.tolist() == [4, 3, EOS]
    assert one.splits["test"][0].target.tolist() == [3, 4, EOS]
    shape = {"out": tmp_path, "seeds": 1, "where": "here", "progress": False}
    found = ic.lrf.generalise(copied, ["lrf"], **shape, run=replace(TINY, one_vocabulary=True))
    assert found.config["one_vocabulary"]
    apart = ic.lrf.generalise(
        copied, ["lrf"], **shape | {"out": tmp_path / "apart"}, run=TINY
    ).frames["runs"]
    fewer = len(one.source) * TINY.d_model
    sizes = [runs["n_parameters"].item() for runs in (found.frames["runs"], apart)]
    assert sizes[0] == sizes[1] - fewer
    opened = ic.lrf.fusion(tmp_path, n_pairs=1, progress=False)
    assert set(opened.tokens["kind"]) == {"token", "end", "structure"}


def test_models_of_a_seed_see_the_same_batches_and_begin_alike() -> None:
    data = SequenceData.of(toy().splits)
    lengths = [len(pair) for pair in data.splits["train"]]
    shape = {"data": "", **vars(TINY)}
    runs = [SequenceRun(**shape, model=model, seed=3) for model in ("transformer", "lrf-relative")]
    configs = [run.train_config(lengths) for run in runs]
    assert configs[0] == configs[1]
    assert configs[0].seed == 3
    assert runs[1].model_config(data).positions == "relative"
    assert runs[1].model_config(data).fuse == "both"
    deeper = replace(runs[0], model="deeper").model_config(data)
    assert (deeper.n_encoder_layers, deeper.n_decoder_layers) == (3, 3)


def study(out: Path, models: list[str], **asked: Any) -> ic.lrf.Generalisation:
    return ic.lrf.generalise(toy(), models, out, where="here", run=TINY, progress=False, **asked)


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((out / "runs").glob("*/run.json"))]


def test_a_later_call_trains_what_it_adds_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = study(tmp_path / "whole", ["transformer", "lrf"], seeds=1)
    assert set(whole.frames["accuracy"]["kind"]) == {"", "long", "short"}
    with monkeypatch.context() as patch:
        patch.setattr(run_file.WatchedSequence, "evaluate", lambda *args: 1 / 0)
        again = study(tmp_path / "whole", ["lrf", "transformer"], seeds=1)  # trains nothing
        assert again.config["models"] == ["lrf", "transformer"]
        with pytest.raises(ModelError, match="1 of 3 runs failed"):
            study(tmp_path / "whole", ["transformer", "lrf", "previous"], seeds=1)


def test_every_pair_of_every_split_is_measured(tmp_path: Path) -> None:
    found = study(tmp_path, ["transformer"], seeds=1)
    counts = found.frames["accuracy"].groupby("split")["n"].sum()
    assert counts.to_dict() == {"gen": 3, "test": 1}
    (run,) = (tmp_path / "runs").glob("*/run.json")
    about = json.loads(run.read_text())
    assert len(about["losses"]) == found.frames["runs"]["steps"].iloc[0]
    assert about["run"]["model"] == "transformer"
    model = ic.load_model(run.parent / "model")
    data = SequenceData.of(toy().splits)
    right = {row["split"]: row["n_right"] for row in about["accuracy"] if row["kind"] == ""}
    assert int(exact_match(model.lens, data.splits["test"], BOS).sum()) == right["test"]
    assert model.source_words.words == ("a", "b")


def exposed(n_signs: int = 1) -> ic.SequenceTask:
    """The toy task with a word alone and its form of so many signs, as COGS has them, and longer
    lines: of 2 to 6, and of 12, 16 and 20 tokens."""
    splits = {name: list(pairs) for name, pairs in toy().splits.items()}
    longer = [ic.SequencePair("a b " * n, "A B " * n) for n in (3, 4, 5)]
    alone = ic.SequencePair("c", " ".join("C" * n_signs), "primitive")
    splits["train"] += [alone, *longer]
    return ic.SequenceTask("cogs", {name: tuple(pairs) for name, pairs in splits.items()}, {})


def exposures(
    out: Path, run: ic.lrf.SequenceTraining = TINY, n_signs: int = 1, **asked: Any
) -> ic.lrf.Generalisation:
    given: dict[str, Any] = {"seeds": 1, "where": "here", "progress": False, **asked}
    return ic.lrf.generalise(exposed(n_signs), ["transformer"], out, run=run, **given)


def test_of_one_exposure_data_batches_and_runs_are_those_without(tmp_path: Path) -> None:
    plain, one = exposures(tmp_path), exposures(tmp_path, exposures=1)
    assert len([*(tmp_path / "runs").iterdir()]) == 1  # the second call trained nothing
    assert (one.config, one.seen) == (plain.config, TINY.epochs)
    assert "exposures" not in one.config["data_report"]


def test_how_often_a_line_of_exposure_is_seen_batch_by_batch(tmp_path: Path) -> None:
    """Counted over every batch of the run."""
    found = exposures(tmp_path, exposures=5)
    (run,) = (SequenceRun(**about["run"]) for about in records(tmp_path))
    data = run.kept(next((tmp_path / "runs").iterdir()))
    lengths = [len(pair) for pair in data.splits["train"]]
    order = BatchOrder(lengths, run.train_config(lengths))
    sources = [
        data.source.text(data.splits["train"][i].source.tolist())
        for step in range(found.frames["runs"]["steps"].item())
        for i in order.at(step)
    ]
    assert sources.count("c") == 5 * TINY.epochs == found.seen
    assert sources.count("a b a") == TINY.epochs
    assert (found.frame["seen"] == 5 * TINY.epochs).all()
    assert "! training showed each line of exposure, and with it what gen tests, 10 times" in (
        found.summary()
    )
    assert found.config["task"] == "cogs, 5 exposures"
    cut = exposures(tmp_path / "cut", replace(TINY, max_steps=3), exposures=5)
    assert cut.seen == pytest.approx(5 * 3 / cut.config["steps_per_epoch"])
    assert exposures(tmp_path / "short", replace(TINY, max_steps=3)).seen is None
    assert result().seen is None  # not COGS


@pytest.mark.parametrize(("n_signs", "is_longer"), [(9, True), (7, False)])
def test_the_control_of_exposures_takes_as_many_steps(
    n_signs: int, is_longer: bool, tmp_path: Path
) -> None:
    """The line that it repeats has 12 tokens where that of exposure has 10, and 6 where it has 8:
    its epochs have more steps, or fewer."""
    tested, others = (
        exposures(tmp_path / of, n_signs=n_signs, exposures=40, exposures_of=of)
        for of in ("tested", "others")
    )
    steps = [each.frames["runs"]["steps"].item() for each in (tested, others)]
    assert steps[0] == steps[1] > 0
    of_epoch = [each.config["steps_per_epoch"] for each in (tested, others)]
    assert (of_epoch[1] > of_epoch[0]) == is_longer
    assert of_epoch[0] != of_epoch[1]
    assert tested.seen == 40 * TINY.epochs
    assert others.seen == pytest.approx(steps[1] / of_epoch[1])


def test_exposures_that_cannot_be_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for asked, message in (
        ({"exposures": 0}, "exposures=0: expected a whole number"),
        ({"exposures_of": "others"}, "exposures_of='others' with exposures=1"),
    ):
        with pytest.raises(OptionError, match=message):
            exposures(out, **asked)
    with pytest.raises(OptionError, match="exposures=2 with the task 'toy'"):
        ic.lrf.generalise(toy(), ["lrf"], out, where="here", exposures=2)
    command = f"generalise --task scan-jump --limit 9 --exposures 2 --where here --out {out}"
    with pytest.raises(SystemExit):
        cli.main(command.split())
    assert not out.exists()


def test_a_papers_setting_is_the_default_of_all_other_options() -> None:
    command = cli._parsed(["generalise", "--paper", "cognition", "--lr", "1e-3"])
    assert (command.source.task, command.run.d_model, command.run.lr) == ("cognition", 512, 1e-3)
    assert (command.run.n_encoder_layers, command.run.schedule) == (6, "inverse_sqrt")
    assert cli._parsed(["generalise", "--paper", "cfq"]).run.act == "gelu"
    assert cli._parsed(["generalise"]).run == ic.lrf.SequenceTraining()


@pytest.mark.parametrize("name", ["cognition", "cfq"])
def test_a_papers_models_start_step_and_resume(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their depth and training, narrower, on the toy task; stopped after the first of two steps,
    the shallower goes on to the same result."""
    run = cli._parsed(["generalise", "--paper", name]).run
    run = replace(run, d_model=24, d_mlp=24, max_steps=2, n_looks=2, n_curve=3)
    asked: dict[str, Any] = {"seeds": 1, "run": run, "where": "here", "progress": False}
    whole = ic.lrf.generalise(toy(), ["lrf"], tmp_path / "whole", **asked)
    assert whole.frames["runs"]["steps"].tolist() == [2]
    assert whole.config["n_encoder_layers"] == {"cognition": 6, "cfq": 12}[name]
    if name == "cfq":
        return
    look, looks = run_file.WatchedSequence.evaluate, [0]

    def stops(self: Any, trainer: Any) -> Any:
        looks[0] += 1
        if looks[0] == 3:  # before training, after one step, and after two
            raise KeyboardInterrupt
        return look(self, trainer)

    with monkeypatch.context() as patch:
        patch.setattr(run_file.WatchedSequence, "evaluate", stops)
        with pytest.raises(KeyboardInterrupt):
            ic.lrf.generalise(toy(), ["lrf"], tmp_path / "broken", **asked)
    broken = ic.lrf.generalise(toy(), ["lrf"], tmp_path / "broken", **asked)
    for table in ("accuracy", "curve", "reads", "entropies"):
        pd.testing.assert_frame_equal(whole.frames[table], broken.frames[table])


@pytest.mark.parametrize(
    ("models", "layers", "message"),
    [
        (["transformer", "transformer-sinusoidal"], 2, "'transformer' and 'transformer-sinusoid"),
        (["lrf", "previous"], 1, "'lrf' and 'previous', which are the same model"),
    ],
)
def test_one_model_under_two_names_is_refused(
    models: list[str], layers: int, message: str, tmp_path: Path
) -> None:
    run = replace(TINY, n_encoder_layers=layers, n_decoder_layers=layers)
    with pytest.raises(OptionError, match=message):
        ic.lrf.generalise(toy(), models, tmp_path / "out", where="here", run=run)
    assert not (tmp_path / "out").exists()


def test_something_has_to_be_measured(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no split but 'train', on which nothing is measured"):
        ic.lrf.generalise(task(train=[("a", "b")]), ["lrf"], tmp_path / "out", where="here")
    with pytest.raises(OptionError, match="first_seed=9223372036854775808: expected a whole"):
        ic.lrf.generalise(toy(), ["lrf"], tmp_path / "out", where="here", first_seed=2**63)


def test_workers_are_checked_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="workers=2 with where='here'"):
        ic.lrf.generalise(toy(), ["transformer"], tmp_path / "out", where="here", workers=2)
    assert not (tmp_path / "out").exists()
