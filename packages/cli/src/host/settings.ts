import {
  isList,
  isSwitch,
  kebab,
  resolveConfig,
  SETTING_NAMES,
  type ServiceConfig,
  type SettingName,
} from '@trainyard/server';
import type { Command } from 'commander';

/** The `--help` line of each setting; a setting without a line does not compile. */
const HELP = {
  role: 'all, or a comma-separated list of api, engine, trainer: api = HTTP, engine = sampling for API processes, trainer = jobs; the processes need a shared database (all)',
  engineUrl: 'URL of this engine for API processes (its listen address)',
  host: 'address to listen on (127.0.0.1)',
  port: 'TCP port, 0 = any free one (8420)',
  dataDir: 'folder for the database, checkpoints and models (.trainyard)',
  apiKey: 'admin key of the service; a new value replaces the old one (generated at the first start)',
  entity: 'owner of everything made without an explicit entity (local)',
  model: 'GGUF file of a base model, PATH or ID=PATH; repeatable, the first is the default (SmolLM2-135M-Instruct)',
  modelId: 'id of the first base model (from the file)',
  vllm: 'vLLM server to sample with, http://HOST:PORT or ID=http://HOST:PORT; repeatable (none)',
  vllmKey: 'API key of the vLLM servers (none)',
  vllmModel: 'name of the base model on the vLLM servers (the only one)',
  vllmAdapterDir: 'folder for adapters, shared with the vLLM servers (none)',
  vllmAdapterPath: '--vllm-adapter-dir as seen by the vLLM servers (the same path)',
  vllmMaxAdapters: 'adapters loaded on each vLLM server (16)',
  vllmMaxLoraRank: 'maximum adapter rank of the vLLM servers (read from them)',
  vllmSchedulingPolicy: 'scheduling policy of the vLLM servers: fcfs or priority (fcfs)',
  vllmCheck: 'on = check that the vLLM servers have the same model; off = skip the check (on)',
  modelMemoryMegabytes:
    'memory limit of all base models together, MB; models are loaded and unloaded as requests need them (70 % of memory)',
  precision:
    'exact = sampler and trainer share one code (or llama.cpp within 1e-3); strict = the same, or llama.cpp within 1e-5; fast = llama.cpp with the file as it is; bf16 = both in bf16 if the processor supports it, within 0.02 nats (exact)',
  onednn: 'oneDNN library for precision bf16 (libraries/libdnnl.so.3 in the data folder, else the one of the system)',
  deterministic:
    'compute training log-probabilities with the sampling code, bit-identical; steps take 1.6 times as long (off)',
  threads: 'threads of each host (all cores)',
  capacityTokens:
    'KV cache of a base model in tokens, over all sequences (16384, or as many as --cache-megabytes holds)',
  cacheMegabytes: 'KV cache limit in MB; the smaller of this and --capacity-tokens applies (no limit)',
  adapterMegabytes: 'memory for adapters per base model, MB; adapters in use may exceed it (256)',
  maxSequences: 'maximum sequences in one batch (128)',
  maxRequests: 'maximum requests in flight, running and waiting (2048)',
  maxChoices: 'maximum choices (n) of one request (--max-sequences)',
  maxLogprobs: 'maximum log-probabilities per token that a request may ask for; -1 = the whole vocabulary (20)',
  logprobsMode:
    'values in the log-probability fields: raw_logprobs, processed_logprobs, raw_logits or processed_logits (raw_logprobs)',
  engineShare: 'share of compute time for sampling while training also has work (0.7)',
  requestTemplates: 'on = run chat templates sent with requests, in separate processes; off = refuse them (on)',
  specialTokens: 'control token texts in messages: plain = keep as text; control = convert to tokens (plain)',
  toolParser: 'format of tool calls: auto, hermes, qwen_xml, llama3_json, mistral, pythonic, kimi_k2, glm, … (auto)',
  reasoningContent: 'on = also return reasoning as reasoning_content (off)',
  choiceRecords: 'on = keep sampling records of trained models for training; off (on)',
  choiceRecordHours: 'lifetime of sampling records, hours (24)',
  choiceRecordMegabytes: 'limit of all sampling records, MB; the oldest are removed first (256)',
  storeResponses:
    'lifetime of kept answers of /v1/responses, and of conversations after their last use: 1d, 12h, 30m …; off = keep none (1d)',
  storeResponsesMegabytes:
    'limit of kept answers per entity, and of conversations, MB each; the oldest are removed first (256)',
  trajectoryDays: 'lifetime of the data of ended jobs and of logged trajectories, days; 0 = forever (30)',
  removeOrphans:
    'unreferenced blobs to remove: known = only blobs that this database once referenced; all; none (known)',
  orphanDays: 'age at which an unreferenced blob moves to the bin, days (7)',
  binDays: 'age at which a blob in the bin is removed, days (7)',
  orphanShare: 'maximum share of all blobs to move to the bin at once; above it, none is moved (0.2)',
  keepCheckpoints:
    'checkpoints to keep besides step 0, marked ones and those in use: comma-separated last=N, best, every=K, optimizer=N (keep N optimizer states); or all (last=20,best,every=10)',
  adoptBlobs: 'rebuild models and checkpoints from the blobs of a lost or another database (off)',
  trustClock: 'remove old data at once even if the clock has jumped (off)',
  tracker: 'also report the runs of all models to a tracker: mlflow:http://HOST:PORT (none)',
  tokenTraceMegabytes: 'trained tokens to keep for viewing, MB per model; the oldest are removed first; 0 = none (64)',
  snapshotSteps:
    'gradient steps between snapshots of a running job in the blobs, so that another machine can continue it; 0 = none (5 on PostgreSQL, else 0)',
  schedulingPolicy: 'priority = lower priorities first; fcfs = in order of arrival (priority)',
  outageSeconds:
    'seconds during which cached keys and models stay valid while PostgreSQL is unreachable; 0 = none (60)',
  drainGraceMs:
    'ms between SIGTERM (/readyz returns 503) and closing the port; 0 on a terminal and without the role api (5000)',
  drainTimeoutMs: 'ms that a shutdown waits for running requests (20000)',
  allowedHosts:
    'Host names to accept besides those of this machine, comma-separated; .example.com = all subdomains (none)',
  allowedOrigins:
    'origins allowed to read responses (CORS), comma-separated; localhost = pages of this machine, * = all (localhost)',
  acceptModels: 'accept model files whose content changed since they were first read (off)',
  allowNetwork: 'allow a listen address that other machines can reach, without TLS (off)',
  metrics: 'who may read /metrics: auto, open, key or off (auto)',
  metricsListen:
    'PORT or HOST:PORT for /metrics, /livez, /readyz and /health of a process with role engine or trainer (none)',
  logFormat: 'text = readable lines; json = one object per line (text)',
  bodyTimeoutMs: 'ms to receive the body of a request (600000)',
  readerTimeoutMs:
    'ms after which a connection is closed if the client reads nothing of its response; 0 = never (60000)',
  minBodyRate: 'minimum rate of a request body, bytes per second over 20 s (500)',
  database:
    'PostgreSQL, postgres://USER@HOST:PORT/DATABASE; put the password in PGPASSWORD or PGPASSFILE (a file in the data folder)',
  databaseConnections: 'maximum connections to PostgreSQL (8)',
  bucket: 'S3 bucket for checkpoints and trajectories, https://HOST/BUCKET[/PREFIX] (a folder in the data folder)',
  bucketRegion: 'region of the bucket (us-east-1)',
  bucketCacheMegabytes: 'local cache of the bucket, MB (20000)',
  trainerUrl: 'URL of a Tinker server that trains instead of this machine (none)',
  trainerKey: 'key of the Tinker server; prefer the variable TRAINYARD_TRAINER_KEY over the flag (none)',
  trainerProfile: 'kind of Tinker server: skyrl, skyrl-gpu, hosted, miles, fireworks or open-rl (skyrl)',
  trainerModel: 'name of the base model on the Tinker server (its only one)',
  trainerTimeoutSeconds: 'timeout of one operation on the Tinker server, seconds (1800)',
  trainingDataDir: 'folder of .jsonl files that jobs can read by file: URLs (none)',
} as const satisfies Record<SettingName, string>;

