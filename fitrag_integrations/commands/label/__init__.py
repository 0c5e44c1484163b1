"""``fitrag label``: rows to train on, asked of a language model or a recognised answer."""
