import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';

import type { BlobLocation, StoreLocation } from '@trainyard/store';

import { type KeepPolicy, readKeepPolicy } from '../../jobs/checkpoints/keep-policy.ts';
import { readLifetime } from '../../seams/contract/lifetime-setting.ts';
import { readRole, type Role } from '../../seams/contract/role.ts';
import { hubAccess, type HubAccess } from './hub-access.ts';
import { readEngineSecret } from './engine-secret.ts';
import { type ModelConfig, resolveModels } from './model-settings.ts';
import { type ConfigSources, readSettings } from './read-settings.ts';
import { refuseConflicts } from './refuse-conflicts.ts';
import { resolveBucket, resolveDatabase, resolveMetricsListen } from './resolve-places.ts';
import type { SettingName, SettingValues } from './setting-table.ts';
import { resolveTrainer, type TrainerConfig } from './trainer-settings.ts';
import { withServers } from './vllm-servers.ts';

/** Settings that `ServiceConfig` has in another form. The service uses all others unchanged. */
const CONVERTED_SETTINGS = [
  'role',
  'allowedHosts',
  'allowedOrigins',
  'dataDir',
  'database',
  'databaseConnections',
  'bucket',
  'bucketRegion',
  'bucketCacheMegabytes',
  'trainingDataDir',
  'adoptBlobs',
  'trustClock',
  'model',
  'deterministic',
  'onednn',
  'threads',
  'toolParser',
  'chatTemplate',
  'capacityTokens',
  'cacheMegabytes',
  'vllm',
  'vllmKey',
  'vllmModel',
  'vllmAdapterDir',
  'vllmAdapterPath',
  'vllmMaxAdapters',
  'vllmMaxLoraRank',
  'vllmSchedulingPolicy',
  'vllmCheck',
  'maxChoices',
  'storeResponses',
  'keepCheckpoints',
  'snapshotSteps',
  'trainerUrl',
  'trainerKey',
  'trainerProfile',
  'trainerModel',
  'trainerTimeoutSeconds',
  'metricsListen',
  'hub',
  'hubAllow',
] as const satisfies readonly SettingName[];

type PlainSettings = Omit<SettingValues, (typeof CONVERTED_SETTINGS)[number]>;

/**
 * Settings of one process, resolved once. Plain settings are described in their table; the others were
 * converted or checked against each other.
 */
export interface ServiceConfig extends PlainSettings {
  readonly role: Role;
  readonly dataDirectory: string;
  readonly database: StoreLocation;
  /** Null: blobs are in the data folder. */
  readonly bucket: Extract<BlobLocation, { kind: 's3' }> | null;
  /** Shared by engines and the API processes that call them; null for a process that is neither. */
  readonly engineSecret: string | null;
  /** The first is the default model. */
  readonly models: readonly ModelConfig[];
  readonly vllm: VllmConfig;
  readonly hubAccess: HubAccess;
  /** A file that exists, or a name for the system to find. */
  readonly oneDnnPath: string;
  readonly isDeterministic: boolean;
  readonly numThreads: number;
  readonly maxChoices: number;
  /** Null: they are not kept. */
  readonly storeResponsesMs: number | null;
  /** Null: all checkpoints are kept. */
  readonly keepCheckpoints: KeepPolicy | null;
  readonly adoptsBlobs: boolean;
  readonly trustsClock: boolean;
  readonly snapshotSteps: number;
  readonly trainingDataDirectory: string | null;
  /** Null: this machine trains. */
  readonly trainer: TrainerConfig | null;
  readonly allowedHosts: readonly string[];
  readonly allowedOrigins: readonly string[];
  readonly metricsListen: { readonly host: string; readonly port: number } | null;
}

