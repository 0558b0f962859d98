"""Embeddings that people bring: read without executing anything, and refused in a sentence."""

import io
import pickle

import embeddings
import numpy as np
import pytest

from newfound.data.embeddings import read_embeddings, read_vectors
from newfound.errors import UserError


def read(folder, **changes):
    files = embeddings.write(folder) | changes
    return read_embeddings(files["features"], ids=files["ids"], labels=files["labels"], n_novel=4, seed=0)


def test_rows_keep_their_names_and_labels(tmp_path):
    reading = read(tmp_path)
    collection, names = reading.collection, reading.names
    assert (collection.n_labelled, collection.n_unlabelled) == (360, 120)
    features = np.load(tmp_path / "features.npy")
    row = int(names.unlabelled[7][4:7])
    assert np.array_equal(collection.train.images[360 + 7].flatten().numpy(), features[row])
    table = dict(line.split(",") for line in (tmp_path / "labels.csv").read_text().split())
    assert [collection.classes[i] for i in collection.labels[:360]] == [table[name] for name in names.labelled]


def test_without_ids_rows_are_called_by_their_numbers(tmp_path):
    files = embeddings.write(tmp_path, names=False)
    reading = read_embeddings(files["features"], ids=None, labels=files["labels"], n_novel=4, seed=0)
    assert sorted(map(int, reading.names.labelled + reading.names.unlabelled)) == list(range(480))


def test_a_table_with_an_image_column_names_rows_too(tmp_path):
    names = (embeddings.write(tmp_path)["ids"]).read_text().split()
    for between in ",;\t":
        rows = [f"size{between}image", *(f"3{between}{name}" for name in names)]
        (tmp_path / "ids.csv").write_text("\n".join(rows), encoding="utf-16" if between == "\t" else "utf-8")
        assert read(tmp_path, ids=tmp_path / "ids.csv").names == read(tmp_path).names


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_halves_and_singles_are_read(tmp_path, dtype):
    values = np.arange(12).reshape(4, 3).astype(dtype)
    np.save(tmp_path / "f.npy", values)
    found = read_vectors(tmp_path / "f.npy")
    assert found.dtype == np.float32
    assert np.array_equal(found, values)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (np.zeros(5, np.float32), r"float32 of shape \[5\]"),
        (np.zeros((5, 2, 2), np.float32), r"of shape \[5, 2, 2\]"),
        (np.zeros((5, 2), np.int64), "int64"),
        (np.zeros((0, 2), np.float32), r"of shape \[0, 2\]"),
        (np.array([[1, 2], [np.nan, 1]], np.float32), "row 1 .from 0. has a feature that is infinite or not a number"),
        (np.array([[np.inf, 2], [1, 1]], np.float16), "row 0 "),
        (np.array([[1, 2], [-1e30, 1]], np.float32), "row 1 .from 0. .* or beyond 1e.12; .* divide all features by"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(tmp_path, content, words):
    np.save(tmp_path / "f.npy", content)
    with pytest.raises(UserError, match=words):
        read_vectors(tmp_path / "f.npy")


class Trap:
    def __reduce__(self):
        return print, ("the pickle was executed",)


def test_a_pickle_is_never_opened(tmp_path, capsys):
    np.save(tmp_path / "objects.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    (tmp_path / "pickle.npy").write_bytes(pickle.dumps(Trap()))
    for name in ("objects.npy", "pickle.npy"):
        with pytest.raises(UserError, match=r"not a whole \.npy file"):
            read_vectors(tmp_path / name)
    assert capsys.readouterr().out == ""


def truncated(raw: bytes) -> bytes:
    return raw[:-10]


def promising(raw: bytes) -> bytes:
    return raw.replace(b"(40, 3)", b"(4000000000000, 3)").replace(b"            \n", b"\n")


def oversized(raw: bytes) -> bytes:
    return raw[:8] + (65000).to_bytes(2, "little") + b" " * 65000


@pytest.mark.parametrize("damage", [truncated, promising, oversized, lambda raw: b"", lambda raw: b"\x93NUMPY"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    buffer = io.BytesIO()
    np.save(buffer, np.ones((40, 3), np.float32))
    (tmp_path / "f.npy").write_bytes(damage(buffer.getvalue()))
    with pytest.raises(UserError, match=r"not a whole \.npy file|cannot be read"):
        read_vectors(tmp_path / "f.npy")


def test_several_arrays_or_none_are_refused(tmp_path):
    np.savez(tmp_path / "f.npz", a=np.ones((3, 2)))
    with pytest.raises(UserError, match="several arrays"):
        read_vectors(tmp_path / "f.npz")
    with pytest.raises(UserError, match="no such file"):
        read_vectors(tmp_path / "nothing.npy")


def test_ids_have_to_fit_the_rows(tmp_path):
    ids = embeddings.write(tmp_path)["ids"]
    lines = ids.read_text().splitlines()
    other = tmp_path / "other.txt"
    other.write_text("\n".join(lines[:-1]))
    with pytest.raises(UserError, match="names 479 images, and there are features of 480"):
        read(tmp_path, ids=other)
    other.write_text("\n".join([lines[1], *lines[1:]]))
    with pytest.raises(UserError, match=f"names '{lines[1]}' twice"):
        read(tmp_path, ids=other)


def test_a_label_for_an_image_without_features_is_refused(tmp_path):
    files = embeddings.write(tmp_path)
    with open(files["labels"], "a") as file:
        file.write("img/999.jpg,c1\n")
    with pytest.raises(UserError, match=r"line 362: image 'img/999\.jpg' has no features"):
        read_embeddings(files["features"], ids=files["ids"], labels=files["labels"], n_novel=4, seed=0)


@pytest.mark.parametrize("text", ["nan", "-1"])
def test_a_label_that_looks_unknown_is_refused(tmp_path, text):
    files = embeddings.write(tmp_path)
    lines = files["labels"].read_text().splitlines()
    files["labels"].write_text("\n".join([*lines[:-1], f"{lines[-1].split(',')[0]},{text}"]))
    with pytest.raises(UserError, match=f"line {len(lines)}: the label '{text}' looks like one that is unknown"):
        read_embeddings(files["features"], ids=files["ids"], labels=files["labels"], n_novel=4, seed=0)
