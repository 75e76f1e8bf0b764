"""Colours and rules of style, for light and dark, screen and paper. No colour here carries a meaning alone."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DARK", "DRAWING", "LIGHT", "PAGE", "contrast"]

LIGHT: Mapping[str, str] = {
    "paper": "#ffffff",
    "panel": "#f6f7f9",
    "ink": "#1b1f24",
    "dim": "#57606a",
    "line": "#d0d7de",
    "grace": "#fff1c9",
    "stop": "#b42318",
    "done": "#17733f",
    "failed": "#b42318",
    "stopped": "#9a5b00",
    "going": "#0b63c5",
    "unknown": "#7a3e9d",
    "ended": "#57606a",
    "never": "#57606a",
    "elsewhere": "#0f6f78",
}
DARK: Mapping[str, str] = {
    "paper": "#14171b",
    "panel": "#1d2127",
    "ink": "#e8eaed",
    "dim": "#a3acb7",
    "line": "#3b434d",
    "grace": "#4a3b12",
    "stop": "#ff8a7d",
    "done": "#4fc38a",
    "failed": "#ff8a7d",
    "stopped": "#e5a84b",
    "going": "#6cb2ff",
    "unknown": "#cf9bf0",
    "ended": "#a3acb7",
    "never": "#a3acb7",
    "elsewhere": "#5cc7d1",
}
_LOOKS = ("done", "failed", "stopped", "going", "unknown", "ended", "never", "elsewhere")


def _light_of(colour: str) -> float:
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """How well one colour is told from another, from 1 to 21, as WCAG reckons it."""
    dark, light = sorted((_light_of(one), _light_of(other)))
    return (light + 0.05) / (dark + 0.05)


def _names(colours: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


_THEMES = (
    f":root{{color-scheme:light dark;{_names(LIGHT)}}}\n"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_names(DARK)}}}}}\n"
    "@media print{:root{color-scheme:light;print-color-adjust:exact;-webkit-print-color-adjust:exact}}\n"
)

#: for the drawing, in a page and alone
DRAWING = (
    _THEMES
    + """\
