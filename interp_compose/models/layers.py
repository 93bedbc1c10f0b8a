"""Layers by number, from the first one or, negative, from the end; and by depth."""

from __future__ import annotations

from collections.abc import Sequence

from interp_compose.errors import LayerError

Layers = int | float | Sequence[int | float] | None


def resolve_layer(layer: int, n_layers: int, *, after_last: bool = False) -> int:
    """A layer's number 0 … n_layers-1; a negative one counts from the end, as in a list. With
    ``after_last`` also n_layers, for what leaves the last block.

    Raises:
        LayerError: outside the model.
    """
    if after_last and layer == n_layers:
        return n_layers
    if not -n_layers <= layer < n_layers:
        more = f"{n_layers} after the last block, " if after_last else ""
        raise LayerError(
            f"layer {layer} is outside the model: expected 0 … {n_layers - 1} (0 reads the "
            f"embeddings), {more}or -1 … {-n_layers} from the end."
        )
    return layer % n_layers


def resolve_layers(layers: Layers, n_layers: int, *, after_last: bool = False) -> list[int]:
    """Layers in ascending order, each once; a negative number counts from the end, a float is a
    depth, 0.0 … 1.0, halves up. None are all, 0 … n_layers-1, also with ``after_last``, which is
    as in :func:`resolve_layer`.

    Raises:
        LayerError: outside the model, a depth outside 0 … 1, or none at all.
    """
    if layers is None:
        return list(range(n_layers))
    chosen: set[int] = set()
    if isinstance(layers, int | float):
        layers = [layers]
    for layer in layers:
        if isinstance(layer, int):
            chosen.add(resolve_layer(layer, n_layers, after_last=after_last))
        elif 0.0 <= layer <= 1.0:
            chosen.add(int(layer * (n_layers - 1) + 0.5))
        else:
            raise LayerError(
                f"depth {layer} is outside 0.0 … 1.0: expected 0.0 for the embeddings, 1.0 for the "
                f"last layer, or a layer's number 0 … {n_layers - 1}."
            )
    if not chosen:
        raise LayerError("no layers: expected at least one, or None for all.")
    return sorted(chosen)
