import type { OpenApiDocument, OpenApiOperation, OpenApiResponse } from '@trainyard/protocol';

import { Html, html, prose } from '../pages/html.ts';
import { PAGE_ICON } from '../pages/page-icon.ts';
import { PAGE_SCRIPT } from './page-script.ts';
import { PAGE_STYLE } from './page-style.ts';
import { type NamedSchemas, numFieldsOf, renderFields, typeOf } from './render-schema.ts';

interface Placed {
  path: string;
  method: string;
  operation: OpenApiOperation;
}

/** API reference as one page that loads nothing else. @param hasGuides true if the service shows guides */
export function renderReferencePage(document: OpenApiDocument, hasGuides: boolean): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Placed => ({ path, method, operation })),
  );
  const byTag = document.tags.map((tag) => ({
    ...tag,
    operations: operations.filter(({ operation }) => operation.tags.includes(tag.name)),
  }));
  const schemas = Object.entries(document.components.schemas).toSorted(([first], [second]) =>
    first < second ? -1 : 1,
  );
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <link rel="icon" href="${PAGE_ICON}" />
        <title>${document.info.title} API</title>
        <style>
          ${new Html(PAGE_STYLE)}
        </style>
      </head>
      <body>
        <header>
          <h1>${document.info.title} API</h1>
          <span>${document.info.version}</span>
          <input type="search" placeholder="Search routes, fields, error codes (press /)" aria-label="Search" />
          <a href="/openapi.json">openapi.json</a>
          ${hasGuides ? html`<a href="/guides">Guides</a>` : null}
          <a href="/">Dashboard</a>
        </header>
        <div class="columns">
          <nav>
            ${byTag.map(
              (tag) =>
                html`<h2>${tag.name}</h2>
                  ${tag.operations.map(
                    ({ path, method, operation }) =>
                      html`<a href="#${operation.operationId}" title="${operation.summary}"
                        ><span class="method ${method}">${method}</span> ${path}</a
                      >`,
                  )}`,
            )}
            <h2>Schemas</h2>
            ${schemas.map(([name]) => html`<a href="#schema-${name}">${name}</a>`)}
          </nav>
          <main>
            <p>
              ${document.info.description} Send the key as <code>Authorization: Bearer KEY</code>; every operation names
              the scope that its key needs, and the scope <code>admin</code> includes the others. Every error has the
              shape <a href="#schema-ErrorBody">ErrorBody</a>, with a stable code; the header
              <code>x-should-retry</code> says whether the same request can succeed later.
            </p>
            ${byTag.map(
              (tag) =>
                html`<h2>${tag.name}</h2>
                  <p>${tag.description}</p>
                  ${tag.operations.map((placed) => renderOperation(placed, document.components.schemas))}`,
            )}
            <h2>Schemas</h2>
            ${schemas.map(
              ([name, schema]) =>
                html`<section id="schema-${name}" data-item="${name}">
                  <h3>${name}</h3>
                  <p>${prose(typeof schema['description'] === 'string' ? schema['description'] : '')}</p>
                  ${renderFields(schema)}
                </section>`,
            )}
          </main>
        </div>
        <script>
          ${new Html(PAGE_SCRIPT)};
        </script>
      </body>
    </html>`;
  return page.source;
}

function renderOperation({ path, method, operation }: Placed, schemas: NamedSchemas): Html {
  const { parameters = [], requestBody, responses } = operation;
  const answers = Object.entries(responses).filter(([status]) => Number(status) < 400);
  const errors = Object.entries(responses).filter(([status]) => Number(status) >= 400);
  return html`<section id="${operation.operationId}" data-item="${method} ${path} ${operation.operationId}">
    <h3>
      <span class="method ${method}">${method}</span> <code>${path}</code>
      <span class="scope">${operation['x-scope'] === 'public' ? 'no key' : `scope ${operation['x-scope']}`}</span>
    </h3>
    <p><strong>${operation.summary}.</strong> ${prose(operation.description)}</p>
    ${
      parameters.length === 0
        ? null
        : html`<h4>Parameters</h4>
            <table>
              <thead>
                <tr>
                  <th>Name</th>
                  <th>Type</th>
                  <th>Meaning</th>
                </tr>
              </thead>
              <tbody>
                ${parameters.map(
                  (parameter) =>
                    html`<tr>
                      <td><code>${parameter.name}</code></td>
                      <td class="type">
                        ${typeOf(parameter.schema)}, in ${parameter.in}${parameter.required ? ', required' : ''}
                      </td>
                      <td>${prose(parameter.description)}</td>
                    </tr>`,
                )}
              </tbody>
            </table>`
    }
    ${
      requestBody === undefined
        ? null
        : html`<h4>Body</h4>
            <p>${contentOf(requestBody)}</p>
            ${renderBody(requestBody.content, schemas)}`
    }
    <h4>Answer</h4>
    ${answers.map(
      ([status, answer]) =>
        html`<p><code>${status}</code> ${contentOf(answer)}</p>
          ${renderExample('Example of the answer', answer.content['application/json']?.example)}`,
    )}
    <h4>Errors</h4>
    <table>
      <thead>
        <tr>
          <th>Status</th>
          <th>Codes</th>
        </tr>
      </thead>
      <tbody>
        ${errors.map(
          ([status, error]) =>
            html`<tr>
              <td><code>${status}</code></td>
              <td>${prose(error.description)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </section>`;
}

/** Fields of a JSON body, those of its settings too, and an example. */
function renderBody(content: OpenApiResponse['content'], schemas: NamedSchemas): Html | null {
  const json = content['application/json'];
  if (json === undefined) return null;
  const numFields = numFieldsOf(json.schema, schemas);
  return html`${
    numFields === 0
      ? null
      : html`<details open>
          <summary>Fields (${numFields})</summary>
          ${renderFields(json.schema, schemas)}
        </details>`
  }
  ${renderExample('Example', json.example)}`;
}

function renderExample(title: string, example: unknown): Html | null {
  if (example === undefined) return null;
  return html`<details>
    <summary>${title}</summary>
    <pre tabindex="0">${JSON.stringify(example, null, 2)}</pre>
  </details>`;
}

function contentOf({ content }: Pick<OpenApiResponse, 'content'>): Html {
  return html`${Object.entries(content).map(([mediaType, { schema }], index) => {
    const isStream = mediaType === 'text/event-stream';
    return html`${index === 0 ? '' : ', or '}${typeOf(schema)}${isStream ? ' events' : ''} as
      <code>${mediaType}</code>`;
  })}`;
}
