/**
 * Every command of `trainyard` as a process, piped, with a real service: its output, as text and as JSON, and
 * its end.
 */
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type ModelDetailsObject, type ServiceEventObject, Trainyard, type TrainingJobObject } from '@trainyard/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { programPath } from '../../scripts/program-path.ts';
import { tenLongGroups } from '../support/groups.ts';
import { testModel } from '../support/model.ts';
import { smallService } from '../support/small-service.ts';

const MAIN = programPath('packages/cli/src/main.ts');
const LINES = Array.from({ length: 4 }, (_, index) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: `Question ${index}` },
      { role: 'assistant', content: `Answer ${index}` },
    ],
  }),
);
const ESCAPE = '\u001b';

let folder: string;
let service: OwnService;
let client: Trainyard;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-commands-'));
  await writeFile(join(folder, 'facts.jsonl'), `${LINES.join('\n')}\n`);
  service = await smallService();
  client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
}, 300_000);
afterAll(async () => {
  await service?.close();
  await rm(folder, { recursive: true, force: true });
});

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the command to its end. @param input for its stdin, default empty */
async function trainyard(
  args: readonly string[],
  input = '',
  environment: Record<string, string> = {},
): Promise<Ended> {
  const child = spawn(process.execPath, ['--conditions=@trainyard/source', MAIN, ...args], {
    cwd: folder,
    env: { ...process.env, TRAINYARD_API_KEY: service.apiKey, ...environment },
  });
  const ended: Ended = { code: null, stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (ended.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (ended.stderr += text));
  child.stdin.end(input);
  ended.code = await new Promise((done) => child.once('close', done));
  return ended;
}

/** Output of a successful command: plain text, because there is no terminal. */
async function printed(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await trainyard([...args, '--url', service.url]);
  expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: expect.any(String) });
  expect(stdout + stderr).not.toContain(ESCAPE);
  return stdout;
}
const parsed = async <Value>(...args: string[]) => JSON.parse(await printed(...args, '--json')) as Value;
const lines = (text: string) => text.trimEnd().split('\n');
const jsonLines = (text: string) => lines(text).map((line) => JSON.parse(line) as Record<string, unknown>);

