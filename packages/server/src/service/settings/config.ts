import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';

import { NAME_PATTERN, REQUEST_LIMITS } from '@trainyard/protocol';
import { isLogitsMode, LOGPROBS_MODES, logprobsModeOf } from '@trainyard/protocol/fields';
import { addressProblem, type BlobLocation, type StoreLocation } from '@trainyard/store';
import { TINKER_PROFILES } from '@trainyard/tinker';

import {
  DEFAULT_KEEP_POLICY,
  isKeepPolicy,
  KEEP_POLICY_FORM,
  type KeepPolicy,
  readKeepPolicy,
} from '../../jobs/checkpoints/keep-policy.ts';
import { dataPaths } from '../../seams/data/data-directory.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import type { LogFormat } from '../../seams/logging/open-log.ts';
import { DEFAULT_MAX_LOGPROBS } from '../../gateway/forms/shared/logprob-limit.ts';
import {
  type ModelConfig,
  type ModelEntry,
  readModelList,
  readModelText,
  resolveModels,
  splitModelTexts,
  TOOL_PARSERS,
  type ToolParser,
} from './model-settings.ts';
import { readEngineSecret } from './engine-secret.ts';
import { does, readRole, type Role, ROLE_FORM } from '../../seams/contract/role.ts';
import { readLifetime } from '../../seams/contract/lifetime-setting.ts';
import { resolveTrainer, type TrainerConfig } from './trainer-settings.ts';
import { withServers } from './vllm-servers.ts';

