import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { resolveConfig } from './config.ts';
import { SETTING_NAMES } from './setting-table.ts';

const none = { flags: {}, environment: {}, configPath: null };

function configFile(content: string): string {
  const path = join(mkdtempSync(join(tmpdir(), 'trainyard-config-')), 'trainyard.json');
  writeFileSync(path, content);
  return path;
}

describe('resolveConfig', () => {
  it('has the documented defaults', () => {
    expect(resolveConfig(none)).toMatchObject({
      host: '127.0.0.1',
      port: 8420,
      entity: 'local',
      apiKey: null,
      precision: 'exact',
      engineShare: 0.7,
      choiceRecords: 'on',
      choiceRecordHours: 24,
      choiceRecordMegabytes: 256,
      storeResponsesMs: 86_400_000,
      storeResponsesMegabytes: 256,
      trajectoryDays: 30,
      removeOrphans: 'known',
      orphanDays: 7,
      binDays: 7,
      orphanShare: 0.2,
      keepCheckpoints: { last: 20, best: true, every: 10, optimizer: 2 },
      adoptsBlobs: false,
      trustsClock: false,
    });
    expect(resolveConfig(none).dataDirectory).toBe(join(process.cwd(), '.trainyard'));
  });

  it('takes a policy of checkpoints, and refuses another text with the forms that there are', () => {
    const policyOf = (keepCheckpoints: string) =>
      resolveConfig({ ...none, flags: { keepCheckpoints } }).keepCheckpoints;
    expect(policyOf('all')).toBeNull();
    expect(policyOf('last=3')).toEqual({ last: 3, best: false, every: null, optimizer: 2 });
    expect(() => policyOf('last=0')).toThrow(/--keep-checkpoints.*`all`.*`last=N`.*last=0/);
  });

  it('keeps answers for a time, or not at all', () => {
    const timeOf = (storeResponses: string) => resolveConfig({ ...none, flags: { storeResponses } }).storeResponsesMs;
    expect(['30m', '12h', '7d', 'off'].map(timeOf)).toEqual([1_800_000, 43_200_000, 604_800_000, null]);
    for (const wrong of ['0d', '1', '1.5h', '4000d', 'on', '-1d'])
      expect(() => timeOf(wrong)).toThrow('flag --store-responses must be off, or a time up to 3650d such as 1d');
    const environment = { TRAINYARD_STORE_RESPONSES: 'off', TRAINYARD_STORE_RESPONSES_MEGABYTES: '5' };
    expect(resolveConfig({ ...none, environment })).toMatchObject({
      storeResponsesMs: null,
      storeResponsesMegabytes: 5,
    });
  });

  it('splits a service into parts only if they can reach each other', () => {
    const database = 'postgres://u@db/x';
    const environment = { TRAINYARD_ENGINE_SECRET: 's'.repeat(32) };
    for (const role of ['api', 'engine', 'trainer', 'api,engine', 'api,trainer', 'engine,trainer'] as const) {
      const config = resolveConfig({ ...none, environment, flags: { role, database } });
      expect(config.role).toBe(role);
      expect(config.engineSecret).toBe(role === 'api,engine' ? null : 's'.repeat(32));
      expect(() => resolveConfig({ ...none, flags: { role } })).toThrow(
        `--role ${role} needs a shared database: set --database to postgres://…`,
      );
    }
    expect(resolveConfig(none).role).toBe('all');
    const roleOf = (role: string) => resolveConfig({ ...none, environment, flags: { role, database } }).role;
    expect([roleOf('trainer,api,engine'), roleOf('engine,api')]).toEqual(['all', 'api,engine']);
    for (const role of ['apis', 'api,', 'all,api', ','])
      expect(() => roleOf(role)).toThrow('must be all, or a comma-separated list of api, engine, trainer');
  });

  it('takes the secret of engines only from the environment, and requires a long one', () => {
    const flags = { database: 'postgres://u@db/x' };
    const refusal = (role: string, secret?: string) => () =>
      resolveConfig({ ...none, flags: { ...flags, role }, environment: { TRAINYARD_ENGINE_SECRET: secret } });
    expect(refusal('engine')).toThrow('role engine opens a port for other processes, but the environment variable');
    expect(refusal('api')).toThrow('role api uses remote engines (role api,engine samples in this process)');
    const short = 'a short secret';
    expect(refusal('engine', short)).toThrow('has 14 characters');
    expect(refusal('engine', short)).not.toThrow(short);
    // A trainer may lack it: then engines load new steps by themselves.
    expect(refusal('trainer')).not.toThrow();
    expect(refusal('trainer', short)).toThrow(
      'role trainer asks engines to load new steps, but the environment variable',
    );
    expect(SETTING_NAMES).not.toContain('engineSecret');
  });

  it('has sampler and trainer equal to the bit if both are one code', () => {
    const config = (flags: Record<string, string>) => resolveConfig({ ...none, flags });
    expect(config({ deterministic: 'on', precision: 'strict' }).isDeterministic).toBe(true);
    expect(() => config({ deterministic: 'on', precision: 'fast' })).toThrow(
      '--deterministic requires --precision exact or strict, got fast',
    );
    expect(() => config({ deterministic: 'on', precision: 'bf16' })).toThrow('got bf16');
  });

  it('refuses a mode of logits with vLLM servers', () => {
    const config = (flags: Record<string, string>) => resolveConfig({ ...none, flags });
    const vllm = 'http://v:1';
    for (const logprobsMode of ['raw_logits', 'processed_logits']) {
      expect(() => config({ logprobsMode, vllm })).toThrow(
        `--logprobs-mode must be a mode of log-probabilities with --vllm, got ${logprobsMode}`,
      );
      expect(config({ logprobsMode }).logprobsMode).toBe(logprobsMode);
    }
    expect(config({ logprobsMode: 'processed_logprobs', vllm }).logprobsMode).toBe('processed_logprobs');
  });

  it('refuses settings of absent parts', () => {
    const config = (flags: Record<string, string>) => () =>
      resolveConfig({ flags, environment: { TRAINYARD_ENGINE_SECRET: 's'.repeat(32) }, configPath: null });
    for (const [name, value] of [
      ['vllmKey', 'k'],
      ['vllmModel', 'm'],
      ['vllmAdapterDir', 'a'],
      ['vllmAdapterPath', '/a'],
      ['vllmMaxAdapters', '4'],
      ['vllmMaxLoraRank', '8'],
      ['vllmSchedulingPolicy', 'fcfs'],
      ['vllmCheck', 'off'],
    ] as const) {
      const flag = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
      expect(config({ [name]: value })).toThrow(`--${flag} requires --vllm`);
      expect(config({ [name]: value, vllm: 'http://v:1' })).not.toThrow();
    }
    const engineUrl = 'https://gpu:8443';
    const database = 'postgres://u@db/x';
    expect(config({ engineUrl })).toThrow('--engine-url needs --role engine (the role is all)');
    for (const role of ['api', 'api,engine'])
      expect(config({ engineUrl, role, database })).toThrow('--engine-url needs --role engine');
    // Engines and trainers may have the same settings.
    for (const role of ['engine', 'trainer', 'engine,trainer'])
      expect(config({ engineUrl, role, database })).not.toThrow();
  });

  it('reads vLLM servers by model', () => {
    const models = ['one=a.gguf', 'two=b.gguf'];
    const config = (vllm: string[], flags = {}) => resolveConfig({ ...none, flags: { model: models, vllm, ...flags } });
    const urls = (vllm: string[]) => config(vllm).models.map(({ vllmUrls }) => vllmUrls);
    expect(urls([])).toEqual([[], []]);
    expect(urls(['http://a:1', 'two=http://b:2/v1', 'https://c'])).toEqual([
      ['http://a:1', 'https://c'],
      ['http://b:2/v1'],
    ]);
    const environment = { TRAINYARD_VLLM: 'http://a:1,http://b:2', TRAINYARD_VLLM_KEY: 'k' };
    const fromEnvironment = resolveConfig({ ...none, environment });
    expect(fromEnvironment.models[0]?.vllmUrls).toEqual(['http://a:1', 'http://b:2']);
    expect(fromEnvironment.vllm).toEqual({
      apiKey: 'k',
      model: null,
      adapterDirectory: null,
      adapterPath: null,
      maxLoraRank: null,
      maxAdapters: 16,
      schedulingPolicy: 'fcfs',
      checksModel: true,
    });
    const configPath = configFile(JSON.stringify({ vllm: ['http://a:1'], vllmCheck: 'off' }));
    expect(resolveConfig({ ...none, configPath })).toMatchObject({ vllm: { checksModel: false } });
    expect(() => config(['a:1'])).toThrow('flag --vllm must be http://HOST:PORT, or ID=http://HOST:PORT');
    expect(() => config(['http://user:secret@a'])).toThrow('flag --vllm must be http://HOST:PORT');
    expect(() => config(['three=http://a:1'])).toThrow('has the model three, which is not served; served: one, two');
    expect(() => config([], { vllmAdapterPath: 'there' })).toThrow('flag --vllm-adapter-path must be an absolute path');
  });

  it('lets flags override the environment, which overrides the file', () => {
    const configPath = configFile(JSON.stringify({ port: 1, host: '127.0.0.2', entity: 'file' }));
    const environment = { TRAINYARD_PORT: '2', TRAINYARD_HOST: '127.0.0.3' };
    expect(resolveConfig({ flags: { port: '3' }, environment, configPath })).toMatchObject({
      port: 3,
      host: '127.0.0.3',
      entity: 'file',
    });
  });

  it('reads lists by commas', () => {
    expect(resolveConfig(none)).toMatchObject({ allowedHosts: [], allowedOrigins: ['localhost'], allowNetwork: 'off' });
    const environment = { TRAINYARD_ALLOWED_HOSTS: 'api.example,.b.example,*', TRAINYARD_ALLOW_NETWORK: 'on' };
    const flags = { allowedOrigins: 'https://app.example:8443,localhost' };
    expect(resolveConfig({ ...none, flags, environment })).toMatchObject({
      allowedHosts: ['api.example', '.b.example', '*'],
      allowedOrigins: ['https://app.example:8443', 'localhost'],
      allowNetwork: 'on',
    });
  });

  it('keeps 0 as a value', () => {
    expect(resolveConfig({ ...none, flags: { port: '0', drainTimeoutMs: '0', trajectoryDays: '0' } })).toMatchObject({
      port: 0,
      trajectoryDays: 0,
      drainTimeoutMs: 0,
    });
  });

  it.each([
    [{ flags: { port: '70000' } }, 'flag --port must be a whole number from 0 to 65535, got "70000"'],
    [{ flags: { port: '1.5' } }, 'flag --port must be a whole number'],
    [{ flags: { port: '' } }, 'flag --port must be a whole number'],
    [
      { environment: { TRAINYARD_PRECISION: 'half' } },
      'environment variable TRAINYARD_PRECISION must be one of exact, strict, fast, bf16, got "half"',
    ],
    [
      { environment: { TRAINYARD_ENTITY: 'team/alpha' } },
      'environment variable TRAINYARD_ENTITY must be text of the form',
    ],
    [
      { environment: { TRAINYARD_API_KEY: 'my secret' } },
      'TRAINYARD_API_KEY must be text of the form ^[\\x21-\\x7e]+$, got something else',
    ],
    [{ flags: { engineShare: '1' } }, 'flag --engine-share must be a number from 0.05 to 0.95, got "1"'],
    [
      { flags: { allowedHosts: 'http://a' } },
      'flag --allowed-hosts must be a comma-separated list of names, got "http://a"',
    ],
    [
      { flags: { allowedOrigins: 'app.example' } },
      'flag --allowed-origins must be a comma-separated list of origins (https://',
    ],
    [{ configPath: '/nonexistent/trainyard.json' }, 'the config file /nonexistent/trainyard.json cannot be read'],
  ])('refuses %j', (sources, message) => {
    expect(() => resolveConfig({ ...none, ...sources })).toThrow(message);
  });

  it('has a database address with effective parameters only, or none', () => {
    const refusal = (database: string, environment = {}) => {
      try {
        return resolveConfig({ ...none, flags: { database }, environment });
      } catch (error) {
        return error;
      }
    };
    const words = (text: string) =>
      expect.objectContaining({ code: 'server.config_invalid', message: expect.stringContaining(text) });
    expect(refusal('postgres://u:secret@db/x?sslmod=require')).toEqual(
      words('the address of the database (--database) has the invalid parameter sslmod: unknown; supported are'),
    );
    expect(refusal('postgres://u:secret@db/x?sslmode=requre')).toEqual(words('got "requre"'));
    expect(refusal('postgres://u:secret@db/x', { PGSSLMODE: 'requre' })).toEqual(
      words('the environment variable PGSSLMODE'),
    );
    expect(String(refusal('postgres://u:secret@db/x?sslmod=require'))).not.toContain('secret');
    expect(refusal('postgres://u:secret@db/x?sslmode=require')).toHaveProperty('database.kind', 'postgres');
  });

  it('refuses a file that is not JSON, not an object, or has unknown settings', () => {
    expect(() => resolveConfig({ ...none, configPath: configFile('{') })).toThrow('is not JSON');
    expect(() => resolveConfig({ ...none, configPath: configFile('[]') })).toThrow('must hold one JSON object');
    expect(() => resolveConfig({ ...none, configPath: configFile('{"prot": 1}') })).toThrow('unknown settings: prot');
    expect(() => resolveConfig({ ...none, configPath: configFile('{"port": "x"}') })).toThrow('"port" in');
  });
});

it.each([
  ['/elsewhere/SmolLM2-135M-Instruct.Q4_1.gguf', 'HuggingFaceTB/SmolLM2-135M-Instruct'],
  ['/elsewhere/Other.Q4_0.gguf', 'Other.Q4_0'],
])('the model file %s is served as %s, unless an id is given', (model, modelId) => {
  const environment = { TRAINYARD_MODEL: model };
  const ids = (flags: object) => resolveConfig({ flags, environment, configPath: null }).models.map(({ id }) => id);
  expect(ids({})).toEqual([modelId]);
  expect(ids({ modelId: 'mine' })).toEqual(['mine']);
});
