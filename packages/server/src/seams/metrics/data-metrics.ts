import type { BucketRequest, DatabaseCall } from '@trainyard/store';
import { Counter, type Registry } from 'prom-client';

import { Counts, Spreads } from './metric-series.ts';

export class DataMetrics {
  readonly #calls: Counts<'kind' | 'outcome'>;
  readonly #callSeconds: Spreads<'kind'>;
  readonly #roundTrips: Counter;
  readonly #requests: Counter<'method' | 'outcome'>;
  readonly #retries: Counter<'method'>;
  readonly #bytes: Counter<'direction'>;

  constructor(registry: Registry) {
    const registers = [registry];
    const counter = <Label extends string>(name: string, help: string, labelNames: Label[] = []) =>
      new Counter<Label>({ name: `trainyard_${name}`, help, labelNames, registers });
    this.#calls = new Counts({
      name: 'trainyard_database_calls_total',
      help: 'Statements and transactions, by outcome.',
      labelNames: ['kind', 'outcome'],
      registry,
    });
    this.#callSeconds = new Spreads({
      name: 'trainyard_database_call_seconds',
      help: 'Duration of successful ones, including the wait for other writers.',
      labelNames: ['kind'],
      bounds: [0.0005, 0.002, 0.01, 0.05, 0.2, 1, 5, 20],
      registry,
    });
    this.#roundTrips = counter('database_round_trips_total', 'Round trips to the database.');
    this.#requests = counter('bucket_requests_total', 'Requests to the bucket, by outcome.', ['method', 'outcome']);
    this.#retries = counter('bucket_retries_total', 'Retries among the requests to the bucket.', ['method']);
    this.#bytes = counter('bucket_bytes_total', 'Bytes of bodies read from and written to the bucket.', ['direction']);
    // Series start at 0: Prometheus does not see the first increase of an absent one.
    for (const kind of ['query', 'transaction'])
      for (const outcome of ['ok', 'store.busy', 'store.unavailable']) this.#calls.of(kind, outcome);
  }

  readonly sawCall = ({ kind, outcome, seconds, roundTrips }: DatabaseCall): void => {
    this.#calls.of(kind, outcome).add();
    this.#roundTrips.inc(roundTrips);
    if (outcome === 'ok') this.#callSeconds.of(kind).add(seconds);
  };

  readonly sawRequest = ({ method, outcome, isRetry, bytesSent, bytesReceived }: BucketRequest): void => {
    this.#requests.inc({ method, outcome });
    if (isRetry) this.#retries.inc({ method });
    this.#bytes.inc({ direction: 'sent' }, bytesSent);
    this.#bytes.inc({ direction: 'received' }, bytesReceived);
  };
}
