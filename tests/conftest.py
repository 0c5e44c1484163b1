"""What holds for every test: no hub, and one tokenizer thread."""

import os

# Before anything imports transformers, which reads both once.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("FITRAG_CPU_DTYPE", "float32")  # the same numbers on every processor
