import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { expect, test } from 'vitest';

import { listenerOf, proportionalBytes } from '../../bench/serving/local-process.ts';
import { runProgram } from '../tooling/support/run-script.ts';

const BENCH = ['--conditions=@trainyard/source', 'bench/serving/main.ts', '--short', '--max-wait', '0'];
const run = (...args: string[]) => runProgram(process.execPath, [...BENCH, ...args]);

/** A server that ends every reply after one token. */
async function shortServer(): Promise<{ url: string; close: () => void }> {
  const server = createServer((request, response) => {
    if (request.url === '/v1/models') {
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ data: [{ id: 'short' }] }));
      return;
    }
    request.resume();
    const events = [
      { choices: [{ index: 0, delta: { content: 'a' } }] },
      { choices: [], usage: { prompt_tokens: 5, completion_tokens: 1 } },
    ];
    response.setHeader('content-type', 'text/event-stream');
    for (const event of events) response.write(`data: ${JSON.stringify(event)}\n\n`);
    response.end('data: [DONE]\n\n');
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/v1`, close: () => server.close() };
}

/** Cells of the first row of that name. */
function cells(output: string, name: string): string[] {
  const line = output.split('\n').find((row) => row.startsWith(`| ${name} |`)) ?? '';
  return line.split('|').map((cell) => cell.trim());
}

test('workloads have their figures, and a server that returns an unexpected number of tokens has the reason', async () => {
  const other = await shortServer();
  const names = ['plain', 'rollouts, adapter', 'multi-turn', '1 adapter', 'prompt of 200', '20 in flight'];
  const only = names.flatMap((name) => ['--only', name]);
  const { exitCode, output } = await run('--against', `stub,url=${other.url}`, ...only);
  other.close();
  expect(exitCode, output).toBe(0);
  const [head, ...rows] = output.split('\n').filter((line) => line.startsWith('| '));
  expect(head).toBe('| workload | exact | stub | others used, cores |');
  expect(output).toContain('| workload | exact ÷ stub |');
  for (const name of names) {
    const shown = name.startsWith('prompt') ? `${name}, ms` : name;
    expect(Number(cells(output, shown)[2]), `${name}\n${output}`).toBeGreaterThan(0);
  }
  expect(cells(output, 'plain')[3]).toBe('failed: 1 × 8 tokens were requested, got 1');
  // It has no adapters, so it got no request.
  expect(cells(output, 'rollouts, adapter')[3]).toBe('–');
  const costs = rows.filter((row) => row.includes('| exact |'));
  expect(costs).toHaveLength(names.length);
  for (const row of costs)
    expect(
      row
        .split('|')
        .slice(3, -1)
        .filter((cell) => !Number.isFinite(Number(cell))),
      row,
    ).toEqual([]);
}, 600_000);

test.each([
  [['--only', 'plian'], 'unknown workload "plian"; the workloads are "plain"'],
  [['--peer', 'sglang'], 'unknown peer "sglang"; the peers are exact, strict, fast, bf16, vllm, llama-server'],
  [['--settings', 'precision=fast'], '--settings precision=fast: use --peer fast instead'],
  [['--against', 'stub'], '"stub" is not of the form NAME,url='],
  [
    ['--against', 'stub,url=http://127.0.0.1:1/v1,speed=9'],
    '"speed" in "stub,url=http://127.0.0.1:1/v1,speed=9" is none of',
  ],
])('%j is refused in one line', async (args, message) => {
  const { exitCode, output } = await run(...args);
  expect(exitCode).toBe(2);
  const lines = output
    .trim()
    .split('\n')
    .filter((line) => !line.includes('other processes use'));
  expect(lines).toEqual([expect.stringContaining(message)]);
});

test('a process is found by its listening port, and has memory', async () => {
  const server = await shortServer();
  const port = Number(new URL(server.url).port);
  expect(listenerOf(port)).toBe(process.pid);
  server.close();
  await expect.poll(() => listenerOf(port)).toBeNull();
  expect(proportionalBytes([process.pid])).toBeGreaterThan(1e6);
});
