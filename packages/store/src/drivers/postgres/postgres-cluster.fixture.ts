// A PostgreSQL server for the tests, in a temporary folder and on a socket in it; it is ended with them.
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, chownSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

const USER = 'trainyard';

const SERVER_SETTINGS = { shared_buffers: '32MB', max_connections: '60', fsync: 'off' };

export class PostgresCluster {
  readonly #directory: string;
  readonly #server: ChildProcess;
  #numSchemas = 0;

  /** @param programs folder of `initdb` and `postgres` */
  static async start(programs: string): Promise<PostgresCluster> {
    const directory = await mkdtemp(join(tmpdir(), 'trainyard-postgres-'));
    const account = accountOfServer();
    if (account !== null) chownSync(directory, account.uid, account.gid);
    chmodSync(directory, 0o700);
    const data = join(directory, 'data');
    const settings = ['--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync'];
    const own = { cwd: directory, ...account };
    execFileSync(join(programs, 'initdb'), ['-D', data, '-U', USER, ...settings], { ...own, stdio: 'pipe' });
    const server = spawn(
      join(programs, 'postgres'),
      ['-D', data, ...settingsOf({ listen_addresses: '', unix_socket_directories: directory, ...SERVER_SETTINGS })],
      { ...own, stdio: ['ignore', 'ignore', 'pipe'] },
    );
    const cluster = new PostgresCluster(directory, server);
    await cluster.#isReady();
    return cluster;
  }

  private constructor(directory: string, server: ChildProcess) {
    this.#directory = directory;
    this.#server = server;
  }

  /**
   * A fresh empty schema, to those who use its address as good as a database of their own, which would be a copy of 300 files.
   * @returns its address
   */
  async createSchema(): Promise<string> {
    const name = `test_${++this.#numSchemas}`;
    await this.#administrate(async (client) => void (await client.query(`create schema ${name}`)));
    return `${this.#url}&options=${encodeURIComponent(`-c search_path=${name}`)}`;
  }

  /** Ends every connection, as a server that restarts does. */
  async disconnectAll(): Promise<void> {
    await this.#administrate(
      async (client) =>
        void (await client.query(
          'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()',
        )),
    );
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#server.once('exit', resolve));
    this.#server.kill('SIGINT'); // fast: it does not wait for its clients
    await ended;
    await rm(this.#directory, { recursive: true, force: true });
  }

  get #url(): string {
    return `postgresql://${USER}@localhost/postgres?host=${encodeURIComponent(this.#directory)}`;
  }

  async #isReady(): Promise<void> {
    let words = '';
    this.#server.stderr?.on('data', (chunk: Buffer) => (words = (words + chunk.toString()).slice(-2000)));
    for (;;) {
      assert(this.#server.exitCode === null, `the server ended: ${words}`);
      try {
        await this.#administrate(async () => {});
        return;
      } catch {
        await sleep(50);
      }
    }
  }

  async #administrate(work: (client: pg.Client) => Promise<void>): Promise<void> {
    const client = new pg.Client({ connectionString: this.#url });
    // `disconnectAll` of another test file's cluster cannot reach it; its own end is awaited.
    client.on('error', () => {});
    await client.connect();
    try {
      await work(client);
    } finally {
      await client.end();
    }
  }
}

function settingsOf(settings: Record<string, string>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

/** The server refuses to run as root: then it is the account that Debian's package made. */
function accountOfServer(): { uid: number; gid: number } | null {
  if (process.getuid?.() !== 0) return null;
  const id = (kind: '-u' | '-g') => Number(execFileSync('id', [kind, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}
