"""The rehearsal registers a device, which a process cannot take back: it has one of its own."""

import os

collect_ignore = [] if os.environ.get("FITRAG_REHEARSAL") else ["rehearsal"]