describe('on a fresh service', { timeout: 300_000 }, () => {
  it('empty lists suggest a command', async () => {
    expect(await printed('models', 'list')).toContain('no model is trained here yet');
    expect(await printed('jobs', 'list')).toBe('no such job\n');
    expect(await parsed('models', 'list')).toEqual([]);
    const { code, stderr } = await trainyard(['jobs', 'watch', '--url', service.url]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('"trainyard jobs list" lists those that have ended')]);
  });

  it('sft uploads, trains and follows the job, with the time left', async () => {
    const text = await printed(
      'sft',
      'facts.jsonl',
      '--model',
      'facts',
      '--batch-size',
      '1',
      '--learning-rate',
      '1e-4',
    );
    expect(text).toMatch(/^4 conversations for local\/sft\/facts$/m);
    expect(text).toMatch(/^1\/4 {2}loss \d+\.\d+/m);
    expect(text).toMatch(/^2\/4 .* \d+ s left$/m);
    expect(text).toMatch(/^done: the model is at step 1 after /m);
    expect(text).toMatch(/^talk with it: trainyard chat local\/sft\/facts$/m);
    // A name can be passed as printed.
    const others = ['--model', 'local/p/other', '--epochs', '2', '--held-out-fraction', '0.3', '--json'];
    const json = jsonLines(await printed('sft', 'facts.jsonl', ...others));
    const measured = json.filter((event) => (event as { type?: string }).type === 'held_out');
    expect(measured).toHaveLength(5);
    expect(measured[0]).toMatchObject({ data: { gradient_step: 0, num_trajectories: 1 } });
    expect(json.at(-2)).toMatchObject({ type: 'training_ended' });
    expect(json.at(-1)).toMatchObject({ status: 'succeeded', kind: 'sft' });
  });

  it('checkpoints are listed with sizes and reasons, marked, and refused if they do not exist', async () => {
    const [titles, base, step, sum] = lines(await printed('checkpoints', 'list', 'facts'));
    expect(titles).toMatch(/^step +reward +weights +optimizer +kept for$/);
    // Also `new` for two minutes after the next step.
    expect(base).toMatch(/^ *0 +- +- +- +last, every, first(, new)?$/);
    expect(step).toMatch(/^ *1 +- +\d+\.\d MB +\d+\.\d MB +last, start$/);
    expect(sum).toMatch(/^ *sum +\d+\.\d MB +\d+\.\d MB$/);
    expect(await printed('checkpoints', 'keep', 'facts', '1')).toBe('marked: step 1\n');
    expect(await parsed('checkpoints', 'list', 'facts')).toMatchObject([{ is_marked: false }, { is_marked: true }]);
    expect(await printed('checkpoints', 'keep', 'facts', '1', '--undo')).toBe('no longer marked: step 1\n');
    expect(await printed('checkpoints', 'list', 'facts', '--removed')).toBe(
      'local/sft/facts has no removed checkpoints\n',
    );
    const ends = async (...args: string[]) => {
      const { code, stderr } = await trainyard(['checkpoints', ...args, '--url', service.url]);
      return [code, stderr];
    };
    expect(await ends('keep', 'facts', '9')).toEqual([1, expect.stringContaining('local/sft/facts has no step 9')]);
    expect(await ends('keep', 'facts', 'one')).toEqual([2, expect.stringContaining('got "one"')]);
    expect(await ends('delete', 'facts', '1')).toEqual([2, expect.stringContaining('pass `--yes`')]);
    expect(await ends('delete', 'facts', '9', '--yes')).toEqual([1, expect.stringContaining('has no step 9')]);
  });

  it('models are listed, shown and deleted', async () => {
    const [titles, newest] = lines(await printed('models', 'list'));
    expect(titles).toMatch(/^model +step +reward +best +jobs +base model +made$/);
    expect(newest).toMatch(/^local\/p\/other +1 +- +- +- +/);
    expect(await parsed<ModelDetailsObject[]>('models', 'list', '--project', 'sft')).toMatchObject([{ name: 'facts' }]);
    const shown = await printed('models', 'show', 'sft/facts');
    expect(shown).toMatch(/^base model +HuggingFaceTB/m);
    expect(shown).toMatch(/^step +train\/loss$/m);
    expect(await parsed('models', 'show', 'facts')).toMatchObject({
      model: { name: 'facts' },
      checkpoints: [{ step: 0 }, { step: 1 }],
    });

    const label = ['models', 'label', 'sft/facts'];
    expect(await printed(...label, '--tag', 'sweep 1', '--tag', 'β', '--notes', 'first')).toMatch(
      /^tags +sweep 1, β$/m,
    );
    expect(await parsed('models', 'list', '--tag', 'β', '--tag', 'sweep 1')).toMatchObject([{ name: 'facts' }]);
    expect(lines(await printed('models', 'list'))[0]).toMatch(/base model +tags +made$/);
    expect(await printed('models', 'list', '--tag', 'none')).toBe('no such model\n');
    expect(await printed(...label, '--untag', 'β', '--archive')).toMatch(/^archived +\d{4}-/m);
    expect(await parsed('models', 'list', '--project', 'sft')).toEqual([]);
    expect(await parsed('models', 'list', '--archived')).toMatchObject([{ name: 'facts', tags: ['sweep 1'] }]);
    expect(await parsed(...label, '--restore', '--untag', 'sweep 1', '--no-notes')).toMatchObject({
      archived_at: null,
      tags: [],
      notes: '',
    });
    for (const [args, message] of [
      [[], 'nothing to change'],
      [['--archive', '--restore'], 'exclude each other'],
    ] as const) {
      const refused = await trainyard([...label, ...args, '--url', service.url]);
      expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(message)]);
    }

    const asked = await trainyard(['models', 'delete', 'other', '--url', service.url]);
    expect([asked.code, asked.stderr]).toEqual([2, expect.stringContaining('No terminal to confirm on: pass `--yes`')]);
    expect(await printed('models', 'delete', 'other', '--yes')).toBe('deleted local/p/other with 2 checkpoints\n');
    const gone = await trainyard(['models', 'show', 'other', '--url', service.url]);
    expect([gone.code, gone.stderr]).toEqual([
      1,
      'trainyard: no trained model other; "trainyard models list" lists them\n',
    ]);
  });

  it('jobs are listed, paused, resumed, cancelled and watched', async () => {
    const model = await client.models.register({
      project: 'p',
      name: 'long',
      base_model: (await client.servedModels.list()).data[0]!.id,
    });
    const groups = await tenLongGroups(client, 'long');
    const body = {
      model_id: model.id,
      trajectory_groups: groups,
      experimental_config: { gradient_steps: 5, learning_rate: 1e-4 },
    };
    const { id } = await client.trainingJobs.create(body);
    expect(await printed('jobs', 'pause', id.slice(0, 12))).toBe(`paused the job ${id}\n`);
    expect(lines(await printed('jobs', 'list', '--model', 'long'))[1]).toMatch(
      // With the number of its warnings if it had started.
      new RegExp(`^${id.slice(0, 8)} +rl +paused +(?:\\d+ +)?local/p/long `),
    );
    expect(await parsed('jobs', 'resume', id)).toMatchObject({ id, is_paused: false });
    const watched = await printed('jobs', 'watch', id);
    expect(watched).toMatch(/^5\/5 {2}loss \S+ {2}reward 1\.500 {2}/m);
    expect(watched).toMatch(/^done: the model is at step 1 .*10 of 10 groups trained$/m);
    // A finished job is reported from start to end.
    const events = jsonLines(await printed('jobs', 'watch', id, '--json'));
    expect(events.map(({ type }) => type)).toEqual(
      expect.arrayContaining(['training_started', 'gradient_step', 'training_ended']),
    );

    const doomed = await client.trainingJobs.create(body);
    await client.trainingJobs.pause(doomed.id);
    expect(await printed('jobs', 'cancel', doomed.id)).toBe(`cancelled the job ${doomed.id}\n`);
    const failed = await trainyard(['jobs', 'watch', doomed.id, '--url', service.url]);
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining(`the job ${doomed.id} was cancelled`)]);
    const late = await trainyard(['jobs', 'pause', doomed.id, '--url', service.url]);
    expect([late.code, late.stderr]).toEqual([1, expect.stringMatching(/^trainyard: 409: /)]);
    expect(await parsed<TrainingJobObject[]>('jobs', 'list', '--status', 'cancelled')).toMatchObject([
      { id: doomed.id },
    ]);
    expect(lines(await printed('jobs', 'list', '--limit', '1'))).toHaveLength(2);
    const none = await trainyard(['jobs', 'cancel', 'nonsense', '--url', service.url]);
    expect([none.code, none.stderr]).toEqual([1, 'trainyard: no job nonsense; "trainyard jobs list" lists them\n']);
  });

  it('chat sends one message, with -m and from stdin', async () => {
    const once = ['chat', 'facts', '--set', 'max_tokens=4', '--set', 'temperature=0', '--url', service.url];
    const printedLines = await trainyard([...once, '-m', 'Question 1']);
    expect(printedLines).toMatchObject({ code: 0, stderr: '' });
    expect(printedLines.stdout.endsWith('\n')).toBe(true);
    expect(await trainyard(once, 'Question 1\n')).toEqual(printedLines);
    const json = await trainyard([...once, '-m', 'Question 1', '--json']);
    const answer = JSON.parse(json.stdout) as { choices: { message: { content: string } }[]; model: string };
    expect(answer.model).toBe('local/sft/facts:step1');
    expect(`${answer.choices[0]!.message.content}\n`).toBe(printedLines.stdout);
    const refused = await trainyard(['chat', '-m', 'x', '--set', 'temperature=-1', '--url', service.url]);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/^trainyard: 400: `temperature`: /)]);
    const unknown = await trainyard(['chat', 'nobody', '-m', 'x', '--url', service.url]);
    expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('"trainyard models list"')]);
  });

  it('PROJECT/NAME selects a model for chat', async () => {
    const once = ['--set', 'max_tokens=1', '-m', 'x', '--json', '--url', service.url];
    const latest = await trainyard(['chat', 'sft/facts', ...once]);
    expect(latest).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(latest.stdout)).toMatchObject({ model: 'local/sft/facts:step1' });
    const untrained = await trainyard(['chat', 'sft/facts:step0', ...once]);
    expect(JSON.parse(untrained.stdout)).toMatchObject({ model: 'local/sft/facts:step0' });
    const none = await trainyard(['chat', 'sft/nobody', ...once]);
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('no trained model sft/nobody')]);
    const several = await trainyard(['chat', 'facts', ...once, '--set', 'n=2']);
    expect([several.code, several.stderr]).toEqual([2, expect.stringContaining('n must be 1')]);
  });

  it('an empty argument is no name', async () => {
    for (const command of [
      ['jobs', 'cancel'],
      ['jobs', 'watch'],
      ['keys', 'revoke'],
      ['models', 'show'],
    ]) {
      const { code, stderr } = await trainyard([...command, '', '--url', service.url]);
      expect([code, stderr], command.join(' ')).toEqual([2, expect.stringContaining(' is empty')]);
    }
  });

  it('a file with invalid training data leaves no model', async () => {
    const numModels = (await parsed<object[]>('models', 'list')).length;
    const unread = await trainyard(['sft', folder, '--model', 'left/over', '--url', service.url]);
    expect([unread.code, unread.stderr]).toEqual([2, expect.stringContaining(`${folder} is a folder`)]);
    await writeFile(join(folder, 'prose.jsonl'), 'no JSON\n');
    const refused = await trainyard(['sft', 'prose.jsonl', '--model', 'left/over', '--url', service.url]);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('422')]);
    // An existing one stays.
    const kept = await trainyard(['sft', 'prose.jsonl', '--model', 'facts', '--url', service.url]);
    expect(kept.code).toBe(1);
    expect(await parsed<object[]>('models', 'list')).toHaveLength(numModels);
  });

  it('usage lists tokens by the chosen part', async () => {
    const text = await printed('usage');
    expect(lines(text)[0]).toMatch(/^model +kind +requests +prompt tokens +completion tokens$/);
    expect(text).toMatch(/^.* chat +\d+ /m);
    expect(await parsed('usage', '--by', 'day,key', '--since', '1h')).toMatchObject({
      data: [{ num_requests: expect.any(Number) }],
    });
    expect(await printed('usage', '--by', 'key')).toMatch(/^key +requests/);
  });

  it('logs list events, and -f follows new ones', async () => {
    const text = await printed('logs', '--limit', '1000');
    expect(text).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ {2}model_created +local\/sft\/facts/m);
    expect(text).toMatch(/gradient_step +local\/p\/long {2}job .* reward 1\.5/);
    expect(jsonLines(await printed('logs', '--model', 'facts', '--limit', '2', '--json'))).toHaveLength(2);
    const child = spawn(
      process.execPath,
      ['--conditions=@trainyard/source', MAIN, 'logs', '--follow', '--limit', '1', '--json', '--url', service.url],
      { env: { ...process.env, TRAINYARD_API_KEY: service.apiKey } },
    );
    let followed = '';
    const arrived = (numLines: number) =>
      new Promise<void>((done) => {
        child.stdout.on('data', () => followed.trimEnd().split('\n').length >= numLines && done());
      });
    child.stdout.setEncoding('utf8').on('data', (part: string) => (followed += part));
    await arrived(1);
    const two = arrived(2);
    await client.models.register({
      project: 'p',
      name: 'new',
      base_model: (await client.servedModels.list()).data[0]!.id,
    });
    await two;
    child.kill('SIGTERM');
    await new Promise((done) => child.once('close', done));
    const last = jsonLines(followed).at(-1) as unknown as ServiceEventObject;
    expect(last).toMatchObject({ type: 'model_created' });
  });

  it('export writes files, and import reads them back', async () => {
    const output = join(folder, 'adapter');
    const exported = await parsed<{ files: { path: string }[]; export: object }>(
      'export',
      'facts',
      '--format',
      'peft',
      '--output',
      output,
    );
    expect((await readdir(output)).toSorted()).toEqual(
      exported.files.map(({ path }) => path.split('/').at(-1)!).toSorted(),
    );
    const text = await printed('import', output, '--as', 'again');
    expect(text).toMatch(/^imported adapter:\S+\ntalk with it: trainyard chat local\/imports\/again\n$/);
    const twice = await trainyard(['import', output, '--as', 'again', '--url', service.url]);
    expect([twice.code, twice.stderr]).toEqual([1, expect.stringContaining('imports/again already exists')]);
    expect(await parsed('import', output)).toMatchObject({ adapter: { status: 'ready' }, model: null });
    await mkdir(join(folder, 'empty'));
    const empty = await trainyard(['import', join(folder, 'empty'), '--url', service.url]);
    expect([empty.code, empty.stderr]).toEqual([
      2,
      expect.stringMatching(/cannot read the file .*adapter_config\.json/),
    ]);
  });

  it('keys are created, listed, limited and revoked', async () => {
    const made = await parsed<{ id: string; secret: string }>('keys', 'create', 'ci', '--scopes', 'inference');
    expect(await printed('keys', 'list')).toMatch(new RegExp(`^${made.id.slice(0, 8)} +ci `, 'm'));
    expect(await parsed('keys', 'limit', made.id, '--requests-per-minute', '60')).toMatchObject({
      limits: { requests_per_minute: 60, tokens_per_minute: null },
    });
    const limited = { TRAINYARD_API_KEY: made.secret };
    const forbidden = await trainyard(['models', 'list', '--url', service.url], '', limited);
    expect([forbidden.code, forbidden.stderr]).toEqual([
      1,
      expect.stringMatching(/^trainyard: 403: .*"trainyard keys create"/),
    ]);
    expect(await parsed('keys', 'revoke', made.id)).toMatchObject({ id: made.id });
    const unknown = await trainyard(['models', 'list', '--url', service.url], '', limited);
    expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringMatching(/^trainyard: 401: .*--api-key/)]);
  });

  it('open prints a link that signs in, and the page of a model', async () => {
    const { id } = await client.models
      .list()
      .toArray(1)
      .then(([model]) => model!);
    const [link, page] = lines(await printed('open', id));
    const root = service.url.replace(/\/v1$/, '');
    expect(link).toMatch(new RegExp(`^${root}/\\S+#\\S+$`));
    expect(page).toBe(`${root}/models/${id}`);
    expect((await fetch(new URL('/', link))).ok).toBe(true);
    expect(await parsed('open')).toMatchObject({ url: expect.stringContaining('#'), model_url: null });
  });

  it('finds the service that runs on the data folder, at any address', async () => {
    const { code, stdout } = await trainyard(['models', 'list', '--json'], '', {
      TRAINYARD_DATA_DIR: service.dataDirectory,
    });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual(await parsed('models', 'list'));
    const doctor = await trainyard(['doctor', '--json', '--data-dir', service.dataDirectory]);
    expect(doctor.stdout).toContain(service.url);
  });

  it('the doctor finds no fault in the service', async () => {
    const asked = ['doctor', '--json', '--url', service.url, '--model', testModel().small];
    const { checks } = JSON.parse((await trainyard(asked)).stdout) as {
      checks: { name: string; problem: string | null }[];
    };
    expect(checks.find(({ name }) => name === 'service')?.problem).toBe(null);
    for (const name of ['model', 'data_folder']) expect(checks.find((one) => one.name === name)?.problem).toBe(null);
    expect(checks.find(({ name }) => name === 'key')?.problem).toBe(null);
  });
});

