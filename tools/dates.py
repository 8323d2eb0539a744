"""Makes the data of the demo: dates as people write them, and as ISO 8601 does.

    python tools/dates.py src/regard/shipped/data/dates

Every row is drawn from one seeded generator; no date of dev or test is in the training split, in
whatever form. Standard library only.
"""

import argparse
import datetime
import gzip
import random
from pathlib import Path

MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
}
DAYS = {
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
}
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2049, 12, 31)
SIZES = {"train": 20_000, "dev": 500, "test": 500}


def ordinal(day: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th") if day // 10 != 1 else "th"
    return f"{day}{ending}"


def forms(date: datetime.date) -> list[str]:
    """A date in every form."""
    months = {lang: names.split()[date.month - 1] for lang, names in MONTHS.items()}
    days = {lang: names.split()[date.weekday()] for lang, names in DAYS.items()}
    en, de, fr = months["en"], months["de"], months["fr"]
    day, year = date.day, date.year
    first = "1er" if day == 1 else str(day)
    return [
        f"{day} {en} {year}",
        f"{en} {day}, {year}",
        f"{en} {ordinal(day)}, {year}",
        f"{days['en']}, {en} {day}, {year}",
        f"the {ordinal(day)} of {en} {year}",
        f"{day} {en[:3]} {year}",
        f"{year}, {en} {day}",
        f"{day}. {de} {year}",
        f"{days['de']}, den {day}. {de} {year}",
        f"{day:02}.{date.month:02}.{year}",
        f"{first} {fr} {year}",
        f"{days['fr']} {first} {fr} {year}",
        f"{year}年{date.month}月{day}日",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    draw, span = random.Random(1), (LAST - FIRST).days + 1
    order = draw.sample(range(span), span)
    folder.mkdir(parents=True, exist_ok=True)
    held = SIZES["dev"] + SIZES["test"]
    pools = {
        "dev": order[: SIZES["dev"]],
        "test": order[SIZES["dev"] : held],
        "train": order[held:],
    }
    for split, count in SIZES.items():
        dates = pools[split] if split != "train" else draw.choices(pools[split], k=count)
        rows = []
        for number in dates:
            date = FIRST + datetime.timedelta(number)
            rows.append(f"{draw.choice(forms(date))}\t{date.isoformat()}\n")
        text = "written\tiso\n" + "".join(rows)
        packed = gzip.compress(text.encode(), 9, mtime=0)
        (folder / f"{split}.tsv.gz").write_bytes(packed)


if __name__ == "__main__":
    main()
