"""The command ``interp-compose explore``: a page of a small decoder of one's own."""

from __future__ import annotations

import html

from interp_compose.errors import OptionError
from interp_compose.models.load import load_model
from interp_compose.models.ready import check_tokenizer
from interp_compose.runs.files import atomic_write
from interp_compose.studies.explore.export import check_size, exported, page, script
from interp_compose.studies.explore.options import ExploreCommand
from interp_compose.studies.explore.words import ClickedText


def run(command: ExploreCommand) -> str:
    """Load, write the page, and say so.

    Raises:
        OptionError: no text, one longer than the model reads, a template without its place, a model
            that is too large.
        InputError: the file is there already.
        CapabilityError: a model that the page cannot run.
    """
    if not command.text or not all(text.strip() for text in command.text):
        raise OptionError(f"text={list(command.text)!r}: expected one text or more, none empty")
    if command.template.count("{}") != 1:
        raise OptionError(f"template={command.template!r}: expected {{}} once, for the text")
    if command.out.exists() and not command.overwrite:
        raise OptionError(f"{command.out} is there already: pass --overwrite, or another --out")
    source = command.model
    model = load_model(
        source.model, name=source.name, device=source.device, revision=source.revision
    )
    check_size(model.n_weights, model.name)
    check_tokenizer(model)
    for text in command.text:
        n_tokens = len(ClickedText.of(model, command.template.replace("{}", text)).prompt.ids)
        if n_tokens > model.n_ctx:
            raise OptionError(
                f"text={text!r} has {n_tokens} tokens in its template, and {model.name!r} reads "
                f"{model.n_ctx}: shorten it"
            )
    texts = [(text, "") for text in command.text]
    known = exported(model, texts, template=command.template, source=source.model)
    title = html.escape(f"CAP on {model.name}")
    data = page(title, script(known), above=f"<h1>{title}</h1>\n").encode()
    atomic_write(command.out, data)
    return f"written: {command.out} ({len(data) / 1e6:.1f} MB)"
