"""The style sheet of a report: light, dark, narrow, printed."""

__all__ = ["STYLE"]

# Blue, orange and green of the Okabe-Ito palette, lighter ones on a dark ground; every mark has a
# shape of its own besides.
_LIGHT = """
--ground:#ffffff;--panel:#f4f6f8;--text:#1b1f24;--quiet:#57606a;--line:#d0d7de;--grid:#dfe3e8;
--link:#0057a3;--best:#c44e00;--tied:#0072b2;--other:#5a6570;--twin:#007a5a;--marked:#fdf1e7;
"""
_DARK = """
--ground:#14171a;--panel:#1e2328;--text:#e8eaed;--quiet:#a9b1ba;--line:#3b434b;--grid:#30373e;
--link:#7cc0f5;--best:#ff9a4d;--tied:#62b6ea;--other:#a4adb6;--twin:#4cc9a0;--marked:#33271b;
"""

STYLE = f"""
:root{{color-scheme:light dark;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
*{{box-sizing:border-box}}
html{{-webkit-text-size-adjust:100%}}
body{{margin:0 auto;max-width:64rem;padding:1.25rem;background:var(--ground);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Noto Sans",
"DejaVu Sans",sans-serif;overflow-wrap:anywhere}}
a{{color:var(--link)}}
h1{{font-size:1.6rem;line-height:1.25;margin:0 0 .25rem}}
h2{{font-size:1.25rem;margin:2.25rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--line)}}
h3{{font-size:1rem;margin:0 0 .35rem}}
p{{margin:.5rem 0;max-width:46rem}}
ul{{margin:.5rem 0;padding-left:1.25rem}}
li{{margin:.2rem 0;max-width:46rem}}
code{{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.9em}}
.quiet,.none{{color:var(--quiet)}}
.none{{font-style:italic}}
.advice{{font-size:1.2rem;line-height:1.4;margin:1rem 0;padding:.9rem 1.1rem;max-width:none;
background:var(--panel);border-left:.4rem solid var(--best);border-radius:.2rem}}
p .name,li .name{{font-weight:600}}
.names .name{{font-weight:400}}
nav ul{{display:flex;flex-wrap:wrap;gap:.25rem 1rem;list-style:none;padding:0}}
nav li{{margin:0}}
nav a{{display:inline-block;padding:.25rem 0}}
.cards{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(22rem,100%),1fr));gap:1rem;
margin:1rem 0}}
.card{{background:var(--panel);border:1px solid var(--line);border-radius:.3rem;
padding:.8rem 1rem}}
.names{{display:flex;flex-wrap:wrap;gap:.3rem;list-style:none;padding:0}}
.names li{{border:1px solid var(--line);border-radius:1rem;padding:.05rem .65rem;
background:var(--ground)}}
.scroll{{overflow-x:auto;margin:1rem 0;max-width:100%}}
.scroll:focus-visible{{outline:2px solid var(--link);outline-offset:2px}}
table{{border-collapse:separate;border-spacing:0;font-size:.9rem;overflow-wrap:normal}}
caption{{text-align:left;color:var(--quiet);padding:0 0 .4rem}}
caption span{{display:inline-block;position:sticky;left:0;max-width:min(46rem,100vw - 2.5rem)}}
th,td{{padding:.35rem .7rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}}
thead th{{border-bottom:2px solid var(--line);vertical-align:bottom;line-height:1.25}}
tbody th{{font-weight:600}}
.number{{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}}
thead .number{{white-space:normal;min-width:3.5rem}}
thead th:not(.number){{min-width:6.5rem}}
tbody th .long{{font-weight:400}}
table tbody tr.marked>*{{background:var(--marked)}}
td .whole,th .whole{{display:block;width:max-content;max-width:15rem;overflow-wrap:break-word}}
table:not(.all) .whole{{display:-webkit-box;-webkit-box-orient:vertical;
-webkit-line-clamp:4;overflow:hidden}}
.long{{display:block;min-width:14rem;max-width:34rem;overflow-wrap:anywhere}}
figure{{margin:1rem 0}}
figcaption{{color:var(--quiet);font-size:.9rem;max-width:46rem}}
svg{{display:block;width:100%;overflow:visible}}
svg text{{font-size:12px;fill:var(--quiet);font-family:inherit}}
svg svg{{display:inline}}
.rows{{display:grid;grid-template-columns:minmax(7rem,22%) minmax(0,1fr);column-gap:1rem;
margin:.5rem 0}}
.rows.valued{{grid-template-columns:minmax(7rem,22%) minmax(0,1fr) auto}}
.rows>*{{min-width:0}}
.label{{align-self:center;font-size:.9rem;line-height:1.2;padding:.3rem 0;overflow-wrap:anywhere}}
.label .mark,.key .mark{{font-weight:400;color:var(--quiet)}}
.value{{align-self:center;font-size:.9rem;padding:.2rem 0;text-align:right;
font-variant-numeric:tabular-nums;white-space:nowrap}}
.strip{{position:relative;min-height:26px}}
.strip>svg{{position:absolute;inset:0;height:100%}}
.key{{display:flex;flex-wrap:wrap;gap:.2rem 1.25rem;list-style:none;padding:0;font-size:.9rem}}
.key svg{{display:inline-block;width:1.5rem;height:1rem;vertical-align:-.15rem}}
.grid{{stroke:var(--grid);stroke-width:1}}
.best{{fill:var(--best);stroke:var(--best)}}
.tied{{fill:var(--tied);stroke:var(--tied)}}
.other{{fill:var(--ground);stroke:var(--other)}}
.twin{{fill:none;stroke:var(--twin)}}
.dot{{stroke-width:2}}
.bar{{stroke-width:3}}
.bar.other{{stroke:var(--other)}}
svg .rank{{fill:var(--text);font-size:12px}}
.extraction{{fill:var(--tied)}}
.scoring{{fill:var(--best)}}
footer{{margin-top:2.5rem;padding-top:.75rem;border-top:1px solid var(--line);
color:var(--quiet);font-size:.9rem}}
@media (max-width:40rem){{
body{{padding:.9rem}}
h1{{font-size:1.35rem}}
.advice{{font-size:1.08rem}}
.rows{{grid-template-columns:minmax(0,1fr)}}
.rows.valued{{grid-template-columns:minmax(0,1fr) auto}}
.rows .label{{padding:.45rem 0 0}}
.rows.valued .label{{grid-column:1/-1}}
td .whole,th .whole{{max-width:10rem}}
thead .number{{min-width:6rem}}
thead th:not(.number){{min-width:9rem}}
thead th:first-child{{min-width:0}}
.named .heading,.named tbody th{{position:sticky;left:0;background:var(--ground);z-index:1}}
.long{{max-width:18rem}}
}}
@media print{{
:root{{color-scheme:light;{_LIGHT}}}
body{{max-width:none;padding:0;font-size:10.5pt}}
nav{{display:none}}
.scroll{{overflow:visible}}
table{{font-size:8pt}}
th,td{{padding:.15rem .35rem}}
thead th,thead th:not(.number){{min-width:0}}
td .whole,th .whole,.long{{min-width:0;max-width:12rem}}
tr,figure,.card,.advice{{break-inside:avoid}}
h2,caption{{break-after:avoid}}
*{{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
}}
"""
