// A PostgreSQL server for the tests, in a temporary folder and on a socket in it; it is ended with them.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { appendFileSync, chmodSync, chownSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { typeParser } from '../drivers/postgres/postgres-sql.ts';

/** Where the tests of a project find the server that `postgres-setup.ts` started for all of them. */
export const SERVER_VARIABLE = 'TRAINYARD_TEST_DATABASE';

const USER = 'trainyard';

const SERVER_SETTINGS = { shared_buffers: '32MB', max_connections: '60', fsync: 'off', full_page_writes: 'off' };

/** A server that other machines reach. */
export interface ServedNetwork {
  /** The command that runs a program there, in front of its name, as an account; null: as the one that runs this. */
  readonly command: (account: { uid: number; gid: number } | null) => readonly [string, ...string[]];
  /** addresses that it listens on */
  readonly listen: string;
  /** lines of `pg_hba.conf` */
  readonly access: readonly string[];
  /** settings besides */
  readonly settings: Readonly<Record<string, string>>;
}

export class PostgresCluster {
  readonly #directory: string;
  readonly #start: () => ChildProcess;
  #server: ChildProcess;

  /**
   * @param programs folder of `initdb` and `postgres`
   * @param place where its folder is made, default that of temporary files
   * @param network default null: nothing but its socket leads to it
   */
  static async start(
    programs: string,
    place: string = tmpdir(),
    network: ServedNetwork | null = null,
  ): Promise<PostgresCluster> {
    const directory = await mkdtemp(join(place, 'trainyard-postgres-'));
    const account = accountOfServer();
    if (account !== null) chownSync(directory, account.uid, account.gid);
    chmodSync(directory, 0o700);
    const data = join(directory, 'data');
    const settings = ['--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync'];
    const own = { cwd: directory, ...account };
    execFileSync(join(programs, 'initdb'), ['-D', data, '-U', USER, ...settings], { ...own, stdio: 'pipe' });
    const allSettings = {
      listen_addresses: network?.listen ?? '',
      unix_socket_directories: directory,
      ...SERVER_SETTINGS,
      ...network?.settings,
    };
    if (network !== null) appendFileSync(join(data, 'pg_hba.conf'), `${network.access.join('\n')}\n`);
    const words = [join(programs, 'postgres'), '-D', data, ...settingsOf(allSettings)];
    const start = () => {
      const [program = '', ...args] = network === null ? words : [...network.command(account), ...words];
      const user = network === null ? own : { cwd: directory };
      return spawn(program, args, { ...user, stdio: ['ignore', 'ignore', 'pipe'] });
    };
    const cluster = new PostgresCluster(directory, start);
    await cluster.#isReady();
    return cluster;
  }

  private constructor(directory: string, start: () => ChildProcess) {
    this.#directory = directory;
    this.#start = start;
    this.#server = start();
  }

  /**
   * A fresh empty schema, to those who use its address as good as a database of their own, which would be a copy of 300 files.
   * @returns its address
   */
  async createSchema(): Promise<string> {
    return await createSchema(this.url);
  }

  /** A fresh empty database, for those who cannot name a schema in their address. */
  async createDatabase(name: string): Promise<void> {
    await administrate(this.url, async (client) => void (await client.query(`create database ${name}`)));
  }

  /** Ends every connection, as a server that restarts does. */
  async disconnectAll(): Promise<void> {
    await administrate(
      this.url,
      async (client) =>
        void (await client.query(
          'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()',
        )),
    );
  }

  /** The server ends, and keeps its data. */
  async goAway(): Promise<void> {
    await this.#end('SIGINT'); // fast: it does not wait for its clients
  }

  /** The server ends as in a crash: what waited for no disk may be lost. */
  async crash(): Promise<void> {
    await this.#end('SIGQUIT');
  }

  async #end(signal: 'SIGINT' | 'SIGQUIT'): Promise<void> {
    const ended = new Promise((resolve) => this.#server.once('exit', resolve));
    this.#server.kill(signal);
    await ended;
  }

  /** It runs again, on the same data and at the same address. */
  async comeBack(): Promise<void> {
    this.#server = this.#start();
    await this.#isReady();
  }

  /** All of its processes stand still: connections are accepted, and nothing is answered. */
  suspend(): void {
    this.#signal('SIGSTOP');
  }

  /** After {@link suspend}; otherwise without effect. */
  resume(): void {
    this.#signal('SIGCONT');
  }

  async stop(): Promise<void> {
    await this.goAway();
    await rm(this.#directory, { recursive: true, force: true });
  }

  /** The database that schemas are made in, for another process to do so too. */
  get url(): string {
    return `postgresql://${USER}@localhost/postgres?host=${encodeURIComponent(this.#directory)}`;
  }

  /** Each of its processes has a session of its own, so no group has all of them. */
  #signal(signal: NodeJS.Signals): void {
    const { pid, exitCode } = this.#server;
    if (pid === undefined || exitCode !== null) return;
    // The parent first: it starts no other then.
    process.kill(pid, signal);
    const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' });
    for (const child of stdout.trim().split(/\s+/).filter(Boolean)) {
      try {
        process.kill(Number(child), signal);
      } catch (error) {
        // A process of the server ends when its client does.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
  }

  async #isReady(): Promise<void> {
    let words = '';
    this.#server.stderr?.on('data', (chunk: Buffer) => (words = (words + chunk.toString()).slice(-2000)));
    for (;;) {
      assert(this.#server.exitCode === null, `the server ended: ${words}`);
      try {
        await administrate(this.url, async () => {});
        return;
      } catch {
        await sleep(50);
      }
    }
  }
}

/**
 * A fresh empty schema of the database at that address.
 * @param url of a `PostgresCluster`
 * @returns its address
 */
export async function createSchema(url: string): Promise<string> {
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await administrate(url, async (client) => void (await client.query(`create schema ${name}`)));
  return `${url}&options=${encodeURIComponent(`-c search_path=${name}`)}`;
}

/** With a connection of its own. @param url of a `PostgresCluster` or a schema */
async function administrate(url: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: url, types: { getTypeParser: typeParser } });
  // `disconnectAll` of another test file's cluster cannot reach it; its own end is awaited.
  client.on('error', () => {});
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
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
