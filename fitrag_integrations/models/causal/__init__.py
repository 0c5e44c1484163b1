"""One causal language model under many views: generators, gates, judges."""
