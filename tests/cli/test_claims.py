"""`regard claims`: list, run, draw, refuse."""

from regard.claims.rules import VERDICTS
from tests.cli.run import run


def test_the_list_has_every_claim_in_80_columns(capsys):
    ran = run(capsys, "claims")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line[:1] == "C" and line[1:3].isdigit() for line in lines) == 70
    rows = run(capsys, "claims", "--json").result["claims"]
    assert len(rows) == 70
    by_verdict = {
        verdict: run(capsys, "claims", "--verdict", verdict, "--json").result["claims"]
        for verdict in VERDICTS
    }
    assert sum(map(len, by_verdict.values())) == 70
    assert all(row["verdict"] == verdict for verdict, of in by_verdict.items() for row in of)


def test_a_claim_is_measured_decided_and_drawn(capsys, tmp_path):
    files = [str(tmp_path / name) for name in ("map.svg", "map.json")]
    ran = run(capsys, "claims", "c30", "-o", files[0], "-o", files[1], "--json")
    assert ran.code == 0
    assert ran.result["verdict"] == "confirmed"
    assert ran.result["values"]["largest error"][0] < 1e-6
    assert (tmp_path / "map.svg").read_text().count("<svg") == 1
    assert '"largest error"' in (tmp_path / "map.json").read_text()
    said = run(capsys, "claims", "C30", "--kept").out
    assert "verdict: CONFIRMED" in said
    assert "rule: E: largest error is at most 1e-05" in said


def test_a_quoted_claim_says_where_its_numbers_are_from(capsys):
    said = run(capsys, "claims", "C33").out
    assert "verdict: CONFIRMED (difference: +3.59 (p 0.001))" in said
    assert "measured by: regard compare translation/transformer-tiny-multi30k" in said


def test_what_is_wrong_is_refused_in_a_sentence(capsys, tmp_path):
    for words, sentence in (
        (["C71"], "there is no claim 'C71': did you mean 'C70'?"),
        (["--verdict", "confrmed"], "did you mean 'confirmed'?"),
        (["C30", "--verdict", "open"], "it chooses claims to list"),
        (["--kept"], "--kept: it needs one claim"),
        (["-o", "x.png"], "-o: it needs one claim"),
        (["C30", "-o", "x.bmp"], "pictures are written as"),
        (["C30", "-o", str(tmp_path / "no" / "x.png")], "a folder that is there"),
        (["C33", "-o", "x.png"], "C33 has no experiment to draw"),
        (["C30", "--kept", "-o", "x.png"], "--kept draws nothing"),
        (["C33", "--kept"], "--kept: C33 has no experiment"),
    ):
        ran = run(capsys, "claims", *words)
        assert ran.code == 2, words
        assert sentence in ran.err, words
