import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { runCommandLine } from '../run-command-line.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
const folder = mkdtempSync(join(tmpdir(), 'trainyard-completion-'));
const scripts = new Map<string, string>();

beforeAll(async () => {
  for (const shell of SHELLS) {
    let text = '';
    const spy = vi.spyOn(process.stdout, 'write').mockImplementation((part) => (text += String(part)) !== '');
    await runCommandLine(['completion', shell]);
    spy.mockRestore();
    scripts.set(shell, text);
    writeFileSync(join(folder, shell), text);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

test.each(SHELLS)('%s knows every command, commands below commands, and options', (shell) => {
  const text = scripts.get(shell)!;
  for (const word of ['serve', 'doctor', 'models', 'jobs', 'watch', 'chat', 'completion']) expect(text).toContain(word);
  for (const option of ['json', 'format', 'url']) expect(text).toContain(option);
  expect(text).toContain('merged-safetensors');
});

test.each(SHELLS.filter((shell) => spawnSync(shell, ['--version']).error === undefined))(
  'the script is one that %s can read',
  (shell) => {
    const check = spawnSync(shell, [shell === 'fish' ? '--no-execute' : '-n', join(folder, shell)], {
      encoding: 'utf8',
    });
    expect({ status: check.status, stderr: check.stderr }).toEqual({ status: 0, stderr: '' });
  },
);

test('for another shell there is all of it as JSON; neither and both are no request', async () => {
  let text = '';
  const spy = vi.spyOn(process.stdout, 'write').mockImplementation((part) => (text += String(part)) !== '');
  await runCommandLine(['completion', '--json']);
  spy.mockRestore();
  const words = JSON.parse(text) as { path: string[]; commands: { name: string }[]; options: { flag: string }[] }[];
  const list = words.find(({ path }) => path.join(' ') === 'trainyard jobs list');
  expect(list?.options).toContainEqual({
    flag: '--status',
    summary: expect.any(String),
    takesValue: true,
    choices: expect.arrayContaining(['running']),
  });
  expect(words[0]?.commands.map(({ name }) => name)).toContain('completion');
  for (const args of [[], ['zsh', '--json']]) {
    let refusal = '';
    const errors = vi.spyOn(process.stderr, 'write').mockImplementation((part) => (refusal += String(part)) !== '');
    expect(await runCommandLine(['completion', ...args])).toBe(2);
    errors.mockRestore();
    expect(refusal).toContain('completion takes a shell (bash, zsh, fish), or --json for other shells');
  }
});

test.each([
  [['trainyard', 'mo'], ['models']],
  [['trainyard', 'jobs', 'p'], ['pause']],
  [['trainyard', 'jobs', 'list', '--st'], ['--status']],
  [['trainyard', 'jobs', 'list', '--status', 'r'], ['running']],
  [['trainyard', 'completion', 'z'], []],
])('bash completes %j', (words, completions) => {
  const script = `source ${join(folder, 'bash')}; COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; cd ${folder}; _trainyard; echo "\${COMPREPLY[@]}"`;
  const [first = ''] = execFileSync('bash', ['-c', script], { encoding: 'utf8' }).split('\n');
  expect(first.split(' ').filter((word) => word !== '' && word !== 'zsh')).toEqual(completions);
});
