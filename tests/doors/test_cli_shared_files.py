"""Where parts that are done at once share files, nobody offers to put them back: nothing could be."""

from ..commands.test_foreach import beside, folder
from ..crash.command_folder import Folder

__all__ = ["folder"]


def test_neither_the_plan_nor_the_wait_offers_to_put_back_what_items_share(folder: Folder) -> None:
    beside(folder, ", on_partial: ask").run()
    said = folder.cli("resume", folder.run_id, "--dry-run").out
    assert "keep files:" in said
    assert "put back:" not in said
    folder.run()
    said = folder.cli("show", folder.run_id).out
    assert "keep files:" in said
    assert "put back:" not in said


def test_what_a_step_has_for_itself_may_be_put_back(folder: Folder) -> None:
    folder.flow("- {id: do, run: 'echo a >> a.txt; false', writes: a.txt, on_partial: ask}")
    folder.run()
    assert "put back:" in folder.cli("resume", folder.run_id, "--dry-run").out
    folder.run()
    assert "put back:" in folder.cli("show", folder.run_id).out
