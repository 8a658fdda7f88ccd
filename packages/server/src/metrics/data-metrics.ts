import type { BucketRequest, DatabaseCall } from '@trainyard/store';
import { Counter, Histogram, type Registry } from 'prom-client';

/** Calls of the database and requests to the bucket, as this process and its hosts make them. */
export class DataMetrics {
  readonly #calls: Counter<'kind' | 'outcome'>;
  readonly #callSeconds: Histogram<'kind'>;
  readonly #roundTrips: Counter;
  readonly #requests: Counter<'method' | 'outcome'>;
  readonly #retries: Counter<'method'>;
  readonly #bytes: Counter<'direction'>;

  constructor(registry: Registry) {
    const registers = [registry];
    const counter = <Label extends string>(name: string, help: string, labelNames: Label[] = []) =>
      new Counter<Label>({ name: `trainyard_${name}`, help, labelNames, registers });
    this.#calls = counter('database_calls_total', 'Statements and transactions, by how they ended.', [
      'kind',
      'outcome',
    ]);
    this.#callSeconds = new Histogram({
      name: 'trainyard_database_call_seconds',
      help: 'Of those that ended well, the wait for other writers included.',
      labelNames: ['kind'],
      buckets: [0.0005, 0.002, 0.01, 0.05, 0.2, 1, 5, 20],
      registers,
    });
    this.#roundTrips = counter('database_round_trips_total', 'Messages to the database and back.');
    this.#requests = counter('bucket_requests_total', 'Requests to the bucket, by how they ended.', [
      'method',
      'outcome',
    ]);
    this.#retries = counter('bucket_retries_total', 'Of them, those that were another try.', ['method']);
    this.#bytes = counter('bucket_bytes_total', 'Bytes of bodies that came from the bucket and went there.', [
      'direction',
    ]);
    // An increase is seen from a zero on, and not from nothing.
    for (const kind of ['query', 'transaction'])
      for (const outcome of ['ok', 'store.busy', 'store.unavailable']) this.#calls.inc({ kind, outcome }, 0);
  }

  readonly sawCall = ({ kind, outcome, seconds, roundTrips }: DatabaseCall): void => {
    this.#calls.inc({ kind, outcome });
    this.#roundTrips.inc(roundTrips);
    if (outcome === 'ok') this.#callSeconds.observe({ kind }, seconds);
  };

  readonly sawRequest = ({ method, outcome, isRetry, bytesSent, bytesReceived }: BucketRequest): void => {
    this.#requests.inc({ method, outcome });
    if (isRetry) this.#retries.inc({ method });
    this.#bytes.inc({ direction: 'sent' }, bytesSent);
    this.#bytes.inc({ direction: 'received' }, bytesReceived);
  };
}