it('a reader that stops early is no failure', async () => {
  const child = spawn('bash', ['-c', `"$0" --conditions=@trainyard/source ${MAIN} --help | head -1`, process.execPath]);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  await new Promise((done) => child.once('close', done));
  expect(lines(output)).toHaveLength(1);
});

it('serve prints its address as JSON, and no secret', { timeout: 120_000 }, async () => {
  const data = join(folder, 'served');
  const child = spawn(
    process.execPath,
    ['--conditions=@trainyard/source', MAIN, 'serve', '--json', '--port', '0', '--data-dir', data],
    {
      env: { ...process.env, TRAINYARD_MODEL: testModel().small, TRAINYARD_API_KEY: 'a-secret-of-the-test' },
    },
  );
  let output = '';
  const ready = new Promise<void>((done) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (output.includes('\n')) done();
    });
  });
  await Promise.race([ready, new Promise((done) => child.once('close', done))]);
  child.kill('SIGTERM');
  await new Promise((done) => child.once('close', done));
  expect(JSON.parse(output)).toMatchObject({
    url: expect.stringMatching(/^http:.*\/v1$/),
    models: [expect.any(String)],
  });
  expect(output).not.toContain('a-secret-of-the-test');
});

it('a service continues after the reader of its output is gone', { timeout: 300_000 }, async () => {
  const data = await mkdtemp(join(tmpdir(), 'trainyard-unread-'));
  const child = spawn(process.execPath, ['--conditions=@trainyard/source', MAIN, 'serve'], {
    env: {
      ...process.env,
      TRAINYARD_DATA_DIR: data,
      TRAINYARD_API_KEY: service.apiKey,
      TRAINYARD_PORT: '0',
      TRAINYARD_MODEL: testModel().small,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = new Promise<number | null>((done) => child.once('exit', done));
  let printed = '';
  const url = await new Promise<string>((found, lost) => {
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
        const match = /^URL\s+(\S+)$/m.exec(printed);
        if (match?.[1] !== undefined) found(match[1]);
      });
    void exited.then((code) => lost(new Error(`it ended with ${code}: ${printed}`)));
  });
  child.stdout.destroy();
  child.stderr.destroy();
  // Its events are log lines.
  expect(await trainyard(['sft', 'facts.jsonl', '--model', 'unread', '--url', url])).toMatchObject({ code: 0 });
  child.kill('SIGTERM');
  expect(await exited).toBe(0);
  await rm(data, { recursive: true, force: true });
});
