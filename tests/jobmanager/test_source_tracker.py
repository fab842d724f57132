"""Where the query of a new attempt continues: right after the batch of the checkpoint (R19)."""

from pathlib import Path

from penstock.jobmanager.attempt.attempt import Origin
from penstock.jobmanager.attempt.source_tracker import SourceTracker
from penstock.storage import MemoryStorage
from tests.checkpoint.manifests import manifest
from tests.jobmanager.test_source_log_cut import query_folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_restored_query_goes_on_behind_the_batch_of_the_checkpoint(tmp_path: Path) -> None:
    running = SourceTracker(query_folder(tmp_path / "query", 8), MemoryStorage(), Origin(), ["source"])
    running.advance(5)
    position = running.position(checkpoint=3, attempt=1)
    assert position.batch_id == 5
    restored = manifest(sources=position)
    SourceTracker(tmp_path / "restored", MemoryStorage(), Origin(restored), ["source"]).restore()
    assert names(tmp_path / "restored" / "offsets") == ["4", "5"]
    assert names(tmp_path / "restored" / "commits") == ["4", "5"]
    assert names(tmp_path / "restored" / "sources" / "0") == ["0", "1", "2", "3", "4", "5"]


def test_r23_a_source_without_an_offset_is_not_known_before_its_first_batch(tmp_path: Path) -> None:
    running = SourceTracker(query_folder(tmp_path / "query", 8), MemoryStorage(), Origin(), ["a"])
    running.advance(5)
    restored = manifest(sources=running.position(checkpoint=3, attempt=1))
    for number, (uids, is_known) in enumerate([(["a"], True), (["a", "b"], False), (["b"], False)]):
        tracker = SourceTracker(tmp_path / str(number), MemoryStorage(), Origin(restored), uids)
        tracker.restore()
        assert tracker.is_known is is_known
        tracker.advance(6)
        assert tracker.is_known
