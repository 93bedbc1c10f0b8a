"""The page *Try it in the browser* computes what the library computes (Node runs its script)."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import interp_compose as ic
from docs import explore_page
from interp_compose.errors import InterpComposeError
from interp_compose.interventions.pooling import HOW
from interp_compose.studies.explore import explore as ic_explore
from interp_compose.studies.explore.options import ExploreCommand, ExploredModel
from interp_compose.tasks.mini.idm import definitions, splits
from tests import architectures
from tests.studies.conftest import splitting_tokenizer

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
LOAD = """
const [fs, vm] = [require("fs"), require("vm")];
const [folder, asked, work] = JSON.parse(fs.readFileSync(0, "utf8"));
for (const name of ["model.js", "forward.js"]) {
  vm.runInThisContext(fs.readFileSync(`${folder}/${name}`, "utf8"));
}
globalThis.asked = asked;
const answer = vm.runInThisContext(`const model = new SmallGpt2(EXPORTED); (${work})()`);
console.log(JSON.stringify(answer));
"""
READ = "() => asked.map((text) => model.read(text)).map(({ ids, words }) => [ids, words])"
RUN = """() => asked.map(([text, answer, hidden, how]) => {
  const reading = model.read(text);
  const words = [...reading.words.keys()];
  const under = model.under(reading, words.filter((i) => reading.words[i].text === hidden));
  const units = words.map((i) => [i, i + 1]);
  const pooled = [0, 1, 2, 3].map((layer) => under.pooled(units, layer, how));
  return [under.clean(), ...pooled].map((each) => each[model.answer(answer)]);
})"""
REFUSED = """() => asked.map(([work, text]) => {
  try { model[work](text); } catch (error) { return [error instanceof Refusal, error.message]; }
  return null;
})"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's scripts."""
    folder = tmp_path_factory.mktemp("explore")
    explore_page.write_model(folder)
    shutil.copy(explore_page.export.PAGE / "forward.js", folder)
    return folder


@pytest.fixture(scope="module")
def model() -> Any:
    return ic.load_model("mini-idm", device="cpu")


