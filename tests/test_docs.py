"""The documentation builds without a warning, its code runs, its tables are up to date."""

from __future__ import annotations

import ast
import json
import math
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

import interp_compose
from benchmarks import outcomes, speed
from docs import (
    architectures,
    audit_scripts,
    audits,
    carma_results,
    explore_page,
    hooked,
    measured,
    phase_results,
    reference_pages,
    tables,
)
from docs.claims.runs import RUNS
from interp_compose import cli
from interp_compose.checks import drawn
from interp_compose.errors import CapabilityError
from interp_compose.studies.core.options import Output, TaskSource
from interp_compose.tasks import wordnet
from interp_compose.tasks.corpus import read_documents
from tests import made_up, test_explore
from tests.browser import Browser
from tests.interventions.test_ablation import BEHIND_HOOK_Z
from tests.studies.conftest import splitting_tokenizer

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])
EXECUTED = (
    "../README.md",
    "audit.md",
    "cap.md",
    "carma.md",
    "cat.md",
    "circuits.md",
    "concept-graphs.md",
    "explore.md",
    "finetuning.md",
    "generalise.md",
    "how-to.md",
    "human-judgements.md",
    "index.md",
    "models.md",
    "phases.md",
    "probes.md",
    "quickstart.md",
    "reading-results.md",
    "task-phases.md",
    "tasks.md",
    "transplants.md",
    "twenty-texts.md",
    "watch.md",
    "words.md",
)
SMALLER = {  # what takes long: studies of a whole test split, trainings; and a small text's options
    "../README.md": {"task.test": "task.test[:8]"},
    "generalise.md": {
        "scan-length-26": "scan-length-47",  # few commands are longer
        "n_curve=20": "n_curve=5, d_model=8",
    },
    "cat.md": {
        "n_layers=2, n_codes=50": "n_layers=2, d_model=8, n_heads=2, d_mlp=8, n_codes=5, n_ctx=24",
        "seeds=2": 'seeds=2, held_out=0.2, held_out_words=0.3, vocab_size=54, where="here"',
        'embeddings=["mean"]': 'embeddings=["mean"], where="here"',
        '"water body", "body water"': '"Ann knows", "knows Bob"',
    },
    "how-to.md": {'"partition": "gpu", "time": 60': '"cluster": "local"'},
    "task-phases.md": {
        "n_curve=20": "n_curve=5, d_model=8",
        "[2000]": "[40]",
        "TextTraining(": "TextTraining(d_model=8, n_heads=2, vocab_size=280, n_ctx=8, ",
        '"out/text", seeds=2': '"out/text", seeds=2, where="here"',
    },
    "phases.md": {
        "seeds=1": 'seeds=1, where="here"',
        "steps=30": "steps=3, d_model=8, d_mlp=8, samples=60, n_test=20",
    },
}
NOT_RUN = re.compile(r"\n\n\(The next block [^\n]*; the tests do not run it\.\)\n\n\Z")
MACHINE = re.compile(r"(?<![\w.])/(work|home|root|tmp|Users|mnt)/")


