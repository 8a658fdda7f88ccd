/** Proxies for a process of the service, on a machine. */
import { type ChildProcess, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { ServerCertificate } from './authority.ts';
import type { Machine } from './network.ts';

/** Configurations of nginx from the guide. */
const EXAMPLES = resolve(import.meta.dirname, '../../../examples/several-machines');
const TLS_PROXY = resolve(import.meta.dirname, 'tls-proxy.ts');
const HANGS_AFTER_MS = 20_000;

/** A running proxy. */
export interface Proxy {
  readonly pid: number;
  stop(): Promise<void>;
}

/** Starts a proxy that passes on bytes. @param to a loopback port on that machine */
export async function startTlsProxy(
  machine: Machine,
  port: number,
  { certificate, key }: ServerCertificate,
  to: number,
): Promise<Proxy> {
  const words = [process.execPath, TLS_PROXY, machine.address, String(port), certificate, key, String(to)];
  const child = machine.spawn(words, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout!, 'data');
  return { pid: child.pid!, stop: () => stop(child) };
}

/**
 * Starts nginx as for one of the roles in the guide.
 * @param replaced replacements for names of containers, by name
 */
export async function startNginx(
  machine: Machine,
  example: 'api' | 'engine',
  { certificate, key }: ServerCertificate,
  replaced: Readonly<Record<string, string>> = {},
): Promise<Proxy> {
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-nginx-'));
  let server = readFileSync(join(EXAMPLES, example, 'nginx.conf'), 'utf8')
    .replace(/\/certificates\/\w+\.crt/, certificate)
    .replace(/\/certificates\/\w+\.key/, key);
  for (const [name, address] of Object.entries(replaced)) {
    if (!server.includes(name)) throw new Error(`nginx.conf of ${example} does not name ${name}`);
    server = server.replaceAll(name, address);
  }
  writeFileSync(join(folder, 'server.conf'), server);
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const settings = join(folder, 'nginx.conf');
  writeFileSync(
    settings,
    `daemon off;
user root;
worker_processes 1;
pid ${folder}/pid;
events {}
http {
  access_log off;
  ${kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join('\n  ')}
  include ${folder}/server.conf;
}
`,
  );
  const words = ['nginx', '-e', 'stderr', '-c', settings];
  const child = machine.spawn(words, { stdio: ['ignore', 'inherit', 'inherit'] });
  const begun = performance.now();
  while (!isListening(machine)) {
    if (child.exitCode !== null) throw new Error(`nginx ended with ${child.exitCode}`);
    if (performance.now() - begun > HANGS_AFTER_MS) throw new Error('nginx does not listen');
    await sleep(50);
  }
  return {
    pid: child.pid!,
    stop: async () => {
      await stop(child);
      rmSync(folder, { recursive: true });
    },
  };
}

function isListening(machine: Machine): boolean {
  const [program, ...args] = machine.command();
  return execFileSync(program, [...args, 'ss', '-Hltn', 'sport = :8443'], { encoding: 'utf8' }) !== '';
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}
