/**
 * Packages that each package may import. No other import is allowed: the check `arrows` applies this table to
 * imports, package.json files and relative paths. `protocol/fields` and `protocol/json` are the parts of
 * `protocol` that need no library: tables, and the order of keys in JSON.
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const PACKAGE_ARROWS = {
  protocol: [],
  native: [],
  store: [],
  tokenizer: ['native', 'protocol/fields', 'protocol/json'],
  constraints: ['protocol/json'],
  transformer: ['native'],
  decoder: ['transformer', 'native'],
  backend: ['protocol/fields'],
  vllm: ['backend', 'protocol/fields', 'protocol/json'],
  engine: ['backend', 'tokenizer', 'decoder', 'transformer', 'native', 'protocol/fields'],
  generation: ['backend', 'tokenizer', 'constraints', 'native', 'protocol/fields', 'protocol/json'],
  trainer: ['tokenizer', 'decoder', 'transformer', 'native', 'protocol/fields'],
  tinker: ['backend', 'trainer'],
  server: ['protocol', 'generation', 'backend', 'engine', 'vllm', 'trainer', 'tinker', 'store'],
  sdk: ['protocol'],
  dashboard: ['sdk'],
  cli: ['server', 'sdk', 'protocol/fields'],
};

/**
 * Packages that the tests of a package, and their helpers, may also import.
 * @type {Readonly<Record<string, readonly string[]>>}
 */
export const TEST_ARROWS = { generation: ['engine', 'vllm'], vllm: ['engine'] };

/** Packages that also run in a browser: their source (except tests) imports no Node modules. */
export const BROWSER_PACKAGES = ['protocol', 'sdk', 'dashboard'];

/**
 * Entries of packages below their name that others may import; anything else below a name is private. Those of
 * `server`, `store`, `tinker` and `vllm` keep a start short: a process that needs only them loads no more.
 */
export const PUBLIC_ENTRIES = [
  'protocol/fields',
  'protocol/json',
  'sdk/rollouts',
  'server/settings',
  'store/blobs',
  'store/places',
  'tinker/profiles',
  'vllm/address',
];
