/** Dialect of a fake server: as observed, or as the SDK expects of the hosted one. */
export interface FakeDialect {
  readonly name: string;
  readonly wire: 'protobuf' | 'json';
  /** `sum`: plain sums. `mean`: over datums, of the sum over tokens divided by the sum of the datum's weights. */
  readonly gradients: 'sum' | 'mean';
  readonly clips: boolean;
  /** Order of execution. */
  readonly order: 'arrival' | 'number';
  /** Repeats (same number) that get the same answer: all, only passes and steps, or none. */
  readonly remembers: 'everything' | 'gradients' | 'nothing';
  /** Answers have SkyRL's form. */
  readonly isSkyrl: boolean;
  /** A failed operation is a 400 with its detail, or a 200 with its error and category. */
  readonly failures: 'status' | 'category';
  /** A poll without a result gets 408, or `try_again`. */
  readonly pending: 'timeout' | 'tryAgain';
  readonly modelIds: 'acknowledged' | 'resulting';
  readonly samplerPath: 'short' | 'long';
  readonly archiveName: 'bare' | 'withKind';
  readonly gradNormMetric: string | null;
  /** Accepted key; null: any. */
  readonly key: string | null;
  /** Keys are exchanged for tokens. */
  readonly hasTokens: boolean;
  readonly hasClientConfig: boolean;
  readonly slots: number;
  readonly maxRank: number;
  /** Random half of a fresh adapter, relative to this service's. */
  readonly initialScale: number;
  /** A step applies its weight decay; `refused`: one above 1 is an error. */
  readonly decays: boolean | 'refused';
}

/** SkyRL 0.4.0 on JAX, as recorded. */
export const SKYRL_0_4: FakeDialect = {
  name: 'SkyRL 0.4.0',
  wire: 'protobuf',
  gradients: 'mean',
  clips: false,
  order: 'arrival',
  remembers: 'gradients',
  isSkyrl: true,
  failures: 'status',
  pending: 'timeout',
  modelIds: 'acknowledged',
  samplerPath: 'short',
  archiveName: 'bare',
  gradNormMetric: 'skyrl.ai/grad_norm',
  key: null,
  hasTokens: false,
  hasClientConfig: true,
  slots: 7,
  maxRank: 32,
  initialScale: 1,
  decays: true,
};

/** JSON, and no memory of earlier requests. */
export const SKYRL_0_3: FakeDialect = { ...SKYRL_0_4, name: 'SkyRL 0.3.0', wire: 'json', remembers: 'nothing' };

/** The hosted service, as expected by its SDK from 0.25 on. */
export const HOSTED_LIKE: FakeDialect = {
  name: 'hosted',
  wire: 'protobuf',
  gradients: 'sum',
  clips: true,
  order: 'number',
  remembers: 'everything',
  isSkyrl: false,
  failures: 'category',
  pending: 'tryAgain',
  modelIds: 'resulting',
  samplerPath: 'long',
  archiveName: 'withKind',
  gradNormMetric: 'grad_norm:mean',
  key: 'tml-right',
  hasTokens: true,
  hasClientConfig: true,
  slots: 100,
  maxRank: 256,
  initialScale: 1,
  decays: true,
};

/** Servers that still use the JSON of SDK 0.23. */
export const JSON_LIKE: FakeDialect = {
  ...HOSTED_LIKE,
  name: 'JSON',
  wire: 'json',
  remembers: 'nothing',
  hasTokens: false,
  hasClientConfig: false,
};
