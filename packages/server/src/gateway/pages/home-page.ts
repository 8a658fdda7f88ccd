import { html, Html } from './html.ts';
import { PAGE_ICON } from './page-icon.ts';
import type { Snippet } from './snippets.ts';

/** The page at the service's address. */
export interface Home {
  readonly version: string;
  /** Current answer of `GET /v1/health`: a word, and the fault if there is one. */
  readonly state: { readonly isHealthy: boolean; readonly text: string };
  /** ends in `/v1` */
  readonly baseUrl: string;
  /** Base models, the default first. */
  readonly modelIds: readonly string[];
  readonly snippets: readonly Snippet[];
}

const LINKS = [
  { path: '/docs', text: 'every route, field and error code' },
  { path: '/openapi.json', text: 'the same for tools (OpenAPI 3.1)' },
  { path: '/v1/health', text: 'state of both hosts' },
] as const;

const STYLE = `
:root { color-scheme: light dark; --text: #1c2024; --soft: #60646c; --line: #d9d9e0; --ground: #fff; --raised: #f6f6f8; --accent: #3358d4; --good: #18794e; --bad: #ce2c31; }
@media (prefers-color-scheme: dark) {
  :root { --text: #edeef0; --soft: #b0b4ba; --line: #363a3f; --ground: #111113; --raised: #1b1d20; --accent: #9eb1ff; --good: #3dd68c; --bad: #ff9592; }
}
body { margin: 0 auto; padding: 2rem 1.2rem 4rem; max-width: 56rem; font: 15px/1.55 system-ui, sans-serif; color: var(--text); background: var(--ground); }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; }
h1 small { font-size: .9rem; font-weight: 400; color: var(--soft); }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1.2rem; margin: 1rem 0; }
dt { color: var(--soft); } dd { grid-column: 2; margin: 0; overflow-wrap: anywhere; }
code, pre { font: .87em/1.5 ui-monospace, Menlo, Consolas, monospace; }
pre { background: var(--raised); border: 1px solid var(--line); border-radius: 6px; padding: .8rem 1rem; overflow-x: auto; }
a { color: var(--accent); }
`;

export function renderHomePage({ version, state, baseUrl, modelIds, snippets }: Home): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <link rel="icon" href="${PAGE_ICON}" />
        <title>Trainyard</title>
        <style>
          ${new Html(STYLE)}
        </style>
      </head>
      <body>
        <h1>Trainyard <small>${version}</small></h1>
        <p>Samples from a language model, and trains it.</p>
        <dl>
          <dt>State</dt>
          <dd class="${state.isHealthy ? 'good' : 'bad'}">${state.text}</dd>
          <dt>API</dt>
          <dd><code>${baseUrl}</code></dd>
          <dt>Model</dt>
          ${modelIds.map((id) => html`<dd><code>${id}</code></dd>`)}
        </dl>
        <ul>
          ${LINKS.map(({ path, text }) => html`<li><a href="${path}">${path}</a>: ${text}</li>`)}
        </ul>
        <h2>Connect</h2>
        <p>
          With the key in <code>TRAINYARD_API_KEY</code>. The first start printed it, and keeps it in the file
          <code>admin-key</code> of the data folder.
        </p>
        ${snippets.map(
          ({ id, title, shell }) =>
            html`<h2 id="${id}">${title}</h2>
              <pre><code>${shell}</code></pre>`,
        )}
      </body>
    </html>`.source;
}

/** The same for clients without HTML, such as curl. */
export function renderHomeText({ version, state, baseUrl, modelIds, snippets }: Home): string {
  const origin = baseUrl.replace(/\/v1$/, '');
  return `Trainyard ${version}: ${state.text}

API    ${baseUrl}
Model  ${modelIds.join(', ')}
${LINKS.map(({ path, text }) => `${origin}${path}: ${text}\n`).join('')}
With the key in TRAINYARD_API_KEY (the first start printed it, and keeps it in the file admin-key of the data folder):

${snippets.map(({ title, shell }) => `# ${title}\n${shell}`).join('\n')}`;
}
