import { Html, html } from '../pages/html.ts';
import { PAGE_ICON } from '../pages/page-icon.ts';
import { PAGE_COLORS, THEME_SCRIPT } from '../pages/page-theme.ts';
import { SEARCH_KEY_SCRIPT } from '../pages/search-key.ts';
import type { Guide } from './guide-library.ts';
import type { GuideHit } from './guide-search.ts';
import { renderMarkdown } from './markdown.ts';

const STYLE = `
${PAGE_COLORS}* { box-sizing: border-box; }
html { scroll-padding-top: 4.5rem; }
body { margin: 0; font: 15px/1.6 system-ui, sans-serif; color: var(--text); background: var(--ground); }
header { position: sticky; top: 0; z-index: 1; display: flex; gap: .6rem 1rem; align-items: center; flex-wrap: wrap; padding: .7rem 1.2rem; background: var(--ground); border-bottom: 1px solid var(--line); }
header > a:first-child { font-weight: 600; color: inherit; text-decoration: none; }
form { flex: 1; min-width: 12rem; max-width: 30rem; display: flex; gap: .4rem; }
input, button { padding: .4rem .7rem; font: inherit; color: inherit; background: var(--raised); border: 1px solid var(--line); border-radius: 6px; }
input { flex: 1; min-width: 0; }
.columns { display: grid; grid-template-columns: 16rem minmax(0, 50rem); gap: 0 2.5rem; max-width: 76rem; margin: 0 auto; }
nav.menu { position: sticky; top: 3.8rem; align-self: start; max-height: calc(100vh - 3.8rem); overflow: auto; padding: 1rem 1.2rem 2rem; font-size: .9rem; }
nav.menu summary { margin: .7rem 0 .2rem; font-weight: 600; color: var(--soft); cursor: pointer; }
nav.menu a { display: block; padding: .12rem 0; color: inherit; text-decoration: none; }
nav.menu a:hover, nav.menu a[aria-current] { color: var(--accent); }
nav.menu a[aria-current] { font-weight: 600; }
main { padding: 1.2rem 1.2rem 5rem; min-width: 0; overflow-wrap: break-word; }
h1 { font-size: 1.8rem; line-height: 1.25; margin: .3rem 0 1rem; }
h2 { font-size: 1.35rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
code, pre { font: .88em/1.5 ui-monospace, Menlo, Consolas, monospace; }
code { background: var(--raised); padding: .08em .3em; border-radius: 4px; overflow-wrap: anywhere; }
pre { background: var(--raised); padding: .8rem 1rem; border-radius: 6px; overflow-x: auto; }
pre code { padding: 0; background: none; overflow-wrap: normal; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
blockquote { margin: 1rem 0; padding: 0 1rem; border-left: 3px solid var(--line); color: var(--soft); }
.wide { overflow-x: auto; margin: 1rem 0; }
.wide code { overflow-wrap: normal; }
table { border-collapse: collapse; font-size: .92rem; }
th { text-align: left; font-weight: 600; color: var(--soft); }
th, td { padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; min-width: 5rem; }
a { color: var(--accent); }
.place { color: var(--soft); font-size: .85rem; margin: 0; }
.hits { list-style: none; padding: 0; }
.hits li { margin: 0 0 1.1rem; }
.hits p { margin: .1rem 0 0; color: var(--soft); }
.hits small { color: var(--soft); }
.next { display: flex; justify-content: space-between; gap: 1rem; margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); }
@media (max-width: 60rem) { .columns { grid-template-columns: minmax(0, 1fr); } nav.menu { position: static; max-height: none; padding: .4rem 1.2rem; border-bottom: 1px solid var(--line); } main { padding-top: .6rem; } }
`;

const SCRIPT = `
${THEME_SCRIPT}${SEARCH_KEY_SCRIPT}// The menu is open where it is next to the text, and folded above it.
const isWide = matchMedia('(min-width: 60.01rem)');
const setMenu = () => (document.querySelector('nav.menu > details').open = isWide.matches);
isWide.addEventListener('change', setMenu);
setMenu();
`;

