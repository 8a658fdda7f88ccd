import { BlockList, isIP, isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8);
loopback.addAddress('::1', 'ipv6');

/** True if a name or an address is loopback, which no other machine can reach. */
export function isLoopbackName(host: string): boolean {
  const name = host.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  if (isIP(name) !== 0) return loopback.check(name, isIPv4(name) ? 'ipv4' : 'ipv6');
  return name === 'localhost' || name.endsWith('.localhost');
}

/**
 * Default host names of a service that listens on `host`. They exclude the name of a page that resolves it to
 * this machine (DNS rebinding) and sends it as `Host`.
 */
export function ownNames(host: string): string[] {
  if (isLoopbackName(host)) return [];
  const address = host.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  const isEverywhere = address === '0.0.0.0' || address === '::';
  if (!isEverywhere) return [address];
  return Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map((one) => one.address));
}

const HOST = /^(?:\[([0-9a-f:.]+)\]|([^\s:/?#@\\[\]]+))(?::\d{1,5})?$/i;

/** Host name in a `Host` header or an origin's authority, without port; null if it is neither. */
export function hostNameOf(authority: string | undefined): string | null {
  const match = HOST.exec(authority ?? '');
  const name = match?.[1] ?? match?.[2];
  return name === undefined ? null : name.toLowerCase().replace(/\.$/, '');
}

/** @param allowed names; `.example.com` allows every name below it, `*` all */
export function isAllowedName(name: string, allowed: readonly string[]): boolean {
  if (isLoopbackName(name)) return true;
  return allowed.some((entry) => {
    const known = entry.toLowerCase();
    return known === '*' || known === name || (known.startsWith('.') && name.endsWith(known));
  });
}