/** Values of the options that {@link addSettingOptions} adds; a switch is true, a list all its values. */
export type SettingOptions = { readonly [Name in SettingName]?: string | true | string[] } & {
  readonly config?: string;
};

/** Adds a flag for every setting, and `--config FILE`. */
export function addSettingOptions(command: Command): Command {
  command.optionsGroup('settings:');
  for (const name of SETTING_NAMES) {
    const flag = `--${kebab(name)}${isSwitch(name) ? '' : ' <value>'}`;
    if (isList(name)) command.option(flag, HELP[name], append);
    else command.option(flag, HELP[name]);
  }
  return command
    .option('--config <FILE>', 'JSON file with the same settings in camelCase (trainyard.json when it exists)')
    .addHelpText(
      'after',
      '\nFlags override the environment (TRAINYARD_PORT and so on), which overrides the config file.',
    );
}

function append(value: string, values: string[] = []): string[] {
  return [...values, value];
}

/**
 * The configuration that options, the environment and the config file make.
 *
 * @throws {ServerError} `server.config_invalid`
 */
export function settingsOf(options: SettingOptions): ServiceConfig {
  const flags: Partial<Record<SettingName, string | string[]>> = {};
  for (const name of SETTING_NAMES) {
    const value = options[name];
    if (value !== undefined) flags[name] = value === true ? 'on' : value;
  }
  return resolveConfig({ flags, environment: process.env, configPath: options.config ?? null });
}
