import { digestOfBody, type EngineSecret } from './engine-secret.ts';
import type { EnginePath } from './engine-wire.ts';

/** How a request shows that its sender has the secret: `SESSION.COUNT.DIGEST.CODE`, over all that it asks for. */
export interface Signature {
  readonly session: string;
  /** of the requests of the session; each comes once */
  readonly count: number;
  /** of the body */
  readonly digest: string;
  readonly code: string;
}

/** How an engine is called, whoever writes its address. */
export function nameOfEngine(url: string): string {
  return url.replace(/\/+$/, '');
}

/**
 * The first request of a session: `NONCE.CODE`. It asks for nothing but the session, so that it does no harm when somebody repeats it, and counts at the
 * engine that is meant, so that nobody in between leads it to another.
 */
export function signHello(secret: EngineSecret, engine: string, random: string): string {
  return `${random}.${secret.codeOf('hello', engine, random)}`;
}

/** @returns the nonce of a hello that counts, or null */
export function readHello(secret: EngineSecret, engine: string, header: string): string | null {
  const [random = '', code = '', ...rest] = header.split('.');
  return rest.length === 0 && random.length >= 16 && secret.isCodeOf(code, 'hello', engine, random) ? random : null;
}

/** The code that an engine answers a hello with: it has the secret as well. */
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

/** Parts of a signature that its sender could make; null for any other. Whether it was used before is not looked at. */
export function readSignature(secret: EngineSecret, path: string, header: string): Signature | null {
  const [session = '', counted = '', digest = '', code = '', ...rest] = header.split('.');
  if (rest.length > 0 || !/^\d{1,15}$/.test(counted)) return null;
  if (!secret.isCodeOf(code, 'request', path, session, counted, digest)) return null;
  return { session, count: Number(counted), digest, code };
}
