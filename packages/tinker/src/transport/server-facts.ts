import { TrainerError } from '@trainyard/trainer';

import type { TinkerProfile } from '../profiles/tinker-profile.ts';
import { asObject, asText } from '../wire/json-value.ts';
import { ExchangedKey } from './api-key.ts';
import type { Clock } from './clock.ts';
import { accepted, CLIENT_VERSION } from './session.ts';
import { jsonOf, NoReply, type Reply, type SendOptions, TinkerHttp } from './tinker-http.ts';

/** Known from the first contact. */
export interface ServerFacts {
  readonly http: TinkerHttp;
  readonly wire: 'protobuf' | 'json';
  readonly profile: TinkerProfile;
  /** The base model's name there. */
  readonly baseModel: string;
  /** Maximum per sequence; null if unknown. */
  readonly maxTokens: number | null;
  /** Maximum per part of a pass. */
  readonly maxDatums: number;
  readonly maxBytes: number;
}

export interface ContactOptions {
  readonly url: string;
  readonly apiKey: string | null;
  readonly profile: TinkerProfile;
  /** Null: the server's only model. */
  readonly baseModel: string | null;
  readonly clock: Clock;
}

const CONTACT_TIMEOUT_MS = 15_000;

/**
 * Contacts a server without effect: it must answer, accept the key, speak the protocol, and have the base model.
 *
 * @throws {TrainerError} in one line with the remedy: `trainer.remote_unavailable` without an answer, else
 * `trainer.remote_refused`
 */
export async function contactServer(options: ContactOptions): Promise<ServerFacts> {
  const { url, apiKey, profile, clock } = options;
  if (profile.refusal !== null) throw refused(`${profile.name} cannot train for this service: ${profile.refusal}`);
  if (profile.keyPrefix !== null && apiKey?.startsWith(profile.keyPrefix) !== true)
    throw refused(`keys of ${profile.name} start with ${profile.keyPrefix}. Set TRAINYARD_TRAINER_KEY to such a key`);
  const key = new ExchangedKey(apiKey, (raw) => exchange(url, raw, clock));
  const http = new TinkerHttp({ url, key, clock });
  const ask = async (method: string, route: string, send: SendOptions = {}): Promise<Reply> => {
    try {
      return await http.sendOnce(method, route, { ...send, timeoutMs: CONTACT_TIMEOUT_MS });
    } catch (error) {
      if (!(error instanceof NoReply)) throw error;
      throw new TrainerError('trainer.remote_unavailable', absenceOf(error, url), { cause: error });
    }
  };
  requireProtocol(await ask('GET', 'healthz'), url);
  const flags = await readFlags(await ask('POST', 'client/config', { body: { sdk_version: CLIENT_VERSION } }), url);
  if (flags['pjwt_auth_enabled'] === true) await key.useTokens();
  const capabilities = await ask('GET', 'get_server_capabilities');
  requireKey(capabilities, url);
  const { name, maxTokens } = chooseModel(jsonOf(accepted(capabilities, 'get_server_capabilities')), options.baseModel);
  const wire = profile.wire === 'probe' ? await probeWire(ask, url) : profile.wire;
  return {
    http,
    wire,
    profile: wire === 'json' ? { ...profile, remembers: 'nothing' } : profile,
    baseModel: name,
    maxTokens,
    maxDatums: positive(flags['fwdbwd_max_chunk_len'], 1024),
    maxBytes: positive(flags['fwdbwd_max_chunk_bytes_count'], 5_000_000),
  };
}

function absenceOf({ reason, isUntrusted }: NoReply, url: string): string {
  if (isUntrusted)
    return `the certificate of ${url} is not trusted (${reason}): it must match this address, be currently valid, and come from a certificate authority known to Node.js (add one with \`NODE_EXTRA_CA_CERTS=FILE\`)`;
  return reason === 'TIMEOUT'
    ? `the server at ${url} accepts connections but does not answer within ${CONTACT_TIMEOUT_MS / 1000} s: it hangs or is not a Tinker server. Check its log`
    : `no Tinker server answers at ${url} (${reason}). Start it, or correct --trainer-url`;
}

