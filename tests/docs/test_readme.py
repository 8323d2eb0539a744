"""README.md and its Chinese form: the two commands first, pictures, no number of their own."""

import re

from tests.repo.tree import TOP

README = (TOP / "README.md").read_text(encoding="utf-8")
CHINESE = (TOP / "README.zh-CN.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d+\.\d+")


def rows():
    """The cells of the table of measured scores, without its head."""
    section = README.split("## Measured")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_a_newcomer_meets_the_demo_and_the_tests_first():
    block = README.split("```")[1]
    assert [line.split("#")[0].strip() for line in block.splitlines()[1:]] == [
        "make demo",
        "make test",
    ]
    assert len(README.splitlines()) < 110


def test_its_pictures_are_there_and_small():
    pictures = re.findall(r"docs/images/[\w-]+\.png", README)
    assert {"docs/images/look-page.png", "docs/images/kernels.png"} <= set(pictures)
    for picture in pictures:
        assert 10_000 < (TOP / picture).stat().st_size < 250_000


def test_every_score_stands_in_the_results_with_its_recipe():
    results = (TOP / "docs" / "results.md").read_text(encoding="utf-8")
    table = rows()
    assert len({row[0] for row in table}) >= 7
    for task, _, _, models, baseline, recipe in table:
        assert NUMBER.findall(models), task
        for number in NUMBER.findall(models + baseline):
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", results), (task, number)
        name = recipe.split("`")[1].split()[0]
        assert f"`{name}`" in results, name
        assert (TOP / "recipes" / f"{name}.yaml").exists(), name


def test_the_chinese_page_has_the_same_code_numbers_links_and_pictures():
    def parts(text):
        links = re.findall(r"\]\((?!README)([^)]+)\)", text)
        return text.split("```")[1::2], NUMBER.findall(text), sorted(links)

    (code, numbers, links), (others, theirs, their_links) = parts(README), parts(CHINESE)
    assert code == others
    assert numbers == theirs
    assert set(links) == set(their_links)
    assert len(re.findall("^## ", README, re.M)) == len(re.findall("^## ", CHINESE, re.M))
