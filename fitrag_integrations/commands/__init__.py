"""The verbs of the `fitrag` command, one file each, over one engine for JSON Lines (`batch`).

Importing a verb loads neither torch nor a framework; running it does.
"""
