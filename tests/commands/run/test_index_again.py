"""What a killed `fitrag index` leaves does not keep the same command from being given again."""

import pytest

from fitrag_integrations.commands.run.index import IndexPlan
from fitrag_integrations.errors import InputError


def test_a_file_half_written_is_no_index(tmp_path):
    corpus, folder = tmp_path / "corpus.md", tmp_path / "index"
    corpus.write_text("It rained.")
    folder.mkdir()
    (folder / ".index.faiss.0123.tmp").write_bytes(b"half")
    IndexPlan(corpus, folder).check()
    (folder / "notes.txt").write_text("somebody's own")
    with pytest.raises(InputError, match="OUT_DIR"):
        IndexPlan(corpus, folder).check()
