import { type BlobLocation, BUCKET_KEY_VARIABLES } from '@trainyard/store/blobs';

/**
 * Environment variables passed to every host and thread: paths of programs and libraries, locale and time zone, certificate authorities,
 * proxies, options of Node.js, and settings of computing and debugging libraries.
 */
const PASSED = [
  'ALL_PROXY',
  'HOME',
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'LANG',
  'LANGUAGE',
  'NODE_COMPILE_CACHE',
  'NODE_EXTRA_CA_CERTS',
  'NODE_OPTIONS',
  'NODE_TLS_REJECT_UNAUTHORIZED',
  'NODE_USE_ENV_PROXY',
  'NODE_USE_SYSTEM_CA',
  'NODE_V8_COVERAGE',
  'NO_PROXY',
  'OPENSSL_CONF',
  'PATH',
  'SSL_CERT_DIR',
  'SSL_CERT_FILE',
  'SYSTEMROOT',
  'TEMP',
  'TMP',
  'TMPDIR',
  'TZ',
  'TZDIR',
  'USER',
  'WINDIR',
];
const PASSED_PREFIXES = ['DYLD_', 'GGML_', 'GOMP_', 'KMP_', 'LC_', 'LD_', 'LLAMA_', 'OMP_', 'ORT_'];

/** Flags of Node.js that decide which servers a process trusts and how it connects to them. */
const PASSED_FLAGS = /^--(?:use-(?:system|openssl|bundled)-ca|use-env-proxy|openssl-|tls-|dns-result-order)/;
const OWN_FLAGS = ['--conditions=@trainyard/source', '--disable-warning=ExperimentalWarning'];

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Environment of a host or thread: the shared part of this process's environment, without keys, and the
 * child's own secrets.
 * @param secrets of this child only; default: none
 */
export function childEnvironment(
  secrets: Readonly<Record<string, string>> = {},
  environment: Environment = process.env,
): Record<string, string> {
  const passed = Object.entries(environment).filter(([name, value]) => {
    // Proxies are also written in lower case.
    const known = name.toUpperCase();
    return (
      value !== undefined && (PASSED.includes(known) || PASSED_PREFIXES.some((prefix) => known.startsWith(prefix)))
    );
  });
  return { ...(Object.fromEntries(passed) as Record<string, string>), ...secrets };
}

/** Node.js flags of a host or thread: those of every child, and this process's flags about servers. */
export function childFlags(flags: readonly string[] = process.execArgv): string[] {
  return [...OWN_FLAGS, ...flags.filter((flag) => PASSED_FLAGS.test(flag))];
}

/** Secrets of a child that opens these blobs: the credentials of a bucket; none for a folder. */
export function blobSecrets(location: BlobLocation, environment: Environment = process.env): Record<string, string> {
  if (location.kind === 'folder') return {};
  const known = BUCKET_KEY_VARIABLES.flatMap((name) => {
    const value = environment[name];
    return value === undefined ? [] : [[name, value]];
  });
  return Object.fromEntries(known) as Record<string, string>;
}
