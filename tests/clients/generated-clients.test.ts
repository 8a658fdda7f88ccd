/** Clients generated from /openapi.json by common generators compile and work with the service. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { clientTools } from '../../scripts/lib/client-tools.mjs';
import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

const ROOT = join(import.meta.dirname, '../..');
const hasGenerator = await hasPythonEnvironment(ROOT, 'generator');
if (!hasGenerator && process.env['CI'] !== undefined) {
  throw new Error('CI must generate the Python client: "node scripts/bootstrap.mjs --python" shows the reason');
}
const run = promisify(execFile);

let folder: string;
let service: ScriptedServiceProcess;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-generated-'));
  service = await scriptedService();
  const document = await (await fetch(new URL('/openapi.json', service.url))).text();
  await writeFile(join(folder, 'openapi.json'), document);
}, 120_000);
afterAll(async () => {
  await service.close();
  await rm(folder, { recursive: true, force: true });
});

/** Base URL of the service without `/v1`, which is in the document's paths. */
const origin = () => new URL(service.url).origin;

/** @returns its output; @throws with all of it if it fails */
async function output(command: string, args: readonly string[], environment: Record<string, string> = {}) {
  try {
    return (await run(command, args, { cwd: folder, env: { ...process.env, ...environment } })).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${command} ${args.join(' ')} failed:\n${stdout}\n${stderr}`, { cause: error });
  }
}

describe('openapi-typescript and openapi-fetch', () => {
  const PROGRAM = `
import createClient from 'openapi-fetch';
import type { components, paths } from './schema.d.ts';

const [baseUrl, key] = process.argv.slice(2) as [string, string];
// Streams have a type too; these calls ask for none.
const client = createClient<paths, 'application/json'>({ baseUrl, headers: { authorization: \`Bearer \${key}\` } });
const body = { model: 'tiny/base', messages: [{ role: 'user', content: 'Good day' }], max_tokens: 64 };

const chat = await client.POST('/v1/chat/completions', { body });
const models = await client.GET('/v1/models');
const checkpoints = await client.GET('/v1/preview/models/{model_id}/checkpoints', {
  params: { path: { model_id: 'none' }, query: { limit: 1, order: 'desc' } },
});
// Events of a stream are typed, too.
const event: components['schemas']['ChatCompletionChunk']['choices'][number]['delta'] = { content: 'x' };
const status: number = checkpoints.response.status;
const fault: string | undefined = checkpoints.error?.error.code ?? undefined;
const text: string | null | undefined = chat.data?.choices[0]?.message.content;
console.log(JSON.stringify({ text, ids: models.data?.data.map(({ id }) => id), status, fault, event }));

// @ts-expect-error a field that is not there
await client.POST('/v1/chat/completions', { body: { ...body, temperature: 'hot' } });
`;

  test('give a client that compiles and passes calls', async () => {
    const tools = await clientTools(ROOT, (line) => console.log(line));
    const generator = join(dirname(tools.resolve('openapi-typescript/package.json')), 'bin/cli.js');
    await output(process.execPath, [generator, 'openapi.json', '--output', 'schema.d.ts']);
    await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'empty', private: true, type: 'module' }));
    await writeFile(join(folder, 'typed.ts'), `declare const process: { argv: string[] };\n${PROGRAM}`);
    const modules = dirname(dirname(tools.resolve('openapi-fetch/package.json')));
    const paths = { 'openapi-fetch': [join(modules, 'openapi-fetch')] };
    const compilerOptions = {
      strict: true,
      noEmit: true,
      target: 'es2022',
      lib: ['es2022', 'dom', 'dom.iterable'],
      module: 'esnext',
      moduleResolution: 'bundler',
      allowImportingTsExtensions: true,
      types: [],
      paths,
    };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['typed.ts'] }));
    await output(process.execPath, [tools.resolve('typescript/bin/tsc'), '--project', 'tsconfig.json']);

    await writeFile(join(folder, 'program.ts'), PROGRAM.slice(0, PROGRAM.indexOf('// @ts-expect-error')));
    await tools('esbuild').build({
      absWorkingDir: folder,
      entryPoints: ['program.ts'],
      outfile: 'program.js',
      bundle: true,
      format: 'esm',
      platform: 'node',
      logLevel: 'error',
    });
    const printed = await output(process.execPath, ['program.js', origin(), service.apiKey]);
    expect(JSON.parse(printed)).toEqual({
      text: 'Hello to you.',
      ids: ['tiny/base'],
      status: 404,
      fault: 'request.not_found',
      event: { content: 'x' },
    });
  });
});

describe.skipIf(!hasGenerator)('openapi-python-client', () => {
  const PROGRAM = `
import json, sys
from generated import AuthenticatedClient
from generated.api.inference import create_chat_completion, list_models
from generated.api.training import create_model, list_checkpoints
from generated.models import ChatCompletionRequest, CreateModelRequest, ErrorBody

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
body = ChatCompletionRequest.from_dict(
    {"model": "tiny/base", "messages": [{"role": "user", "content": "Good day"}], "max_tokens": 64}
)
chat = create_chat_completion.sync(client=client, body=body)
models = list_models.sync(client=client)
model = create_model.sync(
    client=client, body=CreateModelRequest(project="demo", name="generated", base_model="tiny/base")
)
page = list_checkpoints.sync(client=client, model_id=model.id, limit=1)
missing = list_checkpoints.sync_detailed(client=client, model_id="none")
assert isinstance(missing.parsed, ErrorBody)
print(json.dumps({
    "text": chat.choices[0].message.content,
    "logprobs": chat.choices[0].logprobs,
    "ids": [card.id for card in models.data][:1],
    "steps": [checkpoint.step for checkpoint in page.data],
    "fault": [missing.status_code, missing.parsed.error.code],
}))
`;

  test('gives a client that passes calls', async () => {
    const { python } = pythonEnvironment(ROOT, 'generator');
    // It formats its output with a program of its own environment.
    const environment = { PATH: [dirname(python), process.env['PATH'] ?? ''].join(delimiter), PYTHONPATH: folder };
    const options = ['--path', 'openapi.json', '--meta', 'none', '--output-path', 'generated'];
    const report = await output(python, ['-m', 'openapi_python_client', 'generate', ...options], environment);
    // It supports one of a text body's media types.
    const left = report.split('\n').filter((line) => /^(WARNING|ERROR|Unable|Unsupported)/i.test(line));
    expect(
      left.filter((line) => !/artifacts|content type (application\/(jsonl|x-ndjson)|text\/plain)/.test(line)),
    ).toEqual([]);
    await output(python, ['-m', 'compileall', '-q', 'generated'], environment);
    await writeFile(join(folder, 'program.py'), PROGRAM);
    const printed = await output(python, ['program.py', origin(), service.apiKey], environment);
    expect(JSON.parse(printed)).toEqual({
      text: 'Hello to you.',
      logprobs: null,
      ids: ['tiny/base'],
      steps: [0],
      fault: [404, 'request.not_found'],
    });
    // The client has a function for each operation, including the alternative paths of some.
    const document = JSON.parse(await readFile(join(folder, 'openapi.json'), 'utf8')) as {
      paths: Record<string, Record<string, { operationId: string }>>;
    };
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
    const listed = await output('find', ['generated/api', '-name', '*.py', '-not', '-name', '__init__.py']);
    expect(listed.trim().split('\n')).toHaveLength(operations.length);
  });
});
