/** Form of an address, for messages. */
export const ADDRESS_FORM = 'postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %23 for # and so on in a password';

/**
 * `prefer`, `require` and `verify-ca` check as much as `verify-full` (see `connectionString`); `no-verify` is
 * the driver's own.
 */
const SSL_MODES = ['disable', 'no-verify', 'prefer', 'require', 'verify-ca', 'verify-full'];

/** Returns the fault of a value, or null. */
type Check = (value: string) => string | null;

/** Query parameters that the driver or this code uses. */
const PARAMETERS: Readonly<Record<string, Check>> = {
  host: anything,
  port: (value) =>
    /^\d{1,5}$/.test(value) && Number(value) >= 1 && Number(value) <= 65_535
      ? null
      : `must be a whole number from 1 to 65535, got ${JSON.stringify(value)}`,
  user: anything,
  password: anything,
  options: anything,
  sslmode: oneOf(SSL_MODES),
  sslrootcert: anything,
  sslcert: anything,
  sslkey: anything,
  sslnegotiation: oneOf(['postgres', 'direct']),
  ssl: oneOf(['true', '1', 'no-verify', '0']),
  uselibpqcompat: oneOf(['true']),
};

/** Parameters that turn TLS on or off: with one of them the driver ignores PGSSLMODE. */
const DECIDES_TLS = ['sslmode', 'ssl', 'sslrootcert', 'sslcert', 'sslkey'];

/** Parameters of libpq that are not supported, with the alternative if there is one. */
const UNHEEDED: Readonly<Record<string, string | null>> = {
  application_name: '"trainyard db move" finds running services by the fixed name trainyard',
  fallback_application_name: 'the name is always trainyard',
  dbname: 'put the database into the path of the address',
  hostaddr: 'put the host into the address',
  passfile: 'set PGPASSFILE',
  service: null,
  servicefile: null,
  client_encoding: 'the encoding is always UTF8',
  connect_timeout: 'the timeout is always 5 s',
  keepalives: 'keepalives are always on',
  keepalives_idle: null,
  keepalives_interval: null,
  keepalives_count: null,
  tcp_user_timeout: null,
  replication: null,
  channel_binding: null,
  require_auth: null,
  requirepeer: null,
  gssencmode: null,
  gssdelegation: null,
  gsslib: null,
  krbsrvname: null,
  sslcertmode: null,
  sslcompression: null,
  sslcrl: null,
  sslcrldir: null,
  sslkeylogfile: null,
  sslpassword: 'use a key without a password',
  sslsni: null,
  ssl_min_protocol_version: 'set NODE_OPTIONS=--tls-min-v1.3 instead',
  ssl_max_protocol_version: null,
  min_protocol_version: null,
  max_protocol_version: null,
  scram_client_key: null,
  scram_server_key: null,
  oauth_issuer: null,
  oauth_client_id: null,
  oauth_client_secret: null,
  oauth_scope: null,
  target_session_attrs: 'use the address of the primary',
  load_balance_hosts: 'use a single host',
};

/**
 * Fault of a database address, in words that follow its name; null if all of it is supported. Without this
 * check a mistyped `sslmode` would silently give a connection without TLS. The words contain no part of a
 * password.
 *
 * @param environment source of the parts that the address omits
 */
export function addressProblem(
  url: string,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): string | null {
  const address = URL.parse(url);
  if (address === null || hasPartOfPassword(address)) return `is not a valid address; expected ${ADDRESS_FORM}`;
  const { searchParams } = address;
  const names = [...searchParams.keys()];
  for (const [name, value] of searchParams) {
    const problem = names.indexOf(name) === names.lastIndexOf(name) ? parameterProblem(name, value) : 'given twice';
    if (problem === null) continue;
    // A question mark in a password ends the host, and the rest up to the real host becomes parameters.
    if (address.search.includes('@'))
      return `has invalid parameters, or an unescaped question mark in the password; expected ${ADDRESS_FORM}, and %40 for @ in a parameter`;
    return `has the invalid parameter ${/^\w{1,40}$/.test(name) ? name : JSON.stringify(name.slice(0, 40))}: ${problem}`;
  }
  const { PGSSLMODE: mode = '' } = environment;
  if (mode === '' || DECIDES_TLS.some((name) => searchParams.has(name)) || SSL_MODES.includes(mode)) return null;
  return `has no sslmode, and the environment variable PGSSLMODE ${oneOf(SSL_MODES)(mode)}`;
}

/**
 * True if part of a password is outside the user part. A slash ends the host: in `postgres://user:12/3@host`
 * that is `user:12`, and the rest of the password is a database.
 */
export function hasPartOfPassword({ pathname, searchParams, hash }: URL): boolean {
  return hash !== '' || pathname.includes('@') || searchParams.keys().some((name) => name.includes('@'));
}

function parameterProblem(name: string, value: string): string | null {
  const check = Object.hasOwn(PARAMETERS, name) ? PARAMETERS[name] : undefined;
  // The driver ignores an empty value.
  if (check !== undefined) return value === '' ? 'empty; set a value or remove it' : check(value);
  const known = `supported are ${Object.keys(PARAMETERS).join(', ')}`;
  if (!Object.hasOwn(UNHEEDED, name)) return `unknown; ${known}`;
  const instead = UNHEEDED[name] ?? null;
  return `not supported by this service${instead === null ? '' : ` (${instead})`}; remove it; ${known}`;
}

function anything(): null {
  return null;
}

function oneOf(values: readonly string[]): Check {
  return (value) =>
    values.includes(value) ? null : `must be one of ${values.join(', ')}, got ${JSON.stringify(value.slice(0, 40))}`;
}
