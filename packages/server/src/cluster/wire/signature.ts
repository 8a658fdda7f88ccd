import { digestOfBody, type EngineSecret } from './engine-secret.ts';
import type { EnginePath } from './engine-wire.ts';

/** Proof that a sender has the secret: `SESSION.COUNT.DIGEST.CODE`, over the whole request. */
export interface Signature {
  readonly session: string;
  /** of the requests of the session; each is used once */
  readonly count: number;
  /** of the body */
  readonly digest: string;
  readonly code: string;
}

/** Name of an engine, equal for all spellings of its address. */
export function nameOfEngine(url: string): string {
  return url.replace(/\/+$/, '');
}

/**
 * First request of a session: `NONCE.CODE`. It only asks for the session, so that a replay is harmless, and
 * is valid only at the named engine, so that no one can redirect it.
 */
export function signHello(secret: EngineSecret, engine: string, random: string): string {
  return `${random}.${secret.codeOf('hello', engine, random)}`;
}

/** @returns the nonce of a valid hello, or null */
export function readHello(secret: EngineSecret, engine: string, header: string): string | null {
  const [random = '', code = '', ...rest] = header.split('.');
  return rest.length === 0 && random.length >= 16 && secret.isCodeOf(code, 'hello', engine, random) ? random : null;
}

/** Code in the engine's answer to a hello, which proves that it has the secret. */
export function proofOf(secret: EngineSecret, random: string, session: string): string {
  return secret.codeOf('welcome', random, session);
}

export function isProof(secret: EngineSecret, proof: string, random: string, session: string): boolean {
  return secret.isCodeOf(proof, 'welcome', random, session);
}

export function sign(
  secret: EngineSecret,
  request: { path: EnginePath; session: string; count: number; body: string },
): string {
  const { path, session, count, body } = request;
  const digest = digestOfBody(body);
  return [session, count, digest, secret.codeOf('request', path, session, String(count), digest)].join('.');
}

/** Parts of a valid signature; null for an invalid one. Does not check for reuse. */
export function readSignature(secret: EngineSecret, path: string, header: string): Signature | null {
  const [session = '', counted = '', digest = '', code = '', ...rest] = header.split('.');
  if (rest.length > 0 || !/^\d{1,15}$/.test(counted)) return null;
  if (!secret.isCodeOf(code, 'request', path, session, counted, digest)) return null;
  return { session, count: Number(counted), digest, code };
}
