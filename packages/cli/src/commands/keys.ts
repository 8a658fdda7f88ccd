import { existsSync } from 'node:fs';

import type { ApiKeyObject, CreatedKeyObject, KeyLimitsRequest } from '@trainyard/sdk';
import { findRunningService, resolveConfig, type ServiceConfig } from '@trainyard/server/settings';
import type { Command } from 'commander';

import { attentiveClient } from '../terminal/attentive-client.ts';
import { CommandError, UsageError } from '../terminal/command-error.ts';
import { newCommand, withExamples, withNote } from '../terminal/new-command.ts';
import { printJson } from '../terminal/print-json.ts';
import { type Column, tableFor } from '../terminal/table.ts';
import { agoOf, secondsOfDate, timeOf } from '../terminal/times.ts';
import {
  addServiceOptions,
  type JsonOption,
  namedUrl,
  serviceConnection,
  type ServiceOptions,
} from '../terminal/service-connection.ts';
import { oneLine } from '../terminal/printable.ts';

const SCOPES = ['inference', 'training', 'admin'] as const;
type Scope = (typeof SCOPES)[number];
const DEFAULT_SCOPES: readonly Scope[] = ['inference', 'training'];
const NO_LIMIT = 'none';
/** Maximum that the API accepts for any limit. */
const LARGEST_LIMIT = 1_000_000_000;
const UNIT_SECONDS: Readonly<Record<string, number>> = { m: 60, h: 3_600, d: 86_400 };
/** Shown characters of an id, enough to name a key. */
const SHORT_ID_CHARACTERS = 8;

/** Access to keys over HTTP, or in a data folder. */
interface KeyAccess {
  create(key: {
    name: string;
    scopes: Scope[];
    entity: string | null;
    expiresAt: number | null;
    limits: KeyLimitsRequest;
  }): Promise<CreatedKeyObject>;
  list(): Promise<ApiKeyObject[]>;
  /** Sets limits; null removes one, an omitted one stays. */
  limit(keyId: string, limits: KeyLimitsRequest): Promise<ApiKeyObject | null>;
  revoke(keyId: string): Promise<ApiKeyObject | null>;
  /** Time on the clock that keys expire by, milliseconds since 1970. */
  now(): Promise<number>;
  close(): Promise<void>;
}

type KeyOptions = ServiceOptions & JsonOption;

/** Options as named by commander, which treats null as an empty text. */
interface LimitOptions {
  readonly requestsPerMinute?: Limit;
  readonly tokensPerMinute?: Limit;
  readonly maxRequestsInFlight?: Limit;
}
type Limit = number | typeof NO_LIMIT;

interface CreateOptions extends ServiceOptions, JsonOption, LimitOptions {
  readonly scopes?: Scope[];
  readonly expires?: Expiry;
  readonly entity?: string;
}

/** Expiry of a key as typed: Unix seconds, or a period from now. */
type Expiry = { readonly text: string } & ({ readonly at: number } | { readonly within: number });

/** `trainyard keys`: access to the service. */
export function keysCommand(): Command {
  const keys = newCommand('keys', 'create, list, limit and revoke API keys')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(limitCommand())
    .addCommand(revokeCommand());
  return withNote(keys, WHOSE_KEYS);
}

const WHOSE_KEYS =
  'Works on the keys of the running service (`--url`, or the service of the data folder). If no service runs on the data folder, its keys are changed directly.';

function createCommand(): Command {
  const command = newCommand('create', 'create a key and print its secret once')
    .description(
      'Creates a key and prints its secret. The secret is shown only once. Everything else goes to stderr, so that KEY="$(trainyard keys create ci)" works.',
    )
    .argument('<NAME>', 'purpose of the key')
    .option(
      '--scopes <LIST>',
      `${SCOPES.join(',')}: permissions of the key; admin includes the others (${DEFAULT_SCOPES.join(',')})`,
      scopesOf,
    )
    .option('--expires <WHEN>', 'lifetime such as 30m, 12h, 90d, or a date such as 2027-01-31 (never)', expiryOf)
    .option('--entity <NAME>', 'owner of the key; each entity has its own models and jobs (the entity of the service)');
  addLimitOptions(command, 'none');
  withExamples(command, [
    'KEY="$(trainyard keys create ci --scopes inference --expires 90d)"',
    'trainyard keys create laptop --json',
    'trainyard keys create guest --requests-per-minute 60 --tokens-per-minute 100000',
  ]);
  return addKeyOptions(command).action(async (name: string, options: CreateOptions) => {
    const { scopes = [...DEFAULT_SCOPES], expires, entity = null } = options;
    await withKeys(options, async (access) => {
      const expiresAt = expires === undefined ? null : endOf(expires, await access.now());
      const key = await access.create({ name, scopes, entity, expiresAt, limits: limitsOf(options) });
      printCreated(key, options.json === true);
    });
  });
}

function listCommand(): Command {
  const command = withExamples(newCommand('list', 'list all keys, without their secrets'), ['trainyard keys list']);
  return addKeyOptions(command).action(async (options: KeyOptions) => {
    await withKeys(options, async (access) => {
      const list = await access.list();
      if (options.json === true) printJson(list);
      else printList(list, await access.now());
    });
  });
}

