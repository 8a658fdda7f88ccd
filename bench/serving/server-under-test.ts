import OpenAI from 'openai';

import type { ChatWork } from './streamed-answer.ts';

/** A measured server of OpenAI's chat completions. */
export interface ServerUnderTest {
  /** Title of its column. */
  readonly name: string;
  readonly client: OpenAI;
  /** Id of the base weights. */
  readonly model: string;
  /** Models that are the base with one adapter each; workloads that need more are skipped. */
  readonly adapters: readonly string[];
  /** TCP port on this machine; null = a remote server, whose memory and processor time are unknown. */
  readonly localPort: number | null;
  /** Fields of its own that it needs for the work of the others. */
  readonly fields?: (work: ChatWork) => object;
}

const SETTINGS = ['url', 'model', 'adapters', 'key'];

/**
 * Parses `NAME,url=http://127.0.0.1:8000/v1,model=ID,adapters=A+B,key=SECRET`; `model`, `adapters` and `key`
 * are optional. The default model is the first one that the server lists, the default key `none`.
 * @throws {Error} for another form
 */
export async function parseServer(text: string): Promise<ServerUnderTest> {
  const [name, ...settings] = text.split(',');
  const values = new Map(settings.map((setting) => splitOnce(setting, text)));
  const unknown = [...values.keys()].find((setting) => !SETTINGS.includes(setting));
  if (unknown !== undefined) throw new Error(`"${unknown}" in "${text}" is none of ${SETTINGS.join(', ')}`);
  const url = values.get('url');
  if (name === undefined || name === '' || url === undefined || !URL.canParse(url))
    throw new Error(`"${text}" is not of the form NAME,url=http://127.0.0.1:8000/v1,model=ID,adapters=A+B,key=SECRET`);
  const client = openClient(url, values.get('key') ?? 'none');
  const model = values.get('model') ?? (await client.models.list()).data[0]?.id;
  if (model === undefined) throw new Error(`${url} lists no model: name one with model=ID`);
  const adapters = values.get('adapters')?.split('+') ?? [];
  return { name, client, model, adapters, localPort: localPortOf(url) };
}

/** Without retries: a refusal is a result, too. */
export function openClient(url: string, apiKey: string): OpenAI {
  return new OpenAI({ baseURL: url, apiKey, maxRetries: 0, timeout: 3_600_000 });
}

export function localPortOf(url: string): number | null {
  const { hostname, port, protocol } = new URL(url);
  if (!['127.0.0.1', 'localhost', '[::1]'].includes(hostname)) return null;
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
}

function splitOnce(setting: string, whole: string): [string, string] {
  const at = setting.indexOf('=');
  if (at < 1) throw new Error(`"${setting}" in "${whole}" is not of the form setting=value`);
  return [setting.slice(0, at), setting.slice(at + 1)];
}
