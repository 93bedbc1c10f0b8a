"""Text: tokens, words, phrases, and the lexicons that relate them."""
