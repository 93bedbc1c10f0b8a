"""Keeps what encoders said: ``python -m benchmarks.encoder_outcomes NAME out/pretrain out/judged``.

The folders are those of ``interp-compose pretrain`` and of ``interp-compose encoders`` on it; what
was measured on held-out text, the codes of the last block, scores over seeds and paired differences
go into ``results/encoders_{NAME}.json``, the picture of Pearson's r into ``docs/images``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import interp_compose as ic
from benchmarks.common import IMAGES, machine, plain_rows, write


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the result and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", help="of the result")
    parser.add_argument("pretrained", help="written by interp-compose pretrain")
    parser.add_argument("judged", help="written by interp-compose encoders")
    asked = parser.parse_args(arguments)
    pretrained, judged = (
        ic.cat.Pretrained.load(asked.pretrained),
        ic.cat.EncoderScores.load(asked.judged),
    )
    runs = pretrained.frames["runs"].drop(columns="step_seconds")
    last = pretrained.codes["layer"].max()
    places = ("data", "model")  # where it was read from says nothing
    known = {name: value for name, value in pretrained.config.items() if name not in places}
    counts = {
        task: {name: one for name, one in report.items() if name != "source"}
        for task, report in judged.config["tasks"].items()
    }
    write(
        f"encoders_{asked.name}",
        {
            "machine": machine(),
            "config": known,
            "judged": {
                "tasks": counts,
                **{name: judged.config[name] for name in ("limit", "tuned", "shares", "tuning")},
            },
            "runs": plain_rows(runs),
            "held_out": plain_rows(pretrained.frame),
            "codes": plain_rows(pretrained.codes[pretrained.codes["layer"] == last]),
            "summary": plain_rows(judged.frame),
            "differences": plain_rows(judged.differences),
        },
    )
    judged.figures()["encoders_pearson"].save(IMAGES / f"encoders_{asked.name}_pearson.png")
    print(judged.summary())


if __name__ == "__main__":
    main()