def blocks(page: Path) -> list[tuple[str, str]]:
    """The Python blocks of a page, each with the text before it."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text[: match.start()], match[1]) for match in found]


@pytest.fixture(scope="module")
def site() -> Path:
    """The pages as ``make docs`` builds them, and where it does."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    folder = DOCS / "_build" / "html"
    built = subprocess.run(
        [*command, str(DOCS), str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.docs
def test_it_builds_without_a_warning(site: Path) -> None:
    expected = {page.with_suffix(".html").name for page in DOCS.glob("*.md")}
    assert expected <= {page.name for page in site.glob("*.html")}
    assert 'class="table' in (site / "models.html").read_text(encoding="utf-8")
    assert "BloomForCausalLM" in (site / "models.html").read_text(encoding="utf-8")


@pytest.mark.docs
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_the_model_runs_in_the_browser(site: Path, tmp_path: Path) -> None:
    """From a folder, with nothing from elsewhere: its example, its curve, its keys, its numbers."""
    model = interp_compose.load_model("mini-idm", device="cpu")
    with Browser(tmp_path) as browser:

        def of_page(name: str) -> str:
            text: str = browser.js(f"page.part('{name}').textContent")
            return text

        def click(selector: str) -> None:
            browser.js(f"page.root.querySelector({selector!r}).click()")

        def log_probability() -> float:
            """As shown, which the code below it returns."""
            shown = browser.js("page.root.querySelectorAll('[data-x=numbers] td')[3].textContent")
            names: dict[str, Any] = {}
            exec(of_page("python"), names)
            value = float(shown.replace("−", "-"))
            assert names["now"].detach() == pytest.approx(value, abs=1e-4)
            return value

        probability = "page.root.querySelector('[data-x=numbers] td').textContent"
        first = "page.root.querySelector('[data-x=top] button').textContent"
        browser.open((site / "explore.html").as_uri())
        example = (DOCS / "explore.md").read_text(encoding="utf-8").partition("For the model below")
        clean, *by_layer = re.findall(r"0\.\d{3}", example[2].partition("```")[0])
        assert browser.js(probability) == clean
        for layer, said in enumerate(by_layer):
            click(f'[data-x="layer {layer}"]')
            assert f"{math.exp(log_probability()):.3f}" == said
        browser.js("page.root.querySelector('[data-key=\"words knock 2\"]').focus()")
        browser.press("Enter", "\r")
        log_probability()
        assert browser.js(first) == "puppy"
        browser.press("Enter", "\r")  # the focus stays where it was
        assert browser.js(first) == "kitten"
        browser.js("page.toggle('words', [1, 3])")  # a phrase
        log_probability()
        assert "['young feline']" in of_page("python").replace('"', "'")

        browser.js("page.choose('the sound that a dog that a dog has makes')")
        click('[data-key="words knock 6"]')  # the second "dog", and not the first
        click('[data-key="words pool 1"]')
        click('[data-x="how first"]')
        log_probability()
        assert "keys=[" in of_page("python")

        browser.js("page.choose('a young cat')")
        click('[data-key="words pool 1"]')  # of one token each: nothing is left to pool
        ticks = "[...page.part('curve').querySelectorAll('text[text-anchor=end]')]"
        texts = browser.js(f"{ticks}.map((one) => one.textContent)")
        assert len(texts) == len({*texts}) >= 3

        shown = of_page("numbers")
        browser.js("page.choose('a young zebra')")
        assert "has never read the word “zebra”" in of_page("message")
        assert browser.js("page.part('rest').inert && page.part('results').inert")
        browser.js("page.choose('a young cat')")
        typed = "page.part('answer').value = 'zebra'"
        browser.js(f"{typed}; page.part('answer').dispatchEvent(new InputEvent('input'))")
        assert "“zebra” is not one token" in of_page("message")
        assert browser.js("page.part('results').inert && !page.part('rest').inert")
        browser.js("page.choose('a young cat')")
        assert not browser.js("page.part('results').inert || page.part('rest').inert")
        click('[data-key="words pool 1"]')
        assert of_page("numbers") == shown

        examples = [{"prompt": 'a female horse is called a "', "answer": "mare"}]
        curve = interp_compose.cap_curve(model, examples, progress=False)
        browser.js("page.choose('a female horse')")
        curves = dict(browser.js("[...page.curve]"))
        assert {*curves} == {"mean", "max", "sum", "last", "first"}
        for one in curve.outcomes[curve.outcomes["pooling"].isin(curves)].itertuples():
            assert curves[one.pooling][one.layer] == pytest.approx(one.target_logprob, abs=1e-5)

        asked = json.dumps(test_explore.asked_of_it())
        work = (
            f"{{ const [asked, model] = [{asked}, answers.model]; return ({test_explore.RUN})() }}"
        )
        test_explore.check_log_probabilities(browser.js(f"(() => {work})()"), model)
        browser.open((site / "index.html").as_uri())
        assert browser.problems == []
        files = [url for url in browser.requested if not url.startswith("data:")]
        assert all(url.startswith(site.as_uri()) for url in files), files
        of_files = {Path(urlsplit(url).path) for url in files}
        assert sum(path.stat().st_size for path in of_files) < 6_000_000

        alone = tmp_path / "explore.html"
        alone.write_text(explore_page.alone(), encoding="utf-8")
        browser.open(alone.as_uri())
        assert browser.js(probability) == clean
        assert browser.problems == []
        assert [url for url in browser.requested if not url.startswith("data:")] == [
            *files,
            alone.as_uri(),
        ]


@pytest.mark.docs
def test_every_public_name_has_a_page(site: Path) -> None:
    listed = (site / "api.html").read_text(encoding="utf-8")
    public = reference_pages.public_objects()
    assert {*public} > set(interp_compose.__all__) - {"__version__", *interp_compose.PAPERS}
    for name, thing in public.items():
        page = f"reference/{reference_pages.page_of(name, thing)}.html"
        assert f'id="ic.{name}"' in (site / page).read_text(encoding="utf-8"), page
        assert f'href="{page}#ic.{name}"' in listed, f"docs/api.md does not list {name}"


def test_examples_are_the_shortest_that_run() -> None:
    pages = {
        "a.md": "```python\nx = ic.lrf.bleu([], [])\ny = ic.audit(x)\n```\n",
        "b.md": f"(A remark; {reference_pages.NOT_RUN}```python\nic.lrf.bleu()\n```\n",
        "c.md": "```python\nic.lrf.bleu(a, b)\n```\n"
        + "```python\nic.audit\n"
        + "\n" * 30
        + "```\n",
    }
    found = reference_pages.examples(pages, {"Audit": ["lrf.bleu", "audit"], "Task": ["load_task"]})
    assert found["lrf.bleu"] == ("c.md", "ic.lrf.bleu(a, b)\n")
    assert found["audit"][0] == "a.md"
    assert found["Audit"] == found["lrf.bleu"]
    assert "Task" not in found


def test_every_public_name_has_an_example_that_runs() -> None:
    public = reference_pages.public_objects()
    made_by = reference_pages.makers(public)
    assert made_by["SequenceTask"] == [
        "complexity.addition",
        "complexity.prontoqa",
        "load_sequences",
    ]
    assert made_by["Pair"] == ["read_pairs"]
    found = reference_pages.examples(reference_pages.written(), made_by)
    assert set(public) - set(found) == set()
    assert {page for page, _ in found.values()} <= set(EXECUTED)
    with_code = {page.name for page in DOCS.glob("*.md") if blocks(page)}
    # The first has a test of its own, the second needs models that are not shipped.
    assert with_code - set(EXECUTED) == {"contributing.md", "real-model.md"}


@pytest.mark.docs
def test_no_sentence_is_taken_for_a_type(site: Path) -> None:
    """Napoleon takes what comes before the first colon of a field's description for its type."""
    for page in [*(site / "reference").glob("*.html"), site / "objects.html"]:
        found = re.search(r"<dt[^>]*>Type<span.*?</dd>", page.read_text(encoding="utf-8"), re.S)
        assert found is None, f"{page.name}: {found.group()}"


@pytest.mark.docs
def test_no_page_names_a_path_of_a_machine(site: Path) -> None:
    built = [*site.rglob("*.html")]
    for page in [*PAGES, *DOCS.glob("_generated/*"), *built]:
        text = page.read_text(encoding="utf-8")
        found = MACHINE.search(text)
        assert found is None, f"{page.name}: {text[found.start() - 60 : found.end() + 60]!r}"
        assert str(ROOT) not in text, page.name


def test_the_first_page_is_short_and_what_it_names_exists() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 900
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert link.startswith("https://") or (ROOT / link).exists(), link


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "studies.md"], ids=lambda p: p.name)
def test_commands_of_the_tables_can_be_copied(page: Path) -> None:
    found = re.findall(r"\| `interp-compose ([^`]+)` \|", page.read_text(encoding="utf-8"))
    commands = [shlex.split(command) for command in found]
    commands = [cli._of_a_task(one[1:]) if one[0] == "phases" else one for one in commands]
    for command in commands:
        cli._parsed(command)  # SystemExit where an option does not exist
    if page.name == "studies.md":
        assert {command[0] for command in commands} == set(cli.COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_the_pages_compiles(page: Path) -> None:
    for _, code in blocks(page):
        ast.parse(code, filename=page.name)


@pytest.mark.docs
@pytest.mark.parametrize("name", EXECUTED)
def test_python_on_the_pages_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    made_up.lay_out(tmp_path, monkeypatch)
    namespaces: dict[int, dict[str, Any]] = {0: {"__name__": name, "ic": interp_compose}}
    to_run = [(before, code) for before, code in blocks(DOCS / name) if not NOT_RUN.search(before)]
    assert to_run
    for before, code in to_run:
        recipe = before.count("\n## ") if name == "how-to.md" else 0  # 0: the lines before them all
        namespace = namespaces.setdefault(recipe, {**namespaces[0]})
        for long, short in SMALLER.get(name, {}).items():
            code = code.replace(long, short)
        exec(compile(code, name, "exec"), namespace)


def test_names_for_users_of_other_libraries_exist() -> None:
    """Those in the right column, of the library and of a loaded model."""
    model = interp_compose.load_model("mini-idm", device="cpu")
    text = (DOCS / "coming-from.md").read_text(encoding="utf-8")
    rows = [re.split(r"(?<!\\)\|", line)[2] for line in text.splitlines() if line.startswith("| ")]
    named = [one for cell in rows for one in re.findall(r"\b(ic|model)((?:\.\w+)+)", cell)]
    assert len(named) > 20
    for thing, path in named:
        found: Any = interp_compose if thing == "ic" else model
        for name in path.split(".")[1:]:
            found = getattr(found, name)


@pytest.mark.docs
def test_twenty_texts_give_the_sentences_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = DOCS / "twenty-texts.md"
    namespace: dict[str, Any] = {"__name__": page.name}
    for _, code in blocks(page)[:5]:
        exec(compile(code, page.name, "exec"), namespace)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    assert shown in capsys.readouterr().out


def test_glosses_become_a_text_with_a_sentence_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's block, on synsets of which two have one definition."""
    (code,) = (code for _, code in blocks(DOCS / "cat.md") if "wordnet_reader" in code)
    glosses = [
        ("able to swim", ["she can swim"]),
        ("a young dog", []),
        ("able to swim", ["I swim", "swim!"]),
    ]
    synsets = [
        Mock(**{"definition.return_value": a, "examples.return_value": b}) for a, b in glosses
    ]
    reader = Mock(**{"all_synsets.return_value": synsets})
    monkeypatch.setattr(wordnet, "wordnet_reader", lambda data_dir: reader)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "cat.md", "exec"), {})
    found = list(read_documents(tmp_path / "glosses.txt"))
    assert found == ["able to swim\nshe can swim\nI swim\nswim!", "a young dog"]


