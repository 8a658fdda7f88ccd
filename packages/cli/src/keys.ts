import { existsSync } from 'node:fs';

import { type ApiKeyObject, type CreatedKeyObject, Trainyard } from '@trainyard/sdk';
import { findRunningService, OfflineKeys, resolveConfig, type ServiceConfig } from '@trainyard/server';

import { type Command, CommandError, UsageError } from './command.ts';
import { parseOptions } from './parse-options.ts';
import { SERVICE_OPTIONS, SERVICE_OPTIONS_HELP, serviceConnection } from './service-connection.ts';

const SCOPES = ['inference', 'training', 'admin'] as const;
type Scope = (typeof SCOPES)[number];
const DEFAULT_SCOPES: readonly Scope[] = ['inference', 'training'];
const UNIT_SECONDS: Readonly<Record<string, number>> = { m: 60, h: 3_600, d: 86_400 };
/** So much of an id is shown; it is enough to name a key. */
const SHORT_ID_CHARACTERS = 8;

const HELP = `usage: trainyard keys create NAME [--scopes LIST] [--expires WHEN] [--entity NAME] [options]
       trainyard keys list [options]
       trainyard keys revoke KEY [options]

  create   makes a key and prints its secret, this once; all else goes to stderr, so that KEY="$(trainyard keys create ci)" works
  list     all keys, without their secrets
  revoke   ends a key within a second, and with it the answers that it is being sent; KEY is an id, or its beginning

  --scopes LIST      ${SCOPES.join(',')}: what the key may do; admin includes the others (${DEFAULT_SCOPES.join(',')})
  --expires WHEN     30m, 12h, 90d, or a date such as 2027-01-31 (never)
  --entity NAME      whose key it is; another entity has models and jobs of its own (that of the service)
  --json             what the API answers
${SERVICE_OPTIONS_HELP}
The keys are those of the running service: of --url, or of the data folder. When none runs on the data folder, they are changed there.
`;

/** Keys over HTTP, or in a data folder. */
interface KeyAccess {
  create(key: {
    name: string;
    scopes: Scope[];
    entity: string | null;
    expiresAt: number | null;
  }): Promise<CreatedKeyObject>;
  list(): Promise<ApiKeyObject[]>;
  revoke(keyId: string): Promise<ApiKeyObject | null>;
  close(): Promise<void>;
}

/** `trainyard keys`: who may use the service. */
export const keys: Command = {
  name: 'keys',
  summary: 'make, list and revoke keys',
  help: HELP,
  async run(args) {
    const { values, positionals } = parseOptions({
      args: [...args],
      allowPositionals: true,
      options: {
        ...SERVICE_OPTIONS,
        scopes: { type: 'string' },
        expires: { type: 'string' },
        entity: { type: 'string' },
        json: { type: 'boolean' },
      },
    });
    const [action, subject, ...rest] = positionals;
    const work = actionOf(action, subject, rest, values);
    const access = await openKeys(values);
    try {
      await work(access);
    } finally {
      await access.close();
    }
    return 0;
  },
};

type Options = { scopes?: string; expires?: string; entity?: string; json?: boolean };

/** What the command line asks for, checked before anything is opened. */
function actionOf(
  action: string | undefined,
  subject: string | undefined,
  rest: readonly string[],
  options: Options,
): (access: KeyAccess) => Promise<void> {
  const wantsSubject = action === 'create' || action === 'revoke';
  if (rest.length > 0 || (subject === undefined) === wantsSubject) {
    throw new UsageError('say one of: keys create NAME, keys list, keys revoke KEY');
  }
  if (action !== 'create' && (options.scopes ?? options.expires ?? options.entity) !== undefined)
    throw new UsageError('--scopes, --expires and --entity are for keys create');
  switch (action) {
    case 'create': {
      const key = {
        name: subject as string,
        scopes: scopesOf(options.scopes),
        entity: options.entity ?? null,
        expiresAt: options.expires === undefined ? null : expiryOf(options.expires, Date.now()),
      };
      return async (access) => printCreated(await access.create(key), options.json === true);
    }
    case 'list':
      return async (access) => printList(await access.list(), options.json === true);
    case 'revoke':
      return async (access) => printRevoked(await revoke(access, subject as string), options.json === true);
    default:
      throw new UsageError(`keys can create, list and revoke, not ${JSON.stringify(action ?? '')}`);
  }
}

