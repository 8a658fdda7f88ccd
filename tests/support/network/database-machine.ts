/**
 * PostgreSQL on its own machine: with a password, over TLS if the address requires it, and through a pooler
 * at another port.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { PostgresCluster, queryServer } from '@trainyard/store/testing';

import { Authority } from './authority.ts';
import type { Machine } from './network.ts';
import { postgresPrograms } from './network-parts.ts';

/** Required over the network. */
export const PASSWORD = 'not-for-logs';
const USER = 'yard';
const PORT = 5432;
const POOLER_PORT = 6432;
/** Account of the server, created by Debian's package. */
const ACCOUNT = 'postgres';

export class DatabaseMachine {
  readonly machine: Machine;
  readonly cluster: PostgresCluster;
  readonly #authority: Authority;
  #pooler: ChildProcess | null = null;
  #numDatabases = 0;

  static async start(machine: Machine): Promise<DatabaseMachine> {
    const authority = new Authority();
    const { certificate, key } = authority.issue('server', machine.address);
    execFileSync('chown', ['-R', ACCOUNT, authority.folder]);
    const cluster = await PostgresCluster.start(postgresPrograms(), tmpdir(), {
      command: (account) => machine.command(account),
      listen: '*',
      access: ['host all all all scram-sha-256'],
      settings: {
        ssl: 'on',
        ssl_cert_file: certificate,
        ssl_key_file: key,
      },
    });
    // Not a superuser: those have reserved connections, and no limits.
    await queryServer(cluster.url, `create role ${USER} login password '${PASSWORD}'`);
    return new DatabaseMachine(machine, cluster, authority);
  }

  private constructor(machine: Machine, cluster: PostgresCluster, authority: Authority) {
    this.machine = machine;
    this.cluster = cluster;
    this.#authority = authority;
  }

  /** Certificate of the authority that signed the server's. */
  get authority(): string {
    return this.#authority.certificate;
  }

  /** Creates an empty database. @returns its address for other machines, without the password */
  async createDatabase(): Promise<string> {
    const name = `yard${this.#numDatabases++}`;
    await this.cluster.createDatabase(name);
    await queryServer(this.cluster.url, `alter database ${name} owner to ${USER}`);
    return `postgres://${USER}@${this.machine.address}:${PORT}/${name}`;
  }

  /** Address of the same database for this process: by its socket, independent of the network. */
  nearby(url: string): string {
    const near = new URL(this.cluster.url);
    near.pathname = new URL(url).pathname;
    return near.href;
  }

  /** Sets the user's maximum number of connections; -1: unlimited. Existing ones stay. */
  async limitConnections(most: number): Promise<void> {
    await queryServer(this.cluster.url, `alter role ${USER} connection limit ${most}`);
  }

  /** Starts pgbouncer, which shares connections by transaction. @returns the same database through it */
  async pooled(url: string): Promise<string> {
    const file = (name: string, lines: readonly string[]): string => {
      const path = join(this.#authority.folder, name);
      writeFileSync(path, `${lines.join('\n')}\n`);
      return path;
    };
    const users = file('users.txt', [`"${USER}" "${PASSWORD}"`]);
    const settings = file('pgbouncer.ini', [
      '[databases]',
      `* = host=${this.machine.address} port=${PORT}`,
      '[pgbouncer]',
      `listen_addr = ${this.machine.address}`,
      `listen_port = ${POOLER_PORT}`,
      'unix_socket_dir =',
      'auth_type = scram-sha-256',
      `auth_file = ${users}`,
      'pool_mode = transaction',
      'default_pool_size = 4',
    ]);
    const [program, ...args] = this.machine.command();
    this.#pooler = spawn(program, [...args, 'pgbouncer', '--user', ACCOUNT, settings], { stdio: 'ignore' });
    const pooled = new URL(url);
    pooled.port = String(POOLER_PORT);
    return pooled.href;
  }

  async stop(): Promise<void> {
    if (this.#pooler !== null) {
      this.#pooler.kill('SIGTERM');
      if (this.#pooler.exitCode === null && this.#pooler.signalCode === null) await once(this.#pooler, 'exit');
    }
    await this.cluster.stop();
    this.#authority.remove();
  }
}