@pytest.mark.parametrize("name", tables.FILES)
def test_generated_files_are_current(name: str) -> None:
    written = (tables.FOLDER / name).read_text(encoding="utf-8")
    assert written.split() == tables.FILES[name]().split(), "run: python -m docs.tables"


def test_runs_behind_verdicts_are_in_one_folder() -> None:
    """Each is a command of a run in ``benchmarks/runs``, a run, or a benchmark of speed."""
    runs = {path.stem for path in outcomes.RUNS.glob("*.toml")}
    commands = {call for name in runs for call in outcomes.calls(outcomes.settings(name))}
    commands |= {f"python -m benchmarks.outcomes {name}" for name in runs}
    commands |= {f"python -m benchmarks.speed {name}" for name in speed.BENCHMARKS}
    for run in RUNS.values():
        command, *_ = run.command.partition(" --device cuda")  # a benchmark's, on a GPU
        assert command in commands, run.command
    controls = RUNS["controls"].command
    text = (DOCS / "carma.md").read_text(encoding="utf-8")
    mentions = text.count("benchmarks.outcomes carma_controls"), text.count(f"`{controls}`")
    assert mentions == (1, 1)


def test_words_are_set_against_controls_by_seed() -> None:
    """At layer 0, by hand; of eight p the fourth smallest counts five times."""
    gain = {
        (row["pooling"], row["layer"], row["seed"]): row["gain"]
        for row in measured.read("carma_controls_mini_idm")["gain"]
    }
    seeds = sorted({seed for *_, seed in gain})
    apart = [gain["mean", 0, seed] - gain["last", 0, seed] for seed in seeds]
    heads, rows = carma_results.words_apart("mini-idm")
    cell = rows[0][heads.index("words − last")]
    assert cell.startswith(f"+{np.mean(apart):.2f} [")
    p_values = [
        ttest_1samp([gain["mean", at, s] - gain[control, at, s] for s in seeds], 0).pvalue
        for control in ("last", "shuffled")
        for at in range(4)
    ]
    assert f"p {5 * sorted(p_values)[3]:.3f}" in rows[0][heads.index("words − shuffled")]