function limitCommand(): Command {
  const command = newCommand('limit', 'change the limits of a key, from its next request on')
    .description(
      'Changes the limits of a key from its next request on. All processes of the service share the limits. A request above a limit gets 429 with the time to wait.',
    )
    .argument('<KEY>', 'id, or its first characters');
  addLimitOptions(command, 'as it is');
  withExamples(command, [
    'trainyard keys limit 3f2a --requests-per-minute 60',
    'trainyard keys limit 3f2a --max-requests-in-flight 8 --tokens-per-minute none',
  ]);
  return addKeyOptions(command).action(async (start: string, options: KeyOptions & LimitOptions) => {
    const limits = limitsOf(options);
    if (Object.keys(limits).length === 0)
      throw new UsageError(
        'no limit given: pass --requests-per-minute, --tokens-per-minute or --max-requests-in-flight',
      );
    await withKeys(options, async (access) => {
      const key = await ofKey(access, start, (keyId) => access.limit(keyId, limits));
      if (options.json === true) printJson(key);
      else process.stdout.write(`${nameOf(key)} has the limits: ${limitWords(key)}\n`);
    });
  });
}

function addLimitOptions(command: Command, fallback: string): void {
  const option = (name: string, words: string) =>
    command.option(`--${name} <N>`, `${words}, or none (${fallback})`, (text) => limitOf(text, name));
  option('requests-per-minute', 'requests per minute');
  option('tokens-per-minute', 'tokens per minute, prompts and completions');
  option('max-requests-in-flight', 'concurrent sampling requests');
}

function limitOf(text: string, name: string): Limit {
  if (text === NO_LIMIT) return NO_LIMIT;
  const limit = /^[1-9]\d{0,9}$/.test(text) ? Number(text) : Infinity;
  if (limit <= LARGEST_LIMIT) return limit;
  throw new UsageError(
    `--${name} takes a whole number from 1 to ${LARGEST_LIMIT}, or none, got ${JSON.stringify(text)}`,
  );
}

function limitsOf({ requestsPerMinute, tokensPerMinute, maxRequestsInFlight }: LimitOptions): KeyLimitsRequest {
  const asked = (limit: Limit) => (limit === NO_LIMIT ? null : limit);
  return {
    ...(requestsPerMinute === undefined ? {} : { requests_per_minute: asked(requestsPerMinute) }),
    ...(tokensPerMinute === undefined ? {} : { tokens_per_minute: asked(tokensPerMinute) }),
    ...(maxRequestsInFlight === undefined ? {} : { max_requests_in_flight: asked(maxRequestsInFlight) }),
  };
}

function limitWords({ limits }: ApiKeyObject): string {
  const words = [
    limits.requests_per_minute === null ? null : `${limits.requests_per_minute} requests/min`,
    limits.tokens_per_minute === null ? null : `${limits.tokens_per_minute} tokens/min`,
    limits.max_requests_in_flight === null ? null : `${limits.max_requests_in_flight} in flight`,
  ].filter((word) => word !== null);
  return words.join(', ') || 'none';
}

function revokeCommand(): Command {
  const command = newCommand('revoke', 'revoke a key; takes effect within a second and ends its streams').argument(
    '<KEY>',
    'id, or its first characters',
  );
  withExamples(command, ['trainyard keys revoke 3f2a']);
  return addKeyOptions(command).action(async (start: string, options: KeyOptions) => {
    await withKeys(options, async (access) =>
      printRevoked(await ofKey(access, start, (keyId) => access.revoke(keyId)), options.json === true),
    );
  });
}

function addKeyOptions(command: Command): Command {
  return withNote(addServiceOptions(command, 'the response of the API'), WHOSE_KEYS);
}

async function withKeys(options: ServiceOptions, work: (access: KeyAccess) => Promise<void>): Promise<void> {
  const access = await openKeys(options);
  try {
    await work(access);
  } finally {
    await access.close();
  }
}

/**
 * Opens the keys selected by the options: those of a service if one is named or runs on the data folder, else
 * of the folder.
 */
async function openKeys(options: ServiceOptions): Promise<KeyAccess> {
  if (namedUrl(options) !== null) return overHttp(serviceConnection(options));
  const { dataDir } = options;
  const flags = dataDir === undefined ? {} : { dataDir };
  const config: ServiceConfig = resolveConfig({ flags, environment: process.env, configPath: null });
  const { dataDirectory } = config;
  const running = findRunningService(dataDirectory);
  if (running !== null) {
    if (running.url === null)
      throw new CommandError(`process ${running.pid} is starting on ${dataDirectory}; retry when it is ready`);
    return overHttp(serviceConnection({ ...options, url: `${running.url}/v1` }));
  }
  if (!existsSync(dataDirectory))
    throw new CommandError(`no data folder ${dataDirectory}; pass --data-dir, or --url of a service`);
  const { OfflineKeys } = await import('@trainyard/server');
  return await OfflineKeys.open(config);
}

