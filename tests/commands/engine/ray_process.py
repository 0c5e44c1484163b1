"""Run verbs over a Ray of two CPUs of its own; what came of it is told as JSON.

python ray_process.py FOLDER
"""

import contextlib
import io
import json
import os
import sys
from pathlib import Path

from fitrag_integrations.cli import main
from fitrag_integrations.commands import MapRows

SCORER = """
import os, time
from pathlib import Path
from fitrag_integrations.types import BiLabelScore
HERE = Path(__file__).parent
class Lengths:
    name = "lengths"
    def score(self, pairs):
        if (HERE / "slowly").exists():
            time.sleep(0.5)
        for question, passage in pairs:
            if "40" in question and (HERE / "always").exists():
                os._exit(9)
            if "30" in question and (HERE / "once").exists():
                (HERE / "once").unlink()
                os._exit(9)
        return [BiLabelScore(len(p.text) % 7 / 7, len(q) % 5 / 5) for q, p in pairs]
"""


def fitrag(*arguments):
    """Give the exit code and standard error of a command."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main([str(each) for each in arguments])
        except SystemExit as ended:
            return ended.code or 0, said.getvalue()


def run(folder, ray):
    """Score here, over workers of which one dies once, and over those that die over one lot."""
    given, here = folder / "in.jsonl", folder / "here.jsonl"
    model = ["--model", str(folder / "scorer.py")]
    over = [*model, "--engine", "ray", "--workers"]
    yield "here", fitrag("score", given, here, *model)
    (folder / "once").touch()
    yield "died once", fitrag("score", given, folder / "once.jsonl", *over, 2)
    assert not (folder / "once").exists()
    (folder / "cut.jsonl").write_bytes(here.read_bytes()[:-4000])
    settings = (folder / "here.jsonl.settings").read_bytes()
    (folder / "cut.jsonl.settings").write_bytes(settings)
    yield "cut", fitrag("score", given, folder / "cut.jsonl", *over, 1)
    (folder / "always").touch()
    yield "dies always", fitrag("score", given, folder / "always.jsonl", *over, 1)
    (folder / "always").unlink()
    yield "no model", fitrag("score", given, folder / "no.jsonl", *over[2:], 1, "--model", "none")
    rows = [json.loads(line) for line in given.read_bytes().splitlines()[:20]]
    mapped = ray.data.from_items(rows, override_num_blocks=4).map_batches(
        MapRows,
        fn_constructor_args=("score",),
        fn_constructor_kwargs={"model": model[1]},
        batch_size=5,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=1),
    )
    yield "mapped", sorted(mapped.take_all(), key=lambda row: row["id"])


if __name__ == "__main__":
    import ray
    import ray.data

    folder = Path(sys.argv[1])
    (folder / "scorer.py").write_text(SCORER)
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 << 20,
    )
    (folder / "told.json").write_text(json.dumps(dict(run(folder, ray))))
