import type { Metric, MetricValue, Registry } from 'prom-client';

interface SeriesOptions<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly Label[];
  readonly registry: Registry;
}

/**
 * Counters and histograms of per-request events, as metrics of prom-client's registry. Its own metrics check
 * and hash a label object with each value, which costs more than the rest of a request's counting. Here a
 * series is looked up once by its label values and kept.
 */
abstract class Series<Label extends string, Kept> {
  readonly name: string;
  protected readonly labelNames: readonly Label[];
  readonly #help: string;
  readonly #kept = new Map<string, { readonly labels: Partial<Record<Label, string>>; readonly kept: Kept }>();

  constructor({ name, help, labelNames, registry }: SeriesOptions<Label>) {
    this.name = name;
    this.labelNames = labelNames;
    this.#help = help;
    // The registry uses only these members; the library's type also has its private ones.
    registry.registerMetric(this as unknown as Metric<Label>);
  }

  /** Series with these label values, in order. Reported from now on, even while empty. */
  of(...values: readonly string[]): Kept {
    const key = values.length === 1 ? values[0]! : values.join('\n');
    const known = this.#kept.get(key);
    if (known !== undefined) return known.kept;
    const labels = Object.fromEntries(this.labelNames.map((name, at) => [name, values[at]]));
    const kept = this.begin();
    this.#kept.set(key, { labels: labels as Partial<Record<Label, string>>, kept });
    return kept;
  }

  get(): Promise<{ name: string; help: string; type: string; values: MetricValue<string>[] }> {
    const values = [...this.#kept.values()].flatMap(({ labels, kept }) => this.valuesOf(labels, kept));
    return Promise.resolve({ name: this.name, help: this.#help, type: this.type, values });
  }

  protected abstract readonly type: 'counter' | 'histogram';
  protected abstract begin(): Kept;
  protected abstract valuesOf(labels: Partial<Record<string, string>>, kept: Kept): MetricValue<string>[];
}

export class Count {
  value = 0;

  add(number = 1): void {
    this.value += number;
  }
}

export class Counts<Label extends string> extends Series<Label, Count> {
  protected readonly type = 'counter';

  protected begin(): Count {
    return new Count();
  }

  protected valuesOf(labels: Partial<Record<string, string>>, { value }: Count): MetricValue<string>[] {
    return [{ labels: labels as Record<string, string>, value }];
  }
}

export class Spread {
  readonly #bounds: readonly number[];
  /** One more than the bounds: the last counts values above all of them. */
  readonly #counts: number[];
  #sum = 0;

  /** @param bounds in ascending order, each inclusive */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  add(value: number): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at += 1;
    this.#counts[at]! += 1;
    this.#sum += value;
  }

  /** Cumulative counts by bound, and the sum of all values. */
  get totals(): { readonly upTo: readonly (readonly [bound: number | '+Inf', count: number])[]; readonly sum: number } {
    let count = 0;
    const upTo = this.#counts.map((number, at) => [this.#bounds[at] ?? '+Inf', (count += number)] as const);
    return { upTo, sum: this.#sum };
  }
}

export class Spreads<Label extends string> extends Series<Label, Spread> {
  protected readonly type = 'histogram';
  readonly #bounds: readonly number[];

  constructor(options: SeriesOptions<Label> & { readonly bounds: readonly number[] }) {
    super(options);
    this.#bounds = options.bounds;
  }

  protected begin(): Spread {
    return new Spread(this.#bounds);
  }

  protected valuesOf(labels: Partial<Record<string, string>>, spread: Spread): MetricValue<string>[] {
    const { upTo, sum } = spread.totals;
    const metric = (name: string, value: number, own: object = {}) => ({
      metricName: `${this.name}_${name}`,
      labels: own,
      // Written after the bound, in this order.
      sharedLabels: labels,
      value,
    });
    const buckets = upTo.map(([le, count]) => metric('bucket', count, { le }));
    return [...buckets, metric('sum', sum), metric('count', upTo.at(-1)![1])];
  }
}