.drawing{font:12px ui-sans-serif,system-ui,"Segoe UI","DejaVu Sans",sans-serif}
.drawing{fill:var(--ink);display:block}
.drawing .paper{fill:var(--paper)}
.drawing .lane{font-weight:600;font-size:13px}
.drawing .dim{fill:var(--dim)}
.drawing .tick{fill:var(--dim);font-size:11px}
.drawing .end{text-anchor:end}
.drawing .mid{text-anchor:middle}
.drawing .grid{stroke:var(--line);stroke-width:1}
.drawing .stripe{fill:var(--panel)}
.drawing .grace{fill:var(--grace);stroke:var(--dim);stroke-width:1;stroke-dasharray:1 3}
.drawing .stop{stroke:var(--stop);stroke-width:2;fill:none}
.drawing .stopsign{fill:var(--stop);stroke:none}
.drawing .now{stroke:var(--dim);stroke-width:1.5;stroke-dasharray:5 3;fill:none}
.drawing .words{font-size:11.5px;font-weight:600}
.drawing .mark{stroke:var(--ink);stroke-width:1.5}
.drawing .sent{font-size:9.5px;font-weight:600}
.drawing .inside{font-size:10.5px}
.drawing .sent,.drawing .inside,.drawing .halo{stroke:var(--paper);stroke-width:3.5px;paint-order:stroke}
.drawing .hatched{stroke-width:1.2;stroke-dasharray:3 2}
.drawing .hatching{stroke-width:1.6;fill:none}
.drawing .sign{stroke-width:1.8;fill:none;stroke-linecap:round;stroke-linejoin:round}
.drawing .back{fill:var(--paper)}
.drawing .sign.over{stroke:var(--paper)}
.drawing .untimed{fill:none;stroke:var(--dim);stroke-dasharray:2 3}
"""
    + "".join(
        f".{look} .solid{{fill:var(--{look});stroke:none}}"
        f".{look} .line,.{look} .sign,.{look} .hatched,.{look} .hatching{{stroke:var(--{look})}}"
        f".{look} .word{{fill:var(--{look});color:var(--{look})}}\n"
        for look in _LOOKS
    )
    + "@media (forced-colors:active){.drawing{forced-color-adjust:none}}\n"
)

#: for the page around it
PAGE = """\
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink)}
body{font:15px/1.5 ui-sans-serif,system-ui,"Segoe UI","DejaVu Sans",sans-serif}
main{max-width:1128px;margin:0 auto;padding:24px}
h1{font-size:22px;line-height:1.3;margin:0 0 4px;overflow-wrap:anywhere}
h1 code{font-size:inherit}
h2{font-size:16px;margin:32px 0 8px}
p{margin:0 0 8px;overflow-wrap:anywhere}
code{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;font-size:.92em}
.state{display:inline-flex;align-items:center;gap:7px;font-weight:600}
.state{border:1.5px solid currentColor;border-radius:5px;padding:1px 10px;margin:4px 0 8px}
.dim,footer,.note{color:var(--dim)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(290px,1fr));gap:12px;margin:16px 0 0}
.card{background:var(--panel);border:1px solid var(--line);border-radius:6px;padding:10px 14px;min-width:0}
.card.wide{grid-column:1/-1}
.card h2{margin:0 0 6px;font-size:13px;text-transform:uppercase;letter-spacing:.05em;color:var(--dim)}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 12px;margin:0}
.card.wide dl{grid-template-columns:max-content minmax(0,1fr) max-content minmax(0,1fr)}
.card.wide dt.whole{grid-column:1}.card.wide dd.whole{grid-column:2/-1}
dt{color:var(--dim)}
dd{margin:0;overflow-wrap:anywhere}
figure{margin:0}
figure svg{width:100%;height:auto}
.narrow{display:none}
ul.key{list-style:none;display:flex;flex-wrap:wrap;gap:4px 20px;padding:0;margin:12px 0 0;font-size:13px}
ul.key li{display:flex;align-items:center;gap:7px}
ul.key svg{width:34px;height:14px;flex:none}
.gaps{border-left:4px solid var(--unknown);padding:2px 0 2px 14px;margin:0}
.gaps ul{margin:0;padding-left:18px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px}
th{text-align:left;color:var(--dim);font-weight:600;white-space:nowrap}
th,td{padding:4px 14px 4px 0;border-bottom:1px solid var(--line);vertical-align:top}
td{overflow-wrap:anywhere;min-width:5em}
td.when{white-space:nowrap;font-variant-numeric:tabular-nums}
td.name{min-width:12em}
td.more{min-width:20em}
td .word{font-weight:600;white-space:nowrap;display:inline-flex;align-items:center;gap:6px}
td svg{width:12px;height:12px;flex:none}
.state svg{width:16px;height:16px}
footer{margin:32px 0 0;font-size:13px}
@media (max-width:640px){
main{padding:14px}.wide-drawing{display:none}.narrow{display:block}.cards{grid-template-columns:minmax(0,1fr)}
.card.wide dl{grid-template-columns:max-content minmax(0,1fr)}
thead{display:none}table,tbody,tr,td{display:block}
tr{padding:8px 0;border-bottom:1px solid var(--line)}
td{border:0;padding:0;min-width:0}
td.when{display:inline;margin-right:10px}td.name{font-weight:600}td.name,td.more{min-width:0}
td[data-label]::before{content:attr(data-label) " ";color:var(--dim);font-weight:400}
td:empty{display:none}
}
@media print{
main{max-width:none;padding:0}
@page{margin:14mm}
.wide-drawing{display:block}.narrow{display:none}
svg,.card,tr,.gaps li{break-inside:avoid}
h2{break-after:avoid}
thead{display:table-header-group}
body{font-size:10pt}table{font-size:8pt}th,td{padding-right:8px}td.name,td.more{min-width:11em}
td .word{white-space:normal;overflow-wrap:normal}
.scroll{overflow:visible}
}
"""
