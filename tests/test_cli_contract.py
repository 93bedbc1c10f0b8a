"""What every command keeps, from outside: files, what is printed, exit statuses, refusals."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from plotly.offline import get_plotlyjs

from interp_compose import cli
from interp_compose.models.load import load_model
from interp_compose.plots.export import SCRIPT
from interp_compose.runs.result import Result
from interp_compose.studies.core import command as core_command, output
from interp_compose.studies.core.study import Prepared
from interp_compose.training import loop
from tests import architectures
from tests.papers.complexity.studies.test_text_phases import DOCUMENTS
from tests.studies.conftest import TEXTS, few_outputs, splitting_tokenizer
from tests.studies.similarity_reference import bert_tokenizer, few_samples, tsv
from tests.studies.test_transplant import PAIRS

TINY = "--d-model 16 --samples 150 --steps 6 --where here"
RUNS = f"{TINY} --d-mlp 20 --gammas 0.4,0.8 --weight-decays 0.01 --seeds 1"
COMMANDS = {
    "cap": "--model GPT-2 --task rows.jsonl --layers 0 --batch-size 2 --device cpu",
    "transplant": "--model GPT-2 --task transplants.jsonl --layers 0 --batch-size 2 --device cpu",
    "ablate": "--model GPT-2 --task rows.jsonl --layers 0 --batch-size 2 --device cpu",
    "similarity": "--model BERT --task pairs.tsv --layers 0 --batch-size 2 --device cpu",
    "carma": "--model mini-base --task mini-sst --device cpu --seeds 2 --limit 12 --max-steps 2 "
    "--epochs 1 --batch-size 8 --layers 0 1.0 --rates 0.25",
    "weights": "--model mini-base --no-heads --device cpu",
    "audit": "--model mini-base --quick --device cpu",
    "phases": RUNS,
    "task-phases": "--task addition-19 --sizes 40 --gammas 0.4,0.8 --weight-decays 0.01 --seeds 2 "
    "--d-model 8 --n-heads 2 --d-mlp 8 --max-steps 2 --n-looks 1 --n-curve 20 --where here",
    "text-phases": "--data-dir people.txt --vocab-size 280 --n-ctx 8 --gammas 0.4,0.8 --seeds 2 "
    "--weight-decays 0.01 --d-model 8 --n-heads 2 --d-mlp 8 --max-steps 2 --n-looks 1 --n-curve 5 "
    "--held-out 0.2 --where here",
    "concept-graphs": "--gammas 0.4,0.5 --seeds 2 --samples 8 --channels 2 --max-steps 2 "
    "--n-steps 4 --sample-steps 1 --n-images 2 --n-looks 1 --n-curve 1 --where here",
    "mechanism": "--runs phases --gammas 0.4,0.8",
    "speed": f"{TINY} --gammas 0.4,0.8 --depths 1 --violations 0,1 --seeds 1",
    "generalise": "--task scan-length --limit 40 --models transformer,lrf --seeds 2 --d-model 8 "
    "--n-heads 2 --d-mlp 8 --max-steps 2 --n-looks 1 --where here",
    "fusion": "--runs generalise --models lrf --n-pairs 2 --n-probe 4",
    "pretrain": "--data-dir people.txt --sememes sememes --models bert,cat --seeds 2 "
    "--vocab-size 52 --held-out 0.2 --held-out-words 0.3 --n-ctx 24 --n-layers 2 --d-model 8 "
    "--n-heads 2 --d-mlp 8 --n-codes 5 --max-steps 2 --batch-tokens 200 --n-looks 1 --n-curve 5 "
    "--where here",
    "encoders": "--runs pretrain --tasks mine=pairs.tsv --embeddings mean --where here",
    "codes": "--runs pretrain --least 1",
}
"""A small run of each."""
READS = {
    "mechanism": ("phases", ""),
    "fusion": ("generalise", "--seeds 1 --limit 8"),
    "encoders": ("pretrain", "--seeds 1"),
    "codes": ("pretrain", "--seeds 1"),
}
"""Whose runs a study opens, which lie in a folder of that name, and how they are fewer."""
OTHER = {
    "cap": ("--multi-token-answers", "multi_token_answers was false, is now true"),
    "transplant": ("--layers 1", "layers was [0], is now [1]"),
    "ablate": ("--what mlp", 'what was "words", is now "mlp"'),
    "similarity": ("--layers 1", "layers was [0], is now [1]"),
    "carma": ("--seeds 1", "seeds was [0, 1], is now [0]"),
    "weights": ("--heads", "heads was false, is now true"),
    "audit": ("--dtype bfloat16", 'dtype was "float32", is now "bfloat16"'),
    "phases": ("--steps 7", "steps was 6, is now 7"),
    "task-phases": ("--max-steps 3", "max_steps was 2, is now 3"),
    "text-phases": ("--max-steps 3", "max_steps was 2, is now 3"),
    "concept-graphs": ("--max-steps 1", "max_steps was 2, is now 1"),
    "mechanism": ("--gammas 0.4", "init_rates was"),
    "speed": ("--steps 7", "steps was 6, is now 7"),
    "generalise": ("--max-steps 3", "max_steps was 2, is now 3"),
    "fusion": ("--n-pairs 1", "n_pairs was 2, is now 1"),
    "pretrain": ("--max-steps 3", "max_steps was 2, is now 3"),
    "encoders": ("--limit 3", "limit was null, is now 3"),
    "codes": ("--k 3", "k was 5, is now 3"),
}
"""Options that make it another run, and how the refusal says so."""
IN_BATCHES = ("cap", "transplant", "ablate", "similarity")
REPLACED = (*IN_BATCHES, "weights", "audit", "phases")
"""Whose result gives way to another with ``--overwrite``, by code that all share."""
DRAWN = ("cap", "weights", "phases", "codes")
"""Whose figures are drawn, by code that all share. Those of the others are drawn in
tests/studies/test_report.py and in tests/plots, of made-up results."""


HOWNET = {
    "sememe_1400_EnZh.txt": "human|人\nperceive|感知\nknowledge|知识\nName|姓名\n",
    "hownet.txt": "安\t人 姓名\n鲍勃\t人 姓名\n金\t人\n认识\t感知 知识\n知道\t知识\n听见\t感知\n",
    "en2zh_dict.txt": "ann\t安\nBob\t鲍勃/金\nkim\t金\njoe\t无名/金\nknows\t认识/知道\n"
    "hears\t听见\nto hear\t听见\nzoo\t动物园\n",
}
"""Annotations of words in HowNet's scheme."""
SEMEMES = {
    "sememes": {},
    "garbled": {"hownet.txt": "安 人 姓名\n"},
    "others": {"en2zh_dict.txt": "zoo\t动物园\n"},
}
"""Folders of them, and what they have in the place of a file."""


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """Few bootstrap samples, few outputs of opened runs; models of refused commands are loaded
    once."""
    loaded: dict[Any, Any] = {}

    def once(source: str, **options: Any) -> Any:
        key = source, str(options)
        if key not in loaded:
            loaded[key] = load_model(source, **options)
        return loaded[key]

    with few_samples(), few_outputs(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(core_command, "load_model", once)
        yield


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models' folders, a JSONL file of examples, a TSV file of pairs, a text, and sememes."""
    folder = tmp_path_factory.mktemp("inputs")
    for name, tokenizer in (("GPT-2", splitting_tokenizer()), ("BERT", bert_tokenizer())):
        architectures.build(name).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    rows = [{"prompt": f'{text} "', "answer": "a"} for text in TEXTS]
    lines = "\n".join(json.dumps(row) for row in rows)
    (folder / "rows.jsonl").write_text(lines, encoding="utf-8")
    rows = [dataclasses.asdict(pair) for pair in PAIRS]
    lines = "\n".join(json.dumps(row) for row in rows)
    (folder / "transplants.jsonl").write_text(lines, encoding="utf-8")
    tsv(folder / "pairs.tsv")
    (folder / "people.txt").write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    for name, sememes in SEMEMES.items():
        (folder / name).mkdir()
        for file, text in {**HOWNET, **sememes}.items():
            (folder / name / file).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def here(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(inputs)
    return inputs


def run(name: str, out: Path, more: str = "") -> None:
    cli.main([name, *COMMANDS[name].split(), "--out", str(out), *more.split()])


def refused(capsys: pytest.CaptureFixture[str], *command: Any, status: int = 2) -> str:
    """What the command printed to stderr before it ended with this exit status."""
    with pytest.raises(SystemExit) as stopped:
        run(*command)
    assert stopped.value.code == status
    return capsys.readouterr().err


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def result_of(folder: Path) -> Any:
    """The result as its own class, which the manifest names."""
    import interp_compose as ic

    return ic.load_result(folder)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_run_again_and_another(
    name: str, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is written is announced; the same again ends in the same; another is refused, unless it
    is told to take the place."""
    runs_to_open(name, here)
    out = tmp_path / "out"
    if name in DRAWN:
        run(name, out)
        check_drawn(out)
    with pytest.MonkeyPatch.context() as patch:
        small_figures(patch)
        if name not in DRAWN:
            run(name, out)
        check_written(out, capsys.readouterr().out)
        before = contents(out)
        with pytest.MonkeyPatch.context() as again:
            if name in IN_BATCHES:  # nothing is measured twice
                again.setattr(core_command, "measured", None)
            run(name, out, "-q")
        assert capsys.readouterr() == ("", "")
        after = contents(out)
        assert set(after) == set(before)
        tables = {each for each in before if each.endswith((".csv", ".parquet", "result.json"))}
        assert all(after[each] == before[each] for each in tables)
        options, message = OTHER[name]
        error = refused(capsys, name, out, f"{options} -q")
        assert "holds the result of another run: " in error
        assert message in error
        assert contents(out) == after
        if name not in REPLACED:
            return
        run(name, out, f"{options} -q --overwrite")
    assert Result.load(out).config != json.loads(before["result.json"])["config"]
    figures = {path.stem for path in out.glob("*.png")}
    assert figures == set(result_of(out).figures())  # none is left of the one before


def check_written(out: Path, printed: str) -> None:
    """Every file that the result announces and no other, each whole; the summary on the screen."""
    result = result_of(out)
    assert result.summary() in printed
    assert f"written to {out}/: " in printed
    figures = set(result.figures())
    assert bool(figures) == bool(result.FIGURES)
    assert figures <= set(result.FIGURES)
    for figure in figures:
        assert f"{figure}.html, {figure}.png" in printed
    assert set(result.frames) <= set(result.TABLES)
    for table, frame in result.frames.items():
        assert len(pd.read_csv(out / f"{table}.csv")) == len(frame)
    kinds = {"html": figures, "png": figures, "csv": set(result.frames)}
    expected = {f"{each}.{kind}" for kind, names in kinds.items() for each in names}
    expected |= {f"{table}.parquet" for table in result.frames} | {"report.html"}
    expected |= {SCRIPT} if figures else set()
    assert (out / "report.html").stat().st_size <= 6_000_000
    assert set(contents(out)) - {"sweep.json"} == {*expected, "result.json", "manifest.json"}
    assert not list(out.rglob("*.tmp"))
    assert not (out / "batches").exists()


def check_drawn(out: Path) -> None:
    """Each figure, as a picture and as a page that needs no more than a script next to it."""
    for figure in result_of(out).figures():
        assert (out / f"{figure}.png").read_bytes()[:4] == b"\x89PNG"
        html = (out / f"{figure}.html").read_text(encoding="utf-8")
        assert "Plotly.newPlot" in html
        assert re.findall(r"<(?:script|link)[^>]+(?:src|href)=\"([^\"]*)", html) == [SCRIPT]
    assert (out / SCRIPT).read_text(encoding="utf-8") == get_plotlyjs()


def small_figures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(output, "picture_bytes", lambda figure: b"drawn")
    patch.setattr(
        output,
        "page_files",
        lambda figures: dict.fromkeys(
            [f"{n}.html" for n in figures] + [SCRIPT] * bool(figures), b"drawn"
        ),
    )
    patch.setattr(output, "report_page", lambda *result: "with figures in it")


def runs_to_open(name: str, here: Path) -> None:
    """Train what a study opens, once."""
    trained, fewer = READS.get(name, ("", ""))
    if trained and not (here / trained).exists():
        with pytest.MonkeyPatch.context() as patch:
            small_figures(patch)
            run(trained, here / trained, f"-q {fewer}")


@pytest.mark.parametrize("name", IN_BATCHES)
def test_an_interrupted_run_exits_with_130_and_resumes_to_the_same_result(
    name: str,
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    small_figures(monkeypatch)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run(name, whole, "-q")
    module = import_module(f"interp_compose.{cli.COMMANDS[name][0]}.measure")
    (prepared,) = (
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Prepared) and one is not Prepared
    )
    real, calls = prepared.rows, [0]

    def dies_at_the_second(*args: Any, **options: Any) -> pd.DataFrame:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        return real(*args, **options)  # type: ignore[no-any-return]

    with monkeypatch.context() as patch:
        patch.setattr(prepared, "rows", dies_at_the_second)
        stopped = refused(capsys, name, broken, "-q", status=130)
        assert "Interrupted. Run the same command again to resume." in stopped
        assert len(list((broken / "batches").glob("*.parquet"))) == 1
        assert not (broken / "manifest.json").exists()
        assert "different run" in refused(capsys, name, broken, f"{OTHER[name][0]} -q")
    run(name, broken, "-q")
    tables = [each for each in contents(whole) if each.endswith(".csv")]
    assert tables
    assert all(contents(broken)[each] == contents(whole)[each] for each in tables)
    assert not (broken / "batches").exists()


LOOKS = "--max-steps 4 --n-looks 2"
TRAINED = {
    "carma": ("", 3, 2),
    "phases": ("", 4, 0),
    "speed": ("", 4, 0),
    **dict.fromkeys(("task-phases", "text-phases", "generalise", "pretrain"), (LOOKS, 7, 6)),
    "concept-graphs": (LOOKS, 7, 6),
}
"""Commands that train a grid of runs: what of their small run is otherwise; the step, counted over
all runs, after which they are interrupted; how many steps are kept: those of the runs that are done
and, with ``LOOKS``, two of the next. Runs of ``phases`` and ``speed`` train as one program."""


@pytest.mark.parametrize("name", TRAINED)
def test_a_grid_that_was_interrupted_goes_on_to_the_same_tables(
    name: str,
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    small_figures(monkeypatch)
    more, last, kept = TRAINED[name]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    steps = [0]
    real = loop._show

    def counts(bar: Any, row: Any) -> None:
        steps[0] += 1
        real(bar, row)

    def stops(bar: Any, row: Any) -> None:
        counts(bar, row)
        if steps[0] == last:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_show", counts)
    run(name, whole, f"{more} -q")
    n_steps, steps[0] = steps[0], 0
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_show", stops)
        stopped = refused(capsys, name, broken, f"{more} -q", status=130)
    assert not (broken / "manifest.json").exists()
    steps[0] = 0
    run(name, broken, f"{more} -q")
    assert ("to resume." in stopped) == (kept > 0)
    assert steps[0] == n_steps - kept
    assert tables_of(broken) == tables_of(whole)


def tables_of(out: Path) -> dict[str, str]:
    """Every table, without seconds and their ratios."""
    frames = {path.stem: pd.read_csv(path) for path in out.glob("*.csv")}
    assert frames
    return {
        name: frame.loc[:, [not column.endswith(("seconds", "ratio")) for column in frame]].to_csv()
        for name, frame in frames.items()
    }


GRID = {
    "--gammas 0.4,0.4": "init_rates holds 0.4 twice",
    "--gammas 0.4:x:0.1": "gammas='0.4:x:0.1'",
    "--gammas 50": "an init rate of 50",
    "--seeds 0": "seeds=0",
    "--workers 2": "workers=2 with where='here'",
}
LAYERS = {"--layers 7": "LayerError: layer 7 is", "--layers first": "Error parsing --layers"}
MODEL = {
    "--device hpu": "DeviceError: device 'hpu' cannot be used",
    "--model no/such-model": "no model 'no/such-model'",
}
TASK = {"--limit 0": "OptionError: limit=0", "--task no-such-task": "no-such-task"}
REFUSED: dict[str, dict[str, str]] = {
    "cap": {
        **{**LAYERS, **MODEL, **TASK},
        "--unit phrase": "--unit phrase is --unit constituent now",
        "--mode broadcast --renumber": "renumber=True has no meaning",
        "--pooling": "pooling=(): expected a sequence",
        "--multi-token-answers --answers a b": "labels have to be one token each",
        "--task garbled.jsonl": "garbled.jsonl, line 2",
    },
    "transplant": {
        **{**LAYERS, **MODEL, **TASK},
        "--pooling": "pooling=(): expected a sequence",
        "--limit 1": "InputError: pair 0: no other pair has a source phrase",
        "--task garbled.jsonl": "garbled.jsonl, line 1 has the unknown key 'prompt'",
        "--task idm": "OptionError: pairs 'idm' are unknown; choose one of mini-idm, anchors",
    },
    "ablate": {
        **{**LAYERS, **MODEL, **TASK},
        "--how mean": "OptionError: how='mean' has no meaning for what='words'",
        "--tagger xx_no": "MissingDataError: tagger='xx_no' is no spaCy pipeline that is installed",
    },
    "similarity": {
        **{**LAYERS, **MODEL},
        "--limit 0": "OptionError: limit=0",
        "--output comp": "OptionError: output='comp': 'BERT' is no encoder that composes words",
        "--task brid": "OptionError: pair task 'brid' is unknown; choose one of bird, paws",
        "--task bird": "MissingDataError: task 'bird' needs the Bigram Relatedness Dataset",
        "--task no-such.tsv": "MissingDataError",
        "--task garbled.tsv": "garbled.tsv, line 3 has 'high' as its score",
        "--limit 2": "InputError: the list holds 2 pair(s)",
        "--embedding last": 'OptionError: embedding="last" is for decoders',
        "--unit constituent": "text1 of row 1 has no tree",
        "--data-dir .": "OptionError: the file",
    },
    "weights": MODEL,
    "audit": MODEL,
    "phases": {
        **GRID,
        "--weight-decays -1": "weight_decays holds -1",
        "--n-heads 3": "n_heads=3",
    },
    "mechanism": {
        "--gammas 0.5": "finished are γ 0.4, 0.8 and weight decays 0.01",
        "--gammas some": "'some' is no number",
        "--gammas 0.8 --seed 7": "no finished run of seed 7; of 0",
        "--gammas 0.8 --weight-decay 1": "weight decay 1",
        "--out phases": "--out and --runs are both",
    },
    "speed": {
        **GRID,
        "--depths 0": "depths holds 0",
        "--depths 1.5": "depths='1.5' holds 1.5: expected whole numbers",
        "--violations 0,7": "violations holds 7: expected whole numbers from 0 to 6",
        "--weight-decay -1": "weight_decay=-1",
    },
    "task-phases": {
        "--task scam": "OptionError: sequence task 'scam' is unknown",
        "--sizes 0": "size=0: expected 1 or more",
        "--sizes 2.5": "sizes holds 2.5: expected whole numbers",
        "--sizes inf": "sizes holds inf: expected whole numbers",
        "--sizes nan": "sizes holds nan: expected whole numbers",
        "--sizes 99999": "size=99999: expected at most 372",
        "--gammas x": "gammas='x': 'x' is no number",
        "--weight-decays -1": "weight_decays holds -1",
        "--seeds 0": "seeds=0",
        "--d-model 9": "n_heads=2 do not divide d_model=9",
        "--n-looks 0": "n_looks=0",
        "--where here --workers 2": "OptionError: workers=2 with where='here'",
    },
    "text-phases": {
        "--data-dir nosuch": "MissingDataError: there is no nosuch",
        "--data-dir empty.txt": "DataFormatError: empty.txt is empty",
        "--data-dir binary.txt": "DataFormatError: binary.txt has a NUL byte",
        "--documents file": "InputError: people.txt holds one document with documents='file'",
        "--held-out 1": "OptionError: held_out=1.0: expected a share between 0 and 1",
        "--n-ctx 5000": "tokens, and a context n_ctx=5000; give more text",
        "--vocab-size 5000": "OptionError: vocab_size=5000: the training part supports",
        "--sizes 7": "OptionError: size=7: expected n_ctx=8 to",
        "--sizes 20,20": "OptionError: sizes holds 20 twice",
        "--gammas 0.4,0.4": "OptionError: init_rates holds 0.4 twice",
        "--weight-decays -1": "weight_decays holds -1",
        "--n-looks 0": "n_looks=0",
        "--where here --workers 2": "OptionError: workers=2 with where='here'",
    },
    "concept-graphs": {
        **GRID,
        "--train-nodes 000,211": "OptionError: train_nodes name '211'",
        "--train-nodes ,": "train_nodes=[] name no node",
        "--pixels 32": "invalid choice '32'",
        "--channels 2 2 2 2": "cannot be halved 3 times",
        "--sample-steps 9": "sample_steps=9: expected at most n_steps=4",
    },
    "generalise": {
        "--limit 0": "OptionError: limit=0",
        "--task scam": "OptionError: sequence task 'scam' is unknown",
        "--models transformer,lfr": "OptionError: model 'lfr': expected one of transformer, lrf",
        "--models lrf,lrf": "OptionError: models name 'lrf' more than once",
        "--models lrf-sinusoidal-relative": "OptionError: model 'lrf-sinusoidal-relative'",
        "--seeds 0": "seeds=0",
        "--d-model 9": "n_heads=2: expected a divisor of d_model=9",
        "--dropout 1": "dropout=1.0",
        "--n-looks 0": "n_looks=0",
        "--n-curve 0": "n_curve=0",
        "--where here --workers 2": "OptionError: workers=2 with where='here'",
    },
    "fusion": {
        "--models lrf,previous": "no finished run of 'previous' of seed 0",
        "--models lrf,lrf": "OptionError: models=['lrf', 'lrf']",
        "--seed 7": "no finished run of seed 7; of 0",
        "--n-pairs 0": "OptionError: n_pairs=0",
        "--n-probe 3": "OptionError: n_probe=3",
        "--runs nosuch": "nosuch holds no runs; train them first: interp-compose generalise",
        "--out generalise": "--out and --runs are both",
    },
    "encoders": {
        "--models bert,lrf": "OptionError: models=['bert', 'lrf']: expected one or more of bert",
        "--outputs comp,all": "OptionError: outputs=['comp', 'all']",
        "--embeddings last": "OptionError: embeddings=['last']",
        "--limit 0": "OptionError: limit=0",
        "--tuned thawed": "OptionError: tuned=['thawed']: expected one or more of frozen",
        "--shares 0,1": "OptionError: shares=[0.0, 1.0]",
        "--shares half": "OptionError: shares='half': expected numbers, by commas",
        "--epochs 0": "OptionError: epochs=0",
        "--lr 0": "OptionError: lr=0.0",
        "--batch-size 0": "OptionError: batch_size=0",
        "--where here --workers 2": "OptionError: workers=2 with where='here'",
        "--tasks sst=nosuch": "MissingDataError: there is no nosuch/train.txt",
        "--tasks bird": "'bird': expected NAME=FOLDER",
        "--tasks mine=pairs.tsv,mine=pairs.tsv": "each name once",
        "--tasks birds=nosuch": "OptionError: pair task 'birds' is unknown",
        "--tasks mine=nosuch.tsv": "MissingDataError",
        "--runs nosuch": "nosuch holds no runs; train them first: interp-compose pretrain",
        "--out pretrain": "--out and --runs are both",
    },
    "codes": {
        "--models cat,lrf": "OptionError: models=['cat', 'lrf']: expected one or more of bert",
        "--models bert": "OptionError: the model 'bert' has no codes",
        "--n-passages 0": "OptionError: n_passages=0",
        "--least 0": "OptionError: least=0",
        "--n-words 0": "OptionError: n_words=0",
        "--k 0": "OptionError: k=0",
        "--least 99999": "annotated words occurs often enough",
        "--phrases nosuch.txt": "MissingDataError: there is no file nosuch.txt",
        "--phrases empty.txt": "DataFormatError: empty.txt is empty",
        "--phrases sememes": "MissingDataError: there is no sememes/BiRD.txt",
        "--phrases people.txt": "words: expected two, with a blank between them",
        "--wordnet nosuch": "MissingDataError: WordNet is not in nosuch",
        "--runs nosuch": "nosuch holds no runs; train them first: interp-compose pretrain",
        "--out pretrain": "--out and --runs are both",
    },
    "pretrain": {
        "--data-dir nosuch": "MissingDataError: there is no nosuch",
        "--data-dir empty.txt": "DataFormatError: empty.txt is empty",
        "--data-dir binary.txt": "DataFormatError: binary.txt has a NUL byte",
        "--data-dir line.txt": "of line.txt has no document, of 1; give more text",
        "--documents file": "of people.txt has no document, of 1; give more text",
        "--frozen": "OptionError: frozen=True without a model",
        "--model BERT": "with the model 'BERT', whose own is",
        "--sememes nosuch": "MissingDataError: there is no nosuch/sememe_1400_EnZh.txt",
        "--sememes garbled": "DataFormatError: line 1 of garbled/hownet.txt is '安 人 姓名'",
        "--sememes others": "DataFormatError: no word of en2zh_dict.txt has a translation",
        "--sememes None": "InputError: the model 'cat' needs sememes",
        "--models bert,cta": "OptionError: model 'cta': expected one of bert, cat",
        "--models bert,bert": "OptionError: models name 'bert' more than once",
        "--models cat,cat-last --n-layers 1": "'cat' and 'cat-last', which are the same model",
        "--held-out 1": "OptionError: held_out=1.0: expected a share between 0 and 1",
        "--held-out-words 0": "OptionError: held_out_words=0.0: expected a share between 0 and 1",
        "--vocab-size 5000": "OptionError: vocab_size=5000: the text supports 54 entries",
        "--n-ctx 4": "OptionError: n_ctx=4: expected 5 or more",
        "--n-ctx 9": "two sentences that fit into n_ctx=9 tokens together",
        "--d-model 9": "n_heads=2: expected a divisor of d_model=9",
        "--dropout 1": "dropout=1.0",
        "--beta -1": "OptionError: beta=-1.0: expected a finite number, 0 or more",
        "--seeds 0": "seeds=0",
        "--n-looks 0": "n_looks=0",
        "--n-curve 0": "n_curve=0",
        "--where here --workers 2": "OptionError: workers=2 with where='here'",
    },
    "carma": {
        **MODEL,
        "--seeds 1 1": "OptionError: seeds=[1, 1] name 1 more than once",
        "--seeds 0": "OptionError: seeds=0: expected 1 to 10000",
        "--seeds": "OptionError: seeds=(): expected 1 to 10000",
        "--seeds 3 -1": "OptionError: seed=-1: expected an integer, 0 or more",
        "--weight 1.5": "OptionError: weight=1.5: expected a number between 0 and 1",
        "--weight 0": "OptionError: λ (weight) is 0",
        "--mi-weight -1": "OptionError: mi_weight=-1.0",
        "--carma-layers 1 4": "LayerError: layers end at 4, outside the model",
        "--stability-layers 0 1": "LayerError: stability_layers=(0, 1)",
        "--layers 4": "LayerError: layer 4 is outside the model",
        "--rates 0.25 0.25": "OptionError: rates=(0.25, 0.25): expected shares",
        "--rates 1.5": "OptionError: rates hold 1.5",
        "--rates": "OptionError: rates=(): expected shares",
        "--limit 0": "OptionError: limit=0: expected at least 1 example",
        "--paper": "OptionError: CARMA has no task 'mini-sst'; expected idm or sst",
        "--paper --task sst": "OptionError: CARMA has no model 'mini-base'",
        "--task bird": "OptionError: task 'bird' holds pairs",
        "--task nosuch": "OptionError: task 'nosuch' is unknown",
        "--task sst --data-dir nosuch": "MissingDataError",
        "--task rows.jsonl": "InputError: the task's training split is empty; a file of your own",
        "--data-dir .": "OptionError: task 'mini-sst' reads no data_dir",
        "--synonyms nosuch": "OptionError: synonyms 'nosuch' are unknown",
        "--synonyms nosuch.json": "MissingDataError: there is no thesaurus nosuch.json",
        "--frequency words.tsv": "OptionError: the synonyms of the task 'mini-sst' are",
    },
}
GARBLED = {
    "garbled.jsonl": '{"prompt": "x", "answer": "a"}\n{"prompt": 3}\n',
    "empty.txt": " \n",
    "binary.txt": "a\n\n\0",
    "line.txt": "one line alone\n",
    "garbled.tsv": "text1\ttext2\tscore\na b\tc d\t0.5\na\tb\thigh\n",
}


@pytest.mark.parametrize(
    ("name", "options"), [(name, options) for name, table in REFUSED.items() for options in table]
)
def test_bad_input_exits_with_2_and_writes_nothing(
    name: str, options: str, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file, text in GARBLED.items():
        (here / file).write_text(text, encoding="utf-8")
    runs_to_open(name, here)
    out = tmp_path / "out"
    error = refused(capsys, name, out, options)
    assert REFUSED[name][options] in " ".join(re.sub("[│╭╰─╯╮]", " ", error).split())
    assert not out.exists() or not [path for path in out.rglob("*") if path.suffix == ".parquet"]
    if name in (*IN_BATCHES, "weights", "carma"):
        assert not out.exists()


WITH_TASK = [
    name for name, options in COMMANDS.items() if {*options.split()} >= {"--model", "--task"}
]


@pytest.mark.parametrize("name", WITH_TASK)
@pytest.mark.parametrize("task", ["no-such-task", "no-such-file.jsonl"])
def test_a_task_is_checked_before_the_model_is_loaded(
    name: str, task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(capsys, name, tmp_path / "out", f"--model no/such-model --task {task}")
    assert task in error
    assert "no/such-model" not in error


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_is_no_folder_even_to_be_replaced(
    name: str, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs_to_open(name, here)
    out = tmp_path / "notes.txt"
    out.write_text("mine", encoding="utf-8")
    assert "notes.txt is a file" in refused(capsys, name, out, "--overwrite -q")
    assert "holds" not in refused(capsys, name, out / "inside", "--overwrite -q")
    assert out.read_text(encoding="utf-8") == "mine"


def options_of(kind: type) -> Iterator[str]:
    """Every option of a command, those of its parts included."""
    for field in dataclasses.fields(kind):
        if "ApiOnly" in str(field.type):
            continue
        part = re.match(r"Part\[(\w+)\]", str(field.type))
        if part is None:
            yield field.name
            continue
        known = {**vars(import_module(core_options)), **vars(import_module(kind.__module__))}
        for base in getattr(kind, "__orig_bases__", ()):
            known["O_co"] = base.__args__[0]
        yield from options_of(known[part[1]])


core_options = "interp_compose.studies.core.options"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_describes_every_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main([name, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    names = set(options_of(cli.options_of(name)))
    assert {"out", "overwrite", "quiet"} < names
    for option in names:
        assert re.search(rf"--{option.replace('_', '-')}[ ,]", text), option
    assert "--progress" not in text
    assert "--slurm" not in text
    assert not re.search(r"\{None|default:\W*None", text)