/** Page of a document, with the menu of all. */
export function renderGuide(guide: Guide, guides: readonly Guide[]): string {
  const at = guides.indexOf(guide);
  const [previous, next] = [guides[at - 1], guides[at + 1]];
  const main = html`<p class="place">${guide.section}</p>
    <h1>${guide.title}</h1>
    ${renderMarkdown(guide.body)}
    <div class="next">
      ${previous === undefined ? html`<span></span>` : html`<a href="${previous.href}" rel="prev">← ${previous.title}</a>`}
      ${next === undefined ? null : html`<a href="${next.href}" rel="next">${next.title} →</a>`}
    </div>`;
  return framed({ title: guide.title, guides, current: guide.href, main });
}

/** Page of a search. @param hits guides before documents about the inside */
export function renderHits(query: string, hits: readonly GuideHit[], guides: readonly Guide[]): string {
  const inside = hits.filter(({ isInside }) => isInside);
  const outside = hits.filter(({ isInside }) => !isInside);
  const main = html`<h1>${query === '' ? 'Search' : `Search: ${query}`}</h1>
    ${query === '' ? html`<p>Type some words, in any order.</p>` : null}
    ${query !== '' && hits.length === 0 ? html`<p>No document has most of these words.</p>` : null}
    ${
      outside.length === 0
        ? null
        : html`<h2>Guides and reference</h2>
            ${renderHitList(outside)}`
    }
    ${
      inside.length === 0
        ? null
        : html`<h2>How it is built</h2>
            ${renderHitList(inside)}`
    }`;
  return framed({ title: 'Search', guides, query, main });
}

/** Page for an address without a document. */
export function renderMissingGuide(guides: readonly Guide[]): string {
  const main = html`<h1>No document has this address</h1>
    <p>Choose one in the menu, or search for some words.</p>`;
  return framed({ title: 'Not found', guides, main });
}

function renderHitList(hits: readonly GuideHit[]): Html {
  return html`<ul class="hits">
    ${hits.map(
      ({ title, heading, href, excerpt, missing }) =>
        html`<li>
          <a href="${href}">${title}${heading === null ? '' : ` › ${heading}`}</a>
          ${missing.length === 0 ? null : html`<small>without ${missing.join(', ')}</small>`}
          <p>${excerpt}</p>
        </li>`,
    )}
  </ul>`;
}

interface Frame {
  readonly title: string;
  readonly guides: readonly Guide[];
  /** Address of the document. */
  readonly current?: string;
  readonly query?: string;
  readonly main: Html;
}

function framed({ title, guides, current, query = '', main }: Frame): string {
  const sections = Map.groupBy(guides, ({ section }) => section);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <link rel="icon" href="${PAGE_ICON}" />
        <title>${title} · Trainyard guides</title>
        <style>
          ${new Html(STYLE)}
        </style>
      </head>
      <body>
        <header>
          <a href="/guides">Trainyard guides</a>
          <form action="/guides/search" role="search">
            <input
              type="search"
              name="q"
              value="${query}"
              maxlength="200"
              placeholder="Search (press /)"
              aria-label="Search the guides"
            />
            <button>Search</button>
          </form>
          <a href="/docs">API reference</a>
          <a href="/">Dashboard</a>
        </header>
        <div class="columns">
          <nav class="menu" aria-label="Documents">
            <details>
              <summary>All documents</summary>
              ${[...sections].map(
                ([label, own]) =>
                  html`<details ${own.some(({ href, isInside }) => !isInside || href === current) ? 'open' : ''}>
                    <summary>${label}</summary>
                    ${own.map(
                      (guide) =>
                        html`<a href="${guide.href}" ${new Html(guide.href === current ? 'aria-current="page"' : '')}
                          >${guide.title}</a
                        >`,
                    )}
                  </details>`,
              )}
            </details>
          </nav>
          <main>${main}</main>
        </div>
        <script>
          ${new Html(SCRIPT)};
        </script>
      </body>
    </html>`.source;
}
