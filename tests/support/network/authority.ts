import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const FRESH = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];

/** Certificate files of a TLS server. */
export interface ServerCertificate {
  readonly certificate: string;
  readonly key: string;
}

/** A certificate authority for tests, which no program trusts by default. */
export class Authority {
  /** folder of its files, and of files that servers need next to them */
  readonly folder: string;
  readonly #isSinceYesterday: boolean;

  /**
   * @param isSinceYesterday certificates are valid since yesterday, for machines with late clocks; needs
   * `faketime`. Default true
   */
  constructor({ isSinceYesterday = true } = {}) {
    this.#isSinceYesterday = isSinceYesterday;
    this.folder = mkdtempSync(join(tmpdir(), 'trainyard-certificates-'));
    chmodSync(this.folder, 0o755);
    this.#openssl(
      'req',
      '-x509',
      ...FRESH,
      '-subj',
      '/CN=authority',
      '-keyout',
      'authority.key',
      '-out',
      'authority.crt',
    );
  }

  /** Path of its own certificate. */
  get certificate(): string {
    return join(this.folder, 'authority.crt');
  }

  /** @param address of the server, an IPv4 address */
  issue(name: string, address: string): ServerCertificate {
    const signed = ['-CA', 'authority.crt', '-CAkey', 'authority.key', '-addext', `subjectAltName=IP:${address}`];
    const [key, certificate] = [`${name}.key`, `${name}.crt`];
    this.#openssl('req', '-x509', ...FRESH, '-subj', `/CN=${name}`, ...signed, '-keyout', key, '-out', certificate);
    return { certificate: join(this.folder, certificate), key: join(this.folder, key) };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true });
  }

  #openssl(...args: string[]): void {
    const [program, ...before] = this.#isSinceYesterday ? ['faketime', '-f', '-1d', 'openssl'] : ['openssl'];
    execFileSync(program!, [...before, ...args], { cwd: this.folder, stdio: 'pipe' });
  }
}
