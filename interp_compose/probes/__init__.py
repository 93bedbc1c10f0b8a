"""Probes: tensors in, numbers about representations out."""