def test_an_order_by_chance_counts_all_pairs_of_runs() -> None:
    condenses, reasons = pd.Series([100, 300, 200, None]), pd.Series([200, 300, None, 100])
    both = [(100, 200), (300, 300)]
    pairs = [first < second for first, _ in both for _, second in both]
    assert phase_results.by_chance(condenses, reasons) == f"{100 * sum(pairs) / 4:.0f}"


def test_commands_of_benchmarks_on_the_pages_are_there() -> None:
    runs = {path.stem for path in outcomes.RUNS.glob("*.toml")}
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for kind, name in re.findall(r"python -m benchmarks\.(\w+) ?([\w.]*)", text):
            known = {"outcomes": {*runs, "NAME"}, "speed": {*speed.BENCHMARKS, ""}}.get(kind)
            assert name in known if known is not None else kind in ("authors", "gpu"), page


def test_every_architecture_has_a_row() -> None:
    named = architectures.architectures
    listed = {*named.BUILDERS, *named.LISTED, "TransformerLens' own decoder"}
    assert set(_rows_written()) == listed
    assert set(_rows_written(audits.TABLE)) == listed | set(named.AUDITED)
    assert set(_rows_written(audits.HOOKED_TABLE)) == {*hooked.CONVERTED, *hooked.NOT_BUILT}