/** The keys that the options mean: of a service when one is named or runs on the data folder, else of the folder. */
async function openKeys(values: Parameters<typeof serviceConnection>[0]): Promise<KeyAccess> {
  if (values.url !== undefined) return overHttp(serviceConnection(values));
  const dataDir = values['data-dir'];
  const flags = dataDir === undefined ? {} : { dataDir };
  const config: ServiceConfig = resolveConfig({ flags, environment: process.env, configPath: null });
  const { dataDirectory } = config;
  const running = findRunningService(dataDirectory);
  if (running !== null) {
    if (running.url === null)
      throw new CommandError(`process ${running.pid} is starting on ${dataDirectory}; try again when it is ready`);
    return overHttp(serviceConnection({ ...values, url: `${running.url}/v1` }));
  }
  if (!existsSync(dataDirectory))
    throw new CommandError(
      `there is no data folder ${dataDirectory}; name it with --data-dir, or a service with --url`,
    );
  return await OfflineKeys.open(config);
}

function overHttp(connection: { baseUrl: string; apiKey: string }): KeyAccess {
  const client = new Trainyard(connection);
  return {
    create: async ({ entity, expiresAt, ...key }) =>
      await client.keys.create({
        ...key,
        ...(entity === null ? {} : { entity }),
        ...(expiresAt === null ? {} : { expiresAt: new Date(expiresAt * 1000) }),
      }),
    list: async () => await client.keys.list(),
    revoke: async (keyId) => await client.keys.revoke(keyId),
    close: async () => undefined,
  };
}

async function revoke(access: KeyAccess, start: string): Promise<ApiKeyObject> {
  const found = (await access.list()).filter((key) => key.id.startsWith(start));
  const [key] = found;
  if (key === undefined) throw new CommandError(`there is no key ${start}; "trainyard keys list" lists them`);
  if (found.length > 1) throw new CommandError(`${found.length} keys begin with ${start}; say more of the id`);
  const revoked = await access.revoke(key.id);
  if (revoked === null) throw new CommandError(`the key ${start} is gone`);
  return revoked;
}

function scopesOf(text: string | undefined): Scope[] {
  if (text === undefined) return [...DEFAULT_SCOPES];
  return text.split(',').map((name) => {
    const scope = SCOPES.find((known) => known === name.trim());
    if (scope === undefined) throw new UsageError(`--scopes takes ${SCOPES.join(', ')}, got ${JSON.stringify(name)}`);
    return scope;
  });
}

/** Unix seconds. */
function expiryOf(text: string, nowMs: number): number {
  const [, count, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const seconds =
    count === undefined ? Date.parse(text) / 1000 : nowMs / 1000 + Number(count) * (UNIT_SECONDS[unit] ?? 0);
  if (!Number.isFinite(seconds))
    throw new UsageError(`--expires must be such as 30m, 12h, 90d or 2027-01-31, got ${JSON.stringify(text)}`);
  if (seconds * 1000 <= nowMs) throw new UsageError(`--expires must lie ahead, got ${JSON.stringify(text)}`);
  return Math.ceil(seconds);
}

function printCreated(key: CreatedKeyObject, isJson: boolean): void {
  if (isJson) {
    process.stdout.write(`${JSON.stringify(key, null, 2)}\n`);
    return;
  }
  process.stderr.write(
    `key ${key.id.slice(0, SHORT_ID_CHARACTERS)} "${key.name}" of ${key.entity}, for ${key.scopes.join(' and ')}, ${key.expires_at === null ? 'until it is revoked' : `until ${timeOf(key.expires_at)}`}; its secret is shown this once:\n`,
  );
  process.stdout.write(`${key.secret}\n`);
}

function printRevoked(key: ApiKeyObject, isJson: boolean): void {
  process.stdout.write(
    isJson
      ? `${JSON.stringify(key, null, 2)}\n`
      : `revoked ${key.id.slice(0, SHORT_ID_CHARACTERS)} "${key.name}" of ${key.entity}\n`,
  );
}

function printList(list: readonly ApiKeyObject[], isJson: boolean): void {
  if (isJson) {
    process.stdout.write(`${JSON.stringify(list, null, 2)}\n`);
    return;
  }
  const rows = list.map((key) => [
    key.id.slice(0, SHORT_ID_CHARACTERS),
    key.name,
    key.entity,
    key.scopes.join(','),
    key.hint === null ? '(chosen)' : `${key.hint}…`,
    timeOf(key.created_at),
    stateOf(key),
  ]);
  const table = [['id', 'name', 'entity', 'scopes', 'secret', 'made', 'state'], ...rows];
  const widths = table[0]?.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0))) ?? [];
  for (const row of table)
    process.stdout.write(
      `${row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd()}\n`,
    );
}

function stateOf(key: ApiKeyObject): string {
  if (key.revoked_at !== null) return `revoked ${timeOf(key.revoked_at)}`;
  if (key.expires_at === null) return 'valid';
  return key.expires_at * 1000 <= Date.now()
    ? `expired ${timeOf(key.expires_at)}`
    : `valid until ${timeOf(key.expires_at)}`;
}

/** To the minute, UTC. */
function timeOf(unixSeconds: number): string {
  return `${new Date(unixSeconds * 1000).toISOString().slice(0, 16).replace('T', ' ')}Z`;
}
