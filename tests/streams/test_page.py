"""The report page: complete, of bounded size, and safe from texts of the data."""

import html
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

from mixfree.linear.losses import Squared
from mixfree.streams import StreamFit
from mixfree.streams.fit.timeline import CHUNK, MAX_BINS
from mixfree.streams.report.facts import Facts
from mixfree.streams.report.figures import course, effects
from mixfree.streams.report.page import page
from tests.streams import data as streams
from tests.streams.data import run, table, write

SECTIONS = ("summary", "predicted", "loss", "weights", "correlation", "columns", "reproduce")
EVIL = "</script><script>window.hacked=1</script><img src=x onerror=hacked=1>'\"&$$x$$"


class Parsed(HTMLParser):
    """Sections, tags and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.sections, self.tags, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "section":
            self.sections.append(dict(attributes)["id"])
        assert not any(name.startswith("on") for name, _ in attributes)
        for name, value in attributes:
            assert name not in ("src", "href") or value.startswith("data:"), value

    def handle_data(self, data):
        self.texts.append(data)


def fitted(tmp_path, data, target="load", **parameters):
    return streams.fitted((data, tmp_path / "d.parquet"), target, parameters=parameters)


def evil_table():
    data = table()
    hours = np.datetime64("2024-01-01T00:00:00") + np.arange(len(data)) * np.timedelta64(1, "h")
    colour = pa.array([EVIL if text == "red" else text for text in data["colour"].to_pylist()])
    data = data.set_column(0, EVIL, data["u"]).set_column(2, "colour", colour)
    return data.append_column("when", pa.array(hours))


@pytest.mark.parametrize("target", ["load", "colour"])
def test_nothing_of_the_data_becomes_a_part_of_the_page(tmp_path, target):
    """Catches a name that is not escaped in the text or in the data of the figures."""
    text = page(fitted(tmp_path, evil_table(), target))
    found = Parsed(text)
    assert set(found.sections) == set(SECTIONS)
    assert found.tags.count("script") == text.count("<script") == text.count("</script>")
    assert "img" not in found.tags
    assert EVIL not in text
    assert any(EVIL[:40] in each for each in found.texts)


def test_a_page_needs_no_network_and_stays_small(tmp_path):
    """Catches a library loaded from elsewhere, and one point per row."""
    fit = fitted(tmp_path, table())
    rng = np.random.default_rng(0)
    for _ in range(11):
        rows, targets = np.zeros((CHUNK * 100, 0)), rng.standard_normal(CHUNK * 100)
        fit.timeline.renew(fit.timeline.until)
        fit.timeline.add(Squared(), rows, targets, np.zeros(0, "M8[us]"))
    assert len(fit.timeline.sums) > MAX_BINS // 2
    text = page(fit)
    assert len(text.encode()) < 2_000_000
    outside = text.replace("https://bokeh.org", "")
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=[\"']?https?:", outside)


@pytest.mark.parametrize(
    "parameters", [{"method": "ladder"}, {"half_life": 100}, {"method": "mag", "l2": 0.1}]
)
def test_every_method_has_a_page(tmp_path, parameters):
    """Catches a page that needs intervals, a profile or finite predictions."""
    found = Parsed(page(fitted(tmp_path, table(), **parameters)))
    assert set(found.sections) == set(SECTIONS)


def test_a_page_of_a_few_rows(tmp_path):
    """There are no predictions, no profile, no ends of intervals, and more rows to come."""
    fit = fitted(tmp_path, table(rows=5))
    fit.complete = False
    found = Parsed(page(fit))
    assert "The fit was stopped: the report covers the rows read so far." in found.texts
    assert set(found.sections) == set(SECTIONS)
    assert any("No row was predicted before it was learnt" in each for each in found.texts)
    assert "Too few rows for a picture over time: its bins have 1,000." in found.texts


def test_the_moment_of_a_change_is_named(tmp_path):
    """Catches noise named by comparing neighbouring bins, and changes missed by global means."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(30_000)
    noise = np.where(np.arange(len(x)) < 17_000, 0.5, 2.0) * rng.standard_normal(len(x))
    fit = fitted(tmp_path, pa.table({"x": x, "load": x + noise}))
    (said,) = course(fit).jumps.values()
    ends = re.fullmatch(r"RMSE rises from (.*) to (.*) at about row 17,001", said).groups()
    assert [*map(float, ends)] == pytest.approx([0.5, 2.0], rel=0.1)
    assert said in Parsed(page(fit)).texts