/** Everything the service can be told, resolved once. */
export interface ServiceConfig {
  /** the work of this process; default `all`: the others work together on a database that they share */
  readonly role: Role;
  /** address to listen on; default 127.0.0.1 */
  readonly host: string;
  /** TCP port, 0 = any free one; default 8420 */
  readonly port: number;
  /** absolute path of the folder that holds the database, blobs and models; default `.trainyard` */
  readonly dataDirectory: string;
  /** where the database is; default: a file of the data folder */
  readonly database: StoreLocation;
  /** the bucket that blobs are in; default null: a folder of the data folder */
  readonly bucket: Extract<BlobLocation, { kind: 's3' }> | null;
  /** the service's own admin key, in place of the one before; by default one is made up and shown once */
  readonly apiKey: string | null;
  /** owner of everything made without an explicit entity; default "local" */
  readonly entity: string;
  /** where API processes reach the engine of this one; default null: by the address that it listens on */
  readonly engineUrl: string | null;
  /** what engines and those who ask them show each other; null for a process that does neither */
  readonly engineSecret: string | null;
  /** id of the first base model, as it was set: of a process without model files the one that is meant where a request names none */
  readonly modelId: string | null;
  /** base models that are served, at least one; the first is meant where a request names none. Default: the SmolLM2 file in the data folder */
  readonly models: readonly ModelConfig[];
  /** vLLM servers that sample, for the models whose `vllmUrls` name them */
  readonly vllm: VllmConfig;
  /** what base models may take in memory together, MB; default null: seven tenths of the machine's memory */
  readonly modelMemoryMegabytes: number | null;
  /** @see ServedModelOptions; default `exact` */
  readonly precision: 'exact' | 'strict' | 'fast' | 'bf16';
  /** oneDNN, for `bf16`; default: the file that the bootstrap fetches into the data folder, else whatever the system has */
  readonly oneDnnPath: string;
  /** training computes log-probabilities as sampling does, to the bit */
  readonly isDeterministic: boolean;
  /** threads of each host; default: all cores */
  readonly numThreads: number;
  /** memory for adapters of each base model, MB; those in use may exceed it; default 256 */
  readonly adapterMegabytes: number;
  /** sequences in one batch; default 128 */
  readonly maxSequences: number;
  /** requests in flight, running and waiting; one more gets 429; default 2048 */
  readonly maxRequests: number;
  /** choices (`n`) of one request; default: as many as `maxSequences` */
  readonly maxChoices: number;
  /** log-probabilities a token that a request may ask for; -1 = all of the vocabulary; default 20 */
  readonly maxLogprobs: number;
  /** distribution that log-probabilities are of where a request does not say, as in vLLM; default `raw_logprobs` */
  readonly logprobsMode: (typeof LOGPROBS_MODES)[number];
  /** part of the compute time that sampling gets while training also has work, 0–1; default 0.7 */
  readonly engineShare: number;
  /** `on` (default): chat templates that come with requests are run, in child processes with limits; `off`: they are refused */
  readonly requestTemplates: 'on' | 'off';
  /** `plain` (default): the texts of control tokens in messages stay text; `control`: they become those tokens, for trusted senders only */
  readonly specialTokens: 'plain' | 'control';
  /** `on`: reasoning is answered under its older name `reasoning_content` too; default `off` */
  readonly reasoningContent: 'on' | 'off';
  /** `on` (default): what is sampled from trained models is kept for a while, for training to go by; `off`: not */
  readonly choiceRecords: 'on' | 'off';
  /** how long a record of a choice is kept, hours; default 24 */
  readonly choiceRecordHours: number;
  /** what all records of choices may take, MB; the oldest go first; default 256 */
  readonly choiceRecordMegabytes: number;
  /** how long answers of `/v1/responses` are kept for clients, ms; null: not at all; default a day */
  readonly storeResponsesMs: number | null;
  /** what kept answers of one entity may take, MB; the oldest go first; default 256 */
  readonly storeResponsesMegabytes: number;
  /** how long the data of ended jobs and logged trajectories are kept, days; 0: for ever; default 30 */
  readonly trajectoryDays: number;
  /** unnamed blobs that are removed: those that this database has known (default), all, or none */
  readonly removeOrphans: 'known' | 'all' | 'none';
  /** how long no row names a blob before it goes to the bin, days; default 7 */
  readonly orphanDays: number;
  /** how long blobs stay in the bin, days; default 7 */
  readonly binDays: number;
  /** part of all blobs that goes to the bin at a time, 0–1; of more orphans none goes; default 0.2 */
  readonly orphanShare: number;
  /** checkpoints that are kept; null: all of them */
  readonly keepCheckpoints: KeepPolicy | null;
  /** takes blobs of a lost or another database over, and makes models and checkpoints of them */
  readonly adoptsBlobs: boolean;
  /** removes by age at once, also after a step of the clock */
  readonly trustsClock: boolean;
  /** gradient steps between two copies of a running job's snapshots in the blobs; 0: none is made. Default 5 on a database that services share, else 0 */
  readonly snapshotSteps: number;
  /** where runs are told besides the store, `mlflow:http://…`; null: nowhere */
  readonly tracker: string | null;
  /** how much of the tokens of training is kept for each model, MB; the oldest go first; 0: nothing */
  readonly tokenTraceMegabytes: number;
  /** `priority` (default): requests of lower priority first; `fcfs`: in order of arrival, and another priority than 0 is refused */
  readonly schedulingPolicy: 'priority' | 'fcfs';
  /** how long keys and models are used as they were read last while the database is away, seconds; default 60 */
  readonly outageSeconds: number;
  /** how long a shutdown by SIGTERM goes on to answer before it takes no new connections, ms; default 5 000 */
  readonly drainGraceMs: number;
  /** how long a shutdown waits for running requests, ms; default 20 000 */
  readonly drainTimeoutMs: number;
  /** absolute path of the folder whose .jsonl files every training key may train on through `file:` URLs; default null: none */
  readonly trainingDataDirectory: string | null;
  /** the server that trains; default null: this machine */
  readonly trainer: TrainerConfig | null;
  /** names that `Host` may have beside the loopback ones; default none */
  readonly allowedHosts: readonly string[];
  /** origins whose pages may read answers; default `localhost`: pages of this machine */
  readonly allowedOrigins: readonly string[];
  /** `on`: may listen on an address that other machines reach; default `off` */
  readonly allowNetwork: 'on' | 'off';
  /** `on`: model files whose content changed since they were first read are taken as they are now. */
  readonly acceptModels: 'on' | 'off';
  /** who may read `/metrics`: `auto` (default) = anybody on a loopback address, keys of the scope `admin` elsewhere, with a foreign name in `allowedHosts`, and through a proxy; `open`; `key`; `off` */
  readonly metrics: 'auto' | 'open' | 'key' | 'off';
  /** where a process without other HTTP answers `/metrics`, `/livez`, `/readyz` and `/health`; default null: nowhere */
  readonly metricsListen: { readonly host: string; readonly port: number } | null;
  /** lines of the log: `text` (default) for people, `json` an object a line */
  readonly logFormat: LogFormat;
  /** how long a request's body may take to come in, ms; default 600 000 */
  readonly bodyTimeoutMs: number;
  /** slowest pace of a body, bytes a second over 20 s; default 500 */
  readonly minBodyRate: number;
  /** how long a client may take no byte of its answer, ms; 0: for ever; default 60 000 */
  readonly readerTimeoutMs: number;
}

/** How all vLLM servers are used; which ones there are is said by model. */
export interface VllmConfig {
  /** their key, where they were started with one */
  readonly apiKey: string | null;
  /** the base model's name there; default null: the only one that they have */
  readonly model: string | null;
  /** absolute path of a folder that they see too, for adapters; default null: they see the data folder by its path */
  readonly adapterDirectory: string | null;
  /** the same folder as they see it; default null: by the same path */
  readonly adapterPath: string | null;
  /** adapters that each holds at a time; default 16 */
  readonly maxAdapters: number;
  /** largest rank of an adapter, their `--max-lora-rank`; default null: they are asked */
  readonly maxLoraRank: number | null;
  /** as they were started; default `fcfs` */
  readonly schedulingPolicy: 'fcfs' | 'priority';
  /** their log-probabilities of fixed tokens are compared with those of the model file; default true */
  readonly checksModel: boolean;
}

type Kind = 'string' | 'integer' | 'number';

interface SettingRule {
  kind: Kind;
  environment: string;
  min?: number;
  max?: number;
  values?: readonly string[];
  pattern?: RegExp;
  isValid?: (text: string) => boolean;
  /** what `pattern`, or what `isValid` takes, is in words */
  form?: string;
  /** on the command line the name alone means `on` */
  isSwitch?: boolean;
  /** it may be given several times on the command line */
  isList?: boolean;
  /** the value must not appear in a message */
  isSecret?: boolean;
}

