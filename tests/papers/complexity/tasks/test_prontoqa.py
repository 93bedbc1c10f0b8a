"""PrOntoQA: every example by a prover that reads the text alone, shortcuts, counts, refusals."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import LogisticRegression

import interp_compose as ic
from interp_compose.errors import OptionError
from interp_compose.papers.complexity.tasks.prontoqa import Statements


def proved(source: str) -> tuple[str, int]:
    """The answer and the rules it takes, by forward chaining over the text.

    Raises ``ValueError`` where the statement is undecided or rules contradict each other.
    """
    *sentences, statement = source.split(" . ")
    rules, known = [], {}
    for sentence in sentences:
        first, *rest = sentence.split()
        if first in ("each", "every"):
            rules.append((rest[0], tuple(rest[2:])))
        else:
            known[first, tuple(rest[1:])] = 0
    while True:
        new = {
            (name, what): n + 1
            for (name, is_what), n in known.items()
            for concept, what in rules
            if is_what == ("a", concept) and (name, what) not in known
        }
        if not new:
            break
        known |= new
    for name, what in known:
        if (name, ("not", *what)) in known:
            raise ValueError(f"{name} is {what}, and is not")
    asked = statement.removeprefix("true or false : ").split()
    name, no, trait = asked[0], "not" in asked, asked[-1]
    for answer, found in (("True", (name, (trait,))), ("False", (name, ("not", trait)))):
        if found in known:
            return {"True": "False", "False": "True"}[answer] if no else answer, known[found]
    raise ValueError(f"undecided: {statement}")


def right(pair: ic.SequencePair) -> bool:
    """The answer, the number of hops, and the derivation: the fact, and for each hop a rule and
    what follows from it and the sentence before, the last about the statement's property."""
    try:
        answer, n = proved(pair.source)
    except ValueError:
        return False
    *derived, told = pair.target.split(" . ")
    if (told, pair.kind) != (answer, f"{n} hop" + "s" * (n > 1)):
        return False
    if not derived:
        return True
    *rules, fact, statement = pair.source.split(" . ")
    before, *steps = derived
    if before != fact:
        return False
    for rule, sentence in zip(steps[::2], steps[1::2], strict=True):
        name, concept = before.split()[0], before.split()[-1]
        what = sentence.removeprefix(f"{name} is ")
        if rule not in rules or rule.split(maxsplit=1)[1] != f"{concept} is {what}":
            return False
        before = sentence
    return len(steps) == 2 * n and before.split()[-1] == statement.split()[-1]


def test_the_prover_by_hand() -> None:
    rules = "each wumpus is a tumpus . every tumpus is not bitter . each lempus is bitter ."
    assert proved(f"{rules} fae is a wumpus . true or false : fae is bitter") == ("False", 2)
    assert proved(f"{rules} fae is a wumpus . true or false : fae is not bitter") == ("True", 2)
    assert proved(f"{rules} fae is a lempus . true or false : fae is bitter") == ("True", 1)
    with pytest.raises(ValueError, match="undecided"):
        proved(f"{rules} fae is a wumpus . true or false : fae is cold")
    with pytest.raises(ValueError, match="and is not"):
        proved(f"each wumpus is bitter . {rules} fae is a wumpus . true or false : fae is bitter")


