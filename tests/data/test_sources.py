import pytest

from regard.data import sources
from regard.errors import RequestError


@pytest.fixture
def home(tmp_path, monkeypatch):
    for place in ("here", "data"):
        (tmp_path / place).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    return tmp_path


def test_the_working_directory_comes_first_then_the_data_folder_then_the_package(home):
    shipped = sources.shipped() / "pronunciation"
    assert sources.find("pronunciation") == shipped
    (home / "data" / "pronunciation").mkdir()
    assert sources.find("pronunciation") == home / "data" / "pronunciation"
    (home / "here" / "pronunciation").mkdir()
    assert sources.find("pronunciation") == home / "here" / "pronunciation"
    assert sources.find(home / "data") == home / "data"


def test_a_folder_of_results_that_hides_data_is_named(home):
    """What `regard train … -o trecqa` leaves in the working directory, say."""
    for place in ("here", "data"):
        (home / place / "trecqa").mkdir()
    (home / "data" / "trecqa" / "train.tsv").touch()
    (home / "here" / "trecqa" / "seed-1").mkdir()
    found = sources.find("trecqa")
    with pytest.raises(RequestError) as refused:
        sources.splits(found)
    assert f"it hides {home / 'data' / 'trecqa'}: give that path" in str(refused.value)
    assert sources.splits(home / "data" / "trecqa").keys() == {"train"}
    (home / "data" / "trecqa" / "train.tsv").unlink()
    with pytest.raises(RequestError, match=r"or test\.\* file$"):
        sources.splits(home / "data" / "trecqa")


def test_without_a_data_folder(home, monkeypatch):
    monkeypatch.delenv("REGARD_DATA")
    assert sources.find("mt-gnome-de").is_dir()
    with pytest.raises(RequestError, match=r"\$REGARD_DATA, a folder of data, is not set"):
        sources.find("mt/de-en")


def test_the_common_name_of_moses_files_is_found(home):
    (home / "data" / "a").mkdir()
    (home / "data" / "a" / "train.de.gz").touch()
    assert sources.find("a/train") == home / "data" / "a" / "train"
    with pytest.raises(RequestError, match="there is no data at 'a/trai'"):
        sources.find("a/trai")


def test_what_is_not_there_is_told_with_the_nearest_name(home):
    with pytest.raises(RequestError, match="did you mean 'pronunciation'") as error:
        sources.find("pronounciation")
    assert str(home / "here") in str(error.value)
    assert str(home / "data") in str(error.value)


def test_splits_of_a_folder(tmp_path):
    for name in ("train.tsv.gz", "valid.tsv", "test.de", "test.en", "README.md", "training.log"):
        (tmp_path / name).touch()
    assert sources.splits(tmp_path) == {
        "train": tmp_path / "train.tsv.gz",
        "dev": tmp_path / "valid.tsv",
        "test": tmp_path / "test",
    }


def test_two_files_for_one_split(tmp_path):
    for name in ("train.tsv.gz", "train.jsonl"):
        (tmp_path / name).touch()
    with pytest.raises(RequestError, match=r"train\.jsonl and train\.tsv\.gz could be 'train'"):
        sources.splits(tmp_path)


def test_a_folder_without_splits(tmp_path):
    with pytest.raises(RequestError, match=r"has no train\.\*"):
        sources.splits(tmp_path)


def test_a_folder_of_other_files_says_what_to_do(tmp_path):
    (tmp_path / "cora.npz").touch()
    with pytest.raises(RequestError, match=r"there are cora\.npz: name one file, or call them so"):
        sources.splits(tmp_path)
