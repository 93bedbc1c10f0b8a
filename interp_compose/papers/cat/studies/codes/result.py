"""What the codes of pre-trained encoders stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from interp_compose._public import public
from interp_compose.papers.cat.studies.codes.consistency import VECTORS
from interp_compose.papers.cat.studies.codes.sememes import MEASURES
from interp_compose.papers.shared.grid.shares import summary_of
from interp_compose.stats.intervals import bootstrap_interval, share_interval
from interp_compose.studies.core.result import StudyResult
from interp_compose.studies.core.tables import Table
from interp_compose.studies.core.text import LIMITS, Summary, interval, listed, text_table

if TYPE_CHECKING:
    from interp_compose.plots.interactive import ChartFigure

QUESTIONS: Final = ("words", "senses")
SOURCES: Final = ("codes", "commonest", "permuted")
SIDES: Final = ("guiding", "held_out")
WORDS: Final = Table(
    "words",
    "model str, seed int, layer int, code int, sememe str, rank int, word str, weight float, n int",
    key=("model", "seed", "layer", "code", "rank"),
    rules=("layer >= 0", "code >= 0", "rank > 0", "weight > 0", "n > 0"),
    may_be_empty=True,  # where no word has a code
)
SEMEMES: Final = Table(
    "sememes",
    "model str, seed int, source str, side str, word str, n int, n_sememes int, "
    "r_precision float, precision float, recall float",
    key=("model", "seed", "source", "side", "word"),
    complete=(("model",), ("seed",), ("source",), ("side", "word")),
    known={"source": SOURCES, "side": SIDES},
    rules=(
        "n > 0",
        "n_sememes > 0",
        "0 <= r_precision <= 1",
        "0 <= precision <= 1",
        "0 <= recall <= 1",
    ),
)
CONSISTENCY: Final = Table(
    "consistency",
    "model str, seed int, question str, layer int, vector str, same float, other float, auc float, "
    "low float, high float, over_cont float, over_low float, over_high float, n int",
    key=("model", "seed", "question", "layer", "vector"),
    complete=(("model", "layer"), ("seed",), ("question",), ("vector",)),
    known={"question": QUESTIONS, "vector": VECTORS},
    rules=("n > 0", "0 <= auc <= 1"),
    may_be_empty=True,  # where no word occurs in several passages
)
PHRASES: Final = Table(
    "phrases",
    "model str, seed int, layer int, phrase str, position int, word str, "
    "cosine float, jaccard float, cont float, "
    "other_cosine float, other_jaccard float, other_cont float",
    key=("model", "seed", "layer", "phrase", "position"),
    complete=(("model", "layer"), ("seed",), ("phrase", "position")),
    rules=("1 <= position <= 2", "0 <= jaccard <= 1", "0 <= other_jaccard <= 1"),
    may_be_empty=True,
)
HEADINGS: Final = {
    "words": "of a word in two passages (same), and of it and another word (other)",
    "senses": "of a word in two examples of one sense (same), and of two senses (other)",
}
ALIKE: Final = ("cosine", "jaccard", "cont")
OF_SEMEMES: Final = ("model", "source", "side", "measure")


@public
@dataclass(frozen=True, eq=False, repr=False)
class Codes(StudyResult):
    """The codes of pre-trained encoders, seed by seed; made by :func:`codes`."""

    SCHEMA = (WORDS, SEMEMES, CONSISTENCY, PHRASES)
    TABLES = (*(table.name for table in SCHEMA), "summary", "differences", "inside_phrases")
    FIGURES = ("codes_sememes", "codes_consistency")

    @classmethod
    def from_rows(cls, frames: Mapping[str, pd.DataFrame], config: Mapping[str, Any]) -> Codes:
        """A result of tables as ``Codes.SCHEMA`` states them.

        Raises:
            InputError: a table or column is missing, foreign or of the wrong type; rows are
                missing or doubled.
        """
        return cls._checked(frames, config)

    def __post_init__(self) -> None:
        if "sememes" in self.frames and "summary" not in self.frames:
            values = self.frames["sememes"].melt(
                id_vars=["model", "seed", "source", "side", "word"],
                value_vars=list(MEASURES),
                var_name="measure",
            )
            computed = {
                "summary": _summary(values),
                "differences": _differences(values),
                "inside_phrases": _inside_phrases(self.frames["phrases"]),
            }
            object.__setattr__(self, "frames", {**self.frames, **computed})
        super().__post_init__()

    @property
    def frame(self) -> pd.DataFrame:
        """How well the last block's codes name a word's sememes: one row per model, source, side of
        the annotated words and measure, over words and seeds.

        Columns: model, source ("codes"; "commonest": always the commonest sememes of words that
        guided; "permuted": the codes, with annotations permuted over words), side ("guiding" words,
        or "held_out", which guided nothing), measure ("r_precision": of as many codes as the word
        has sememes; "precision" and "recall" of its k heaviest), mean, low and high (the ends of
        Student's t interval over seeds at 95 %; NaN of one seed), smallest and largest seed, n
        (words), n_seeds, words_low and words_high (the ends of the bootstrap interval over words,
        of each word's mean over seeds).
        """
        return self.frames["summary"]

    @property
    def differences(self) -> pd.DataFrame:
        """Of the codes and each baseline (``other``), paired by word.

        Columns: model, side, measure, other ("commonest", "permuted"), difference (codes − other,
        means over seeds), words_low and words_high (the ends of its bootstrap interval over words),
        n (words), n_seeds.
        """
        return self.frames["differences"]

    @property
    def words(self) -> pd.DataFrame:
        """The words that share a code: the heaviest of each, by the mean of O over a word's
        occurrences in the held-out passages.

        Columns: model, seed, layer, code, sememe (that the code stands for; empty where it stands
        for none), rank (1: the heaviest), word, weight, n (occurrences).
        """
        return self.frames["words"]

    @property
    def consistency(self) -> pd.DataFrame:
        """Whether a word has the same codes again: one row per run, question, block and vector.

        Columns: model, seed, question ("words": two occurrences of a word in two passages, against
        one of them and another word; "senses": two of WordNet's examples of a word, of one synset
        against those of two), layer, vector ("codes": O; "cont": h_cont), same and other (mean
        cosines), auc (P(a cosine of the same is larger) + ½ P(alike), of each word), low and high
        (the ends of its bootstrap interval over words), over_cont (auc − that of h_cont), over_low
        and over_high (its interval over words), n (words).
        """
        return self.frames["consistency"]

    @property
    def phrases(self) -> pd.DataFrame:
        """What a word of a phrase has of its codes alone: one row per run, block, phrase and word.

        Columns: model, seed, layer, phrase, position (1, 2), word, cosine (of O in the phrase and O
        of the word alone), jaccard (of their codes with a weight), cont (cosine of h_cont), and the
        same with the phrase's other word alone: other_cosine, other_jaccard, other_cont.
        """
        return self.frames["phrases"]

    @property
    def inside_phrases(self) -> pd.DataFrame:
        """:attr:`phrases` over all words of phrases, and over seeds.

        Columns: model, layer, measure ("cosine", "jaccard", "cont"), alone ("itself", "other": the
        word that is read alone), mean, low and high (the ends of Student's t interval over seeds at
        95 %; NaN of one seed), smallest and largest seed, n (words in phrases), n_seeds.
        """
        return self.frames["inside_phrases"]

    def _summary(self) -> Summary:
        """R-precision by model and source; whether words and senses have codes of their own; what a
        word keeps in a phrase."""
        rows = self.frame[self.frame["measure"] == "r_precision"]
        columns = (
            ("model", "model", "<16"),
            ("words", "side", "<10"),
            ("named by", "source", "<12"),
            ("R-precision", "mean", ">12.3f"),
            ("smallest to largest", ("smallest", "largest"), ">21.3"),
            ("95 % over words", ("words_low", "words_high"), ">18.3"),
            ("n", "n", ">8,"),
        )
        title = "sememes that are named right, of as many codes as a word has sememes"
        table = text_table(rows, columns)
        return self._told([title, "", table, *self._consistency(), *self._phrases()])

    def _consistency(self) -> Summary:
        if self.consistency.empty:
            return ["", "no word occurs in two passages"]
        place = ["question", "model", "layer", "vector"]
        rows = self.consistency.groupby(place, sort=False).agg(
            same=("same", "mean"),
            other=("other", "mean"),
            auc=("auc", "mean"),
            smallest=("auc", "min"),
            largest=("auc", "max"),
            n=("n", "first"),
        )
        rows = rows.reset_index()
        columns = (
            ("model", "model", "<16"),
            ("layer", "layer", "<7"),
            ("vector", "vector", "<8"),
            ("same", "same", ">8.3f"),
            ("other", "other", ">8.3f"),
            ("AUC", "auc", ">8.3f"),
            ("smallest to largest", ("smallest", "largest"), ">21.3"),
            ("n", "n", ">8,"),
        )
        lines: Summary = []
        for question, group in rows.groupby("question", sort=False):
            lines += ["", f"cosines {HEADINGS[str(question)]}", "", text_table(group, columns)]
        if not self.config["wordnet"]:
            lines += ["", "NLTK finds no WordNet: senses were not compared (--wordnet)"]
        return lines

    def _phrases(self) -> Summary:
        if self.inside_phrases.empty:
            return []
        wide = self.inside_phrases.pivot_table(
            index=["model", "layer", "alone", "n"], columns="measure", values="mean", sort=False
        ).reset_index()
        columns = (
            ("model", "model", "<16"),
            ("layer", "layer", "<7"),
            ("alone", "alone", "<8"),
            ("cosine", "cosine", ">8.3f"),
            ("Jaccard", "jaccard", ">9.3f"),
            ("cont", "cont", ">8.3f"),
            ("n", "n", ">8,"),
        )
        title = "codes of a word in a phrase, and of itself or the phrase's other word alone"
        return ["", title, "", text_table(wide, columns)]

    def _answers(self) -> list[str]:
        from interp_compose.papers.cat.studies.codes.reading import answers

        return answers(self.differences)

    def sentences(self) -> list[str]:
        """How well codes name sememes, beside both baselines."""
        side = self.frame["side"].iloc[-1]
        rows, differences = (
            frame[(frame["measure"] == "r_precision") & (frame["side"] == side)]
            for frame in (self.frame, self.differences)
        )
        codes = rows[rows["source"] == "codes"]
        ends = ("difference", "words_low", "words_high")
        comparisons = "; ".join(
            f"{row['model']} {interval(*(row[end] for end in ends), sign=True)} against "
            f"{row['other']}"
            for row in differences.to_dict("records")
        )
        return [
            *self._answers(),
            f"Asked: whether codes name the sememes of {int(codes['n'].iloc[0]):,} "
            f"{side.replace('_', '-')} words, as R-precision; {listed(codes, 'model')}.",
            f"Paired by word, with 95 % intervals over words: {comparisons}.",
            LIMITS,
        ]

    def figures(self) -> dict[str, ChartFigure]:
        """R-precision beside its baselines; cosines of a word and of others, block by block."""
        from interp_compose.papers.cat.studies.codes import figures

        sememes = figures.sememes_figure(self.frame, self.differences, self.config)
        charts = {"codes_sememes": sememes}
        if (self.consistency["question"] == "words").any():
            charts["codes_consistency"] = figures.consistency_figure(self.consistency, self.config)
        return charts


def _inside_phrases(phrases: pd.DataFrame) -> pd.DataFrame:
    """Means over words of phrases, and over seeds."""
    place, run = ("model", "layer", "measure", "alone"), ["model", "seed", "layer"]
    parts = [
        phrases.groupby(run, sort=False)[f"{prefix}{measure}"]
        .agg(["mean", "size"])
        .reset_index()
        .rename(columns={"mean": "value", "size": "n"})
        .assign(measure=measure, alone=alone)
        for measure in ALIKE
        for alone, prefix in (("itself", ""), ("other", "other_"))
    ]
    return summary_of(pd.concat(parts, ignore_index=True), place, least=-1.0)


def _summary(values: pd.DataFrame) -> pd.DataFrame:
    """Over seeds, and over words."""
    runs = values.groupby([*OF_SEMEMES, "seed"], sort=False)["value"].agg(["mean", "size"])
    runs = runs.reset_index().rename(columns={"mean": "value", "size": "n"})
    over_words = []
    for place, group in values.groupby(list(OF_SEMEMES), sort=False):
        word_means = group.groupby("word", sort=False)["value"].mean().to_numpy()  # over seeds
        low, high = share_interval(word_means[:, None])
        ends = {"words_low": low[0], "words_high": high[0]}
        over_words.append({**dict(zip(OF_SEMEMES, place, strict=True)), **ends})
    columns = [*OF_SEMEMES, "words_low", "words_high"]
    return summary_of(runs, OF_SEMEMES).merge(pd.DataFrame(over_words, columns=columns))


def _differences(values: pd.DataFrame) -> pd.DataFrame:
    rows = []
    place = ("model", "side", "measure")
    for where, group in values.groupby(list(place), sort=False):
        key = dict(zip(place, where, strict=True))
        by_source = group.groupby(["source", "word"], sort=False)["value"].mean().unstack("source")
        for other in SOURCES[1:]:
            difference = (by_source["codes"] - by_source[other]).to_numpy()
            low, high = bootstrap_interval(difference[:, None])
            measured = {"difference": difference.mean(), "words_low": low[0], "words_high": high[0]}
            counts = {"n": len(difference), "n_seeds": group["seed"].nunique()}
            rows.append({**key, "other": other, **measured, **counts})
    columns = [*place, "other", "difference", "words_low", "words_high", "n", "n_seeds"]
    return pd.DataFrame(rows, columns=columns)
