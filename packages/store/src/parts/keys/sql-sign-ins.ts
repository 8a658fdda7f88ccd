import type { Access } from '../access.ts';
import type { SqlClock } from '../clock/sql-clock.ts';
import type { SignInKind, SignIns } from './sign-ins.ts';

export function sqlSignIns({ tables, write }: Access, { endsAt }: SqlClock): SignIns {
  /** Runs before any write, so that requests with invented secrets do not block writers. */
  const exists = async (kind: SignInKind, secret: string): Promise<boolean> =>
    (await tables.signIns.find(kind, secret, endsAt())) !== null;

  return {
    openSession: (keyId) => write(({ signIns }) => signIns.create('session', keyId, endsAt())),
    findSession: async (secret) => {
      const { keys, signIns } = tables;
      const now = endsAt();
      const session = await signIns.find('session', secret, now);
      const key = session === null ? null : await keys.get(session.keyId);
      if (session === null || key === null || key.revokedAt !== null) return null;
      const expiresAt = Math.min(session.expiresAt, key.expiresAt ?? Infinity);
      return expiresAt > now ? { key, expiresAt } : null;
    },
    closeSession: async (secret) => {
      if (await exists('session', secret)) await write(({ signIns }) => signIns.remove('session', secret));
    },
    createLink: (keyId) => write(({ signIns }) => signIns.create('link', keyId, endsAt())),
    redeemLink: async (secret) => {
      if (!(await exists('link', secret))) return null;
      return await write(async ({ signIns }) => {
        const link = await signIns.find('link', secret, endsAt());
        return link !== null && (await signIns.remove('link', secret)) ? link.keyId : null;
      });
    },
  };
}
