"""The page's looks, light and dark. Nothing in it is fetched."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #f6f5f1; --card: #ffffff; --ink: #1f2328; --soft: #5d646d; --line: #dedbd2;
  --c0: #1f5f4a; --c1: #b4540a; --c2: #3457b1; --c3: #9c2f6b; --c4: #6b5d00; --c5: #51606e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171a; --card: #1d2125; --ink: #e8e6e1; --soft: #a3a9b0; --line: #353b41;
    --c0: #7cc4a8; --c1: #f0a35e; --c2: #8fb0ff; --c3: #f08fc0; --c4: #d9c957; --c5: #b4c2cf;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, "Hiragino Sans", "Noto Sans CJK JP", "Noto Sans JP", sans-serif;
}
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { margin: 0; font-size: 1.5rem; line-height: 1.3; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 0.75rem; font-size: 1.125rem; overflow-wrap: anywhere; }
p { margin: 0.25rem 0; overflow-wrap: anywhere; }
ul { padding-left: 1.25rem; overflow-wrap: anywhere; }
[lang=ja] { color: var(--soft); font-weight: normal; font-size: 0.875em; }
.soft { color: var(--soft); }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 0.5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.75rem; border-top: 1px solid var(--line); text-align: right; vertical-align: top; }
thead th, thead td { border-top: 0; }
thead td { text-align: left; }
thead th { max-width: 14rem; overflow-wrap: anywhere; }
tbody th { min-width: 9rem; font-weight: normal; text-align: left; position: sticky; left: 0; background: var(--card); }
tbody th [lang=ja] { display: inline-block; line-height: 1.3; }
td.whole { white-space: nowrap; }
tr.group th { font-weight: bold; padding-top: 0.9rem; }
.plots {
  margin-top: 1.25rem; display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr));
}
figure { margin: 0; padding: 1rem; background: var(--card); border: 1px solid var(--line); border-radius: 0.5rem; }
figcaption { margin-bottom: 0.5rem; font-weight: 600; line-height: 1.35; }
figcaption [lang=ja] { display: block; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 12px; }
.axis { stroke: var(--soft); fill: none; }
.grid { stroke: var(--line); fill: none; }
.limit { stroke: var(--c1); fill: none; stroke-width: 1.25; stroke-dasharray: 4 3; }
.line { stroke: var(--c); fill: none; stroke-width: 1.75; stroke-linejoin: round; }
.area { fill: var(--c); fill-opacity: 0.75; }
.area.waits { fill-opacity: 0.3; }
.dot { fill: var(--c); }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); }
.c3 { --c: var(--c3); } .c4 { --c: var(--c4); } .c5 { --c: var(--c5); }
.d1 { stroke-dasharray: 6 2; } .d2 { stroke-dasharray: 2 2; }
.d3 { stroke-dasharray: 8 2 2 2; } .d4 { stroke-dasharray: 10 3; }
.verdicts { list-style-position: inside; padding: 0; }
.verdicts li, .advice {
  margin-top: 0.75rem; padding: 0.75rem 1rem;
  background: var(--card); border: 1px solid var(--line); border-radius: 0.5rem;
}
.state { display: inline-block; padding: 0 0.5rem; border: 1px solid currentcolor; border-radius: 1rem; }
.state.holds, .state.holds [lang=ja] { color: var(--c0); }
.state.fails, .state.fails [lang=ja] { color: var(--c3); font-weight: bold; }
.state.unknown { color: var(--soft); }
.key { list-style: none; display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; margin: 0.5rem 0 0; padding: 0; }
.key li { font-size: 0.8125rem; }
.key svg { display: inline-block; width: 24px; height: 10px; margin-right: 0.4rem; vertical-align: baseline; }
@media (max-width: 40rem) { table { font-size: 0.875rem; } th, td { padding: 0.3rem 0.5rem; } }
@media print { figure, tr { break-inside: avoid; } }
"""