/** Names without a port, by commas: `api.example,.internal.example,*`. */
const HOST_LIST = /^(?:\*|\.?[\w.:-]+)(?:,(?:\*|\.?[\w.:-]+))*$/;
/** Schemes with their hosts, by commas: `https://app.example,localhost`. */
const ORIGIN_LIST = /^(?:\*|localhost|https?:\/\/[^\s/,]+)(?:,(?:\*|localhost|https?:\/\/[^\s/,]+))*$/;

/** A server's address: `https://trainer.example:8443/base`. */
const URL_PATTERN = /^https?:\/\/[^\s/?#]+(?:\/[^\s?#]*)?$/;
const URL_FORM = 'an address with http:// or https://';

const DATABASE_PATTERN = /^postgres(?:ql)?:\/\//;
const DATABASE_FORM =
  'postgres://USER@HOST:PORT/DATABASE (missing parts and the password can be set in the variables of libpq: PGHOST, PGPASSWORD, PGPASSFILE and so on)';

/** A bucket, and what names of objects in it begin with: `https://s3.example.com/bucket/prefix`. */
const BUCKET_PATTERN = /^https?:\/\/[^\s/?#@]+\/[^\s/?#]+(?:\/[^\s?#]*)?$/;
const BUCKET_FORM = 'https://HOST/BUCKET or https://HOST/BUCKET/PREFIX';

/** `9100`, `10.0.0.7:9100`, `[::1]:9100`. */
const METRICS_LISTEN = /^(?:(\[[0-9a-fA-F:.]+\]|[\w.-]+):)?(\d{1,5})$/;

const ORIGIN_FORM = 'a comma-separated list of origins (https:// or http://, no path), localhost or *';

/** One row a setting: where it comes from and what it must be. The flag is `--` and the kebab-case name. */
const SETTINGS = {
  role: { kind: 'string', environment: 'TRAINYARD_ROLE', isValid: (text) => readRole(text) !== null, form: ROLE_FORM },
  engineUrl: { kind: 'string', environment: 'TRAINYARD_ENGINE_URL', pattern: URL_PATTERN, form: URL_FORM },
  host: { kind: 'string', environment: 'TRAINYARD_HOST' },
  port: { kind: 'integer', environment: 'TRAINYARD_PORT', min: 0, max: 65_535 },
  dataDir: { kind: 'string', environment: 'TRAINYARD_DATA_DIR' },
  // It may hold a password.
  database: {
    kind: 'string',
    environment: 'TRAINYARD_DATABASE',
    pattern: DATABASE_PATTERN,
    form: DATABASE_FORM,
    isSecret: true,
  },
  databaseConnections: { kind: 'integer', environment: 'TRAINYARD_DATABASE_CONNECTIONS', min: 2, max: 1_000 },
  bucket: { kind: 'string', environment: 'TRAINYARD_BUCKET', pattern: BUCKET_PATTERN, form: BUCKET_FORM },
  bucketRegion: { kind: 'string', environment: 'TRAINYARD_BUCKET_REGION', pattern: /^[\w-]+$/, form: 'a region' },
  bucketCacheMegabytes: {
    kind: 'integer',
    environment: 'TRAINYARD_BUCKET_CACHE_MEGABYTES',
    min: 64,
    max: 1_073_741_824,
  },
  // What fits an Authorization header, and a part of a model's name.
  apiKey: { kind: 'string', environment: 'TRAINYARD_API_KEY', pattern: /^[\x21-\x7e]+$/, isSecret: true },
  entity: { kind: 'string', environment: 'TRAINYARD_ENTITY', pattern: new RegExp(NAME_PATTERN, 'u') },
  model: { kind: 'string', environment: 'TRAINYARD_MODEL', isList: true },
  modelId: { kind: 'string', environment: 'TRAINYARD_MODEL_ID' },
  vllm: { kind: 'string', environment: 'TRAINYARD_VLLM', isList: true },
  vllmKey: { kind: 'string', environment: 'TRAINYARD_VLLM_KEY', pattern: /^[\x21-\x7e]+$/, isSecret: true },
  vllmModel: { kind: 'string', environment: 'TRAINYARD_VLLM_MODEL' },
  vllmAdapterDir: { kind: 'string', environment: 'TRAINYARD_VLLM_ADAPTER_DIR' },
  vllmAdapterPath: {
    kind: 'string',
    environment: 'TRAINYARD_VLLM_ADAPTER_PATH',
    pattern: /^\//,
    form: 'an absolute path',
  },
  vllmMaxAdapters: { kind: 'integer', environment: 'TRAINYARD_VLLM_MAX_ADAPTERS', min: 1, max: 65_536 },
  vllmMaxLoraRank: { kind: 'integer', environment: 'TRAINYARD_VLLM_MAX_LORA_RANK', min: 1, max: 4096 },
  vllmSchedulingPolicy: {
    kind: 'string',
    environment: 'TRAINYARD_VLLM_SCHEDULING_POLICY',
    values: ['fcfs', 'priority'],
  },
  vllmCheck: { kind: 'string', environment: 'TRAINYARD_VLLM_CHECK', values: ['on', 'off'] },
  modelMemoryMegabytes: { kind: 'integer', environment: 'TRAINYARD_MODEL_MEMORY_MEGABYTES', min: 64, max: 16_777_216 },
  precision: { kind: 'string', environment: 'TRAINYARD_PRECISION', values: ['exact', 'strict', 'fast', 'bf16'] },
  onednn: { kind: 'string', environment: 'TRAINYARD_ONEDNN' },
  deterministic: { kind: 'string', environment: 'TRAINYARD_DETERMINISTIC', values: ['on', 'off'], isSwitch: true },
  threads: { kind: 'integer', environment: 'TRAINYARD_THREADS', min: 1, max: 512 },
  capacityTokens: { kind: 'integer', environment: 'TRAINYARD_CAPACITY_TOKENS', min: 256, max: 16_777_216 },
  adapterMegabytes: { kind: 'integer', environment: 'TRAINYARD_ADAPTER_MEGABYTES', min: 0, max: 16_777_216 },
  cacheMegabytes: { kind: 'integer', environment: 'TRAINYARD_CACHE_MEGABYTES', min: 1, max: 16_777_216 },
  maxSequences: { kind: 'integer', environment: 'TRAINYARD_MAX_SEQUENCES', min: 1, max: 256 },
  maxRequests: { kind: 'integer', environment: 'TRAINYARD_MAX_REQUESTS', min: 1, max: 1_000_000 },
  maxChoices: { kind: 'integer', environment: 'TRAINYARD_MAX_CHOICES', min: 1, max: REQUEST_LIMITS.choices },
  maxLogprobs: { kind: 'integer', environment: 'TRAINYARD_MAX_LOGPROBS', min: -1, max: 1_048_576 },
  logprobsMode: {
    kind: 'string',
    environment: 'TRAINYARD_LOGPROBS_MODE',
    values: LOGPROBS_MODES,
  },
  engineShare: { kind: 'number', environment: 'TRAINYARD_ENGINE_SHARE', min: 0.05, max: 0.95 },
  requestTemplates: { kind: 'string', environment: 'TRAINYARD_REQUEST_TEMPLATES', values: ['on', 'off'] },
  specialTokens: { kind: 'string', environment: 'TRAINYARD_SPECIAL_TOKENS', values: ['plain', 'control'] },
  toolParser: { kind: 'string', environment: 'TRAINYARD_TOOL_PARSER', values: TOOL_PARSERS },
  reasoningContent: { kind: 'string', environment: 'TRAINYARD_REASONING_CONTENT', values: ['on', 'off'] },
  choiceRecords: { kind: 'string', environment: 'TRAINYARD_CHOICE_RECORDS', values: ['on', 'off'] },
  choiceRecordHours: { kind: 'number', environment: 'TRAINYARD_CHOICE_RECORD_HOURS', min: 0.01, max: 8760 },
  choiceRecordMegabytes: { kind: 'integer', environment: 'TRAINYARD_CHOICE_RECORD_MEGABYTES', min: 1, max: 65_536 },
  storeResponses: {
    kind: 'string',
    environment: 'TRAINYARD_STORE_RESPONSES',
    isValid: (text) => readLifetime(text) !== undefined,
    form: 'off, or a time up to 3650d such as 1d, 12h or 30m',
  },
  storeResponsesMegabytes: {
    kind: 'integer',
    environment: 'TRAINYARD_STORE_RESPONSES_MEGABYTES',
    min: 1,
    max: 1_048_576,
  },
  trajectoryDays: { kind: 'number', environment: 'TRAINYARD_TRAJECTORY_DAYS', min: 0, max: 36_500 },
  removeOrphans: { kind: 'string', environment: 'TRAINYARD_REMOVE_ORPHANS', values: ['known', 'all', 'none'] },
  orphanDays: { kind: 'number', environment: 'TRAINYARD_ORPHAN_DAYS', min: 0, max: 36_500 },
  binDays: { kind: 'number', environment: 'TRAINYARD_BIN_DAYS', min: 0, max: 36_500 },
  orphanShare: { kind: 'number', environment: 'TRAINYARD_ORPHAN_SHARE', min: 0, max: 1 },
  keepCheckpoints: {
    kind: 'string',
    environment: 'TRAINYARD_KEEP_CHECKPOINTS',
    isValid: isKeepPolicy,
    form: KEEP_POLICY_FORM,
  },
  adoptBlobs: { kind: 'string', environment: 'TRAINYARD_ADOPT_BLOBS', values: ['on', 'off'], isSwitch: true },
  trustClock: { kind: 'string', environment: 'TRAINYARD_TRUST_CLOCK', values: ['on', 'off'], isSwitch: true },
  // It may hold a password.
  tracker: { kind: 'string', environment: 'TRAINYARD_TRACKER', isSecret: true },
  tokenTraceMegabytes: { kind: 'integer', environment: 'TRAINYARD_TOKEN_TRACE_MEGABYTES', min: 0, max: 65_536 },
  snapshotSteps: { kind: 'integer', environment: 'TRAINYARD_SNAPSHOT_STEPS', min: 0, max: 1_000_000 },
  schedulingPolicy: { kind: 'string', environment: 'TRAINYARD_SCHEDULING_POLICY', values: ['priority', 'fcfs'] },
  outageSeconds: { kind: 'integer', environment: 'TRAINYARD_OUTAGE_SECONDS', min: 0, max: 86_400 },
  drainGraceMs: { kind: 'integer', environment: 'TRAINYARD_DRAIN_GRACE_MS', min: 0, max: 600_000 },
  drainTimeoutMs: { kind: 'integer', environment: 'TRAINYARD_DRAIN_TIMEOUT_MS', min: 0, max: 3_600_000 },
  trainingDataDir: { kind: 'string', environment: 'TRAINYARD_TRAINING_DATA_DIR' },
  trainerUrl: { kind: 'string', environment: 'TRAINYARD_TRAINER_URL', pattern: URL_PATTERN, form: URL_FORM },
  trainerKey: { kind: 'string', environment: 'TRAINYARD_TRAINER_KEY', pattern: /^[\x21-\x7e]+$/, isSecret: true },
  trainerProfile: { kind: 'string', environment: 'TRAINYARD_TRAINER_PROFILE', values: Object.keys(TINKER_PROFILES) },
  trainerModel: { kind: 'string', environment: 'TRAINYARD_TRAINER_MODEL' },
  trainerTimeoutSeconds: { kind: 'integer', environment: 'TRAINYARD_TRAINER_TIMEOUT_SECONDS', min: 30, max: 86_400 },
  allowedHosts: {
    kind: 'string',
    environment: 'TRAINYARD_ALLOWED_HOSTS',
    pattern: HOST_LIST,
    form: 'a comma-separated list of names',
  },
  allowedOrigins: { kind: 'string', environment: 'TRAINYARD_ALLOWED_ORIGINS', pattern: ORIGIN_LIST, form: ORIGIN_FORM },
  allowNetwork: { kind: 'string', environment: 'TRAINYARD_ALLOW_NETWORK', values: ['on', 'off'], isSwitch: true },
  acceptModels: { kind: 'string', environment: 'TRAINYARD_ACCEPT_MODELS', values: ['on', 'off'], isSwitch: true },
  metrics: { kind: 'string', environment: 'TRAINYARD_METRICS', values: ['auto', 'open', 'key', 'off'] },
  metricsListen: {
    kind: 'string',
    environment: 'TRAINYARD_METRICS_LISTEN',
    pattern: METRICS_LISTEN,
    form: 'PORT or HOST:PORT',
  },
  logFormat: { kind: 'string', environment: 'TRAINYARD_LOG_FORMAT', values: ['text', 'json'] },
  readerTimeoutMs: { kind: 'integer', environment: 'TRAINYARD_READER_TIMEOUT_MS', min: 0, max: 86_400_000 },
  bodyTimeoutMs: { kind: 'integer', environment: 'TRAINYARD_BODY_TIMEOUT_MS', min: 1000, max: 86_400_000 },
  minBodyRate: { kind: 'integer', environment: 'TRAINYARD_MIN_BODY_RATE', min: 1, max: 1_000_000_000 },
} as const satisfies Record<string, SettingRule>;

/** Copies take less than two hundredths of the time of the steps between them. */
const SNAPSHOT_STEPS = 5;

/** oneDNN's shared library, by the name of its major version. */
const ONEDNN_FILE = 'libdnnl.so.3';

/** Whether the name of a setting alone, on the command line, means `on`. */
export function isSwitch(name: SettingName): boolean {
  return (SETTINGS[name] as SettingRule).isSwitch === true;
}

/** Whether the flag of a setting may be given several times. */
export function isList(name: SettingName): boolean {
  return (SETTINGS[name] as SettingRule).isList === true;
}

export type SettingName = keyof typeof SETTINGS;
/** Names a command line may offer, with the environment variable each has. */
export const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[];
/** The environment variable of each setting. */
export const SETTING_VARIABLES: readonly string[] = SETTING_NAMES.map((name) => SETTINGS[name].environment);

export interface ConfigSources {
  /** raw values by setting name; several of a setting that is a list */
  readonly flags: Partial<Record<SettingName, string | readonly string[]>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** a JSON file with the setting names as keys; `null` = none asked for, then `trainyard.json` is read if it exists */
  readonly configPath: string | null;
}

/**
 * Resolves the configuration: flags override the environment, which overrides the file, which overrides the defaults.
 *
 * @throws {ServerError} `server.config_invalid`, naming the setting, its source, the value and what is allowed
 */
export function resolveConfig(sources: ConfigSources): ServiceConfig {
  const file = readConfigFile(sources.configPath);
  const read = (name: SettingName): string | number | undefined => {
    const { environment } = SETTINGS[name];
    const flag = sources.flags[name];
    if (flag !== undefined) return checked(name, flag, `flag --${kebab(name)}`);
    const variable = sources.environment[environment];
    if (variable !== undefined && variable !== '')
      return checked(name, variable, `environment variable ${environment}`);
    const value = file.values[name];
    if (value !== undefined) return checked(name, value, `"${name}" in ${file.path}`);
    return undefined;
  };
  const text = (name: SettingName): string | undefined => read(name) as string | undefined;
  const number = (name: SettingName): number | undefined => read(name) as number | undefined;

  const dataDirectory = resolve(text('dataDir') ?? '.trainyard');
  const local = resolveModels(modelEntries(sources, file), {
    dataDirectory,
    modelId: text('modelId'),
    capacityTokens: number('capacityTokens') ?? null,
    cacheMegabytes: number('cacheMegabytes') ?? null,
    toolParser: (text('toolParser') ?? 'auto') as ToolParser,
  });
  const models = withServers(local, vllmTexts(sources, file));
  refuseLoneServerSettings(models, (name) => text(name) ?? number(name));
  const logprobsMode = (text('logprobsMode') ?? 'raw_logprobs') as ServiceConfig['logprobsMode'];
  refuseLogitsOfServers(logprobsMode, models);
  const trainingDataDirectory = text('trainingDataDir');
  const adapterDirectory = text('vllmAdapterDir');
  const precision = (text('precision') ?? 'exact') as ServiceConfig['precision'];
  const isDeterministic = text('deterministic') === 'on';
  if (isDeterministic && (precision === 'fast' || precision === 'bf16'))
    throw new ServerError(
      'server.config_invalid',
      `--deterministic requires --precision exact or strict, got ${precision}`,
    );
  const trainer = resolveTrainer(
    {
      trainerUrl: text('trainerUrl'),
      trainerKey: text('trainerKey'),
      trainerProfile: text('trainerProfile'),
      trainerModel: text('trainerModel'),
      trainerTimeoutSeconds: number('trainerTimeoutSeconds'),
    },
    isDeterministic,
  );
  const role = readRole(text('role') ?? 'all') ?? 'all';
  const connections = number('databaseConnections');
  const database = resolveDatabase(dataDirectory, text('database'), connections, sources.environment);
  refuseLoneRole(role, database);
  refuseIdleServers(role, models);
  refuseIdleEngineUrl(role, text('engineUrl'));
  const engineSecret = readEngineSecret(role, sources.environment);
  return Object.freeze({
    role,
    host: text('host') ?? '127.0.0.1',
    port: number('port') ?? 8420,
    dataDirectory,
    database,
    bucket: resolveBucket(dataDirectory, {
      bucket: text('bucket'),
      bucketRegion: text('bucketRegion'),
      bucketCacheMegabytes: number('bucketCacheMegabytes'),
    }),
    apiKey: text('apiKey') ?? null,
    entity: text('entity') ?? 'local',
    engineUrl: text('engineUrl') ?? null,
    engineSecret,
    modelId: text('modelId') ?? null,
    models,
    vllm: {
      apiKey: text('vllmKey') ?? null,
      model: text('vllmModel') ?? null,
      adapterDirectory: adapterDirectory === undefined ? null : resolve(adapterDirectory),
      adapterPath: text('vllmAdapterPath') ?? null,
      maxAdapters: number('vllmMaxAdapters') ?? 16,
      maxLoraRank: number('vllmMaxLoraRank') ?? null,
      schedulingPolicy: (text('vllmSchedulingPolicy') ?? 'fcfs') as 'fcfs' | 'priority',
      checksModel: (text('vllmCheck') ?? 'on') === 'on',
    },
    modelMemoryMegabytes: number('modelMemoryMegabytes') ?? null,
    precision,
    oneDnnPath: text('onednn') ?? defaultOneDnnPath(dataDirectory),
    isDeterministic,
    numThreads: number('threads') ?? availableParallelism(),
    adapterMegabytes: number('adapterMegabytes') ?? 256,
    maxSequences: number('maxSequences') ?? 128,
    maxRequests: number('maxRequests') ?? 2_048,
    maxChoices: number('maxChoices') ?? number('maxSequences') ?? 128,
    maxLogprobs: number('maxLogprobs') ?? DEFAULT_MAX_LOGPROBS,
    logprobsMode,
    engineShare: number('engineShare') ?? 0.7,
    requestTemplates: (text('requestTemplates') ?? 'on') as 'on' | 'off',
    specialTokens: (text('specialTokens') ?? 'plain') as 'plain' | 'control',
    reasoningContent: (text('reasoningContent') ?? 'off') as 'on' | 'off',
    choiceRecords: (text('choiceRecords') ?? 'on') as 'on' | 'off',
    choiceRecordHours: number('choiceRecordHours') ?? 24,
    choiceRecordMegabytes: number('choiceRecordMegabytes') ?? 256,
    storeResponsesMs: readLifetime(text('storeResponses') ?? '1d') ?? null,
    storeResponsesMegabytes: number('storeResponsesMegabytes') ?? 256,
    trajectoryDays: number('trajectoryDays') ?? 30,
    removeOrphans: (text('removeOrphans') ?? 'known') as ServiceConfig['removeOrphans'],
    orphanDays: number('orphanDays') ?? 7,
    binDays: number('binDays') ?? 7,
    orphanShare: number('orphanShare') ?? 0.2,
    keepCheckpoints: readKeepPolicy(text('keepCheckpoints') ?? DEFAULT_KEEP_POLICY),
    adoptsBlobs: text('adoptBlobs') === 'on',
    trustsClock: text('trustClock') === 'on',
    tracker: text('tracker') ?? null,
    tokenTraceMegabytes: number('tokenTraceMegabytes') ?? 64,
    // A database in a file goes with the machine that it is on.
    snapshotSteps: number('snapshotSteps') ?? (database.kind === 'postgres' ? SNAPSHOT_STEPS : 0),
    schedulingPolicy: (text('schedulingPolicy') ?? 'priority') as 'priority' | 'fcfs',
    outageSeconds: number('outageSeconds') ?? 60,
    drainGraceMs: number('drainGraceMs') ?? 5_000,
    drainTimeoutMs: number('drainTimeoutMs') ?? 20_000,
    trainingDataDirectory: trainingDataDirectory === undefined ? null : resolve(trainingDataDirectory),
    trainer,
    allowedHosts: text('allowedHosts')?.split(',') ?? [],
    allowedOrigins: (text('allowedOrigins') ?? 'localhost').split(','),
    allowNetwork: (text('allowNetwork') ?? 'off') as 'on' | 'off',
    acceptModels: (text('acceptModels') ?? 'off') as 'on' | 'off',
    metrics: (text('metrics') ?? 'auto') as ServiceConfig['metrics'],
    metricsListen: resolveMetricsListen(role, text('metricsListen')),
    logFormat: (text('logFormat') ?? 'text') as LogFormat,
    readerTimeoutMs: number('readerTimeoutMs') ?? 60_000,
    bodyTimeoutMs: number('bodyTimeoutMs') ?? 600_000,
    minBodyRate: number('minBodyRate') ?? 500,
  });
}

/** The library that the bootstrap fetches on request, else whatever the system finds by its name. */
function defaultOneDnnPath(dataDirectory: string): string {
  const fetched = join(dataDirectory, 'libraries', ONEDNN_FILE);
  return existsSync(fetched) ? fetched : ONEDNN_FILE;
}

/** A file has one service. */
function refuseLoneRole(role: Role, database: StoreLocation): void {
  if (role === 'all' || database.kind === 'postgres') return;
  throw new ServerError(
    'server.config_invalid',
    `--role ${role} needs a shared database: set --database to postgres://…`,
  );
}

function resolveMetricsListen(role: Role, text: string | undefined): ServiceConfig['metricsListen'] {
  if (text === undefined) return null;
  const [, host = '127.0.0.1', port] = METRICS_LISTEN.exec(text) ?? [];
  const refuse = (why: string) => new ServerError('server.config_invalid', `metricsListen is ${text}, ${why}`);
  if (does(role, 'api')) throw refuse(`but role ${role} serves /metrics on its main port: remove it`);
  if (Number(port) > 65_535) throw refuse('but the largest port is 65535');
  return { host: host.replaceAll(/[[\]]/g, ''), port: Number(port) };
}

/** Servers that nobody in this process would ask. */
function refuseIdleServers(role: Role, models: readonly ModelConfig[]): void {
  if (does(role, 'engine') || !does(role, 'api') || models.every(({ vllmUrls }) => vllmUrls.length === 0)) return;
  throw new ServerError(
    'server.config_invalid',
    `--vllm needs --role engine (the role is ${role}): pass it to an engine, or use --role ${role.replace('api', 'api,engine')}`,
  );
}

/** Settings of servers that are not there. */
const VLLM_SETTINGS = [
  'vllmKey',
  'vllmModel',
  'vllmAdapterDir',
  'vllmAdapterPath',
  'vllmMaxAdapters',
  'vllmMaxLoraRank',
  'vllmSchedulingPolicy',
  'vllmCheck',
] as const satisfies readonly SettingName[];

function refuseLoneServerSettings(
  models: readonly ModelConfig[],
  read: (name: SettingName) => string | number | undefined,
): void {
  if (models.some(({ vllmUrls }) => vllmUrls.length > 0)) return;
  const given = VLLM_SETTINGS.find((name) => read(name) !== undefined);
  if (given === undefined) return;
  throw new ServerError('server.config_invalid', `--${kebab(given)} requires --vllm`);
}

/** vLLM servers would refuse every request that samples for training. */
function refuseLogitsOfServers(mode: ServiceConfig['logprobsMode'], models: readonly ModelConfig[]): void {
  if (!isLogitsMode(logprobsModeOf(mode)) || models.every(({ vllmUrls }) => vllmUrls.length === 0)) return;
  throw new ServerError(
    'server.config_invalid',
    `--logprobs-mode must be a mode of log-probabilities with --vllm, got ${mode}`,
  );
}

/** Where others reach an engine is of no use where none opens a port. */
function refuseIdleEngineUrl(role: Role, engineUrl: string | undefined): void {
  if (engineUrl === undefined || !does(role, 'api')) return;
  throw new ServerError('server.config_invalid', `--engine-url needs --role engine (the role is ${role})`);
}

function resolveDatabase(
  dataDirectory: string,
  url: string | undefined,
  maxConnections: number | undefined,
  environment: ConfigSources['environment'],
): StoreLocation {
  if (url === undefined && maxConnections === undefined)
    return { kind: 'sqlite', path: dataPaths(dataDirectory).database };
  if (url === undefined)
    throw new ServerError('server.config_invalid', `--database-connections ${maxConnections} requires --database`);
  const problem = addressProblem(url, environment);
  if (problem !== null)
    throw new ServerError('server.config_invalid', `the address of the database (--database) ${problem}`);
  return { kind: 'postgres', url, maxConnections: maxConnections ?? 8 };
}

function resolveBucket(
  dataDirectory: string,
  values: {
    readonly bucket: string | undefined;
    readonly bucketRegion: string | undefined;
    readonly bucketCacheMegabytes: number | undefined;
  },
): ServiceConfig['bucket'] {
  const { bucket: url, bucketRegion: region = 'us-east-1', bucketCacheMegabytes: megabytes = 20_000 } = values;
  if (url !== undefined) {
    const cacheDirectory = join(dataDirectory, 'bucket-cache');
    return { kind: 's3', url, region, cacheDirectory, cacheBytes: megabytes * 1e6 };
  }
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) continue;
    throw new ServerError('server.config_invalid', `${name} ${value} requires --bucket`);
  }
  return null;
}

