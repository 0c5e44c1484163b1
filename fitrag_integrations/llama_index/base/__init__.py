"""What every drop-in for LlamaIndex stands on."""