function overHttp(connection: { baseUrl: string; apiKey: string }): KeyAccess {
  const client = attentiveClient(connection);
  let hasAnswered = false;
  return {
    now: async () => {
      // Any response contains the service's time.
      if (!hasAnswered) await client.service.health();
      return client.now();
    },
    create: async ({ entity, expiresAt, ...key }) =>
      await client.keys.create({
        ...key,
        ...(entity === null ? {} : { entity }),
        ...(expiresAt === null ? {} : { expires_at: expiresAt }),
      }),
    list: async () => {
      const { data } = await client.keys.list();
      hasAnswered = true;
      return data;
    },
    limit: async (keyId, limits) => await client.keys.update(keyId, { limits }),
    revoke: async (keyId) => await client.keys.revoke(keyId),
    close: async () => undefined,
  };
}

/** Acts on the one key whose id starts so. */
async function ofKey(
  access: KeyAccess,
  start: string,
  act: (keyId: string) => Promise<ApiKeyObject | null>,
): Promise<ApiKeyObject> {
  const found = (await access.list()).filter((key) => key.id.startsWith(start));
  const [key] = found;
  if (key === undefined) throw new CommandError(`no key ${start}; "trainyard keys list" lists them`);
  if (found.length > 1)
    throw new CommandError(`${found.length} keys start with ${start}; give more characters of the id`);
  const changed = await act(key.id);
  if (changed === null) throw new CommandError(`the key ${start} no longer exists`);
  return changed;
}

function scopesOf(text: string): Scope[] {
  return text.split(',').map((name) => {
    const scope = SCOPES.find((known) => known === name.trim());
    if (scope === undefined) throw new UsageError(`--scopes takes ${SCOPES.join(', ')}, got ${JSON.stringify(name)}`);
    return scope;
  });
}

function expiryOf(text: string): Expiry {
  const [, count, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  if (count !== undefined) return { text, within: Number(count) * (UNIT_SECONDS[unit] ?? 0) };
  const at = secondsOfDate(text);
  if (at !== null) return { text, at };
  throw new UsageError(`--expires must be a time such as 30m, 12h, 90d or 2027-01-31, got ${JSON.stringify(text)}`);
}

/** @returns Unix seconds @throws {UsageError} for a time in the past */
function endOf(expiry: Expiry, nowMs: number): number {
  const seconds = 'at' in expiry ? expiry.at : nowMs / 1000 + expiry.within;
  if (seconds * 1000 > nowMs) return Math.ceil(seconds);
  throw new UsageError(`--expires must be in the future, got ${JSON.stringify(expiry.text)}`);
}

function printCreated(key: CreatedKeyObject, isJson: boolean): void {
  if (isJson) {
    printJson(key);
    return;
  }
  process.stderr.write(
    `key ${key.id.slice(0, SHORT_ID_CHARACTERS)} "${oneLine(key.name)}" of ${oneLine(key.entity)}, for ${key.scopes.join(' and ')}, ${key.expires_at === null ? 'until it is revoked' : `until ${timeOf(key.expires_at)}`}; its secret is shown only once:\n`,
  );
  process.stdout.write(`${key.secret}\n`);
}

function printRevoked(key: ApiKeyObject, isJson: boolean): void {
  if (isJson) printJson(key);
  else process.stdout.write(`revoked ${nameOf(key)}\n`);
}

function nameOf(key: ApiKeyObject): string {
  return `${key.id.slice(0, SHORT_ID_CHARACTERS)} "${oneLine(key.name)}" of ${oneLine(key.entity)}`;
}

function printList(list: readonly ApiKeyObject[], nowMs: number): void {
  const rows = list.map((key) => [
    key.id.slice(0, SHORT_ID_CHARACTERS),
    key.name,
    key.entity,
    key.scopes.join(','),
    key.hint === null ? '(chosen)' : `${key.hint}…`,
    limitWords(key),
    agoOf(key.created_at, nowMs),
    usedOf(key, nowMs),
    stateOf(key, nowMs),
  ]);
  const optional = ['entity', 'secret', 'limits', 'scopes'];
  const columns: Column[] = ['id', 'name', 'entity', 'scopes', 'secret', 'limits', 'made', 'used', 'state'].map(
    (title) => ({
      title,
      isOptional: optional.includes(title),
      isWhole: ['id', 'made', 'used', 'state'].includes(title),
      ...(title === 'state' ? { colour: (cell: string) => (cell.startsWith('valid') ? 'green' : 'red') } : {}),
    }),
  );
  process.stdout.write(tableFor(process.stdout, columns, rows));
}

/** Empty for a service of an earlier release, which does not send it. */
function usedOf({ last_used_at: at }: Partial<ApiKeyObject>, nowMs: number): string {
  if (at === undefined) return '';
  return at === null ? 'never' : agoOf(at, nowMs);
}

function stateOf(key: ApiKeyObject, nowMs: number): string {
  if (key.revoked_at !== null) return `revoked ${timeOf(key.revoked_at)}`;
  if (key.expires_at === null) return 'valid';
  return key.expires_at * 1000 <= nowMs ? `expired ${timeOf(key.expires_at)}` : `valid until ${timeOf(key.expires_at)}`;
}