/** The servers as they were set, by the same order of sources as every setting. */
function vllmTexts(
  { flags, environment }: ConfigSources,
  file: { path: string; values: Record<string, unknown> },
): readonly { text: string; source: string }[] {
  const from = (values: readonly unknown[], source: string) =>
    values.map((value) => ({ text: checked('vllm', value, source) as string, source }));
  if (flags.vllm !== undefined) return from([flags.vllm].flat(), 'flag --vllm');
  const { environment: name } = SETTINGS.vllm;
  const variable = environment[name];
  if (variable !== undefined && variable !== '') return from(variable.split(','), `environment variable ${name}`);
  const value = file.values['vllm'];
  return value === undefined ? [] : from([value].flat(), `"vllm" in ${file.path}`);
}

/** The models as they were set, by the same order of sources as every setting. */
function modelEntries(
  { flags, environment }: ConfigSources,
  file: { path: string; values: Record<string, unknown> },
): ModelEntry[] {
  const fromTexts = (texts: readonly string[], source: string) =>
    texts.map((text) => readModelText(checked('model', text, source) as string, source));
  const { model: flag } = flags;
  if (flag !== undefined) return fromTexts([flag].flat(), 'flag --model');
  const { environment: name } = SETTINGS.model;
  const variable = environment[name];
  if (variable !== undefined && variable !== '')
    return fromTexts(splitModelTexts(variable), `environment variable ${name}`);
  const value = file.values['model'];
  return value === undefined ? [] : readModelList(value, `"model" in ${file.path}`, checked);
}

