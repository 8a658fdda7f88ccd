import { connectSnippets, type RunningService } from '@trainyard/server';

/** Examples that fit a terminal; the page at `/` has all. */
const PRINTED = ['curl', 'openai-node'];

/**
 * Text printed by a started service: its address, the key (in full only if it is new), and examples.
 * Everything below "In another terminal" can be pasted into a shell.
 */
export function gettingStarted(
  { url, apiKey, keyFile, signInUrl, modelIds }: Omit<RunningService, 'close'>,
  seconds: number,
): string {
  const keyLine =
    apiKey === null
      ? `API key   (created at the first start; no longer stored on this machine)`
      : apiKey.isNew
        ? `API key   ${apiKey.secret}   (shown once; also in ${keyFile}, readable only by you)`
        : `API key   in ${keyFile}`;
  const key = apiKey === null ? quoted('the key of the first start') : `"$(cat ${quoted(keyFile)})"`;
  const snippets = connectSnippets({ baseUrl: `${url}/v1`, modelId: modelIds[0] ?? 'MODEL' }).filter(({ id }) =>
    PRINTED.includes(id),
  );
  return `
Trainyard is ready in ${seconds.toFixed(1)} s
URL       ${url}/v1
${keyLine}
${modelLines(modelIds)}
${pageLines(url, signInUrl)}

In another terminal:

export TRAINYARD_API_KEY=${key}

${snippets.map(({ title, shell }) => `# ${title}\n${shell}`).join('\n')}
`;
}

/** Addresses of pages; with the dashboard a sign-in link for one browser, which soon expires. */
function pageLines(url: string, signInUrl: string | null): string {
  if (signInUrl === null) return `Pages     ${url}/ (how to connect, ART too)   ${url}/docs (every route)`;
  return `Dashboard ${signInUrl}
          (works once, within 15 minutes; later sign in at ${url}/ with the API key)
Pages     ${url}/docs (every route)`;
}

/** Lines of models; the first is the default of requests. */
export function modelLines([first, ...others]: readonly string[]): string {
  if (first === undefined) return 'Model     none yet: no engine takes requests (trainyard serve --role engine)';
  return [`Model     ${first}`, ...others.map((id) => `          ${id}`)].join('\n');
}

/** Quotes any text as one shell word. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
