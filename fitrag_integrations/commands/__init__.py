"""The verbs of the `fitrag` command, one file each, over one engine for JSON Lines (`batch`).

Importing a verb loads neither torch nor a framework; running it does. `MapRows` is a verb as a
callable for engines that map batches of rows.
"""

from fitrag_integrations.core.extras import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, {"MapRows": "engine.scale_out"})
