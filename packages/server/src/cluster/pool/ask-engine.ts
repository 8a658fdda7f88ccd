import { EngineSecret } from '../wire/engine-secret.ts';
import { ENGINE_PATHS, type EngineState } from '../wire/engine-wire.ts';
import { EngineLine } from './engine-line.ts';

/** Time limit of an engine's answer, including the first greeting. */
const ANSWER_MS = 3_000;

/**
 * Checks the state of one engine, like API processes.
 * @param secret null: unavailable
 * @returns the fault and its remedy; null if it answers, knows the secret and has no problem
 */
export async function askEngine(url: string, secret: string | null): Promise<string | null> {
  if (secret === null) return 'the secret is missing: set TRAINYARD_ENGINE_SECRET to the value of its process';
  const line = new EngineLine(url, new EngineSecret(secret));
  const limit = AbortSignal.timeout(ANSWER_MS);
  try {
    const { trouble } = await line.call<EngineState>(ENGINE_PATHS.state, {}, limit);
    return trouble === null ? null : `it responds, but reports a problem: ${trouble}`;
  } catch (error) {
    if (limit.aborted)
      return `it did not respond within ${ANSWER_MS / 1000} s: check the network between both machines`;
    return `${(error as Error).message} (see its log and its --engine-url)`;
  } finally {
    line.close();
  }
}