@pytest.mark.parametrize(
    "name", ["GPT-2", "Gemma 2", "OPT", "BLOOM", "BERT", "DistilBERT", "Marian"]
)
def test_rows_of_architectures_are_current(name: str) -> None:
    found = architectures.row(name)
    assert _rows_written()[found.name] == str(found), "run: python -m docs.architectures"


def test_no_study_relies_on_what_is_wrong_in_the_table() -> None:
    """Logits that are wrong are refused by load_model, and edits that are discarded or move by a
    copy by the model. No code of studies, interventions or training names the hook points of the
    other kinds, but for z, which ablations put back where they read it
    (``test_a_head_is_what_the_output_projection_reads_of_it``), and for sublayers, whose sum is
    asked for by ``drop_parts``: models that do not keep to it are refused."""
    library = ROOT / "interp_compose"
    of_kind = {
        **{"copy": "hook_(normalized|scale)", "scores": "hook_attn_scores", "mean": "hook_z"},
        "sum": r"hook_resid_mid|hook_(attn|mlp)_out|[.]sublayers[(]",
    }
    entries = list(audit_scripts.entries())
    assert {kind for _, kind, _ in entries} == {*of_kind, "logits", "discarded"}
    named: dict[str, set[str]] = {kind: set() for kind in of_kind}
    for folder in ("interventions", "studies", "training", "probes"):
        for path in (library / folder).rglob("*.py"):
            if "audit" not in path.parts:
                text = path.read_text(encoding="utf-8")
                for kind in (kind for kind, name in of_kind.items() if re.search(name, text)):
                    named[kind].add(path.relative_to(library).as_posix())
    sweep, study = "interventions/ablation_sweep.py", "studies/ablation/measure.py"
    assert named == {
        "copy": set(),
        "scores": set(),
        "mean": {"interventions/ablate.py", sweep, study},
        "sum": {"interventions/mask_residual.py", sweep, study},
    }
    assert {name for name, kind, _ in entries if kind == "mean"} == set(BEHIND_HOOK_Z)
    sums = {name for name, kind, _ in entries if kind == "sum"}
    assert sums == {"Gemma 4", "Falcon-H1"}
    for name in sums:
        built = architectures.architectures.build(name)
        model = interp_compose.load_model(built, tokenizer=splitting_tokenizer())
        with (
            pytest.raises(CapabilityError, match="what leaves the last block differs"),
            interp_compose.mask_residual(model, part="attn"),
        ):
            raise AssertionError("it is not refused")
        with pytest.raises(CapabilityError, match="cannot do '(resume|drop_parts)'"):
            interp_compose.ablation_curve(model, ["a house"], what="attn")