/** Settings of all vLLM servers. The servers of a model are in its {@link ModelConfig}. */
export interface VllmConfig {
  readonly apiKey: string | null;
  /** Null: the only base model of the servers. */
  readonly model: string | null;
  /** Absolute path; null: the servers see the data folder. */
  readonly adapterDirectory: string | null;
  /** Null: the same path as here. */
  readonly adapterPath: string | null;
  readonly maxAdapters: number;
  /** Null: read from the servers. */
  readonly maxLoraRank: number | null;
  readonly schedulingPolicy: 'fcfs' | 'priority';
  readonly checksModel: boolean;
}

/** Copies take less than 2 % of the time of the steps between them. */
const SNAPSHOT_STEPS = 5;

/** oneDNN's shared library, by the name of its major version. */
const ONEDNN_FILE = 'libdnnl.so.3';

/**
 * Resolves the configuration of a process from flags, environment and config file.
 *
 * @throws {ServerError} `server.config_invalid`, naming the setting, its source, the value and the allowed values; also for settings that exclude each other
 */
export function resolveConfig(sources: ConfigSources): ServiceConfig {
  const { values, given, models: entries, servers } = readSettings(sources);
  const dataDirectory = resolve(values.dataDir);
  const { capacityTokens, cacheMegabytes, toolParser, chatTemplate } = values;
  const forAll = { capacityTokens, cacheMegabytes, toolParser, chatTemplate };
  const options = { dataDirectory, modelId: values.modelId ?? undefined, ...forAll };
  const models = withServers(resolveModels(entries, options), servers);
  const role = readRole(values.role) ?? 'all';
  const database = resolveDatabase(dataDirectory, values, given, sources.environment);
  refuseConflicts({ values, given, role, database, models });
  const converted = new Set<string>(CONVERTED_SETTINGS);
  const plain = Object.fromEntries(
    Object.entries(values).filter(([name]) => !converted.has(name)),
  ) as unknown as PlainSettings;
  return Object.freeze({
    ...plain,
    role,
    dataDirectory,
    database,
    bucket: resolveBucket(dataDirectory, values, given),
    hubAccess: hubAccess(values, {
      role,
      models,
      model: { ...forAll, chatTemplate: chatTemplate === null ? null : resolve(chatTemplate) },
    }),
    engineSecret: readEngineSecret(role, sources.environment),
    models,
    vllm: vllmConfig(values),
    oneDnnPath: values.onednn ?? defaultOneDnnPath(dataDirectory),
    isDeterministic: values.deterministic === 'on',
    numThreads: values.threads ?? availableParallelism(),
    maxChoices: values.maxChoices ?? values.maxSequences,
    storeResponsesMs: readLifetime(values.storeResponses) ?? null,
    keepCheckpoints: readKeepPolicy(values.keepCheckpoints),
    adoptsBlobs: values.adoptBlobs === 'on',
    trustsClock: values.trustClock === 'on',
    // A database in a file is lost with its machine.
    snapshotSteps: values.snapshotSteps ?? (database.kind === 'postgres' ? SNAPSHOT_STEPS : 0),
    trainingDataDirectory: values.trainingDataDir === null ? null : resolve(values.trainingDataDir),
    trainer: resolveTrainer(values, given),
    allowedHosts: values.allowedHosts?.split(',') ?? [],
    allowedOrigins: values.allowedOrigins.split(','),
    metricsListen: resolveMetricsListen(role, values.metricsListen),
  });
}

function vllmConfig(values: SettingValues): VllmConfig {
  return {
    apiKey: values.vllmKey,
    model: values.vllmModel,
    adapterDirectory: values.vllmAdapterDir === null ? null : resolve(values.vllmAdapterDir),
    adapterPath: values.vllmAdapterPath,
    maxAdapters: values.vllmMaxAdapters,
    maxLoraRank: values.vllmMaxLoraRank,
    schedulingPolicy: values.vllmSchedulingPolicy,
    checksModel: values.vllmCheck === 'on',
  };
}

/** The library that the bootstrap downloads on request, else the one of the system. */
function defaultOneDnnPath(dataDirectory: string): string {
  const downloaded = join(dataDirectory, 'libraries', ONEDNN_FILE);
  return existsSync(downloaded) ? downloaded : ONEDNN_FILE;
}
