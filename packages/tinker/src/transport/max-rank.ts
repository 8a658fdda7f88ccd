import { asObject, asText } from '../wire/json-value.ts';
import { awaitFuture } from './future.ts';
import type { ServerFacts } from './server-facts.ts';
import { TinkerSession } from './session.ts';
import { jsonOf } from './tinker-http.ts';
import { unloadModel } from './remote-model.ts';

/** A server that compiles for another client answers late. */
const PATIENCE_MS = 120_000;

/**
 * Finds the largest rank by an adapter of rank 0: no server creates one, and SkyRL's refusal names its limits.
 *
 * @returns null if the server does not report it, or not in time
 */
export async function askMaxRank(
  { http, profile, baseModel }: Pick<ServerFacts, 'http' | 'profile' | 'baseModel'>,
  log: (line: string) => void,
): Promise<number | null> {
  if (profile.rankRefusal === null) return null;
  let session: TinkerSession | null = null;
  try {
    session = await TinkerSession.open(http, log);
    const body = {
      type: 'create_model',
      session_id: session.id,
      model_seq_id: 0,
      base_model: baseModel,
      lora_config: { rank: 0, seed: 0, train_attn: true, train_mlp: true, train_unembed: false },
      user_metadata: null,
    };
    const created = asObject(jsonOf(await session.post('create_model', body, { isRepeatable: false })), 'create_model');
    const requestId = asText(created['request_id'], 'request_id');
    await awaitFuture(session, requestId, { kind: 'CreateModel', deadlineMs: PATIENCE_MS });
    // The server created it nevertheless.
    if (typeof created['model_id'] === 'string') await unloadModel({ http }, created['model_id']);
    return null;
  } catch (error) {
    const [, rank] = profile.rankRefusal.exec(error instanceof Error ? error.message : '') ?? [];
    return rank === undefined ? null : Number(rank);
  } finally {
    await session?.close();
  }
}