def test_every_wrong_entry_has_a_script_of_at_most_15_lines() -> None:
    known = list(audit_scripts.entries())
    cells = {(name, cell) for name, row in audits.written().items() for cell in row[2:4]}
    named = {
        (name, one.strip("`"))
        for name, cell in cells - {(name, "–") for name, _ in cells}
        for one in cell.split(", ")
    }
    refused = {name for name, row in audits.written().items() if row[1].endswith("other numbers")}
    assert {(name, entry) for name, _, entry in known} == named | {(n, "logits") for n in refused}
    page = (DOCS / "audit.md").read_text(encoding="utf-8")
    assert f"`--run` shows all {len(known)} entries" in page
    for name, kind, _ in known:
        lines = (audit_scripts.opening(name, kind)[0] + audit_scripts.KINDS[kind]).splitlines()
        assert len(lines) <= 15, (name, kind)
        assert not any("interp_compose" in line for line in lines)


def test_each_kind_of_wrong_entry_has_a_script_that_shows_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = list(audit_scripts.entries())
    wrong = [
        ("OPT", "discarded", "attn.hook_pattern"),
        ("T5Gemma", "scores", "decoder_cross_attn.hook_attn_scores"),
        ("T5", "copy", "encoder_ln1.hook_normalized"),
        ("BitNet", "mean", "attn.hook_z"),
        ("Falcon-H1", "sum", "hook_resid_mid"),
        ("GPT (the first)", "logits", "logits"),
    ]
    assert {kind for _, kind, _ in known} == {kind for _, kind, _ in wrong}
    assert {kind for _, kind, _ in known} == set(audit_scripts.KINDS)
    assert set(wrong) <= set(known)
    assert audit_scripts.failures(wrong) == []
    holding = [  # what the script of each kind claims is not so
        ("GPT-2", "discarded", "attn.hook_pattern"),
        ("GPT-2", "discarded", "attn.qkv.hook_out"),  # which never fires
        ("GPT-2", "scores", "attn.hook_attn_scores"),
        ("GPT-2", "copy", "ln1.hook_normalized"),
        ("GPT-2", "mean", "attn.hook_z"),
        ("GPT-2", "sum", "hook_resid_post"),
        ("GPT-2", "logits", "logits"),
    ]
    monkeypatch.setattr(audit_scripts, "entries", lambda: [*holding, wrong[0]])
    with pytest.raises(SystemExit, match="GPT-2\tmean\tattn.hook_z\tAssertionError") as ended:
        audit_scripts.main(["--run"])
    assert str(ended.value).count("AssertionError") == len(holding)
    assert "1 of 8 scripts show their entry" in capsys.readouterr().out
    audit_scripts.main(["OPT", "--run"])
    assert "1 of 1 scripts show their entry" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        audit_scripts.main(["OPT", "attn.hook_z"])
    assert "no entry 'attn.hook_z' of 'OPT'" in capsys.readouterr().err
    with pytest.raises(ValueError, match="hook_of_none"):
        audit_scripts.kind_of("hook_of_none", wrong=True)


def _rows_written(table: Path = architectures.TABLE) -> dict[str, str]:
    lines = table.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    return {line.split("|")[1].strip(): line for line in rows}


