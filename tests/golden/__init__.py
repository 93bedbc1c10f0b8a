"""Proof that a change of the code's structure changed no number, word, file or name.

``python -m tests.golden record FOLDER`` runs the commands and main calls in small configurations
and keeps digests; ``compare OLD NEW`` prints what differs; ``reopen OLD`` opens what an earlier
version wrote, and runs its commands again. Both folders have to be made on one machine: two kinds
of processor differ in the last bit.
"""