function readConfigFile(configPath: string | null): { path: string; values: Record<string, unknown> } {
  const path = resolve(configPath ?? 'trainyard.json');
  let content: string;
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    if (configPath === null && (error as NodeJS.ErrnoException).code === 'ENOENT') return { path, values: {} };
    throw new ServerError(
      'server.config_invalid',
      `the config file ${path} cannot be read: ${(error as Error).message}`,
    );
  }
  let values: unknown;
  try {
    values = JSON.parse(content);
  } catch (error) {
    throw new ServerError('server.config_invalid', `the config file ${path} is not JSON: ${(error as Error).message}`);
  }
  if (typeof values !== 'object' || values === null || Array.isArray(values)) {
    throw new ServerError('server.config_invalid', `the config file ${path} must hold one JSON object`);
  }
  const unknown = Object.keys(values).filter((key) => !(key in SETTINGS));
  if (unknown.length > 0) {
    throw new ServerError(
      'server.config_invalid',
      `the config file ${path} has unknown settings: ${unknown.join(', ')}; known: ${SETTING_NAMES.join(', ')}`,
    );
  }
  return { path, values: values as Record<string, unknown> };
}

function checked(name: SettingName, value: unknown, source: string): string | number {
  const setting: SettingRule = SETTINGS[name];
  const refuse = (expected: string) =>
    new ServerError(
      'server.config_invalid',
      `${source} must be ${expected}, got ${setting.isSecret === true ? 'something else' : JSON.stringify(value)}`,
    );
  if (setting.kind === 'string') {
    if (typeof value !== 'string' || value === '') throw refuse('a non-empty string');
    if (setting.values !== undefined && !setting.values.includes(value))
      throw refuse(`one of ${setting.values.join(', ')}`);
    if (setting.pattern?.test(value) === false || setting.isValid?.(value) === false)
      throw refuse(setting.form ?? `text of the form ${setting.pattern?.source}`);
    return value;
  }
  const numeric = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  const { min = -Infinity, max = Infinity } = setting;
  const isWhole = setting.kind === 'number' || Number.isInteger(numeric);
  if (typeof numeric !== 'number' || !Number.isFinite(numeric) || !isWhole || numeric < min || numeric > max) {
    throw refuse(`${setting.kind === 'integer' ? 'a whole number' : 'a number'} from ${min} to ${max}`);
  }
  return numeric;
}

export function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
