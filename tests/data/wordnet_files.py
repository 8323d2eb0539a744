"""A small WordNet, in files as the real one has them."""

NOUNS = {  # offset: words, pointers
    "00000010": (["animal"], []),
    "00000020": (["dog", "domestic_dog"], ["@ 00000060 n 0000", "~ 00000030 n 0000"]),
    "00000030": (["puppy"], ["@ 00000020 n 0000"]),
    "00000040": (["cat"], ["@ 00000060 n 0000"]),
    "00000050": (["mouse"], ["@ 00000010 n 0000"]),
    "00000060": (["carnivore"], ["@ 00000010 n 0000"]),
    "00000070": (["sofa", "couch"], []),
    "00000080": (["woman"], ["! 00000090 n 0101"]),
    "00000090": (["man"], ["! 00000080 n 0101"]),
}
VERBS = {"00000100": (["run"], ["@ 00000110 v 0000"]), "00000110": (["move"], [])}
ADJECTIVES = {
    "00000200": (["wet"], ["! 00000210 a 0101", "& 00000220 a 0000"]),
    "00000210": (["dry"], ["! 00000200 a 0101", "& 00000230 a 0000"]),
    "00000220": (["damp"], ["& 00000200 a 0000"]),
    "00000230": (["arid"], ["& 00000210 a 0000"]),
}


def write(folder, name, part, synsets, rare=()):
    """`index.NAME` and `data.NAME`, as wndb(5WN) has them."""
    licence = "  1 This software and database is being provided to you\n"
    data, index = [licence], {}
    for offset, (words, pointers) in synsets.items():
        kind = "s" if offset in ("00000220", "00000230") else part
        told = f"{offset} 03 {kind} {len(words):02x} " + "".join(f"{w} 0 " for w in words)
        told += f"{len(pointers):03d} " + "".join(f"{p} " for p in pointers)
        data.append(told + ("01 + 02 00 " if part == "v" else "") + '| a gloss ; "an example"\n')
        for word in words:
            index.setdefault(word, []).append(offset)
    lines = [licence]
    for word, offsets in sorted(index.items()):
        count, tagged = len(offsets), 0 if word in rare else 1
        lines.append(f"{word} {part} {count} 2 @ ~ {count} {tagged} {' '.join(offsets)}  \n")
    (folder / f"data.{name}").write_text("".join(data))
    (folder / f"index.{name}").write_text("".join(lines))
    (folder / f"{name}.exc").write_text("mice mouse\n" if part == "n" else "")


def small(folder):
    """All files of it; gives the folder."""
    write(folder, "noun", "n", NOUNS, rare=["puppy"])
    write(folder, "verb", "v", VERBS)
    write(folder, "adj", "a", ADJECTIVES)
    write(folder, "adv", "r", {})
    return folder
