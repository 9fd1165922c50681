"""Names in figures are shown letter by letter, or as a number that key.csv explains."""
import matplotlib.pyplot as plt
import pytest

from stages.plot import STYLE, Labels, ledger

HOSTILE = ["$x_1$", "<b>bold</b>", "_first", "with space", "it's \"quoted\"", "50% \\alpha^2 & #~", "caf\u00e9", "$unbalanced", "{brace"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_shown_letter_by_letter(name, tmp_path):
    rows = [{"run": run, "space": "h", "factor": name, "probe": "knn", "mean": "0.5", "low": "0.4", "high": "0.6", "chance": "0.5",
             "n": "240", "seeds": "5"} for run in (name, "other")]
    with plt.rc_context(STYLE):
        figure = ledger(rows, [name, "other"], [name, "none"], Labels())
        figure.savefig(tmp_path / "a.png")
        figure.savefig(tmp_path / "b.png")
    axes = figure.axes[0]
    shown = [axes.title.get_text(), axes.get_title(loc="left"), *(tick.get_text() for tick in axes.get_yticklabels())]
    assert shown == ["", name, name, "other", "pixels"]
    assert not any(text.get_parse_math() for text in figure.findobj(plt.Text))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_name_without_glyphs_or_with_marks_of_direction_becomes_its_number():
    labels = Labels()
    assert [labels(name) for name in ("猫", "a\nb", "\u202eevil", "猫")] == ["[1]", "[2]", "[3]", "[1]"]
    assert labels.key == {"猫": 1, "a\nb": 2, "\u202eevil": 3}


def test_two_long_names_that_begin_alike_stay_apart():
    labels, first, second = Labels(), "n" * 80, "n" * 79 + "m"
    assert labels(first) == "n" * 17 + "… [1]" and labels(second) == "n" * 17 + "… [2]" and len(labels(first)) == 22
    assert labels.key == {first: 1, second: 2}
