import pytest

import newfound
from newfound import UserError
from newfound.data.sources import DATASETS

QUICK = {"stage1.epochs": 2}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return newfound.discover(dataset="digits", out=tmp_path_factory.mktemp("api") / "run", settings=QUICK)


def test_a_discovery_tells_what_was_found(found):
    sizes = found.sizes()
    assert list(sizes) == [f"novel-0{i}" for i in range(1, 6)]
    assert sum(sizes.values()) == len(found) == 679
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
    surest = found.images_of("novel-01")
    assert len(surest) == sizes["novel-01"]
    confidence = dict(zip(found.images, found.confidence, strict=True))
    assert [confidence[i] for i in surest] == sorted((confidence[i] for i in surest), reverse=True)
    with pytest.raises(UserError, match="there is no category novel-09"):
        found.images_of("novel-09")


def test_it_becomes_a_frame(found):
    frame = found.to_frame()
    assert list(frame.columns) == ["image", "category", "confidence"]
    assert (frame.groupby("category").size().to_dict()) == found.sizes()


def test_a_run_gives_back_its_model_and_itself(found):
    assert newfound.load(found.folder).classes_.tolist() == [*"02468", *found.sizes()]
    assert found.model().n_novel == 5
    assert newfound.resume(found.folder) == found


def test_every_figure_is_there(found):
    result = found.result
    assert set(result["unlabelled"]) == {"accuracy", "nmi", "ari", "images", "classes"}
    assert set(result["test"]) == {"paper", "single", "strict", "task-aware"}
    assert result["seconds"]["stage1"] > 0
    assert result["versions"]["torch"]


def test_another_number_of_categories_can_be_looked_for(tmp_path):
    found = newfound.discover(dataset="digits", n_novel=3, out=tmp_path / "run", settings=QUICK)
    assert len(found.sizes()) == 3


def test_every_data_set_has_a_recipe_of_the_kmeans_row():
    from newfound.settings import recipe_names

    assert {f"kmeans-{known.recipe}" for known in DATASETS.values()} <= set(recipe_names())
