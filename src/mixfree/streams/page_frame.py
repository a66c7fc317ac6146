"""The frame of a report page: HTML head, style and script."""

__all__ = ["MARK", "PAGE", "PAINT", "STYLE"]

MARK = b'content="mixfree report"'  # in the head of every page
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="mixfree report">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
{library}
</head>
<body>
<main>
<h1>{heading}</h1>
{body}
</main>
{script}
{paint}
</body>
</html>
"""
STYLE = """
:root { --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --line: #d9dee3; --warn: #9a3d00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --soft: #a5adb6; --paper: #14171a; --line: #343a41; --warn: #ffab70; }
}
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); }
figure { margin: .5rem 0; min-width: 0; }
figcaption { color: var(--soft); font-size: .87rem; }
p, li { overflow-wrap: anywhere; }
.warning { color: var(--warn); font-weight: 600; }
p span, li span, td span { white-space: nowrap; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td { overflow-wrap: break-word; font-variant-numeric: tabular-nums; }
td:first-child { min-width: 9rem; max-width: 26rem; }
pre { border: 1px solid var(--line); border-radius: 4px; padding: .7rem; overflow-x: auto; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
  gap: 1rem; }
summary { cursor: pointer; color: var(--soft); }
"""
# The figures are drawn on canvases, to which the style of the page does not apply.
PAINT = """<script>
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function paint() {
    const style = getComputedStyle(document.documentElement);
    const [ink, line] = ["--ink", "--line"].map((name) => style.getPropertyValue(name).trim());
    for (const drawn of Bokeh.documents) for (const figure of drawn.roots()) {
      figure.title.text_color = ink;
      for (const side of [figure.below, figure.left]) for (const axis of side) {
        axis.axis_label_text_color = ink;
        axis.major_label_text_color = ink;
        axis.axis_line_color = line;
        axis.major_tick_line_color = line;
        axis.minor_tick_line_color = null;
      }
      for (const each of figure.center) if ("grid_line_color" in each) each.grid_line_color = line;
      for (const each of figure.above) if ("label_text_color" in each) each.label_text_color = ink;
    }
    document.documentElement.dataset.painted = dark.matches ? "dark" : "light";
  }
  function wait() {
    const all = document.querySelectorAll("figure").length;
    const there = Bokeh.documents.reduce((count, each) => count + each.roots().length, 0);
    if (there < all) setTimeout(wait, 30); else paint();
  }
  dark.addEventListener("change", paint);
  wait();
})();
</script>"""
