import type { ChartGroup } from './chart-specs.ts';
import type { ChartSpec } from './chart-spec.ts';

/**
 * Charts that have the words in their title or a metric, without the hidden ones.
 *
 * @param search words, ignoring case; `*` for anything; a regular expression between slashes
 */
export function searchCharts(
  groups: readonly ChartGroup[],
  search: string,
  hidden: readonly string[],
): readonly ChartGroup[] {
  const matches = matcherOf(search.trim());
  return groups
    .map(({ title, charts }) => ({
      title,
      charts: charts.filter((chart) => !hidden.includes(chart.title) && textsOf(chart).some(matches)),
    }))
    .filter(({ charts }) => charts.length > 0);
}

function textsOf({ title, metrics }: ChartSpec): string[] {
  return [title, ...metrics.map(({ name }) => name)];
}

function matcherOf(search: string): (text: string) => boolean {
  const [, pattern] = /^\/(.+)\/$/.exec(search) ?? [];
  const literal = search.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*');
  let expression: RegExp;
  try {
    expression = new RegExp(pattern ?? literal, 'i');
  } catch {
    // An unfinished pattern matches nothing yet.
    return () => false;
  }
  return (text) => expression.test(text);
}
