import numpy as np
import pytest
from PIL import Image

from newfound import UserError
from newfound.data.grown import Known, read_grown
from newfound.data.store import digest_images


def paint(path, level):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), level, np.uint8)).save(path)
    return digest_images(np.full((1, 3, 8, 8), level, np.uint8))[0].tobytes().hex()


@pytest.fixture
def known(tmp_path):
    """Three known images, the second of which is gone, and a pile of two."""
    digests = [paint(tmp_path / f"{level}.png", level) for level in (10, 20, 30)]
    (tmp_path / "20.png").unlink()
    for level in (40, 50):
        paint(tmp_path / "pile" / f"{level}.png", level)
    paths = tuple(str(tmp_path / f"{level}.png") for level in (10, 20, 30))
    return Known(paths, ("b", "a", "a"), ("", digests[1], ""))


def read(known, tmp_path):
    return read_grown(known, tmp_path / "pile", n_novel=1, size=8, seed=0)


def test_known_images_come_in_the_order_of_the_list_with_their_labels(known, tmp_path):
    reading = read(known, tmp_path)
    assert reading.names.labelled == known.paths
    assert reading.collection.classes == ("a", "b")
    assert reading.collection.labels.tolist() == [1, 0, 0, -1, -1]
    assert sorted(reading.names.unlabelled) == ["40.png", "50.png"]


def test_a_collection_is_the_same_whether_its_known_images_are_there_or_gone(known, tmp_path):
    gone = read(known, tmp_path)
    paint(tmp_path / "20.png", 20)
    there = read(Known(known.paths, known.labels, ("", "", "")), tmp_path)
    assert gone.collection.fingerprint() == there.collection.fingerprint()
    assert gone.names == there.names


def test_a_copy_of_an_image_that_is_gone_is_left_out_of_the_pile(known, tmp_path):
    paint(tmp_path / "pile" / "copy.png", 20)
    reading = read(known, tmp_path)
    assert sorted(reading.names.unlabelled) == ["40.png", "50.png"]
    assert [(skip.file, skip.reason) for skip in reading.skipped] == [
        (str(tmp_path / "pile" / "copy.png"), f"the same image as {known.paths[1]!r}")
    ]


def test_a_category_of_which_no_image_can_be_read_is_missed(known, tmp_path):
    (tmp_path / "10.png").write_bytes(b"no image")
    with pytest.raises(UserError, match="no image of the category 'b' can be read"):
        read(known, tmp_path)


def test_a_list_is_read_as_it_was_written_whatever_the_names(tmp_path):
    known = Known(("/x/\udcff.png", "/x/=1.png"), ("a\nb", "-1"), ("", "0f" * 16))
    known.save(tmp_path / "known.json")
    assert Known.load(tmp_path / "known.json") == known
    with pytest.raises(UserError, match=r"nowhere\.json is missing"):
        Known.load(tmp_path / "nowhere.json")
