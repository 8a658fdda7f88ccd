/** Times measured on one sampling server and one trainer, in seconds. */
export interface MeasuredTimes {
  /** A step of the decoder takes this, */
  readonly stepSeconds: number;
  /** and this for each sequence in it. */
  readonly sequenceSeconds: number;
  /** A token of a prompt, once per group; other sequences of the server wait meanwhile. */
  readonly promptTokenSeconds: number;
  /** Load of an adapter that the server does not have. */
  readonly adapterSeconds: number;
  /** A training job takes this, */
  readonly jobSeconds: number;
  /** and this for each trajectory. */
  readonly trajectorySeconds: number;
  /** The part of its speed that each keeps while the other one works, too; 1 on separate machines. */
  readonly sharedSpeed: { readonly sampling: number; readonly training: number };
}
