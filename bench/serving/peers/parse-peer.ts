import { llamaServerPeer } from './llama-server.ts';
import type { Log, Peer } from './peer.ts';
import { PRECISIONS, trainyardPeer } from './trainyard.ts';
import { vllmPeer } from './vllm.ts';

const FOREIGN = { vllm: vllmPeer, 'llama-server': llamaServerPeer } as const;
const NAMES = [...PRECISIONS, ...Object.keys(FOREIGN)];

/**
 * Parses `NAME,--flag=value,…`; flags are those of the server. `llama-server` also has `file=q8_0`.
 * @param settings of our own service, `name=value`
 * @throws {Error} for an unknown name or form
 */
export function parsePeer(text: string, settings: readonly string[], log: Log): Peer {
  const [name = '', ...flags] = text.split(',');
  if (isForeign(name)) return FOREIGN[name](text, flags, log);
  const precision = PRECISIONS.find((one) => one === name);
  if (precision === undefined) throw new Error(`unknown peer "${name}"; the peers are ${NAMES.join(', ')}`);
  if (flags.length > 0) throw new Error(`"${text}": settings of ${name} are given with --settings`);
  return trainyardPeer(precision, settings, log);
}

function isForeign(name: string): name is keyof typeof FOREIGN {
  return Object.hasOwn(FOREIGN, name);
}
