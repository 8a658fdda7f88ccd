import { PAGE_COLORS } from '../pages/page-theme.ts';

/** Style of the reference page; its digest is part of the page's content security policy. */
export const PAGE_STYLE = `
${PAGE_COLORS}* { box-sizing: border-box; }
html { scroll-padding-top: 4.5rem; }
body { margin: 0; font: 15px/1.55 system-ui, sans-serif; color: var(--text); background: var(--ground); }
header { position: sticky; top: 0; z-index: 1; display: flex; gap: 1rem; align-items: center; flex-wrap: wrap; padding: .7rem 1.2rem; background: var(--ground); border-bottom: 1px solid var(--line); }
header h1 { font-size: 1.05rem; margin: 0; }
header span { color: var(--soft); }
input { flex: 1; min-width: 12rem; max-width: 30rem; padding: .4rem .7rem; font: inherit; color: inherit; background: var(--raised); border: 1px solid var(--line); border-radius: 6px; }
.columns { display: grid; grid-template-columns: 17rem minmax(0, 1fr); max-width: 86rem; margin: 0 auto; }
nav { position: sticky; top: 3.8rem; align-self: start; max-height: calc(100vh - 3.8rem); overflow: auto; padding: 1rem 1.2rem; font-size: .9rem; }
nav h2 { margin: 1rem 0 .3rem; font-size: .75rem; text-transform: uppercase; letter-spacing: .06em; color: var(--soft); }
nav a { display: block; padding: .12rem 0; color: inherit; text-decoration: none; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
nav a:hover { color: var(--accent); }
main { padding: 1rem 1.6rem 6rem; min-width: 0; }
section { padding: 1.2rem 0 1.6rem; border-bottom: 1px solid var(--line); }
h2 { font-size: 1.4rem; margin: 1.5rem 0 .4rem; }
h3 { font-size: 1.05rem; margin: 0 0 .3rem; }
h4 { font-size: .85rem; margin: 1.1rem 0 .3rem; color: var(--soft); }
code, pre { font: .87em/1.5 ui-monospace, Menlo, Consolas, monospace; }
code { background: var(--raised); padding: .08em .3em; border-radius: 4px; overflow-wrap: anywhere; }
pre { background: var(--raised); padding: .8rem 1rem; border-radius: 6px; overflow-x: auto; }
.method { font: 600 .78rem ui-monospace, Menlo, monospace; text-transform: uppercase; }
.get { color: var(--get); } .post { color: var(--post); } .delete { color: var(--delete); }
.scope { font-size: .78rem; color: var(--soft); border: 1px solid var(--line); border-radius: 99px; padding: .05rem .6rem; }
table { width: 100%; border-collapse: collapse; font-size: .92rem; }
th { text-align: left; font-weight: 600; font-size: .8rem; color: var(--soft); }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:first-child { white-space: nowrap; }
details td:first-child { white-space: normal; width: 17rem; }
.type { color: var(--soft); }
summary { cursor: pointer; color: var(--soft); font-size: .85rem; }
a { color: var(--accent); }
[hidden] { display: none; }
@media (max-width: 60rem) { .columns { grid-template-columns: minmax(0, 1fr); } nav { position: static; max-height: 30vh; border-bottom: 1px solid var(--line); } td:first-child { white-space: normal; } td { overflow-wrap: anywhere; } main { padding: 1rem; } input { min-width: 0; } }
`;