def in_node(page: Path, work: str, asked: Any) -> Any:
    """What a function of the page's ``model`` and ``asked`` returns."""
    done = subprocess.run(
        ["node", "-e", LOAD],
        input=json.dumps([str(page), asked, work]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_node
def test_it_reads_definitions_as_the_library_does(page: Path, model: Any) -> None:
    texts = [one.text for one in definitions()[::7]]
    of_page = in_node(page, READ, texts)
    prompts = [f'{text} is called a "' for text in texts]
    of_library = ic.tokenize_prompts(model.tokenizer, prompts)
    for (ids, words), expected in zip(of_page, of_library, strict=True):
        assert ids == expected.ids.tolist()
        groups = [-1] * len(ids)
        for number, word in enumerate(words):
            assert word["text"] == expected.group_text(number)
            groups[word["from"] : word["to"]] = [number] * (word["to"] - word["from"])
        assert groups == expected.groups.tolist()


@needs_node
def test_its_log_probabilities_are_the_librarys(page: Path, model: Any) -> None:
    check_log_probabilities(in_node(page, RUN, asked_of_it()), model)


def asked_of_it() -> list[list[str]]:
    """50 definitions, each with its answer, a word to hide or none, and a way of pooling."""
    asked = []
    for i, one in enumerate(splits()["test"][:1000:20]):
        words = one.text.split()
        asked.append([one.text, one.answer, words[i % len(words)] if i % 3 else "", HOW[i % 5]])
    assert len(asked) == 50
    return asked


def check_log_probabilities(found: list[list[float]], model: Any) -> None:
    """What :data:`RUN` returned for :func:`asked_of_it`."""
    of_page, asked = np.array(found), asked_of_it()
    for first, how in enumerate(HOW):
        of_library = log_probabilities(model, asked[first::5], how)
        np.testing.assert_allclose(of_page[first::5], of_library, rtol=0, atol=1e-5)  # 1e-4 is said
        assert np.ptp(of_library, axis=1).min() > 1e-3  # pooling acts


@torch.no_grad()
def log_probabilities(model: Any, rows: Sequence[Sequence[str]], how: Any) -> np.ndarray:
    """``[row 5]``: of the answer, clean and with the words pooled at each layer."""
    prompts = [f'{text} is called a "' for text, *_ in rows]
    tokens, mask = model.tokenize(prompts)
    keys = torch.zeros_like(mask, dtype=torch.bool)
    for row, one in enumerate(ic.tokenize_prompts(model.tokenizer, prompts)):
        hidden = [i for i in range(one.n_groups) if one.group_text(i) == rows[row][2]]
        keys[row, mask[row].bool()] = torch.from_numpy(np.isin(one.groups, hidden))
    at = range(len(rows))
    answers = [model.tokenizer(p + r[1]).input_ids[-1] for p, r in zip(prompts, rows, strict=True)]
    found = []
    with ic.mask_attention(model, keys=keys):
        found.append(model(tokens, attention_mask=mask)[:, -1])  # padded on the left
        for layer in range(4):
            with ic.pool_at(model, layer, how=how, unit="word"):
                found.append(model(tokens, attention_mask=mask)[:, -1])
    return np.stack([each.double().log_softmax(1)[at, answers].numpy() for each in found], axis=1)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small model of GPT-2's architecture, whose tokenizer splits words."""
    folder = tmp_path_factory.mktemp("own") / "own"
    torch.manual_seed(3)
    shape = {"n_embd": 40, "n_layer": 3, "n_head": 4, "n_inner": 52, "n_positions": 61}
    config = GPT2Config(vocab_size=97, bos_token_id=0, initializer_range=0.2, **shape)
    GPT2LMHeadModel(config).save_pretrained(folder)
    splitting_tokenizer().save_pretrained(folder)
    return folder


OF_OWN = """() => asked.map(([text, units, layer, how]) => {
  const reading = model.read(text);
  const under = model.under(reading, [1]);
  return [reading.ids, model.under(reading, []).clean(), under.pooled(units, layer, how)];
})"""


@needs_node
@torch.no_grad()
def test_a_model_of_ones_own_has_the_librarys_numbers(own: Path, tmp_path: Path) -> None:
    model = ic.load_model(own, device="cpu")
    written = ic_explore.run(
        ExploreCommand(
            model=ExploredModel(model=str(own), device="cpu"),
            text=("someone bakes bread",),
            template="{} is",
            out=tmp_path / "page.html",
        )
    )
    assert str(tmp_path / "page.html") in written
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script>\n(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 4
    (tmp_path / "model.js").write_text(scripts[0], encoding="utf-8")
    (tmp_path / "forward.js").write_text(scripts[1], encoding="utf-8")
    asked = [
        ["someone bakes bread", [[2, 4]], 1, "mean"],
        ["the mother of a father", [[1, 2], [2, 5]], 2, "max"],
        ['not alive " not', [[1, 2]], 0, "first"],
    ]
    for (text, units, layer, how), (ids, clean, pooled) in zip(
        asked, in_node(tmp_path, OF_OWN, asked), strict=True
    ):
        tokens, _ = model.tokenize(f"{text} is")
        assert ids == tokens[0].tolist()
        of_library = model(tokens)[0, -1].double().log_softmax(dim=0)
        np.testing.assert_allclose([*clean.values()], of_library, rtol=0, atol=1e-5)
        words = f"{text} is".split()
        prompt = ic.tokenize_prompts(model.tokenizer, [f"{text} is"])[0]
        assert [prompt.group_text(i) for i in range(prompt.n_groups)] == words
        groups = torch.full_like(tokens, -1)
        for number, (first, stop) in enumerate(units):
            groups[0, torch.from_numpy(np.isin(prompt.groups, range(first, stop)))] = number
        keys = torch.from_numpy(prompt.groups == 1)[None]
        with ic.mask_attention(model, keys=keys), ic.pool_at(model, layer, groups, how):
            of_library = model(tokens)[0, -1].double().log_softmax(dim=0)
        np.testing.assert_allclose([*pooled.values()], of_library, rtol=0, atol=1e-5)


def test_texts_and_names_do_not_end_the_script(own: Path, tmp_path: Path) -> None:
    text, out = "</script><b> <!-- cat", tmp_path / "x.html"
    ic_explore.run(ExploreCommand(model=ExploredModel(model=str(own)), text=(text,), out=out))
    html = out.read_text(encoding="utf-8")
    (script,) = re.findall(r"<script>\n(const EXPORTED = .*?)</script>", html, re.DOTALL)
    known = json.loads(script.removeprefix("const EXPORTED = ").strip().removesuffix(";"))
    assert known["first"] == text
    assert "<" not in script


def test_a_page_that_cannot_be_is_refused(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(**options: Any) -> str:
        given = {"model": ExploredModel(model=str(own)), "out": tmp_path / "x.html", **options}
        with pytest.raises(InterpComposeError) as refused:
            ic_explore.run(ExploreCommand(**given))
        assert not (tmp_path / "x.html").exists()
        return str(refused.value)

    assert "template='is'" in refusal(template="is")
    assert "text=['']" in refusal(text=("",))
    assert "tokens in its template, and" in refusal(text=("a cat", "cat " * 400))
    (tmp_path / "y.html").write_text("mine", encoding="utf-8")
    assert "is there already" in refusal(out=tmp_path / "y.html")
    llama = tmp_path / "llama"
    architectures.build("Llama").save_pretrained(llama)
    splitting_tokenizer().save_pretrained(llama)
    assert "it is LlamaForCausalLM" in refusal(model=ExploredModel(model=str(llama)))
    monkeypatch.setattr("interp_compose.studies.explore.export.MOST_BYTES", 100_000)
    assert "would be 0 MB" in refusal()


@needs_node
def test_what_it_cannot_do_is_refused_by_name(page: Path) -> None:
    long = "young " * 20
    asked = [("read", "a young zebra"), ("read", "A dog"), ("read", " "), ("read", long)]
    asked += [("answer", "kittens"), ("answer", "kitten"), ("read", "a young  dog ")]
    of_page = in_node(page, REFUSED, asked)
    unknown, capital, empty, too_long, answer, *right = of_page
    assert all(refused for refused, _ in (unknown, capital, empty, too_long, answer))
    assert "has never read the word “zebra”" in unknown[1]
    assert "“A”" in capital[1]
    assert "no text" in empty[1]
    assert "has 65 tokens, and mini-idm reads at most 64" in too_long[1]
    assert "answer “kittens” is not one token" in answer[1]
    assert right == [None, None]


def test_it_is_small_and_knows_the_words_of_its_definitions(model: Any) -> None:
    exported = explore_page.exported()
    numbers = sum(int(np.prod(shape)) for _, shape in exported["tensors"])
    assert len(base64.b64decode(exported["weights"])) == 4 * numbers
    assert len(json.dumps(exported)) < 5_500_000  # of 6 MB for the page and what it shows
    known = set(exported["words"])
    for text, answer in exported["definitions"]:
        assert set(text.split()) <= known
        assert answer in exported["vocabulary"]
    units = ic.tokenize_prompts(model.tokenizer, exported["words"])
    assert {one.n_groups for one in units} == {1}