def test_effects_are_those_of_places_not_of_names(tmp_path):
    """Catches a column 'intercept' left out, and a column 'cat=b' scaled like the category b."""
    rng = np.random.default_rng(0)
    columns = {"intercept": rng.standard_normal(2000), "cat=b": 50.0 * rng.standard_normal(2000)}
    columns |= {"cat": rng.choice(["a", "b"], 2000)}
    columns["cat"][:1200] = "a"
    y = 3.0 * columns["intercept"] + columns["cat=b"] + 8.0 * (columns["cat"] == "b")
    fit = fitted(tmp_path, pa.table({**columns, "load": y + rng.standard_normal(2000)}))
    found = [(each.feature, round(abs(each.weight))) for each in effects(Facts(fit), 9)]
    assert found[0] == ("cat=b", 50)
    assert sorted(found[1:]) == [("cat=b", 3), ("intercept", 3)]


def test_the_command_takes_a_model_or_data(tmp_path, capsys):
    """Catches data fitted with other settings than those of ``mixfree fit``."""
    path, out = write(table(), tmp_path / "d.csv"), tmp_path / "r.html"
    assert run("fit", path, "--target", "load", "--model", tmp_path / "m", "-q") == 0
    assert run("report", tmp_path / "m", "-o", out) == 0
    assert "open it in a browser" in capsys.readouterr().out
    of_model = Parsed(out.read_text(encoding="utf-8")).texts
    assert f"mixfree fit {path} --target load --loss squared" in of_model
    assert run("report", path, "--target", "load", "-o", out, "-q") == 0
    of_data = Parsed(out.read_text(encoding="utf-8")).texts
    (told,) = (each for each in of_model if each.startswith("A linear model"))
    assert told in of_data
    capsys.readouterr()
    data = (tmp_path / "d.csv").read_bytes()
    (tmp_path / "m.html").write_bytes((tmp_path / "m").read_bytes())
    for arguments, said in (
        ([path], "not a mixfree model file; to fit data, give --target"),
        ([tmp_path / "m", "--target", "u"], "a model file has its own"),
        ([tmp_path / "m", "-o", path], "--output must end in .html"),
        ([tmp_path / "m.html", "-o", tmp_path / "m.html"], "which is an input"),
    ):
        assert run("report", *arguments) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert (tmp_path / "d.csv").read_bytes() == data


def test_the_command_that_reproduces_a_model_runs(tmp_path):
    """Catches names that a shell splits, a folder left out, and more files than are listed."""
    folder, target, text = tmp_path / "it's a $folder", 'lo`ad…\'s "x"', "co=lour, of"
    folder.mkdir()
    data = table().rename_columns(["u", "v,w", text, "on", target])
    for number in range(25):
        write(data[120 * number : 120 * (number + 1)], folder / f"day{number}.parquet")
        (folder / f"day{number}.parquet").rename(folder / f"day{number}")
    given = ["--target", target, "--leave-out", '"v,w",o*', "--set", "scale=none", "-q"]
    given += ["--set", f'categories="{text}"', "--set", "fit_intercept=false"]
    given += ["--set", "levels=3", "--method", "mag", "--format", "parquet", "--set", "seed=7"]
    files = [folder / f"day{number}" for number in range(25)]
    assert run("fit", *files, *given, "--model", tmp_path / "m") == 0
    assert run("report", tmp_path / "m", "-o", tmp_path / "r.html") == 0
    typed = html.unescape(re.search("<pre>(.*?)</pre>", (tmp_path / "r.html").read_text())[1])
    command = f"{sys.executable} -m {typed.replace('mixfree', 'mixfree.cli', 1)} -q"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    again, before = (StreamFit.load(tmp_path / name) for name in ("model.mixfree", "m"))
    assert again.plan == before.plan
    assert again.learner.weights.tobytes() == before.learner.weights.tobytes()
    assert again.used == before.used == 3000
