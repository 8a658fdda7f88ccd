import type { SettingRow } from '../setting-row.ts';

const DATABASE_PATTERN = /^postgres(?:ql)?:\/\//;
/** A bucket, with an optional prefix of object names: `https://s3.example.com/bucket/prefix`. */
const BUCKET_PATTERN = /^https?:\/\/[^\s/?#@]+\/[^\s/?#]+(?:\/[^\s?#]*)?$/;
const DATABASE_FORM =
  'postgres://USER@HOST:PORT/DATABASE (missing parts and the password can be set in the variables of libpq: PGHOST, PGPASSWORD, PGPASSFILE and so on)';
const BUCKET_FORM = 'https://HOST/BUCKET or https://HOST/BUCKET/PREFIX';

export const DATA = {
  dataDir: {
    kind: 'text',
    default: '.trainyard',
    help: 'folder for the database, checkpoints and models',
    more: 'see [data folder](data-folder.md)',
  },
  database: {
    kind: 'text',
    pattern: DATABASE_PATTERN,
    form: DATABASE_FORM,
    isSecret: true,
    defaultText: 'a file in the data folder',
    help: 'PostgreSQL, `postgres://USER@HOST:PORT/DATABASE`; put the password in `PGPASSWORD` or `PGPASSFILE`',
    more: 'missing parts are read from the standard variables of PostgreSQL; see [operations](../guide/operations.md#postgresql)',
  },
  databaseConnections: {
    kind: 'integer',
    min: 2,
    max: 1_000,
    default: 8,
    help: 'maximum connections to PostgreSQL, plus one that listens',
  },
  outageSeconds: {
    kind: 'integer',
    min: 0,
    max: 86_400,
    default: 60,
    help: 'seconds during which cached keys and models stay valid while PostgreSQL is unreachable; 0 = none',
  },
  bucket: {
    kind: 'text',
    pattern: BUCKET_PATTERN,
    form: BUCKET_FORM,
    defaultText: 'a folder in the data folder',
    help: 'S3 bucket for checkpoints, exports and trajectories, `https://HOST/BUCKET[/PREFIX]`',
    more: 'credentials in `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`',
  },
  bucketRegion: {
    kind: 'text',
    pattern: /^[\w-]+$/,
    form: 'a region',
    default: 'us-east-1',
    help: 'region of the bucket',
  },
  bucketCacheMegabytes: {
    kind: 'integer',
    min: 64,
    max: 1_073_741_824,
    default: 20_000,
    help: 'local cache of the bucket, MB',
  },
  trainingDataDir: {
    kind: 'text',
    defaultText: 'none',
    help: 'folder of `.jsonl` files that jobs of every entity may read by `file:` URLs',
  },
  adoptBlobs: {
    kind: 'switch',
    default: 'off',
    help: 'rebuild models and checkpoints from the blobs of a lost or another database',
  },
  trustClock: {
    kind: 'switch',
    default: 'off',
    help: 'remove old data at once even if the clock has jumped',
  },
} as const satisfies Record<string, SettingRow>;
