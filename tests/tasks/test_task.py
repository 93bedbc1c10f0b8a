"""The front door: names, refusals, prompts per family, and tokenizers that do not fit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import interp_compose as ic
from interp_compose.errors import AnswerError, MissingDataError, OptionError
from interp_compose.models.load import load_model
from interp_compose.papers.lrf.models.seq2seq import Seq2SeqConfig
from interp_compose.papers.lrf.models.small_seq2seq import small_seq2seq
from interp_compose.papers.shared.text.vocabulary import Vocabulary
from interp_compose.tasks.load import (
    HasTokenizer,
    load_pairs,
    load_task,
)
from interp_compose.tasks.pairs import Pair
from interp_compose.tasks.prompts import PAPER_MODELS, TEMPLATES, prompt_for
from interp_compose.tasks.table import names_of
from interp_compose.tasks.task import Task, shuffled
from interp_compose.tasks.transplants import load_transplants
from interp_compose.text.answers import fitting, keep_fitting, require_fitting
from interp_compose.types import Example
from tests.tasks import test_bird, test_paws
from tests.tasks.conftest import byte_tokenizer
from tests.tasks.stub import StubModel


def test_the_stub_has_what_a_task_reads(crude: Any) -> None:
    assert isinstance(StubModel(crude), HasTokenizer)


def test_labels_of_a_task_without_any_are_refused() -> None:
    task = Task("mine", "{}", (), (), (), {})
    with pytest.raises(OptionError, match="the task 'mine' has no labels to choose among; take"):
        task.answer_set("labels")
    with pytest.raises(OptionError, match="answers='label': expected 'vocabulary' or 'labels'"):
        task.answer_set("label")


@pytest.mark.parametrize("part", ["test", 0])
def test_no_slice_of_a_task_is_refused_with_what_gives_a_split_and_an_example(part: Any) -> None:
    task = Task("mine", "{}", (Example("a", " b"),), (), (), {})
    assert task[:1] == task
    told = (
        f"task[{part!r}]: expected a slice of each split, such as task[:50]; one split is task.test"
    )
    with pytest.raises(OptionError, match=re.escape(told)):
        task[part]


@pytest.mark.parametrize("name", ["imd", "mini_idm", ""])
def test_an_unknown_task_is_refused_with_the_known_ones(name: str, crude: Any) -> None:
    with pytest.raises(
        OptionError, match=f"task '{name}' is unknown; choose one of idm, sst, sst-few"
    ):
        load_task(name, StubModel(crude))


def test_a_file_of_another_kind_is_refused_with_what_is_read(tmp_path: Path, crude: Any) -> None:
    for name in ("own.csv", "own.json", tmp_path):
        with pytest.raises(
            OptionError,
            match=r"no .jsonl file, .*prompt, answer .*cap_curve\(model, pandas.read_csv",
        ):
            load_task(name, StubModel(crude))
    with pytest.raises(OptionError, match="no .tsv or .jsonl file, .*text1, text2, score or label"):
        load_pairs("own.csv")
    with pytest.raises(OptionError, match="pairs 'own.csv' are no .jsonl file, .*source_span"):
        load_transplants("own.csv", StubModel(crude))


@pytest.mark.parametrize("name", ["mini-idm", "mini-sst", "own.jsonl"])
def test_a_folder_for_a_task_that_reads_none_is_refused(name: str, crude: Any) -> None:
    with pytest.raises(OptionError, match="reads no data_dir; leave 'here' out"):
        load_task(name, StubModel(crude), data_dir="here")


def test_a_model_without_tokenizer_is_refused_unless_the_task_is_your_own(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match="'stub' has no tokenizer.*load the model with tokenizer="
    ):
        load_task("mini-idm", StubModel(None))
    (tmp_path / "own.jsonl").write_text(json.dumps({"prompt": "a", "answer": "b"}))
    task = load_task(str(tmp_path / "own.jsonl"), StubModel(None))
    assert (task.train, task.validation, task.test) == ((), (), (Example("a", "b"),))
    assert task.report["test_all"] == 1
    assert task.name == "own"
    with pytest.raises(MissingDataError, match="there is no file nowhere.jsonl"):
        load_task("nowhere.jsonl", StubModel(None))


@pytest.mark.parametrize("name", ["bird", "paws-qqp"])
def test_pairs_are_sent_to_their_own_door(name: str, crude: Any) -> None:
    with pytest.raises(OptionError, match=f"'{name}' holds pairs .*load_pairs.*similarity"):
        load_task(name, StubModel(crude))


def test_pair_tasks_by_name(tmp_path: Path) -> None:
    test_bird.folder(tmp_path, test_bird.row("water body", "body water"))
    test_paws.folder(tmp_path, "1\ta\tb\t1\n")
    assert names_of("pairs") == ("bird", "paws-qqp")
    tasks = {name: load_pairs(name, data_dir=tmp_path) for name in names_of("pairs")}
    assert [task.name for task in tasks.values()] == ["bird (altered)", "paws-qqp"]
    assert tasks["bird"].test == (Pair("water body", "body water", 0.5),)
    assert tasks["paws-qqp"].test == (Pair("a", "b", label=1),)


def test_a_file_of_pairs_is_all_test(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("text1\ttext2\tscore\nwater body\tbody water\t2\nwater\tlake\t4.5\n")
    task = load_pairs(path)
    assert task == load_pairs(str(path))
    assert (task.name, task.train) == (str(path), ())
    assert task.test == (Pair("water body", "body water", 2.0), Pair("water", "lake", 4.5))
    assert task.report == {"source": str(path), "test_all": 2, "test_mirror": 1}


@pytest.mark.parametrize("name", ["birds", "BIRD", ""])
def test_an_unknown_pair_task_is_refused(name: str) -> None:
    with pytest.raises(
        OptionError,
        match=rf"pair task '{name}' is unknown; .* bird, paws-qqp, .* of a .tsv or .jsonl file",
    ):
        load_pairs(name)


def test_a_file_of_pairs_takes_no_data_dir(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="file 'own.tsv' needs no data_dir; leave .* out"):
        load_pairs("own.tsv", data_dir=tmp_path)


def test_splits_are_named() -> None:
    parts = [(Example(name, "x"),) for name in ("a", "b", "c")]
    task = Task("t", "{}", *parts, report={})
    assert [task.split(name) for name in ("train", "validation", "test")] == parts
    with pytest.raises(OptionError, match="split 'dev' is unknown; choose one of train, valid"):
        task.split("dev")


def test_shuffling_depends_on_the_seed_alone() -> None:
    examples = [Example(str(i), "x") for i in range(40)]
    assert shuffled(examples, 1) == shuffled(tuple(examples), 1) != shuffled(examples, 2)
    assert sorted(one.prompt for one in shuffled(examples, 1)) == sorted(map(str, range(40)))


def test_every_family_has_a_prompt_with_one_gap() -> None:
    for architecture in {*TEMPLATES, *(model.architecture for model in PAPER_MODELS)}:
        for kind in ("idm", "sst"):
            prompt = prompt_for(architecture, kind)
            assert prompt.family == architecture
            assert prompt.template.count("{}") == 1
            assert prompt("{x}") == prompt.template.format("{x}")
            assert prompt.lead == ("" if prompt.template.endswith('"') else " ")


def test_an_unknown_family_takes_the_default_and_says_so() -> None:
    with pytest.raises(OptionError, match="no prompt for tasks of the kind 'capitals'"):
        prompt_for("PhiForCausalLM", "capitals")
    prompt = prompt_for("PhiForCausalLM", "idm")
    assert prompt.template == prompt_for("GPT2LMHeadModel", "idm").template
    assert prompt.family == "GPT2LMHeadModel (default: no template for PhiForCausalLM)"


def test_start_layers_of_the_papers_models_lie_inside_them() -> None:
    for model in PAPER_MODELS:
        assert all(1 <= layer < model.n_layers for layer in model.start_layers)
        assert not model.start_layers or model.start_layers[-1] == model.n_layers - 1


def test_one_token_is_judged_in_context() -> None:
    tokenizer = byte_tokenizer(["cat", " dog"])
    texts = [('a "', "cat"), ("a ", "cat"), ("a", " dog"), ("a", "cat"), ('a "', "dog"), ("a", "")]
    expected = [True, False, True, False, False, False]
    slow = []
    for prompt, answer in texts:
        before = tokenizer(prompt)["input_ids"]
        after = tokenizer(prompt + answer)["input_ids"]
        slow.append(after[:-1] == before)
    assert fitting(tokenizer, texts).tolist() == slow == expected
    assert fitting(tokenizer, []).shape == (0,)
    whole = fitting(tokenizer, texts, several=True).tolist()
    ends = [tokenizer(prompt)["input_ids"] for prompt, _ in texts]
    rows = [tokenizer(prompt + answer)["input_ids"] for prompt, answer in texts]
    begins = [row[: len(end)] == end for row, end in zip(rows, ends, strict=True)]
    assert whole == [len(a) > len(e) and b for a, e, b in zip(rows, ends, begins, strict=True)]
    assert whole == [True, True, True, True, True, False]
    unknown = byte_tokenizer(["cat"])
    unknown.unk_token = "t"
    after = [('a "', answer) for answer in ("cat", "dog", "ct")]
    assert fitting(unknown, after, several=True).tolist() == [True, True, False]


def test_examples_without_a_single_token_are_left_out_and_none_at_all_is_refused() -> None:
    tokenizer = byte_tokenizer(["cat"])
    fits, fails = Example('a "', "cat"), Example('a "', "dog")
    assert keep_fitting(tokenizer, [fails, fits]) == (fits,)
    with pytest.raises(
        AnswerError, match="not one of the 1 answers is a single token.*'dog' after"
    ):
        keep_fitting(tokenizer, [fails])
    require_fitting(tokenizer, 'a "', ["cat"])
    with pytest.raises(
        AnswerError, match="'dog' after 'a \"' is not a single token.*use another model"
    ):
        require_fitting(tokenizer, 'a "', ["cat", "dog"])


def test_the_front_door_imports_nothing_heavy() -> None:
    code = (
        "import sys, interp_compose.shipped, interp_compose.tasks; "
        "print([m for m in ('torch', 'transformers', 'nltk', 'spacy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_names_are_those_of_the_documentation() -> None:
    natural = ("agreement", "materials", "continents", "hypernyms", "opposites", "compounds")
    made = ("idm", "sst", "sst-few-shot", "mini-idm", "mini-sst")
    assert names_of("prompts") == (*made, *natural, "definitions")


@pytest.mark.parametrize("name", ["mini-idm", "mini-sst"])
def test_an_encoder_decoder_reads_the_text_and_answers_in_its_target(name: str) -> None:
    told = load_task(name, StubModel(load_model("mini-base").tokenizer))
    shown = told.test[:40]
    sources = Vocabulary.of([" ".join(leaves(one.tree)) for one in told.test])
    targets = Vocabulary.of([" ".join({one.answer: 0 for one in told.test})])
    shape = Seq2SeqConfig(len(sources), len(targets), n_ctx=40, d_model=8, d_mlp=8)
    model = small_seq2seq(shape, seed=0, source_words=sources, target_words=targets)

    task = load_task(name, model)  # its tokenizer ends every text with <eos>
    assert "the text alone" in str(task.report["template_of"])
    for mine, other in zip(task.test, shown, strict=False):
        assert mine.prompt == " ".join(leaves(other.tree))
        assert mine.answer == other.answer
    answers = task.answer_set("labels" if task.labels else "vocabulary")
    curve = ic.cap_curve(
        model, task.test[:3], unit="constituent", answers=answers, layers=[0], progress=False
    )
    assert (curve.frame["n"] == 3).all()


def leaves(tree: str | None) -> list[str]:
    return [leaf.split()[-1].strip("()") for leaf in re.findall(r"\(\S+ [^()]+\)", tree or "")]
