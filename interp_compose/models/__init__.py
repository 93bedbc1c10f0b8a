"""Models: every source becomes a :class:`~interp_compose._types.HookedModel`."""
