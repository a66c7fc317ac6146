"""Linear models fitted in one pass over files in time order.

>>> from mixfree.streams import FitPlan, Source, StreamFit, find_files, write_page
>>> import tempfile
>>> from pathlib import Path
>>> path = Path(tempfile.mkdtemp()) / "log.csv"
>>> _ = path.write_text("x,load\\n" + "1,2.5\\n2,4.5\\n3,6.5\\n" * 500)
>>> source = Source(find_files([str(path)]))
>>> fit = StreamFit.begin(source, FitPlan("load"))
>>> fit.run(source.pieces())
>>> fit
<stream fit: load by exact with squared loss, 1 features, 1,500 rows>
>>> write_page(fit, path.with_name("report.html")) < 2_000_000
True
"""

from mixfree.streams.fit.plan import FitPlan
from mixfree.streams.fit.stream_fit import StreamFit
from mixfree.streams.predict import write_predictions
from mixfree.streams.read.files import StreamFile, find_files
from mixfree.streams.read.source import Source
from mixfree.streams.report.page import write_page

__all__ = [
    "FitPlan",
    "Source",
    "StreamFile",
    "StreamFit",
    "find_files",
    "write_page",
    "write_predictions",
]