def keep_blocks(study: str, folder: Path) -> None:
    """The page's blocks of a study, in the files that the page names before them."""
    for before, code in blocks(DOCS / "contributing.md"):
        names = re.findall(r"`([\w/]+)/(\w+\.py)` (?:declares|says|prepares|turns)", before)
        if names[-1][0] == study:
            (folder / names[-1][1]).write_text(code, encoding="utf-8")


def test_the_study_that_trains_of_the_step_by_step_page_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "copying").mkdir()
    keep_blocks("papers/complexity/studies/copying", tmp_path / "copying")
    from interp_compose.papers.complexity import studies

    monkeypatch.setattr(studies, "__path__", [*studies.__path__, str(tmp_path)])
    place = "interp_compose.papers.complexity.studies.copying"
    measure, options = import_module(f"{place}.measure"), import_module(f"{place}.options")
    run = options.CopyTraining(epochs=20, max_steps=60, n_looks=3, n_curve=20)
    given: dict[str, Any] = {"seeds": 1, "where": "here"}
    copies = measure.copying([0.3, 0.7], [5], tmp_path / "out", run=run, progress=False, **given)
    assert copies.frames["accuracy"]["n"].tolist() == [100, 100]
    learned = copies.frames["runs"]
    assert (learned["last_loss"] < 0.9 * learned["first_loss"]).all()
    assert sorted(set(copies.frames["curve"]["step"])) == [0, 20, 40, 60]
    assert "γ 0.7" in copies.sentences()[0]
    assert "γ 0.3" in copies.summary()
    assert set(copies.figures()) == {"copies_curve"}
    command = options.CopyCommand(
        letters="5",
        gammas="0.3,0.7",
        run=run,
        grid=options.GridOptions(**given),
        output=Output(out=tmp_path / "out", quiet=True),
    )
    again = measure.run(command)  # of the runs that are there
    pd.testing.assert_frame_equal(again.frames["runs"], copies.frames["runs"])
    assert type(again).load(tmp_path / "out").summary() == copies.summary()
    with pytest.raises(interp_compose.errors.OptionError, match="letters holds 5 twice"):
        measure.copying([0.5], [5, 5], tmp_path / "other", run=run, progress=False, **given)
    for name in [name for name in sys.modules if "studies.copying" in name]:
        del sys.modules[name]


def test_the_study_of_the_step_by_step_page_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its blocks, kept where the page says, are a study: with a bar, resumed, saved, loaded."""
    folder = tmp_path / "surety"
    folder.mkdir()
    keep_blocks("studies/surety", folder)
    from interp_compose import studies

    monkeypatch.setattr(studies, "__path__", [*studies.__path__, str(tmp_path)])
    measure = import_module("interp_compose.studies.surety.measure")
    model = interp_compose.load_model("mini-idm", device="cpu")
    examples = drawn(interp_compose.load_task("mini-idm", model).test, 8, seed=42)
    surety = measure.surety(model, examples, threshold=0.9, batch_size=3, progress=False)
    assert re.fullmatch(r"\d\.\d{3} of 8 answers are sure", surety.summary())
    assert surety.config["threshold"] == 0.9
    assert surety.figures()["surety"].chart is not None
    surety.save(tmp_path / "out")
    assert type(surety).load(tmp_path / "out").summary() == surety.summary()
    long = [{"prompt": 'a young dog is called a "', "answer": "young dog"}]
    several = measure.surety(model, long, multi_token_answers=True, progress=False)
    assert several.config["answer_tokens"]
    asked = import_module("interp_compose.studies.surety.options")
    command = asked.SuretyCommand(
        study=asked.SuretyOptions(threshold=0.9),
        task=TaskSource(limit=8),
        output=Output(out=tmp_path / "run", quiet=True),
    )
    assert measure.run(command).summary() == surety.summary()
    with pytest.raises(interp_compose.errors.OptionError, match=r"surety: threshold='a' is a str"):
        measure.surety(model, examples, threshold="a")
    for name in [name for name in sys.modules if "studies.surety" in name]:
        del sys.modules[name]