/** True for errors about the certificate, which waiting does not change. */
export function isUntrusted(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof NoReply && error.cause.isUntrusted;
}

function requireProtocol(reply: Reply, url: string): void {
  if (reply.status >= 500)
    throw new TrainerError(
      'trainer.remote_unavailable',
      `the server at ${url} fails (HTTP ${reply.status}). Check its log`,
    );
  requireKey(reply, url);
  try {
    if (reply.status === 200 && 'status' in asObject(jsonOf(reply), 'health')) return;
  } catch {
    // Reported below, with the remedy.
  }
  throw refused(
    `the server at ${url} is not a Tinker server (HTTP ${reply.status} for /api/v1/healthz). --trainer-url is the address without /api/v1`,
  );
}

function requireKey({ status }: Reply, url: string): void {
  if (status === 401 || status === 403)
    throw refused(
      `the Tinker server at ${url} refuses the key (HTTP ${status}). Set TRAINYARD_TRAINER_KEY to a valid key`,
    );
}

/** Older servers lack the route and the flags. */
async function readFlags(reply: Reply, url: string): Promise<Readonly<Record<string, unknown>>> {
  if (reply.status === 404 || reply.status === 405) return {};
  requireKey(reply, url);
  return asObject(jsonOf(accepted(reply, 'client/config')), 'client/config');
}

function chooseModel(value: unknown, wanted: string | null): { name: string; maxTokens: number | null } {
  const { supported_models: listed } = asObject(value, 'get_server_capabilities');
  const models = (Array.isArray(listed) ? listed : []).map((entry) => asObject(entry, 'a supported model'));
  const names = models.map(({ model_name: name }) => asText(name, 'model_name'));
  if (wanted === null && names.length !== 1)
    throw refused(
      `the Tinker server has ${names.length} base models. Choose the matching one with --trainer-model${listOf(names)}`,
    );
  const index = wanted === null ? 0 : names.indexOf(wanted);
  const model = models[index];
  if (model === undefined)
    throw refused(`the Tinker server does not have the base model ${wanted}. Correct --trainer-model${listOf(names)}`);
  if (model['trainable'] === false) throw refused(`the Tinker server can sample from ${names[index]} but not train it`);
  const { max_context_length: maxTokens } = model;
  return { name: names[index]!, maxTokens: typeof maxTokens === 'number' && maxTokens > 0 ? maxTokens : null };
}

function listOf(names: readonly string[]): string {
  const shown = names.slice(0, 10).join(', ');
  return names.length === 0 ? '' : `; it has ${shown}${names.length > 10 ? ' and others' : ''}`;
}

/** Sends an empty pass as JSON, without effect: 415 if only protobuf is accepted, 422 if JSON is. */
async function probeWire(
  ask: (method: string, route: string, send: SendOptions) => Promise<Reply>,
  url: string,
): Promise<'protobuf' | 'json'> {
  const { status } = await ask('POST', 'forward_backward', { body: {} });
  if (status === 415) return 'protobuf';
  if (status === 422 || status === 400) return 'json';
  throw refused(
    `the Tinker server at ${url} has an unsupported version (HTTP ${status} for an empty forward_backward, expected 415 or 422)`,
  );
}

async function exchange(url: string, key: string, clock: Clock): Promise<string> {
  const plain = new TinkerHttp({ url, clock, key: { current: async () => key, renew: async () => {} } });
  const reply = accepted(await plain.send('POST', 'auth/token', { body: {}, patienceMs: 60_000 }), 'auth/token');
  return asText(asObject(jsonOf(reply), 'auth/token')['jwt'], 'a token');
}

function positive(value: unknown, otherwise: number): number {
  return typeof value === 'number' && value >= 1 ? Math.floor(value) : otherwise;
}

function refused(message: string): TrainerError {
  return new TrainerError('trainer.remote_refused', message);
}
