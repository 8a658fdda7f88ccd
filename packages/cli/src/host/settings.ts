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
  role: 'all, or some of api, engine, trainer by commas: api = HTTP, engine = sampling for others behind a port, trainer = jobs without a port; they need a database that they share (all)',
  engineUrl: 'where API processes reach the engine of this process (the address that it listens on)',
  host: 'address to listen on (127.0.0.1)',
  port: 'TCP port, 0 = any free one (8420)',
  dataDir: 'folder for the database, checkpoints and models (.trainyard)',
  apiKey: 'the admin key of the service; another one replaces it (made up at the first start)',
  entity: 'owner of everything made without an explicit entity (local)',
  model:
    'GGUF file of a base model, PATH or ID=PATH; again for each further one, the first is the default (SmolLM2-135M-Instruct)',
  modelId: 'id under which the first base model is served (from the file)',
  vllm: 'vLLM server that samples, http://HOST:PORT or ID=http://HOST:PORT; again for each one (none)',
  vllmKey: 'key of the vLLM servers (none)',
  vllmModel: 'name of the base model there (the only one)',
  vllmAdapterDir: 'folder that the vLLM servers see too, for adapters (none)',
  vllmAdapterPath: 'its path there (the same)',
  vllmMaxAdapters: 'adapters that each vLLM server holds (16)',
  vllmMaxLoraRank: 'largest rank of an adapter, as the vLLM servers were started (they are asked)',
  vllmSchedulingPolicy: 'as the vLLM servers were started: fcfs or priority (fcfs)',
  vllmCheck: 'off: the model of the vLLM servers is not compared (on)',
  modelMemoryMegabytes:
    'what base models may take in memory together, MB; they come and go as requests need them (as 70 % of memory)',
  precision:
    'exact = sampler and trainer are one code (or llama.cpp to 1e-3); strict = or llama.cpp to 1e-5; fast = the file as it is; bf16 = both with matrices in bf16 where the processor has it, 0.02 nats apart (exact)',
  onednn:
    'library of oneDNN, for precision bf16 (libraries/libdnnl.so.3 in the data folder, else the one of the system)',
  deterministic:
    'training computes log-probabilities with the code of sampling, equal to the bit; a step takes 1.6 times as long (off)',
  threads: 'threads of each host (all cores)',
  capacityTokens:
    'KV cache over all sequences of a base model, in tokens; with cache-megabytes as many as those hold (16384)',
  cacheMegabytes: 'what that cache may take in memory, MB; of both the smaller holds (what the tokens take)',
  adapterMegabytes: 'memory for adapters of each base model, MB; those in use may exceed it (256)',
  maxSequences: 'sequences in one batch (128)',
  maxRequests: 'requests in flight, running and waiting (2048)',
  maxChoices: 'choices (n) of one request (as many as max-sequences)',
  maxLogprobs: 'log-probabilities a token that a request may ask for; -1 = all of the vocabulary (20)',
  logprobsMode:
    'raw_logprobs, processed_logprobs, raw_logits or processed_logits: values of the log-probability fields (raw_logprobs)',
  engineShare: 'part of the compute time sampling gets while training has work too (0.7)',
  requestTemplates:
    'on = run chat templates that come with requests, in processes of their own; off = refuse them (on)',
  specialTokens: 'plain = texts of control tokens in messages stay text; control = they become tokens (plain)',
  toolParser: 'format of tool calls: auto, hermes, qwen_xml, llama3_json, mistral, pythonic, kimi_k2, glm, … (auto)',
  reasoningContent: 'on = answer reasoning as reasoning_content too (off)',
  choiceRecords: 'on = keep what is sampled from trained models for a while, for training to go by; off (on)',
  choiceRecordHours: 'how long a record of a choice is kept, hours (24)',
  choiceRecordMegabytes: 'what all records may take, MB; the oldest go first (256)',
  storeResponses:
    'how long answers of /v1/responses are kept for previous_response_id: 1d, 12h, 30m …; off = not at all (1d)',
  storeResponsesMegabytes: 'limit of kept answers per entity, MB; the oldest are removed first (256)',
  trajectoryDays: 'how long the data of ended jobs and logged trajectories are kept, days; 0 = for ever (30)',
  removeOrphans: 'blobs without a row that are removed: known = those that this database has known; all; none (known)',
  orphanDays: 'age at which such a blob goes to the bin, days (7)',
  binDays: 'age at which a blob in the bin is removed, days (7)',
  orphanShare: 'largest share of all blobs that goes to the bin at a time; of more orphans none goes (0.2)',
  keepCheckpoints:
    'checkpoints that are kept besides step 0, marked ones and those in use: last=N, best, every=K, optimizer=N (of so many the optimizer state), by commas; or all (last=20,best,every=10)',
  adoptBlobs: 'take over the blobs of a lost or another database and rebuild models and checkpoints from them (off)',
  trustClock: 'remove old data at once although the clock has stepped (off)',
  tracker: 'tell the runs of all models to a tracker too: mlflow:http://HOST:PORT (none)',
  tokenTraceMegabytes:
    'how much of the trained tokens is kept to look at, MB a model; the oldest go first; 0 = nothing (64)',
  snapshotSteps:
    'gradient steps between two copies of a running job in the blobs, for another machine to go on from; 0 = none (5 on PostgreSQL, else 0)',
  schedulingPolicy: 'priority = lower priorities first; fcfs = in order of arrival (priority)',
  outageSeconds:
    'how long keys and models that were used are taken as they were read last while PostgreSQL is away, seconds; 0 = not (60)',
  drainGraceMs:
    'ms between SIGTERM, when /readyz says 503, and the end of the port; 0 on a terminal and without the role api (5000)',
  drainTimeoutMs: 'how long a shutdown waits for running requests (20000)',
  allowedHosts: 'names that Host may have beside those of this machine, by commas; .example.com = all below it (none)',
  allowedOrigins:
    'origins whose pages may read answers, by commas; localhost = pages of this machine, * = all (localhost)',
  acceptModels: 'Accept model files whose content changed since they were first read (off)',
  allowNetwork: 'allows an address that other machines reach, without TLS (off)',
  metrics: 'who may read /metrics: auto, open, key or off (auto)',
  metricsListen:
    'PORT or HOST:PORT where a process of role engine or trainer answers /metrics, /livez, /readyz and /health (nowhere)',
  logFormat: 'text = lines for people; json = an object a line (text)',
  bodyTimeoutMs: 'how long the body of a request may take to come in (600000)',
  readerTimeoutMs:
    'how long a client may take nothing of its answer before its connection is closed; 0 = for ever (60000)',
  minBodyRate: 'slowest pace of a body, bytes a second over 20 s (500)',
  database:
    'PostgreSQL, postgres://USER@HOST:PORT/DATABASE; the password better in PGPASSWORD or PGPASSFILE (a file of the data folder)',
  databaseConnections: 'connections to it at most (8)',
  bucket: 'bucket of S3 for checkpoints and trajectories, https://HOST/BUCKET[/PREFIX] (a folder of the data folder)',
  bucketRegion: 'its region (us-east-1)',
  bucketCacheMegabytes: 'what is kept of it on this machine, MB (20000)',
  trainerUrl: 'address of a Tinker server that trains in place of this machine (none)',
  trainerKey: 'its key; better in the variable than on the command line (none)',
  trainerProfile: 'skyrl, skyrl-gpu, hosted, miles, fireworks or open-rl: which server it is (skyrl)',
  trainerModel: 'name of the base model there (as its only one)',
  trainerTimeoutSeconds: 'how long one operation there may take, seconds (1800)',
  trainingDataDir: 'folder of .jsonl files that jobs may name by file: URLs (none)',
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
