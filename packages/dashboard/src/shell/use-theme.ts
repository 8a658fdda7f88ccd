import { useSyncExternalStore } from 'react';

export type Theme = 'system' | 'light' | 'dark';

const NAME = 'trainyard-theme';
const listeners = new Set<() => void>();
const prefersDark = matchMedia('(prefers-color-scheme: dark)');

/** The chosen theme, or `system` if none was chosen. */
function readTheme(): Theme {
  const kept = localStorage.getItem(NAME);
  return kept === 'light' || kept === 'dark' ? kept : 'system';
}

/** Applies the theme to the page; styles and charts follow `data-theme`. */
export function applyTheme(): void {
  const theme = readTheme();
  document.documentElement.dataset['theme'] = theme === 'system' ? (prefersDark.matches ? 'dark' : 'light') : theme;
  for (const notify of listeners) notify();
}

function setTheme(theme: Theme): void {
  if (theme === 'system') localStorage.removeItem(NAME);
  else localStorage.setItem(NAME, theme);
  applyTheme();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** @returns the chosen theme, and a function that changes it */
export function useTheme(): readonly [Theme, (theme: Theme) => void] {
  return [useSyncExternalStore(subscribe, readTheme), setTheme];
}

prefersDark.addEventListener('change', applyTheme);
