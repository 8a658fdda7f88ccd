import { HttpLine } from '../wire/http-line.ts';
import { readServerAddress } from '../wire/server-address.ts';
import { probeServer } from './probe-server.ts';
import { UnusableServer } from './server-facts.ts';
import { SERVER_TIMES } from './vllm-server.ts';

/**
 * Asks one vLLM server what a start asks it, and keeps nothing open.
 *
 * @param target `model`: the base model's name there; null: the only one that it has
 * @throws {UnusableServer} in one line, with what to do
 */
export async function examineServer(target: {
  readonly url: string;
  readonly apiKey: string | null;
  readonly model: string | null;
}): Promise<void> {
  const { url, apiKey, model } = target;
  const address = readServerAddress(url);
  if (address === null) throw new UnusableServer(`${JSON.stringify(url)} is not the URL of a server`);
  const { connectMs, answerMs, computeMs } = SERVER_TIMES;
  const line = new HttpLine({ address, apiKey, connectMs });
  try {
    const signal = new AbortController().signal;
    await probeServer(line, { model, timeoutMs: answerMs, computeMs, probeFolder: null, signal });
  } finally {
    line.close();
  }
}
