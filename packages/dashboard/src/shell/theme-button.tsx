import { Button } from '../components/button.tsx';
import { type Theme, useTheme } from './use-theme.ts';

const NEXT: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' };
const WORDS: Readonly<Record<Theme, string>> = { system: 'Auto', light: 'Light', dark: 'Dark' };

/** Switches to the next theme. */
export function ThemeButton() {
  const [theme, setTheme] = useTheme();
  return (
    <Button look="quiet" title="Light or dark" onClick={() => setTheme(NEXT[theme])}>
      <span className="visually-hidden">Theme: </span>
      {WORDS[theme]}
    </Button>
  );
}
