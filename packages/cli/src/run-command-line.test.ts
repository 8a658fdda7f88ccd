import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { SERVICE_VERSION } from '@trainyard/server';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';

import { COMMANDS } from './commands.ts';
import { runCommandLine } from './run-command-line.ts';

const NAMES = COMMANDS.map((make) => make().name());

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'trainyard-command-line-'))));
afterAll(async () => await rm(folder, { recursive: true }));

beforeEach(() => {
  vi.stubEnv('TRAINYARD_API_KEY', 'some-key');
  vi.stubEnv('TRAINYARD_DATA_DIR', join(folder, 'data'));
});
afterEach(() => vi.unstubAllEnvs());

/** Runs a command line in this process, with a key and a data folder in its environment. */
async function trainyard(...args: string[]): Promise<{ exitCode: number; output: string }> {
  let output = '';
  const spies = [process.stdout, process.stderr].map((stream) =>
    vi.spyOn(stream, 'write').mockImplementation((text) => (output += String(text)) !== ''),
  );
  try {
    const exitCode = await runCommandLine(args);
    return { exitCode, output };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

/**
 * A server with the same answer for every request. @param headers default: the mark of the service @returns
 * its URL
 */
async function answering(status: number, body = '{}', headers = OURS): Promise<string> {
  const server = createServer((_request, response) => response.writeHead(status, headers).end(body));
  return `${await listening(server)}/v1`;
}

/** Every response of the service names its request. */
const OURS: Record<string, string> = { 'x-request-id': 'some-request' };

async function listening(server: Server): Promise<string> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** URL of a port without a listener. */
async function deadUrl(): Promise<string> {
  const server = createServer();
  const url = await new Promise<string>((done) =>
    server.listen(0, '127.0.0.1', () => done(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`)),
  );
  await new Promise((done) => server.close(done));
  return url;
}

const STACK = /^ {4}at /m;

/** Lines that do not fit 80 columns, without those of examples: a command line has no place to break. */
const tooLong = (output: string): string[] =>
  output.split('\n').filter((line) => line.length > 80 && !line.startsWith('  trainyard '));

describe('the command line', () => {
  test('prints its version', async () => {
    expect(await trainyard('--version')).toMatchObject({ exitCode: 0, output: `${SERVICE_VERSION}\n` });
  });

  test('lists its commands, and ends well', async () => {
    for (const args of [[], ['--help'], ['-h'], ['help']]) {
      const { exitCode, output } = await trainyard(...args);
      expect(exitCode).toBe(0);
      for (const name of NAMES) expect(output).toMatch(new RegExp(`^  ${name} `, 'm'));
      expect(tooLong(output)).toEqual([]);
    }
  });

  test.each([
    ...['create', 'list', 'revoke'].map((name) => ['keys', name]),
    ...['list', 'show', 'delete'].map((name) => ['models', name]),
    ...['list', 'watch', 'cancel', 'pause', 'resume'].map((name) => ['jobs', name]),
  ])('has a help with examples for %s %s', async (above, name) => {
    const { exitCode, output } = await trainyard(above!, name!, '--help');
    expect(exitCode).toBe(0);
    expect(output).toMatch(new RegExp(`^usage: trainyard ${above} ${name} `));
    expect(output).toMatch(new RegExp(`^examples:\\n  .*trainyard ${above} ${name}`, 'm'));
    for (const flag of ['--json', '--url', '--api-key', '--data-dir']) expect(output).toContain(`  ${flag}`);
    expect(tooLong(output)).toEqual([]);
  });

  test.each(NAMES)('has a help for %s, with the flag at any place', async (name) => {
    for (const args of [
      [name, '--help'],
      [name, '-h'],
      ['help', name],
      [name, '--nonsense', '--help'],
    ]) {
      const { exitCode, output } = await trainyard(...args);
      expect({ args, exitCode }).toEqual({ args, exitCode: 0 });
      expect(output).toMatch(new RegExp(`^usage: trainyard ${name} `));
      expect(tooLong(output)).toEqual([]);
    }
  });

  test.each([
    [['nonsense'], "unknown command 'nonsense'"],
    [['help', 'nonsense'], 'unknown command nonsense: serve, doctor, '],
    [['serve', '--nonsense'], "unknown option '--nonsense'"],
    [['serve', 'nonsense'], "too many arguments for 'serve'"],
    [['serve', '--port=-1'], 'flag --port must be a whole number'],
    [['serve', '--port', 'x'], 'flag --port must be a whole number from 0 to 65535, got "x"'],
    [['doctor', '--nonsense'], "unknown option '--nonsense'"],
    [['doctor', '--url', 'nonsense'], '--url must be an http or https URL'],
    [['export', '--format', 'peft', '--output', 'x'], "missing required argument 'MODEL' (or --base PATH)"],
    [['export', 'agent', '--base', 'm.gguf', '--output', 'x'], '--base exports a base model: do not pass MODEL'],
    [['export', 'a', 'b', '--format', 'peft', '--output', 'x'], "too many arguments for 'export'"],
    [['export', 'agent', '--output', 'x'], "required option '--format <FORMAT>' not specified"],
    [
      ['export', 'agent', '--format', 'zip'],
      "option '--format <FORMAT>' argument 'zip' is invalid. Allowed choices are peft, gguf-adapter, ",
    ],
    [
      ['export', 'agent', '--format', 'peft', '--dtype', 'f8'],
      "option '--dtype <TYPE>' argument 'f8' is invalid. Allowed choices are f16, f32.",
    ],
    [['export', 'agent', '--format', 'peft'], "required option '--output <FOLDER>' not specified"],
    [['models'], 'missing command: list, show, label, delete'],
    [['models', 'list', 'x'], "too many arguments for 'list'"],
    [['models', 'show'], "missing required argument 'MODEL'"],
    [['jobs', 'watch', 'a', 'b'], "too many arguments for 'watch'"],
    [
      ['jobs', 'list', '--status', 'done'],
      "option '--status <STATUS>' argument 'done' is invalid. Allowed choices are ",
    ],
    [['jobs', 'list', '--limit', '0'], '--limit must be a whole number from 1, got "0"'],
    [['jobs', 'cancel'], "missing required argument 'JOB'"],
    [['chat', '--set', 'hot'], '--set takes FIELD=VALUE such as temperature=0.7, got "hot"'],
    [['sft', 'facts.jsonl'], "required option '--model <[[ENTITY/]PROJECT/]NAME>' not specified"],
    [
      ['sft', 'facts.jsonl', '--model', 'a/b/c/d'],
      '--model takes NAME, PROJECT/NAME or ENTITY/PROJECT/NAME, got "a/b/c/d"',
    ],
    [['sft', 'gone.jsonl', '--model', 'a'], 'cannot read the file gone.jsonl'],
    [['sft', 'facts.jsonl', '--model', 'a', '--epochs', 'few'], '--epochs must be a number above 0, got "few"'],
    [['import'], "missing required argument 'FOLDER'"],
    [['import', '.', '--as', 'a:b'], '--as takes NAME, PROJECT/NAME or ENTITY/PROJECT/NAME, got "a:b"'],
    [['usage', '--by', 'hour'], '--by takes project, key, model, kind, day, got "hour"'],
    [['usage', '--since', 'ever'], '--since must be a time such as 12h, 7d or 2027-01-31, got "ever"'],
    [['logs', '--limit', '-1'], '--limit must be a whole number from 0, got "-1"'],
    [['open', 'a', 'b'], "too many arguments for 'open'"],
    [['models', 'list', '--project='], '--project is empty'],
    [['logs', '--limit', ''], '--limit is empty'],
    [['jobs', 'list', '--model', ' '], '--model is empty'],
    [['chat', '-m', ''], '--message is empty'],
    [['models', 'list', '--api-key='], '--api-key is empty'],
    [
      ['models', 'list', '--api-key', 'ключ'],
      'flag --api-key must be text of the form ^[\\x21-\\x7e]+$, got something else',
    ],
    [
      ['models', 'list', '--url', 'http://me:secret@h/v1'],
      '--url must not have a user, query or fragment; use http://h/v1',
    ],
    [
      ['models', 'list', '--url', 'http://h/sign-in#code'],
      '--url must not have a user, query or fragment; use http://h/sign-in',
    ],
    [['models', 'list', '--url', 'http://h/v1?a=b'], '--url must not have a user, query or fragment; use http://h/v1'],
    [
      ['completion', 'csh'],
      "command-argument value 'csh' is invalid for argument 'SHELL'. Allowed choices are bash, zsh, fish.",
    ],
  ])('a wrong command line is two lines and exit code 2: %j', async (args, expected) => {
    const { exitCode, output } = await trainyard(...args);
    const [line, pointer, ...rest] = output.split('\n');
    expect(line).toContain(`trainyard: ${expected}`);
    const words = NAMES.includes(args[0]!) ? [args[0]!] : [];
    const below = COMMANDS.map((make) => make()).find((command) => command.name() === args[0])?.commands ?? [];
    if (below.some((command) => command.name() === args[1])) words.push(args[1]!);
    const named = words.map((word) => ` ${word}`).join('');
    // A setting has the same error in the environment and on the command line.
    if (!expected.startsWith('flag')) expect(pointer).toBe(`see "trainyard${named} --help"`);
    expect(rest.filter((text) => text !== '')).toEqual([]);
    expect(output).not.toMatch(STACK);
    expect(exitCode).toBe(2);
  });
});

describe('with nothing listening', () => {
  test('export ends with exit code 3 and leaves no folder', async () => {
    const output = join(folder, 'some/new/folder');
    const url = await deadUrl();
    const result = await trainyard('export', 'agent', '--format', 'peft', '--output', output, '--url', url);
    expect(result.output).toBe(`trainyard: ${url}: nothing listens there; "npm start" starts a service\n`);
    expect(result.exitCode).toBe(3);
    expect(existsSync(join(folder, 'some'))).toBe(false);
  });

  test('the environment names a service, unless an option names one or a data folder', async () => {
    const [url, other] = [await deadUrl(), await deadUrl()];
    vi.stubEnv('TRAINYARD_BASE_URL', url.replace('/v1', ''));
    const failed = (at: string) => `trainyard: ${at}: nothing listens there; "npm start" starts a service\n`;
    expect((await trainyard('models', 'list')).output).toBe(failed(url));
    expect((await trainyard('keys', 'list')).output).toBe(failed(url));
    expect((await trainyard('doctor')).output).toContain(`BAD  service at ${url}: nothing listens there`);
    expect((await trainyard('models', 'list', '--url', other)).output).toBe(failed(other));
    const missing = join(folder, 'missing');
    expect((await trainyard('keys', 'list', '--data-dir', missing)).output).toContain(`no data folder ${missing}`);
    vi.stubEnv('TRAINYARD_BASE_URL', 'nonsense');
    const { exitCode, output } = await trainyard('models', 'list');
    expect([exitCode, output]).toEqual([
      2,
      expect.stringMatching(/^trainyard: TRAINYARD_BASE_URL must be an http or https URL/),
    ]);
    vi.stubEnv('TRAINYARD_BASE_URL', '');
    expect((await trainyard('keys', 'list')).output).toContain('no data folder');
  });

  test('the doctor reports it, and prints no key', async () => {
    const url = await deadUrl();
    const { exitCode, output } = await trainyard('doctor', '--url', url);
    expect(output).toContain(`BAD  service at ${url}: nothing listens there`);
    expect(output).not.toContain('key');
    expect(exitCode).toBe(1);
  });

  test('the doctor reports it in JSON', async () => {
    const url = await deadUrl();
    const { exitCode, output } = await trainyard('doctor', '--json', '--url', url);
    const { ok, checks } = JSON.parse(output) as { ok: boolean; checks: { name: string; problem: string | null }[] };
    expect(ok).toBe(false);
    expect(checks.map(({ name }) => name)).toEqual([
      'node',
      'model',
      'data_folder',
      'database',
      'precision',
      'service',
    ]);
    expect(checks.at(-1)?.problem).toContain('nothing listens there');
    expect(exitCode).toBe(1);
  });
});

test('a folder that cannot be made ends an export before the service is asked', async () => {
  await writeFile(join(folder, 'no-folder'), '');
  const proc = existsSync('/proc/self') ? ['/proc/x', '/proc/x/y'] : [];
  for (const output of [join(folder, 'no-folder/below'), ...proc]) {
    const result = await trainyard('export', 'agent', '--format', 'peft', '--output', output);
    expect(result.output).toMatch(`trainyard: cannot create the folder ${output}: `);
    expect(result.exitCode).toBe(1);
  }
});

test.runIf(existsSync('/proc/self'))('no service starts on a data folder below one that takes none', async () => {
  const umask = process.umask();
  onTestFinished(() => void process.umask(umask));
  const { exitCode, output } = await trainyard('serve', '--data-dir', '/proc/x');
  expect(output).toContain('/proc/x');
  expect(output).toMatch(/TRAINYARD_DATA_DIR to another/);
  expect(exitCode).toBe(1);
});

test('an unknown variable that looks like a setting is reported by a start and by the doctor', async () => {
  const umask = process.umask();
  onTestFinished(() => void process.umask(umask));
  vi.stubEnv('TRAINYARD_PROT', '9000');
  const finding = 'unknown setting in the environment: TRAINYARD_PROT (did you mean TRAINYARD_PORT?)';
  const file = join(folder, 'a-file-again');
  await writeFile(file, '');
  const started = await trainyard('serve', '--data-dir', file);
  expect(started.output).toMatch(`${finding}; ignored\ntrainyard: the data folder ${file} cannot be used`);
  const examined = await trainyard('doctor', '--url', await deadUrl());
  expect(examined.output).toContain(`BAD  settings: ${finding}\n`);
});

test('the doctor reports missing requirements of bf16', async () => {
  const missing = join(folder, 'libdnnl.so.3');
  const { output } = await trainyard('doctor', '--url', await deadUrl(), '--precision', 'bf16', '--onednn', missing);
  expect(output).toMatch(
    /^BAD {2}precision bf16: .*there is no .*libdnnl\.so\.3: run "npm run bf16", or set TRAINYARD_ONEDNN$/m,
  );
});

test('a start without the library of bf16 is refused in one line, and leaves nothing', async () => {
  const umask = process.umask();
  onTestFinished(() => void process.umask(umask));
  const data = join(folder, 'without-onednn');
  const missing = join(folder, 'libdnnl.so.3');
  const args = ['--port', '0', '--data-dir', data, '--precision', 'bf16', '--onednn', missing];
  const { exitCode, output } = await trainyard('serve', ...args);
  expect(output).toMatch(
    /^trainyard: precision is bf16, and .*there is no .*libdnnl\.so\.3: run "npm run bf16", or set TRAINYARD_ONEDNN\n$/,
  );
  expect(exitCode).toBe(2);
  expect(existsSync(data)).toBe(false);
});

test('a default model that is not there yet is no fault: the first start fetches it', async () => {
  const data = join(folder, 'fresh');
  const { output } = await trainyard('doctor', '--url', await deadUrl(), '--data-dir', data);
  expect(output).toContain(
    `ok   model file ${data}/models/SmolLM2-135M-Instruct.Q4_1.gguf (downloaded at the first start, 98 MB)\n`,
  );
});

test('a start on an invalid model is refused in one line, and leaves nothing', async () => {
  const umask = process.umask();
  onTestFinished(() => void process.umask(umask));
  const data = join(folder, 'without-model');
  for (const [path, why] of [
    [folder, `folder ${folder}: it has no config.json: pass a GGUF file, or a folder in the Hugging Face format`],
    [import.meta.filename, `file ${import.meta.filename} is not a readable GGUF file: no "GGUF" magic`],
  ] as const) {
    const { exitCode, output } = await trainyard('serve', '--port', '0', '--data-dir', data, '--model', `a=${path}`);
    expect(output).toBe(`trainyard: the model ${why}\n`);
    expect(exitCode).toBe(2);
    expect(existsSync(data)).toBe(false);
  }
});

test('the doctor looks for the file of every base model', async () => {
  const [text, cut, gone] = [import.meta.filename, join(folder, 'cut.gguf'), join(folder, 'gone.gguf')];
  await writeFile(cut, cutOffGguf());
  const models = [text, folder, cut, gone].flatMap((path, index) => ['--model', `org/model-${index}=${path}`]);
  const { exitCode, output } = await trainyard('doctor', '--url', await deadUrl(), ...models);
  expect(output).toMatch(new RegExp(`^BAD  model file ${text}: .*is not a readable GGUF file: no "GGUF" magic`, 'm'));
  expect(output).toMatch(new RegExp(`^BAD  model file ${folder}: .*it has no config\\.json`, 'm'));
  expect(output).toMatch(new RegExp(`^BAD  model file ${cut}: .*tensor data beyond the end of the file`, 'm'));
  expect(output).toContain(`BAD  model file ${gone}: missing`);
  expect(exitCode).toBe(1);
}, 20_000);

/** Header of one tensor whose data are missing. */
function cutOffGguf(): Uint8Array {
  const [u32, u64] = [
    (value: number) => new Uint8Array(new Uint32Array([value]).buffer),
    (value: number) => new Uint8Array(new BigUint64Array([BigInt(value)]).buffer),
  ];
  const start = [Buffer.from('GGUF'), u32(3), u64(1), u64(0)];
  return Buffer.concat([...start, u64(1), Buffer.from('t'), u32(1), u64(32), u32(0), u64(1 << 20)]);
}

test.each(['a-file', 'a-file/below'])('no model is fetched into the data folder %s, which cannot be', async (name) => {
  const umask = process.umask();
  onTestFinished(() => void process.umask(umask));
  await writeFile(join(folder, 'a-file'), '');
  const { exitCode, output } = await trainyard('serve', '--data-dir', join(folder, name));
  expect(output).toBe(
    `trainyard: the data folder ${join(folder, name)} cannot be used: ${join(folder, 'a-file')} is not a folder; set TRAINYARD_DATA_DIR to another folder\n`,
  );
  expect(exitCode).toBe(1);
});

test('the doctor finds bad a data folder that the service cannot have', async () => {
  const file = join(folder, 'a-file');
  await writeFile(file, '');
  for (const dataDirectory of [file, join(file, 'below')]) {
    const { exitCode, output } = await trainyard('doctor', '--url', await deadUrl(), '--data-dir', dataDirectory);
    expect(output).toContain(
      `BAD  data folder ${dataDirectory}: the data folder ${dataDirectory} cannot be used: ${file} is not a folder`,
    );
    expect(exitCode).toBe(1);
  }
});

test.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const)('a command that ends by %s ends with exit code %i, as shells expect', async (signal, code) => {
  const url = await listening(createServer(() => process.emit(signal)));
  expect(await trainyard('chat', 'some-model', '-m', 'Hello', '--url', url)).toEqual({
    exitCode: code,
    output: 'trainyard: interrupted\n',
  });
});

test.each([
  ['models', 'list'],
  ['models', 'show', 'x'],
  ['jobs', 'list'],
  ['jobs', 'cancel', 'x'],
  ['logs'],
  ['usage'],
  ['keys', 'list'],
  ['keys', 'create', 'x'],
  ['open'],
  ['chat', '-m', 'Hello'],
])('another server that answers with JSON is distinguished from ours: %s %s', async (...args) => {
  for (const [status, body] of [
    [200, '{}'],
    [200, '{"object":"list","data":[]}'],
    [404, '{"detail":"Not Found"}'],
  ] as const) {
    const url = await answering(status, body, {});
    const { exitCode, output } = await trainyard(...args, '--url', url);
    expect(output).toBe(`trainyard: ${url}: the server is not Trainyard (HTTP ${status})\n`);
    expect(exitCode).toBe(3);
  }
});

test('the doctor does not take another server that is well for ours', async () => {
  const url = await answering(200, '{}', {});
  const { output } = await trainyard('doctor', '--url', url);
  expect(output).toContain(`BAD  service at ${url}: the server is not Trainyard (HTTP 200)\n`);
});

test('a port that fetch refuses is reported', async () => {
  const { exitCode, output } = await trainyard('models', 'list', '--url', 'http://127.0.0.1:6000');
  expect(output).toBe('trainyard: http://127.0.0.1:6000/v1: fetch and browsers block this port\n');
  expect(exitCode).toBe(3);
});

test('a server without HTTP is reported', async () => {
  const server = createTcpServer((socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'));
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  expect(await trainyard('models', 'list', '--url', url)).toEqual({
    exitCode: 3,
    output: `trainyard: ${url}: the server does not speak HTTP\n`,
  });
});

test('an HTML page as a refusal gives one line, and moves no cursor', async () => {
  const url = await answering(502, '<html>\n\u001b[2J<h1>Bad gateway</h1>\n', {});
  const { exitCode, output } = await trainyard('keys', 'list', '--url', url);
  expect(output).toBe('trainyard: 502: <html> <h1>Bad gateway</h1> \n');
  expect(exitCode).toBe(1);
});

describe('with a service that refuses', () => {
  test('an address below which the service is missing is distinguished from a missing object', async () => {
    const refusal = (param: string | null) =>
      JSON.stringify({ error: { message: 'Not Found', type: 'not_found_error', code: 'request.not_found', param } });
    const wrongPath = await trainyard('usage', '--url', await answering(404, refusal(null)));
    expect(wrongPath.output).toBe('trainyard: 404: Not Found; check that --url ends in /v1\n');
    const gone = await trainyard('usage', '--url', await answering(404, refusal('model_id')));
    expect(gone.output).toBe('trainyard: 404: Not Found\n');
  });

  test.each([
    [401, 'the service runs, but rejects this key'],
    [403, 'it lacks the scope inference'],
  ])('the doctor distinguishes a %i from a dead server', async (status, expected) => {
    const server = createServer(({ url }, response) =>
      response.writeHead(url === '/v1/health' ? 200 : status, OURS).end('{}'),
    );
    const url = `${await listening(server)}/v1`;
    const { exitCode, output } = await trainyard('doctor', '--url', url);
    expect(output).toContain(`ok   service at ${url}`);
    expect(output).toMatch(new RegExp(`^BAD  key in the settings: .*${expected}`, 'm'));
    expect(exitCode).toBe(1);
  });

  test('the doctor distinguishes another server from ours', async () => {
    const { output } = await trainyard('doctor', '--url', await answering(404, 'not found'));
    expect(output).toContain('a server responds, but not as a healthy service');
  });

  test('a failed export leaves the folder that was there as it was', async () => {
    const output = await mkdtemp(join(folder, 'kept-'));
    const url = await answering(401, JSON.stringify({ error: { message: 'The API key is not valid' } }));
    const result = await trainyard('export', 'agent', '--format', 'peft', '--output', output, '--url', url);
    expect(result.output).toBe(
      'trainyard: 401: The API key is not valid; pass another key with --api-key or TRAINYARD_API_KEY\n',
    );
    expect(result.exitCode).toBe(1);
    expect(existsSync(output)).toBe(true);
  });

  test('an export into a folder that holds something touches nothing', async () => {
    const output = await mkdtemp(join(folder, 'full-'));
    await writeFile(join(output, 'mine.txt'), 'mine');
    const result = await trainyard('export', 'agent', '--format', 'peft', '--output', output);
    expect(result.output).toBe(`trainyard: the folder ${output} is not empty\n`);
    expect(existsSync(join(output, 'mine.txt'))).toBe(true);
  });
});
