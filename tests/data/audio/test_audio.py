"""Sounds: what is read, what is refused and in which words, and other rates."""

import tarfile

import numpy as np
import pytest

from regard.data.audio.audio import SoundError, located, resampled, samples

soundfile = pytest.importorskip("soundfile")


def tone(rate, seconds=0.5, hertz=440.0, channels=1):
    t = np.arange(round(rate * seconds)) / rate
    one = 0.5 * np.sin(2 * np.pi * hertz * t)
    return np.stack([one] * channels, 1)


def written(path, rate=16_000, kind=None, **made):
    soundfile.write(path, tone(rate, **made), rate, subtype=kind)
    return located(str(path))


@pytest.mark.parametrize("rate", [8_000, 11_025, 44_100, 96_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_rates_and_channels(tmp_path, rate, channels):
    found, said = samples(written(tmp_path / "a.wav", rate, channels=channels))
    assert said == rate
    np.testing.assert_allclose(found, tone(rate)[:, 0], atol=1e-4)
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("name", "kind", "tolerance"),
    [("a.flac", "PCM_24", 1e-6), ("a.ogg", None, 0.05), ("a.wav", "FLOAT", 1e-7)],
)
def test_formats(tmp_path, name, kind, tolerance):
    found, _ = samples(written(tmp_path / name, kind=kind))
    assert len(found) == 8000
    assert np.abs(found - tone(16_000)[:, 0])[200:-200].max() < tolerance


def test_a_sound_in_an_archive_is_read_in_place(tmp_path):
    whole = tmp_path / "a.wav"
    written(whole)
    with tarfile.open(tmp_path / "train.tar", "w") as archive:
        archive.add(whole, "deep/a.wav")
    whole.rename(tmp_path / "moved.wav")
    table = str(tmp_path / "train.tsv")
    for address, file in (("deep/a.wav", table), (f"{tmp_path}/train.tar#deep/a.wav", "")):
        found, rate = samples(located(address, file))
        assert (len(found), rate) == (8000, 16_000)
    with pytest.raises(SoundError, match=r"no such sound .*train\.tar has no 'b\.wav'"):
        samples(located("b.wav", table))


def refused(path):
    with pytest.raises(SoundError) as error:
        samples(located(str(path)))
    return str(error.value)


def test_what_is_no_sound_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(b"")
    assert refused(path) == "empty sound (0 bytes)"
    path.write_text("this is a text", encoding="utf-8")
    assert refused(path).startswith("no sound (")
    soundfile.write(path, np.zeros((0, 1)), 16_000)
    assert refused(path) == "empty sound (no samples)"
    soundfile.write(path, np.zeros(10), 1_000)
    assert refused(path) == "strange rate (1,000 samples a second)"
    soundfile.write(path, np.array([0.0, np.nan]), 16_000, subtype="FLOAT")
    assert refused(path) == "damaged sound (samples that are no numbers)"
    with pytest.raises(SoundError, match="no such sound"):
        located(str(tmp_path / "nowhere.wav"))


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "a.flac"
    rng = np.random.default_rng(1)
    soundfile.write(path, rng.uniform(-0.5, 0.5, 16_000), 16_000)
    whole = path.read_bytes()
    for share in (0.9, 0.5, 0.01):
        path.write_bytes(whole[: int(len(whole) * share)])
        assert refused(path).startswith("damaged sound (")


def test_a_wav_file_that_ends_too_soon_is_refused_unless_it_was_written_to_a_pipe(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, np.linspace(-0.5, 0.5, 1_000), 8_000)
    whole = path.read_bytes()
    at = whole.index(b"data") + 4
    path.write_bytes(whole[:1_044])
    assert refused(path) == "damaged sound (1,000 of 2,000 bytes of samples)"
    path.write_bytes(whole[:at] + b"\xff\xff\xff\xff" + whole[at + 4 :])
    assert len(samples(located(str(path)))[0]) == 1_000


@pytest.mark.parametrize(("rate", "wanted"), [(8_000, 16_000), (44_100, 16_000), (16_000, 8_000)])
def test_another_rate_is_the_same_sound(rate, wanted):
    found = resampled(tone(rate, 1.0)[:, 0].astype(np.float32), rate, wanted)
    expected = tone(wanted, 1.0)[:, 0]
    assert len(found) == len(expected)
    inside = slice(wanted // 20, -wanted // 20)
    np.testing.assert_allclose(found[inside], expected[inside], atol=2e-3)


def test_what_a_rate_cannot_hold_is_cut_off():
    found = resampled(tone(16_000, 1.0, 6_000.0)[:, 0].astype(np.float32), 16_000, 8_000)
    assert np.abs(found[400:-400]).max() < 0.01


def test_numbers_of_sixteen_bits_in_floats_are_divided(tmp_path):
    values = np.round(tone(16_000) * 32767)
    soundfile.write(tmp_path / "a.wav", values.astype(np.float32), 16_000, subtype="FLOAT")
    found, _ = samples(located(str(tmp_path / "a.wav")))
    np.testing.assert_allclose(found, values[:, 0] / 32768, atol=1e-6)
    soundfile.write(tmp_path / "b.wav", values * 2.1, 16_000, subtype="FLOAT")
    with pytest.raises(SoundError, match="from -1 to 1 expected"):
        samples(located(str(tmp_path / "b.wav")))


def test_samples_that_were_not_announced_and_gsm(tmp_path):
    made = written(tmp_path / "a.wav")
    raw = bytearray((tmp_path / "a.wav").read_bytes())
    at = raw.index(b"data") + 4
    raw[at : at + 4] = bytes(4)
    (tmp_path / "b.wav").write_bytes(raw)
    np.testing.assert_array_equal(samples(located(str(tmp_path / "b.wav")))[0], samples(made)[0])
    soundfile.write(tmp_path / "c.wav", tone(8_000)[:, 0], 8_000, subtype="GSM610")
    found, rate = samples(located(str(tmp_path / "c.wav")))
    assert rate == 8_000
    assert np.corrcoef(found[:4_000], tone(8_000)[:, 0])[0, 1] > 0.9
