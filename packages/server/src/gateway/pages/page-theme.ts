/** Colours of pages outside the dashboard: as chosen there, otherwise those of the system. */
export const PAGE_COLORS = `:root { color-scheme: light dark; --text: #1c2024; --soft: #60646c; --line: #d9d9e0; --ground: #fff; --raised: #f6f6f8; --accent: #3358d4; --get: #18794e; --post: #3358d4; --delete: #ce2c31; }
@media (prefers-color-scheme: dark) {
  :root:not([data-theme='light']) { --text: #edeef0; --soft: #b0b4ba; --line: #363a3f; --ground: #111113; --raised: #1b1d20; --accent: #9eb1ff; --get: #3dd68c; --post: #9eb1ff; --delete: #ff9592; }
}
/* As chosen in the dashboard. */
:root[data-theme='light'] { color-scheme: light; }
:root[data-theme='dark'] { color-scheme: dark; --text: #edeef0; --soft: #b0b4ba; --line: #363a3f; --ground: #111113; --raised: #1b1d20; --accent: #9eb1ff; --get: #3dd68c; --post: #9eb1ff; --delete: #ff9592; }
`;

/** Reads the theme that was chosen in the dashboard of this origin. */
export const THEME_SCRIPT = `try {
  const theme = localStorage.getItem('trainyard-theme');
  if (theme) document.documentElement.dataset.theme = theme;
} catch {}
`;
