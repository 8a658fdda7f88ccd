import { HttpLine } from '../wire/http-line.ts';
import { readServerAddress } from '../wire/server-address.ts';
import { probeServer } from './probe-server.ts';
import { UnusableServer } from './server-facts.ts';
import { SERVER_TIMES } from './vllm-server.ts';

/**
 * Runs the checks of a start on one vLLM server, and keeps nothing open.
 *
 * @param target `model`: name of the base model on the server; null: its only one
 * @throws {UnusableServer} in one line, with the remedy
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
