import { useSyncExternalStore } from 'react';

/** Colours of the theme as values, for canvases. */
export interface ThemeColors {
  readonly line: string;
  readonly soft: string;
  readonly surface: string;
  readonly text: string;
  /** Background of good values. */
  readonly good: string;
  readonly series: readonly [string, string, string, string];
}

let colors: ThemeColors | null = null;
const listeners = new Set<() => void>();

new MutationObserver(() => {
  colors = null;
  for (const notify of listeners) notify();
}).observe(document.documentElement, { attributeFilter: ['data-theme'] });

function readColors(): ThemeColors {
  if (colors !== null) return colors;
  const style = getComputedStyle(document.documentElement);
  const value = (name: string) => style.getPropertyValue(name).trim();
  colors = {
    line: value('--line'),
    soft: value('--faint'),
    surface: value('--surface'),
    text: value('--text'),
    good: value('--good-soft'),
    series: [value('--series-1'), value('--series-2'), value('--series-3'), value('--series-4')],
  };
  return colors;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Colours of the current theme. */
export function useThemeColors(): ThemeColors {
  return useSyncExternalStore(subscribe, readColors);
}