@settings(max_examples=15, deadline=None)
@given(
    hops=st.integers(1, 5),
    longer=st.integers(0, 2),
    derivation=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_example_is_proved_and_told_apart(
    hops: int, longer: int, derivation: bool, seed: int
) -> None:
    task = ic.complexity.prontoqa(
        hops=hops,
        longer=longer,
        n_train=61,
        n_test=31,
        n_concepts=16,
        derivation=derivation,
        seed=seed,
    )
    assert list(task.splits) == ["train", "test", "longer"][: 2 + (longer > 0)]
    pairs = [pair for split in task.splits.values() for pair in split]
    assert all(right(pair) for pair in pairs)
    assert all((" . " in pair.target) == derivation for pair in pairs)
    assert len({pair.source for pair in pairs}) == len(pairs)
    for split, own in task.splits.items():
        assert len(own) == (61 if split == "train" else 31)
        asked = range(hops + 1, hops + longer + 1) if split == "longer" else range(1, hops + 1)
        kinds = Counter(pair.kind for pair in own)
        assert sorted(kinds) == [f"{n} hop" + "s" * (n > 1) for n in asked]
        assert max(kinds.values()) - min(kinds.values()) <= 1
        for kind in (None, *kinds):
            answers = [pair.target.split()[-1] for pair in own if kind in (None, pair.kind)]
            assert abs(answers.count("True") - answers.count("False")) <= 1


def test_five_hops_stay_short() -> None:
    task = ic.complexity.prontoqa(hops=5, longer=0, n_train=500, n_test=10, n_concepts=16)
    lengths = [len(pair.source.split()) for pair in task.splits["train"]]
    assert max(lengths) <= 120
    assert Counter(pair.kind for pair in task.splits["train"])["5 hops"] == 100


def mutants(pair: ic.SequencePair) -> Iterable[ic.SequencePair]:
    """The same example with one thing wrong."""
    source, (*derived, answer) = pair.source, pair.target.split()
    for target in (
        [*derived, {"True": "False", "False": "True"}[answer]],
        [*derived[derived.index(".") + 1 :], answer],  # without the fact
        [*derived[:-2], "red", ".", answer],
        [*derived[:-1], "not", ".", answer],
    ):
        yield ic.SequencePair(source, " ".join(target), pair.kind)
    yield ic.SequencePair(source, pair.target, "9 hops")
    words = source.split()
    if words[-2] == "not":
        yield ic.SequencePair(" ".join([*words[:-2], words[-1]]), pair.target, pair.kind)
    else:
        yield ic.SequencePair(" ".join([*words[:-1], "not", words[-1]]), pair.target, pair.kind)
    sentences = source.split(" . ")
    entity, concept = sentences[-2].split()[0], sentences[-2].split()[-1]
    at = {line.split()[1]: line for line in sentences[:-2] if " a " in line}
    lowest = set(at) - {line.split()[-1] for line in at.values()} - {concept}
    for wrong in lowest:  # the entity is in the other chain
        moved = [*sentences[:-2], f"{entity} is a {wrong}", sentences[-1]]
        yield ic.SequencePair(" . ".join(moved), pair.target, pair.kind)
    needed = at.get(concept, next(line for line in sentences if line.split()[1] == concept))
    if pair.kind != "1 hop":  # a rule of the derivation is missing
        without = [line for line in sentences if line != needed]
        yield ic.SequencePair(" . ".join(without), pair.target, pair.kind)
    contradiction = f"each {concept} is {words[-1]} . each {concept} is not {words[-1]} . "
    yield ic.SequencePair(contradiction + source, pair.target, pair.kind)


def test_a_mutated_example_is_caught() -> None:
    pairs = ic.complexity.prontoqa(n_train=60, n_test=20).splits["train"]
    tried = [mutant for pair in pairs for mutant in mutants(pair)]
    assert len(tried) > 4 * len(pairs)
    assert not any(right(mutant) for mutant in tried)


def surface(pair: ic.SequencePair, words: Sequence[str], longest: int) -> list[float]:
    """What can be seen without using a rule, and the same with the statement's polarity as its
    sign: counts of words and of those after "is", where the question's words stand, and the
    polarity of the first, the last and the nearest rule about its property."""
    tokens = pair.source.split()
    sentences = pair.source.split(" . ")
    trait, concept = tokens[-1], sentences[-2].split()[-1]
    rules = [line.split() for line in sentences[:-2]]
    signs = [1.0 - 2 * ("not" in rule) for rule in rules if rule[-1] == trait]
    mentions = [i for i, rule in enumerate(rules) if concept in rule]
    asked = [i for i, rule in enumerate(rules) if trait in rule]
    near = [
        sign
        for i, sign in zip(asked, signs, strict=True)
        if abs(i - mentions[0]) == min(abs(j - mentions[0]) for j in asked)
    ]
    if any(i in mentions for i in asked):  # that would be to use the rule
        near = [0.0]
    counted, after = (
        Counter(tokens),
        Counter(b for a, b in pairwise(tokens) if a == "is"),
    )
    features = [
        *(counted[word] for word in words),
        *(after[word] for word in words),
        *(concept == word for word in words),
        len(sentences),
        len(tokens),
        sum(tokens.count(word) for word in set(sentences[-1].split())),
        signs[0],
        signs[-1],
        *(float(np.mean(places)) for places in (mentions, asked)),
        *(rules[i][-1] == trait for i in (0, -1)),
        near[0],
    ]
    for order in (tokens, tokens[::-1]):
        padded = [*order, *[""] * (longest - len(order))]
        features += [token == role for token in padded for role in ("not", trait, concept, "a")]
    polarity = 1.0 - 2 * (tokens[-2] == "not")
    values = [float(value) for value in features]
    return [polarity, *values, *(polarity * value for value in values)]


def probe(train: Sequence[ic.SequencePair], test: Sequence[ic.SequencePair]) -> float:
    """The held-out accuracy of a logistic regression on surface features."""
    words = sorted({word for pair in train for word in pair.source.split()})
    longest = max(len(pair.source.split()) for pair in (*train, *test))
    sides = [np.array([surface(p, words, longest) for p in side]) for side in (train, test)]
    mean, scale = sides[0].mean(0), sides[0].std(0) + 1e-6
    answers = [np.array([pair.target[-4:] == "True" for pair in side]) for side in (train, test)]
    fitted = LogisticRegression(C=0.01, max_iter=50).fit((sides[0] - mean) / scale, answers[0])
    return float(fitted.score((sides[1] - mean) / scale, answers[1]))


@pytest.fixture(scope="module")
def three() -> ic.SequenceTask:
    return ic.complexity.prontoqa(hops=3, longer=0, n_train=2400, n_test=1800)


@pytest.mark.parametrize("kind", ["all", "1 hop", "2 hops", "3 hops"])
def test_no_answer_is_read_from_the_surface(three: ic.SequenceTask, kind: str) -> None:
    train, test = (
        [pair for pair in three.splits[split] if kind in ("all", pair.kind)]
        for split in ("train", "test")
    )
    assert abs(probe(train, test) - 0.5) <= 1.96 * np.sqrt(0.25 / len(test))


def test_the_surface_shows_a_leak() -> None:
    """Without the other chain's rule, the probe reads the answer: it can fail."""
    task = ic.complexity.prontoqa(hops=2, longer=0, n_train=600, n_test=300)

    def leaky(pair: ic.SequencePair) -> ic.SequencePair:
        *rules, fact, statement = pair.source.split(" . ")
        trait, kept = statement.split()[-1], []
        for rule in rules:
            alone = " . ".join([*rules[: rules.index(rule)], *rules[rules.index(rule) + 1 :]])
            if rule.split()[-1] == trait:
                try:
                    proved(f"{alone} . {fact} . {statement}")
                except ValueError:
                    pass
                else:
                    continue  # the answer does not hang on it
            kept.append(rule)
        return ic.SequencePair(" . ".join([*kept, fact, statement]), pair.target, pair.kind)

    train, test = ([leaky(pair) for pair in task.splits[split]] for split in ("train", "test"))
    assert probe(train, test) > 0.95


FEW = Statements(("fae",), ("a-pus", "b-pus", "c-pus", "d-pus"), ("hot", "cold"))


def test_all_problems_there_are() -> None:
    """The count by drawing until no new one comes."""
    assert FEW.count(1, 1) == 24 * 2 * 4 * 2**4 * 2  # concepts, properties, coins, each, order
    random = np.random.default_rng(0)
    for true in (False, True):
        drawn = FEW.draw(60_000, 1, 1, true, random)
        assert len(np.unique(drawn, axis=0)) == FEW.count(1, 1) // 2
        all_of_them = FEW.different(FEW.count(1, 1) // 2, 1, 1, true, random)
        assert len(np.unique(all_of_them, axis=0)) == len(all_of_them)


def test_the_count_of_chains() -> None:
    six = Statements(("fae",), tuple("uvwxyz"), ("hot", "cold"))
    assert six.count(2, 2) == 720 * 2 * 4 * 2**6 * (2 * 2) * 2  # two levels, and both orders
    assert six.count(1, 2) == 720 * 2 * 4 * 2**6 * 24  # all rules are of the lower level


def test_all_problems_are_made_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interp_compose.papers.complexity.tasks.prontoqa.ENTITIES", ("fae",))
    few = {"hops": 1, "longer": 0, "n_concepts": 4, "n_properties": 2, "n_test": 1_144}
    task = ic.complexity.prontoqa(n_train=5_000, **few)
    assert len({pair.source for split in task.splits.values() for pair in split}) == 6_144
    with pytest.raises(OptionError, match="chains of 1 concept: there are 6,144 different ones"):
        ic.complexity.prontoqa(n_train=5_001, **few)


def test_splits_are_drawn_alike_where_some_are_drawn_twice() -> None:
    """Of 11,000 problems with each answer some are alike, so that more are drawn. The first two
    words of the source, of 16 kinds, are as frequent in both splits as in all draws: 1 / 16."""
    splits = ic.load_sequences("prontoqa-1").splits
    for pairs in splits.values():
        counts = Counter(tuple(pair.source.split()[:2]) for pair in pairs)
        error = (len(pairs) / 16 * 15 / 16) ** 0.5
        assert len(counts) == 16
        assert max(abs(n - len(pairs) / 16) for n in counts.values()) < 4 * error


def test_the_seed_decides_and_hashes_do_not() -> None:
    code = (
        "import interp_compose as ic; "
        "print(ic.complexity.prontoqa(n_train=30, n_test=10, seed=5).splits)"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    first, other = (
        ic.complexity.prontoqa(n_train=30, n_test=10, seed=seed).splits for seed in (5, 6)
    )
    assert elsewhere.stdout.strip() == str(first)
    assert first != other


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": 0}, "hops=0: expected a whole number from 1 to 7"),
        ({"hops": 9}, "hops=9"),
        ({"longer": -1}, "longer=-1: expected a whole number from 0 to 5"),
        ({"hops": 7, "longer": 1}, "longer=1: expected a whole number from 0 to 0"),
        ({"hops": 4}, "n_concepts=8: expected a whole number from 12 to 16"),
        ({"n_concepts": 17}, "n_concepts=17"),
        ({"n_properties": 1}, "n_properties=1: expected a whole number from 2 to 16"),
        ({"n_train": 3}, "n_train=3: expected a whole number from 4"),
        ({"n_train": 10**9}, "n_train=1000000000"),
        ({"n_test": 0}, "n_test=0"),
        ({"seed": -1}, "seed=-1: expected a whole number, 0 or more"),
    ],
)
def test_numbers_that_cannot_be(options: dict[str, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ic.complexity.prontoqa(**options)  # type: ignore[arg-type]


def test_by_name_it_is_generated() -> None:
    with pytest.raises(OptionError, match="'prontoqa' is generated; leave data_dir='x' out"):
        ic.load_sequences("prontoqa", data_dir="x")
    with pytest.raises(OptionError, match="seed=1 has no use"):
        ic.load_sequences("prontoqa", seed=1)
    task = ic.load_sequences("prontoqa")
    assert task == ic.complexity.prontoqa()
    assert task.report["train_all"] == 20_000
    for hops in (1, 5):
        found = ic.load_sequences(f"prontoqa-{hops}")
        assert found == ic.complexity.prontoqa(hops=hops, longer=0, n_concepts=max(8, 2 * hops + 2))
        assert (found.name, list(found.splits)) == (f"prontoqa-{hops}", ["train", "test"])
    for name in ("prontoqa-0", "prontoqa-8"):
        with pytest.raises(OptionError, match=rf"'{name}' is unknown.* number of hops, up to 7\)"):
            ic.load_sequences(name)
    with pytest.raises(OptionError, match=r"'prontoqa-x' is unknown.* prontoqa-1 \(or another"):
        ic.load_sequences("prontoqa-x")
    answers = ic.load_sequences("prontoqa-answers")
    assert answers == ic.complexity.prontoqa(derivation=False)
    for alone, whole in zip(answers.splits["train"], task.splits["train"], strict=True):
        assert (alone.source, alone.kind) == (whole.source, whole.kind)
        assert whole.target.endswith(f" . {alone.target}")
